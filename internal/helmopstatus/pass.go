// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmopstatus

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/brake"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisions"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// Pass is what a pass over a HelmOp found. The functions of this package do not change it.
type Pass struct {
	// HelmOp has the conditions Resolved and Verified of this pass, and the other status of the pass before.
	HelmOp *addonsv1.HelmOp

	// Artifact is the artifact of spec.source; nil if the current source is not resolved.
	Artifact *addonsv1.ResolvedArtifact

	// DesiredNumber is the number of the desired HelmOp revision; 0 if it is not known.
	DesiredNumber int64

	// Revisions are the HelmOp revisions, the newest last.
	Revisions revisions.List

	// Clusters are the Clusters that the HelmOp selects or has a release for.
	Clusters []Cluster

	// Denied is the number of Clusters of other namespaces that may not be accessed. UnknownAccess is the number of those
	// for which the API server did not say whether they may be.
	Denied, UnknownAccess int

	// Strategy is how a revision spreads. Plan has the progress of the rollout.
	Strategy rollout.Strategy
	Plan     rollout.Result

	// Approval is what waits for an approval.
	Approval approval.Decision

	// Deletions decides whether the releases of Clusters that are no longer selected may be deleted, and PendingDeletions
	// are the titles of these Clusters.
	Deletions        brake.Decision
	PendingDeletions []string

	// SelectorErr is why no Cluster can be selected. ProgramErr is why nothing can be rendered for any Cluster.
	// DependencyErr is why the dependencies can never be met. InvalidMaintenance is why spec.maintenance cannot be read.
	// Each is empty if there is no such problem.
	SelectorErr, ProgramErr error
	DependencyErr           *DependencyError
	InvalidMaintenance      string
}

// DependencyError is why the dependencies of a HelmOp can never be met.
type DependencyError struct {
	Reason, Message string
}

// Cluster is what a pass over a HelmOp found about one Cluster.
type Cluster struct {
	// Name is the title of the Cluster in messages.
	Name string

	// Cluster is nil if the Cluster does not exist. Child is the HelmOpRelease of the Cluster; nil if there is none.
	Cluster *clusterv1.Cluster
	Child   *addonsv1.HelmOpRelease

	// Selected is true if the HelmOp selects the Cluster.
	Selected bool

	// OtherShard is the message for a Cluster of another shard; empty if the Cluster is of the shard of the HelmOp.
	OtherShard string

	// Err is why the release is not known or not written. PinErr is why the pin of the release has no effect.
	Err, PinErr error

	// Blocked is why the dependencies in the Cluster are not ready; empty if they are.
	Blocked string

	// Limits is why changes of the release wait for maintenance.
	Limits maintenance.State

	// Step is the step of the plan.
	Step rollout.Step
}

// Status is what a HelmOp reports after a pass.
type Status struct {
	// Counts and Failures are for the Clusters of the HelmOp.
	Counts   addonsv1.ClusterCounts
	Failures []addonsv1.ClusterFailure

	// Rollout is the progress of the rollout of the newest revision; nil if there is no revision.
	Rollout *addonsv1.RolloutStatus

	// Ready and RollingOut are the conditions, without their type.
	Ready, RollingOut metav1.Condition

	// IsStalled is true if nothing changes any more until a user does something.
	IsStalled bool

	// IsWorthWarning is true if a change to this Ready condition is worth a Warning Event.
	IsWorthWarning bool
}

// Of concludes the status of a HelmOp from what a pass found.
func Of(p *Pass) Status {
	s := summarize(p)
	ready := readyCondition(p, s)
	return Status{
		Counts: s.counts, Failures: s.failures, Rollout: rolloutStatus(p),
		Ready: ready, RollingOut: rollingOutCondition(p, s),
		IsStalled: isStalled(p, ready, s), IsWorthWarning: isFailure(ready),
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmopstatus

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/brake"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/maintenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisions"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// Pass has the findings of a pass over a HelmOp. The functions of this package do not change it.
type Pass struct {
	// Now is the time of the pass.
	Now time.Time

	// HelmOp has the conditions Resolved and Verified from this pass, and all other status from the previous pass.
	HelmOp *addonsv1.HelmOp

	// Artifact is the artifact of spec.source; nil if the current source is not resolved.
	Artifact *addonsv1.ResolvedArtifact

	// DesiredNumber is the number of the desired HelmOp revision; 0 if it is not known.
	DesiredNumber int64

	// Revisions are the HelmOp revisions, the newest last.
	Revisions revisions.List

	// AwaitsRevisions is true if clusterctl move may still create HelmOp revisions. No release is changed until then.
	AwaitsRevisions bool

	// Clusters are the Clusters that the HelmOp selects or has a release for.
	Clusters []Cluster

	// Denied is the number of Clusters in other namespaces that the HelmOp may not access. UnknownAccess is the number
	// of Clusters in other namespaces whose access check failed.
	Denied, UnknownAccess int

	// Strategy is the strategy of rollouts. Plan has the progress of the rollout.
	Strategy rollout.Strategy
	Plan     rollout.Result

	// Approval is the decision about approvals.
	Approval approval.Decision

	// Deletions is the decision whether releases of unselected Clusters may be deleted. PendingDeletions are the titles
	// of these Clusters.
	Deletions        brake.Decision
	PendingDeletions []string

	// SelectorErr is the cause if no Cluster can be selected. ProgramErr is the cause if nothing can be rendered for
	// any Cluster. DependencyErr is the cause if the dependencies can never be met. InvalidMaintenance is the cause if
	// spec.maintenance is not valid. Each is nil or empty without such a problem.
	SelectorErr, ProgramErr error
	DependencyErr           *DependencyError
	InvalidMaintenance      string
}

// DependencyError is the cause if the dependencies of a HelmOp can never be met.
type DependencyError struct {
	Reason, Message string
}

// Cluster has the findings of a pass over a HelmOp about one Cluster.
type Cluster struct {
	// Name is the title of the Cluster in messages.
	Name string

	// Cluster is nil if the Cluster does not exist. Child is the HelmOpRelease of the Cluster; nil if there is none.
	Cluster *clusterv1.Cluster
	Child   *addonsv1.HelmOpRelease

	// Selected is true if the HelmOp selects the Cluster.
	Selected bool

	// Awaited is true if the Cluster does not exist, and its release waits for it after a move or a restore. Selected is
	// then true, and Cluster is empty.
	Awaited bool

	// OtherShard is the message for a Cluster of another shard; empty if the Cluster and the HelmOp have the same
	// shard.
	OtherShard string

	// Err is the cause if the release is not known or was not written. PinErr is the cause if the pin of the release
	// has no effect.
	Err, PinErr error

	// Blocked is the cause if dependencies in the Cluster are not ready; otherwise it is empty.
	Blocked string

	// Limits has the causes if changes of the release wait for maintenance.
	Limits maintenance.State

	// Step is the step of the plan for this Cluster.
	Step rollout.Step
}

// Status is the part of a HelmOp's status that this package computes.
type Status struct {
	// Counts and Failures describe the Clusters of the HelmOp.
	Counts   addonsv1.ClusterCounts
	Failures []addonsv1.ClusterFailure

	// Rollout is the progress of the rollout of the newest revision; nil if there is no revision.
	Rollout *addonsv1.RolloutStatus

	// Ready and RollingOut are the conditions, without their types.
	Ready, RollingOut metav1.Condition

	// IsStalled is true if the HelmOp stays in its state until a user acts.
	IsStalled bool

	// BeingMoved are the names of the Clusters in the namespace of the HelmOp that have the annotation of clusterctl
	// move, sorted.
	BeingMoved []string

	// IsWorthWarning is true if a change to this Ready condition deserves a Warning Event.
	IsWorthWarning bool
}

// Of computes the status of a HelmOp from the findings of a pass.
func Of(p *Pass) Status {
	s := summarize(p)
	ready := readyCondition(p, s)
	return Status{
		Counts: s.counts, Failures: s.failures, Rollout: rolloutStatus(p),
		Ready: ready, RollingOut: rollingOutCondition(p, s),
		IsStalled: isStalled(p, ready, s), BeingMoved: clustersBeingMoved(p), IsWorthWarning: isFailure(ready),
	}
}

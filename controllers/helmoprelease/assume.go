// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
)

// newClusterAge is the age up to which a Cluster counts as new. A list of all records is usually cheap then: the API
// server has few Secrets.
const newClusterAge = 2 * time.Hour

// checkNew sets whether the pass may take a list of all records of the Cluster for a read: in a new Cluster, one list
// serves all releases that are not installed yet. The list may be older than other reads on which actions are based.
// But the installation creates the namespace of the release right before the first record, and a namespace that did not
// exist had no records. After a pass that did not only wait for its chart or for a slot, the next pass reads the
// records.
func (r *Reconciler) checkNew(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	p.mayBeNew = p.looksNew(r.now()) && r.memoryOf(p.release).Records.IsUnread() &&
		r.engine.MayBeNew(p.target, p.desired, p.options)
	return nil, nil
}

// looksNew reports whether the Cluster is new, and nothing in the HelmOpRelease and the HelmOp shows that the release
// may be installed already, or that its records are needed before the installation.
func (p *releasePass) looksNew(now time.Time) bool {
	release, status := p.release, &p.release.Status
	isNewCluster := p.object != nil && now.Sub(p.object.GetCreationTimestamp().Time) < newClusterAge &&
		status.ClusterRecreatedAt.IsZero() && len(p.desired.FormerManagementClusters) == 0 &&
		apiutil.ClusterKey(release) != clusterlink.Management
	wasNeverTried := status.Release == nil && status.LastAttemptedDigest == "" && len(status.History) == 0 &&
		status.LastError == "" && release.Annotations[addonsv1.LostToAnnotation] == "" &&
		p.subject().NewRetryRequest() == ""
	// The next step of the rollout may need the state of the release. The check of images reads the records.
	return isNewCluster && wasNeverTried && !p.mayHoldWave() && !preflight.IsRequired(p.helmOp)
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clustermove"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// verbPause is the action in Events about a release that is paused after a move of its objects.
const verbPause = "Pause"

// nameManagementCluster sets the UID of this management cluster in the desired state. It also sets the UIDs of the
// management clusters from which the HelmOpRelease was moved or restored.
func (r *Reconciler) nameManagementCluster(ctx context.Context, release *addonsv1.HelmOpRelease,
	desired *model.Desired,
) error {
	system, err := apiutil.SystemNamespace(ctx, r.client)
	if err != nil {
		return err
	}
	releasespec.NameManagementCluster(desired, release, string(system.UID))
	return nil
}

// takeoverPeriod is the time after a takeover in which a record of the former manager still belongs to the release: for
// an action that it began before the move, between its check of the records and its first record.
const takeoverPeriod = 15 * time.Second

// takeOverAfterMove takes over Helm's records of a release that was moved or restored from another management cluster.
// While an action of the former manager may still run, the takeover waits, at the latest until the action had to end.
// A pass after takeoverPeriod repeats this, and removes the UIDs of the former management clusters from the annotation.
//
// Before the first record can name this management cluster, a pass of its own writes this UID in front of the former
// UIDs. Records with any of these UIDs belong to the release. So the takeover may be interrupted, and the HelmOpRelease
// may be moved back or to a third management cluster, before a later pass has removed the former UIDs.
func (r *Reconciler) takeOverAfterMove(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	own, former := p.desired.ManagementCluster, p.desired.FormerManagementClusters
	all := strings.Join(slices.Concat([]string{own}, former), ",")
	switch p.release.Annotations[addonsv1.ManagementClusterAnnotation] {
	case own:
		return nil, nil
	case all:
	default:
		metav1.SetMetaDataAnnotation(&p.release.ObjectMeta, addonsv1.ManagementClusterAnnotation, all)
		p.leavesStatus = true
		return after(time.Millisecond), nil
	}
	if end := r.awaitFormerManager(p); end != nil {
		return end, nil
	}
	memory, readAt := r.memoryOf(p.release), p.observation.ReadAt
	if p.observation.NamesFormer(p.desired) {
		ctx, cancel := context.WithTimeout(ctx, recordreads.ObserveTimeout)
		defer cancel()
		if err := r.engine.TakeOver(ctx, p.target, p.desired, p.observation); err != nil {
			return end(r.failed(ctx, p.releaseScope, failures.Observing, err))
		}
		// The results of earlier reads have the former labels, also the result of this pass: no later pass may use it.
		memory.Records.Outdate()
		p.observation.ReadAt = time.Time{}
		ctrl.LoggerFrom(ctx).Info("Took over a release from another management cluster", "former", former)
	}
	if memory.TakenOver.IsZero() {
		memory.TakenOver = time.Now()
	}
	if readAt.Before(memory.TakenOver.Add(takeoverPeriod)) {
		// The last pass must read the records again, and not use the result of an earlier read.
		memory.Records.Outdate()
		p.due(takeoverPeriod)
		return nil, nil
	}
	memory.TakenOver = time.Time{}
	metav1.SetMetaDataAnnotation(&p.release.ObjectMeta, addonsv1.ManagementClusterAnnotation, own)
	return nil, nil
}

// awaitCluster reports that a release waits for its Cluster, see [apiutil.AwaitsCluster]. If it does not wait, awaits
// is false.
func (r *Reconciler) awaitCluster(ctx context.Context, p *releasePass) (awaits bool, err error) {
	if p.cluster != nil {
		return false, nil
	}
	release := p.release
	awaits, err = apiutil.AwaitsCluster(ctx, r.client, release)
	if awaits {
		report.NotConnecting(release, addonsv1.ClusterNotFoundReason, fmt.Sprintf("Cluster %s does not exist yet: this "+
			"HelmOpRelease was moved or restored from another management cluster, and waits for the Cluster. Move or restore "+
			"the Cluster. If it will never exist here, remove this HelmOpRelease. This changes nothing in the workload "+
			"cluster: kubectl -n %s annotate %s %s %s=true", apiutil.ClusterTitle(release), release.Namespace,
			addonsv1.HelmOpReleaseResource, release.Name, addonsv1.OrphanAnnotation))
	}
	return awaits, err
}

// awaitFormerManager ends the pass while an action of the former manager may still run on the newest record. A takeover
// would prevent the action from recording its outcome, and HelmOp would then repeat the action with its hooks.
func (r *Reconciler) awaitFormerManager(p *releasePass) *ctrl.Result {
	if newest, _ := p.observation.Newest(); !model.IsFormerRecord(newest, p.desired) {
		return nil
	}
	decision := decide.Next(p.observation, p.desired, p.policy, p.past(), r.now())
	if decision.Reason != decide.ReasonPendingOtherOwner {
		return nil
	}
	r.memoryOf(p.release).Records.Outdate() // The next pass must read the records again.
	p.release.Status.State, p.release.Status.NextTryAt = string(decision.State), metav1.NewTime(decision.NextTryAt)
	reportWaiting(p, decision)
	return after(decision.RequeueAfter)
}

// installAfterMove removes the mark of a release in the management cluster that was installed once, but only in the
// former management cluster. The release is then installed in this management cluster, too.
func (r *Reconciler) installAfterMove(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if apiutil.ClusterKey(p.release) != clusterlink.Management {
		return nil, nil
	}
	switch p.observation.State(p.desired) {
	case model.StateAbsent, model.StateUninstalled, model.StateForeign:
		delete(p.release.Annotations, addonsv1.InstalledOnceAnnotation)
	}
	return nil, nil
}

// settleClusterMove sets the condition ClusterBeingMoved of the release. A release in another namespace has no hold and
// no condition of its Cluster, so nothing is ignored. Another manager serves the Cluster of another shard.
func (s *releaseScope) settleClusterMove() {
	var moved []string
	if s.cluster != nil && s.otherShard == "" && s.cluster.Namespace == s.release.Namespace &&
		report.IsBeingMoved(s.cluster) {
		moved = []string{s.cluster.Name}
	}
	report.ClustersBeingMoved(s.release, moved)
}

// stopsForMove pauses a release in the management cluster if clusterctl move has moved its objects to another
// management cluster. It reports whether it paused the release. If HelmOp created the objects again, to correct drift
// or in an upgrade, two management clusters would manage the same infrastructure. The pause is an annotation, because a
// restarted manager cannot distinguish moved objects from deleted ones.
func (r *Reconciler) stopsForMove(ctx context.Context, p *releasePass) (bool, error) {
	if apiutil.ClusterKey(p.release) != clusterlink.Management {
		// In a workload cluster, a user could set the annotation of clusterctl to block changes of a release.
		return false, nil
	}
	moved, err := clustermove.MovedObjects(ctx, r.client, p.snapshot)
	if err != nil || len(moved) == 0 {
		return false, err
	}
	why := fmt.Sprintf("clusterctl move moved %s to another management cluster", apiutil.ListObjects(moved, ", "))
	message := fmt.Sprintf("Paused release %s: %s. Manage the objects there. Here, delete the HelmOp, or remove the "+
		"moved objects from its artifact and then the annotation %s from this HelmOpRelease", describe(p.release), why,
		clusterv1.PausedAnnotation)
	ctrl.LoggerFrom(ctx).Info("Pausing a release whose objects were moved", "objects", len(moved))
	if p.release.Annotations == nil {
		p.release.Annotations = map[string]string{}
	}
	p.release.Annotations[clusterv1.PausedAnnotation] = why
	r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.ObjectsMovedEvent, verbPause, message)
	p.release.Status.NextTryAt = metav1.Time{}
	report.SetPaused(p.release, true, apiutil.PauseReason(p.cluster, p.helmOp, p.release))
	// If a user removes the annotation, HelmOp must create the missing objects. So the state is dropped.
	r.dropObjectState(client.ObjectKeyFromObject(p.release))
	return true, nil
}

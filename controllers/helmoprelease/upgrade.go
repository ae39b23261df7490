// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradereadiness"
)

// upgrades returns the checker for upgrades of Kubernetes.
func (r *Reconciler) upgrades() *upgradereadiness.Checker {
	return &upgradereadiness.Checker{Engine: r.engine, Objects: r.renderer.Objects, Charts: r.charts,
		Assigned: &r.assigned, Rendered: &r.rendered, Now: r.now}
}

// upgradeSubject returns the input of a check of the release.
func (r *Reconciler) upgradeSubject(p *releasePass) *upgradereadiness.Subject {
	return &upgradereadiness.Subject{
		Release: p.release, Cluster: p.cluster, Object: p.object, HelmOp: p.helmOp, Before: p.before,
		Retry: &r.memoryOf(p.release).Upgrade, HelmRevision: helmRevisionOf(p), HasActed: p.hasActed,
		Target: p.target, Desired: &p.desired, Options: &p.options,
		Values: func(ctx context.Context) (map[string]any, error) { return r.renderInto(ctx, p) },
		Mark: func(ctx context.Context, changed *addonsv1.HelmOpRelease) error {
			return r.patchBefore(ctx, p, changed)
		},
		Acquire: func() (func(), bool) { return r.slot(p) },
	}
}

// helmRevisionOf returns the newest known Helm revision of a release; 0 if there is none.
func helmRevisionOf(p *releasePass) int64 {
	if newest, ok := p.observation.Newest(); ok {
		return int64(newest.Revision)
	}
	if known := p.release.Status.Release; known != nil {
		return known.Revision
	}
	return 0
}

// checkUpgrade checks the release for an upgrade of Kubernetes, if a check is requested and has no result yet. It never
// ends the pass, and does not change the inputs of Ready. A pass that does not write the status would lose the result.
func (r *Reconciler) checkUpgrade(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	if _, ok := clusterlife.UpgradeToCheckOf(p.cluster, p.release); !ok || p.leavesStatus {
		return nil, nil
	}
	s := r.upgradeSubject(p)
	defer func() { p.due(s.RequeueAfter) }()
	check, err := r.upgrades().Due(ctx, s)
	if check == nil || err != nil {
		return nil, err
	}
	return nil, r.runUpgradeCheck(ctx, p, s, check)
}

// checkUpgradeOfDone checks a release that was installed once and is not changed any more. It connects to the cluster
// only for a check. An unreachable cluster changes only the result of the check.
func (r *Reconciler) checkUpgradeOfDone(ctx context.Context, p *releasePass) error {
	if _, ok := clusterlife.UpgradeToCheckOf(p.cluster, p.release); !ok || !apiutil.IsInitialized(p.cluster) {
		return nil
	}
	s := r.upgradeSubject(p)
	defer func() { p.due(s.RequeueAfter) }()
	check, err := r.upgrades().Due(ctx, s)
	if check == nil || err != nil {
		return err
	}
	denied, err := r.denied(ctx, p.releaseScope)
	if err != nil {
		return err
	}
	if denied != "" {
		upgradereadiness.Pending(p.release, check, denied)
		p.due(selection.DeniedTTL)
		return nil
	}
	// The copy keeps the conditions of the release unchanged, because they are about its installation.
	unreported := p.release.DeepCopy()
	conditions.Delete(unreported, addonsv1.ReadyCondition)
	var ok bool
	if p.target, ok = r.connect(ctx, unreported, p.cluster); !ok {
		upgradereadiness.Pending(p.release, check, cmp.Or(conditions.GetMessage(unreported, addonsv1.ReadyCondition),
			"HelmOp is connecting to the Cluster"))
		p.due(reconnectRetry(p.release, r.clusters.State(apiutil.ClusterKey(p.release))))
		return nil
	}
	p.target.Storage = r.records.Of(p.release, p.helmOp, r.references)
	p.desired, p.options = releasespec.DesiredOf(p.release)
	s.Target = p.target
	return r.runUpgradeCheck(ctx, p, s, check)
}

// runUpgradeCheck makes a check. It records an Event if something must be done before the upgrade.
func (r *Reconciler) runUpgradeCheck(ctx context.Context, p *releasePass, s *upgradereadiness.Subject,
	check *upgradereadiness.Check,
) error {
	if err := r.upgrades().Run(ctx, s, check); err != nil || s.Blocked == "" {
		return err
	}
	text := fmt.Sprintf("Cluster %s, release %s: %s", apiutil.ClusterTitle(p.release), describe(p.release), s.Blocked)
	r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.KubernetesUpgradeBlockedEvent, "CheckUpgrade", text)
	if p.cluster.Namespace == p.release.Namespace &&
		r.budgets.TakeFor(p.object.GetUID(), addonsv1.KubernetesUpgradeBlockedEvent) {
		r.recorder.Eventf(p.object, p.release, corev1.EventTypeWarning, addonsv1.KubernetesUpgradeBlockedEvent,
			"CheckUpgrade", "%s", apiutil.Truncate(text, report.MaxEventMessage))
	}
	return nil
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// installedOnce is the message of a release that was installed once.
const installedOnce = "The release was installed once (reconcileStrategy InstallOnce). HelmOp does not change it " +
	"any more"

// checkInstalledOnce ends the pass if the release was installed once and must be left alone. The annotation says so,
// because it survives a restart and clusterctl move. With another strategy, the annotation does not count any more.
func (r *Reconciler) checkInstalledOnce(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	if releasespec.IsDone(&p.release.Spec, p.release) {
		r.reportInstalledOnce(p)
		err := r.checkUpgradeOfDone(ctx, p)
		return after(p.requeueAfter), err
	}
	if !releasespec.IsInstalledOnce(&p.release.Spec) {
		delete(p.release.Annotations, addonsv1.InstalledOnceAnnotation)
	}
	return nil, nil
}

// finishOnce marks a release that is installed once as done when it is Ready.
func (r *Reconciler) finishOnce(_ context.Context, p *releasePass) (*ctrl.Result, error) {
	if !releasespec.IsInstalledOnce(&p.release.Spec) || !p.installedOnce && !isReady(p.release) {
		return nil, nil
	}
	metav1.SetMetaDataAnnotation(&p.release.ObjectMeta, addonsv1.InstalledOnceAnnotation, "true")
	r.reportInstalledOnce(p)
	return after(0), nil
}

// isReady reports whether a release is Ready with its current spec.
func isReady(release *addonsv1.HelmOpRelease) bool {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	return ready != nil && ready.Status == report.True && ready.ObservedGeneration == release.Generation
}

// reportInstalledOnce reports that the release is done. It drops the watches and what they reported.
func (r *Reconciler) reportInstalledOnce(p *releasePass) {
	r.unfollow(p.release)
	for _, name := range []string{addonsv1.TestedCondition, addonsv1.StalledCondition} {
		conditions.Delete(p.release, name)
	}
	p.release.Status.Failures, p.release.Status.LastError, p.release.Status.NextTryAt = 0, "", metav1.Time{}
	for _, name := range []string{addonsv1.ReleasedCondition, addonsv1.ReadyCondition} {
		report.SetCondition(p.release, name, report.True, addonsv1.InstalledOnceReason, installedOnce)
	}
}

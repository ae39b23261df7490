// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
)

// isFetching reports whether an error means that a background task fetches or parses the chart.
func isFetching(err error) bool {
	return errors.Is(err, artifacts.ErrFetching) || errors.Is(err, artifacts.ErrRefetching)
}

// fetchFailed reports why the chart of a release is not available. If a fetch failed, and not only runs, the artifact
// is not prepared any more.
func (r *Reconciler) fetchFailed(ctx context.Context, p *releasePass, err error) (ctrl.Result, error) {
	if !isFetching(err) {
		r.memoryOf(p.release).Preparation.FetchFailed(p.subject())
	}
	return r.failed(ctx, p.releaseScope, failures.Fetching, err)
}

// beginPreparation writes that HelmOp is about to fetch, unpack and parse the artifact of a release, unless the parsed
// artifact is cached. An artifact may need more memory than the manager or its node has. If the manager stops, the next
// manager finds the preparation in the status and waits. If ok is false, the release must not be prepared now.
//
// The write has the report of a pass that ends because the artifact is being fetched. So such a pass writes nothing
// more. A release that waits for its dependencies or its images keeps its report until the end of the pass: claim needs
// the report.
func (r *Reconciler) beginPreparation(ctx context.Context, p *releasePass) (result ctrl.Result, err error, ok bool) {
	preparation := &r.memoryOf(p.release).Preparation
	if wait := r.waitAfterInterruption(ctx, p, preparation); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil, false
	}
	if r.charts.IsParsed(p.release) || preparation.IsRefetched(p.subject()) {
		return ctrl.Result{}, nil, true
	}
	begun := preparation.Begin(p.subject(), &p.before.Status, r.now())
	if begun == nil {
		return ctrl.Result{}, nil, true
	}
	p.release.Status.Preparation = begun
	settled := *p.releaseScope
	settled.release = p.release.DeepCopy()
	releasestatus.NotReleased(settled.release, addonsv1.FetchingArtifactReason, artifacts.ErrFetching.Error())
	settled.settleStatus()
	written := p.before.DeepCopy()
	written.Status = settled.release.Status
	if err := r.patchBefore(ctx, p, written); err != nil {
		p.release.Status.Preparation = p.before.Status.Preparation // The next pass writes it again.
		return ctrl.Result{}, fmt.Errorf("writing that the artifact is about to be fetched: %w", err), false
	}
	return ctrl.Result{}, nil, true
}

// waitAfterInterruption returns how long a release must wait, because a former manager stopped while it prepared the
// release; 0 if it need not wait. It reports the cause of the wait. A failed release stays failed.
func (r *Reconciler) waitAfterInterruption(ctx context.Context, p *releasePass,
	preparation *attempts.Preparation,
) time.Duration {
	newest, _ := p.observation.Newest()
	at := preparation.NextAt(p.subject(), newest, r.now())
	// If this process has made the same rendering for another Cluster, the former manager stopped for another reason.
	if !at.After(r.now()) || !r.rendered.IsNew(attempts.RenderingOf(&p.desired)) {
		return 0
	}
	p.release.Status.NextTryAt = metav1.NewTime(at)
	reason, message := addonsv1.UpdatingReason, fmt.Sprintf("The former manager stopped while it prepared artifact %s or "+
		"rendered it with the values of this release, for example because the manager was updated or had too little "+
		"memory: HelmOp tries again at %s. If this happens again and again, raise the memory limit of the manager, or "+
		"change the artifact or the values", p.release.Spec.Artifact.Digest, at.UTC().Format(time.RFC3339))
	if p.past().Failures > 0 {
		reason = releasestatus.StandingReason(p.release, p.decision)
		message = releasestatus.WithLastError(p.release, message)
	}
	if releasestatus.NotReleased(p.release, reason, message) {
		ctrl.LoggerFrom(ctx).Info("A former manager stopped while it prepared the release; HelmOp waits", "Cluster",
			apiutil.ClusterTitle(p.release), "until", at)
	}
	return at.Sub(r.now())
}

// announcement writes that a rendering begins, right before code of the chart runs. If no such code runs, it writes
// nothing: for example, the Cluster is unreachable, or the renderer keeps the failure of the same input.
type announcement struct {
	// write writes the status. It is called at most once.
	write func() error
	once  sync.Once
	// err is the error of write. The action fails with this error, but the error is not a result of the action.
	err error
}

// in returns the options of an action whose rendering is announced.
func (a *announcement) in(options model.Options) model.Options {
	options.BeforeRender = func() error {
		a.once.Do(func() { a.err = a.write() })
		return a.err
	}
	return options
}

// beginRendering writes that HelmOp is about to render a release, if this process has not rendered the same chart,
// values and options before. The rendering may crash the manager, for example because the node has no memory left. The
// next manager then finds the preparation in the status and waits. The write at the end of the pass removes it.
func (r *Reconciler) beginRendering(ctx context.Context, p *releasePass, decision decide.Decision) error {
	written := p.before.DeepCopy()
	if !r.announceIn(&written.Status, p, decision) {
		return nil
	}
	if err := r.patchBefore(ctx, p, written); err != nil {
		return fmt.Errorf("writing that the chart is about to be rendered: %w", err)
	}
	return nil
}

// announceIn sets in a status that the caller writes that a rendering begins. The result is false if the status needs
// no change.
func (r *Reconciler) announceIn(status *addonsv1.HelmOpReleaseStatus, p *releasePass, decision decide.Decision) bool {
	if !r.rendered.IsFirst(decision.Action, &p.desired) {
		return false
	}
	begun := r.memoryOf(p.release).Preparation.Begin(p.subject(), &p.before.Status, r.now())
	if begun == nil {
		return false
	}
	status.Preparation = begun
	return true
}

// patchBefore writes the status of a changed copy of p.before during a pass. The write at the end of the pass replaces
// it.
func (r *Reconciler) patchBefore(ctx context.Context, p *releasePass, changed *addonsv1.HelmOpRelease) error {
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	err := r.client.Status().Patch(ctx, changed,
		client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return err
	}
	p.before.ResourceVersion, p.release.ResourceVersion = changed.ResourceVersion, changed.ResourceVersion
	p.before.Status = *changed.Status.DeepCopy()
	return nil
}

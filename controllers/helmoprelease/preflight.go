// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/actiongate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/images"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
)

// renderTimeout is the timeout of a rendering that only finds the images of a release. The rendering holds a slot.
const renderTimeout = time.Minute

// imageCheck is the check of a release's images before a decision is carried out.
type imageCheck struct {
	request ctrl.Request
	access  oci.Access
	// retry is the retry request that is not met yet.
	retry string
	// inputs is a digest of all inputs of the rendering.
	inputs string
	// unchecked are images that the release waits for. They are not checked yet, because their names contain values from
	// Secrets. The values are known when the pass has rendered them.
	unchecked []string
}

// recheckImages checks the images of a release that already waits for images. It does not render the values or the
// chart, so it needs no slot. If the names of images contain values from Secrets, it leaves the check to hasImages. The
// check is nil if the decision does not need the images. If ok is false, recheckImages has reported the cause, and the
// pass must return result and err.
func (r *Reconciler) recheckImages(ctx context.Context, p *releasePass, decision decide.Decision,
) (check *imageCheck, result ctrl.Result, err error, ok bool) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p.release)}
	if !actiongate.NeedsPreconditions(decision, p.desired.Return) || !preflight.IsRequired(p.helmOp) {
		r.memoryOf(p.release).Images.Forget()
		return nil, ctrl.Result{}, nil, true
	}
	access, err := r.references.Access(ctx, p.helmOp)
	if err != nil {
		result, err = r.failed(ctx, p.releaseScope, failures.Fetching, err)
		return nil, result, err, false
	}
	check = &imageCheck{request: request, access: access, retry: p.subject().NewRetryRequest()}
	// A new retry request renders the release again. The options decide which hooks run, and are not part of the desired
	// state.
	if check.inputs, err = apiutil.DigestOf(p.desired, check.retry, p.options.Rollback, p.options.Uninstall,
		p.options.Test, p.policy.Test.Enabled); err != nil {
		return nil, ctrl.Result{}, err, false
	}
	list := &r.memoryOf(p.release).Images
	names, isKnown := list.Of(check.inputs)
	if !isKnown {
		return check, ctrl.Result{}, nil, true
	}
	if list.HasSecret() {
		check.unchecked = names
		return check, ctrl.Result{}, nil, true
	}
	result, err, ok = r.checkImages(ctx, p, check, names, false)
	return check, result, err, ok
}

// hasImages reports whether the registries have the images of a release. It renders the release even if recheckImages
// found all images: the chart may look up objects in the cluster, and these may have changed. If ok is false, hasImages
// has reported the cause, and the pass must return result and err. The caller has a slot, and has rendered the values.
func (r *Reconciler) hasImages(ctx context.Context, p *releasePass, decision decide.Decision, check *imageCheck,
	inputs *releaseInputs,
) (result ctrl.Result, err error, ok bool) {
	if check == nil {
		return ctrl.Result{}, nil, true
	}
	if check.unchecked != nil {
		if result, err, ok := r.checkImages(ctx, p, check, check.unchecked, false); !ok {
			return result, err, false
		}
	}
	announcement := &announcement{write: func() error { return r.beginRendering(ctx, p, decision) }}
	names, err := r.renderImages(ctx, p, announcement.in(p.options), inputs)
	if announcement.err != nil {
		return ctrl.Result{}, announcement.err, false
	}
	r.memoryOf(p.release).Preparation.End(&p.release.Status)
	r.rendered.Note(decision.Action, &p.desired, helmclient.Result{}, err)
	if err != nil {
		p.subject().Record(decision, &p.policy.Test, helmclient.Result{}, err, r.now())
		result, err = r.actionFailed(ctx, p, decision, helmclient.Result{}, err)
		return result, err, false
	}
	r.memoryOf(p.release).Images.Set(check.inputs, names, p.hideSecrets())
	if result, err, ok = r.checkImages(ctx, p, check, names, check.retry != ""); ok {
		r.memoryOf(p.release).Images.Forget()
	}
	return result, err, ok
}

// checkImages looks up images. If the registries do not have all of them, it reports why the release waits.
func (r *Reconciler) checkImages(ctx context.Context, p *releasePass, check *imageCheck, names []string, isRetry bool,
) (result ctrl.Result, err error, ok bool) {
	outcome, err := r.images.Check(ctx, &preflight.Release{Request: check.request, Images: names, Access: check.access,
		ChartURL: p.release.Spec.Artifact.URL, IsRetry: isRetry})
	if err != nil {
		return ctrl.Result{}, err, false
	}
	if !outcome.IsComplete() {
		r.reportImages(p, &outcome)
		return ctrl.Result{RequeueAfter: outcome.Wait}, nil, false
	}
	return ctrl.Result{}, nil, true
}

// hideSecrets returns a function that removes the values of Secrets from a text. The name of an image may contain such
// a value.
func (p *releasePass) hideSecrets() func(string) string {
	return helmerr.NewRedactor(nil, p.options.SecretValues).Hide
}

// renderImages returns the images of a release as the action would install it, without the images of hooks and tests
// that HelmOp does not run.
func (r *Reconciler) renderImages(ctx context.Context, p *releasePass, options model.Options, inputs *releaseInputs,
) ([]string, error) {
	bounded, cancel := context.WithTimeout(ctx, renderTimeout)
	defer cancel()
	rendered, err := r.engine.Render(bounded, p.target, p.desired, options, inputs.chart, inputs.values)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("the release was not rendered within %s to find its images: %w", renderTimeout, err)
	}
	if err != nil {
		return nil, err
	}
	var names []string
	err = rendered.Parts(func(objects, hooks, definitions []*unstructured.Unstructured) {
		hooks = slices.DeleteFunc(hooks, func(hook *unstructured.Unstructured) bool {
			return !options.MayRun(hook, p.policy.Test.Enabled)
		})
		names = images.Of(slices.Concat(definitions, objects, hooks))
	})
	return names, err
}

// reportImages reports why a release waits for its images. A failed release stays failed: only its next try waits.
// Until all lookups have ended, a release that waits or has failed keeps its last report.
func (r *Reconciler) reportImages(p *releasePass, outcome *preflight.Outcome) {
	hasFailed := p.past().Failures > 0
	reason, message := outcome.Report(hasFailed || apiutil.WaitsForImages(p.release), p.hideSecrets())
	if reason == "" {
		return
	}
	if hasFailed {
		releasestatus.NotReleased(p.release, releasestatus.StandingReason(p.release, p.decision),
			releasestatus.WithLastError(p.release, "The next try waits for the images. "+message))
		return
	}
	if releasestatus.NotReleased(p.release, reason, message) && reason != addonsv1.UpdatingReason {
		r.event(p.releaseScope, corev1.EventTypeWarning, reason, "Preflight", fmt.Sprintf("Cluster %s, release %s: %s",
			apiutil.ClusterTitle(p.release), describe(p.release), message))
	}
}

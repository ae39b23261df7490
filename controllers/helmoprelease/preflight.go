// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/images"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
)

// maxNamedImages is how many images a message names.
const maxNamedImages = 5

// imagesPending is the message while the images of a release are looked up for the first time.
const imagesPending = "The images of the release are being looked up in their registries"

// hasImages reports whether the registries have the images of a release, or need not have them for a decision. If ok is
// false, hasImages has reported the cause, and result and err are those of the pass.
func (r *Reconciler) hasImages(ctx context.Context, p *releasePass, decision decide.Decision,
	inputs *releaseInputs,
) (result ctrl.Result, err error, ok bool) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p.release)}
	if !needsPreconditions(decision, p.desired.Return) || !requiresImages(p.helmOp) {
		r.images.Forget(request)
		return ctrl.Result{}, nil, true
	}
	access, err := r.references.Access(ctx, p.helmOp)
	if err != nil {
		result, err = r.failed(ctx, p.releaseScope, chartReason(err), err)
		return result, err, false
	}
	retry := p.subject().NewRetryRequest()
	for {
		names, isRendered, err := r.imagesOf(ctx, p, request, retry, inputs)
		if err != nil {
			result, err = r.failed(ctx, p.releaseScope, releasestatus.FailureReason(decision), err)
			return result, err, false
		}
		outcome, err := r.images.Check(ctx, &preflight.Release{Request: request, Images: names, Access: access,
			ChartURL: p.release.Spec.Artifact.URL, IsRetry: isRendered && retry != ""})
		if err != nil {
			return ctrl.Result{}, err, false
		}
		if !outcome.IsComplete() {
			r.reportImages(p, &outcome)
			return ctrl.Result{RequeueAfter: outcome.Wait}, nil, false
		}
		r.images.Forget(request)
		if isRendered {
			return ctrl.Result{}, nil, true
		}
		// The cluster may have changed while the release waited: its version, or what the chart looks up.
	}
}

// requiresImages reports whether a HelmOp requires that registries have the images of its releases.
func requiresImages(helmOp *addonsv1.HelmOp) bool {
	return helmOp != nil && helmOp.Spec.Preflight != nil &&
		helmOp.Spec.Preflight.Images == addonsv1.ImagesPreflightRequired
}

// imagesOf returns the images of a release, as the action would install them, and whether it rendered them now. It
// renders them again for a new request for a retry.
func (r *Reconciler) imagesOf(ctx context.Context, p *releasePass, request ctrl.Request, retry string,
	inputs *releaseInputs,
) (names []string, isRendered bool, err error) {
	identity, err := apiutil.DigestOf(p.desired, retry)
	if err != nil {
		return nil, false, err
	}
	return r.images.List(request, identity, func() ([]string, error) {
		rendered, err := r.engine.Render(ctx, p.target, p.desired, p.options, inputs.chart, inputs.values)
		if err != nil {
			return nil, err
		}
		objects, err := rendered.Objects()
		return images.Of(objects), err
	})
}

// reportImages reports why a release waits for its images. While lookups that are repeated have not ended, the last
// report stays.
func (r *Reconciler) reportImages(p *releasePass, outcome *preflight.Outcome) {
	reason, message := addonsv1.ImagesMissingReason, missingImages(outcome)
	switch {
	case len(outcome.Missing) > 0:
	case outcome.IsPending && isWaitingForImages(p.release):
		return
	case outcome.IsPending:
		reason, message = addonsv1.UpdatingReason, imagesPending
	default:
		reason, message = addonsv1.ImagesUnknownReason, unknownImages(outcome)
	}
	if releasestatus.NotReleased(p.release, reason, message) && reason != addonsv1.UpdatingReason {
		r.event(p.releaseScope, corev1.EventTypeWarning, reason, "Preflight", fmt.Sprintf("Cluster %s, release %s: %s",
			apiutil.ClusterTitle(p.release), describe(p.release), message))
	}
}

// isWaitingForImages reports whether a release waits for its images already.
func isWaitingForImages(release *addonsv1.HelmOpRelease) bool {
	reason := conditions.GetReason(release, addonsv1.ReleasedCondition)
	return reason == addonsv1.ImagesMissingReason || reason == addonsv1.ImagesUnknownReason
}

func missingImages(outcome *preflight.Outcome) string {
	return fmt.Sprintf("The release is not changed, because %s not in the registry: %s; push or mirror the images "+
		"(kubectl helmop mirror), correct the values, or set spec.preflight.images to Ignored. The images are looked up "+
		"again", plural.Count(len(outcome.Missing), "image is", "images are"),
		plural.Few(outcome.Missing, maxNamedImages))
}

func unknownImages(outcome *preflight.Outcome) string {
	return fmt.Sprintf("The release is not changed, because %s could not be looked up: %s: %v. The images are looked up "+
		"again", plural.Count(len(outcome.Unknown), "image", "images"), plural.Few(outcome.Unknown, maxNamedImages),
		outcome.Err)
}

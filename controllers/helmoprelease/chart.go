// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
)

// errFetching says that the chart is on its way. The release is looked at again when it has come.
var errFetching = errors.New("the chart is being fetched or prepared")

// errRefetching says that the chart, which could not be had the last time, is asked for again.
var errRefetching = errors.New("the chart is asked for again")

// Fetcher pulls artifacts.
type Fetcher interface {
	// Fetch returns an artifact, from the store or from the registry. Its layers are pulled when they are read.
	Fetch(ctx context.Context, url, digest string, access oci.Access) (*oci.Content, error)

	// Stored returns an artifact that is in the store, without a request.
	Stored(url, digest string) (*oci.Content, bool)
}

// ChartLoader makes charts of pulled artifacts.
type ChartLoader interface {
	Chart(ctx context.Context, source bundle.Source) (*bundle.Chart, error)

	// Cached returns a chart that is at hand. It takes no time.
	Cached(source bundle.Source) (*bundle.Chart, bool)
}

// chart gets the chart of a release, from the store if any cluster needed it before. What is not at hand, or not known to be
// signed as demanded, is fetched, verified and parsed once for all releases that want it, while the worker goes on: errFetching, or
// errRefetching if it could not be had the last time. A *fetchError tells when to try again.
func (r *Reconciler) chart(ctx context.Context, scope *releaseScope) (*bundle.Chart, error) {
	artifact := scope.release.Spec.Artifact
	policy, err := r.references.Policy(ctx, scope.helmOp)
	if err != nil {
		return nil, err
	}
	isSigned := verify.IsVerified(r.verifier, apiutil.KnownArtifacts(&scope.helmOp.Status), &artifact, policy)
	content, stored := r.registry.Stored(artifact.URL, artifact.Digest)
	if stored && isSigned {
		chart, err := r.storedChart(ctx, content, &artifact, scope.release)
		if !errors.Is(err, oci.ErrNotStored) {
			return chart, err
		}
	}
	// Access that cannot be read matters only if the registry must be asked.
	access, err := r.references.Access(ctx, scope.helmOp)
	if err != nil {
		return nil, err
	}
	if isSigned {
		policy = nil
	}
	// What is known to be signed by the status of this HelmOp is not shared with those who have to ask. Nor is anything between
	// namespaces: one would wait for the turn of the other at the registry, and for the end of its failures.
	key, err := apiutil.DigestOf(scope.release.Namespace, artifact, access, references.PolicyDigest(policy))
	if err != nil {
		return nil, err
	}
	if failure := r.fetches.standing(key, r.now()); failure != nil {
		return nil, failure
	}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(scope.release)}
	content, err, ok := r.tasks.Run(ctx, key, request, func(ctx context.Context) (*oci.Content, error) {
		content, err := async.Guarded(ctx, func(ctx context.Context) (*oci.Content, error) {
			return r.fetch(ctx, &artifact, scope.release.Namespace, access, policy)
		})
		r.fetches.record(key, err, r.now())
		return content, err
	})
	switch {
	case !ok && r.fetches.isFailing(key):
		return nil, errRefetching
	case !ok:
		return nil, errFetching
	case err != nil:
		if failure := r.fetches.failure(key, r.now()); failure != nil {
			return nil, failure
		}
		return nil, err
	default:
		return r.charts.Chart(ctx, bundleSource(content, &artifact, scope.release.Namespace, content.ReadLayer))
	}
}

// storedChart loads a chart that is in the store. One that cannot be loaded is not tried again by each release on its own. To build a
// kustomization may take minutes, which must not hold the worker.
func (r *Reconciler) storedChart(ctx context.Context, content *oci.Content, artifact *addonsv1.ResolvedArtifact, release *addonsv1.HelmOpRelease,
) (*bundle.Chart, error) {
	source := bundleSource(content, artifact, release.Namespace, content.ReadStored)
	if chart, ok := r.charts.Cached(source); ok {
		return chart, nil
	}
	key := apiutil.ArtifactIdentity(artifact)
	if failure := r.fetches.standing(key, r.now()); failure != nil {
		return nil, failure
	}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)}
	// Nothing is shared between namespaces, as with what is fetched.
	shared := strings.Join([]string{"stored", release.Namespace, key}, "\n")
	_, err, ok := r.tasks.Run(ctx, shared, request, func(ctx context.Context) (*oci.Content, error) {
		_, err := async.Guarded(ctx, func(ctx context.Context) (*bundle.Chart, error) { return r.charts.Chart(ctx, source) })
		if !errors.Is(err, oci.ErrNotStored) && ctx.Err() == nil {
			r.fetches.record(key, err, r.now())
		}
		return content, err
	})
	switch {
	case !ok && r.fetches.isFailing(key):
		return nil, errRefetching
	case !ok:
		return nil, errFetching
	case err == nil:
		return r.charts.Chart(ctx, source)
	case errors.Is(err, oci.ErrNotStored):
		return nil, err
	}
	if failure := r.fetches.failure(key, r.now()); failure != nil {
		return nil, failure
	}
	return nil, err
}

// fetch verifies an artifact, if a policy says so, and brings it into the store.
func (r *Reconciler) fetch(ctx context.Context, artifact *addonsv1.ResolvedArtifact, tenant string, access oci.Access, policy *verification.Policy,
) (*oci.Content, error) {
	if policy != nil {
		if _, err := verify.Verify(ctx, r.verifier, nil, artifact.URL, artifact.Digest, access, policy); err != nil {
			return nil, err
		}
	}
	content, err := r.registry.Fetch(ctx, artifact.URL, artifact.Digest, access)
	if err != nil {
		return nil, err
	}
	source := bundleSource(content, artifact, tenant, content.ReadLayer)
	source.PullLayer = func(ctx context.Context, layer int) error { return content.PullLayer(ctx, content.Layers[layer]) }
	_, err = r.charts.Chart(ctx, source)
	return content, err
}

// bundleSource shows an artifact to the chart loader, which reads the layers that it needs, if it needs any.
func bundleSource(content *oci.Content, artifact *addonsv1.ResolvedArtifact, tenant string, read func(context.Context, oci.Layer) ([]byte, error)) bundle.Source {
	return bundle.Source{
		Manifest:  apiutil.BundleManifest(content.ConfigMediaType, content.ArtifactType, content.Layers),
		Selection: apiutil.BundleSelection(artifact),
		Digest:    content.Digest, Name: path.Base(artifact.URL), Version: artifact.Version, Tenant: tenant,
		ReadLayer: func(ctx context.Context, layer int) ([]byte, error) {
			return read(ctx, content.Layers[layer])
		},
		Owner: bytebudget.Owner{Tenant: tenant, Host: registryOf(artifact.URL)},
	}
}

// registryOf is the host in the URL of an artifact, as those of the registries' own answers.
func registryOf(url string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "oci://"), "/")
	return host
}

// chartFailed reports that there is no chart, or not yet.
func (r *Reconciler) chartFailed(ctx context.Context, scope *releaseScope, err error) (ctrl.Result, error) {
	var failure *fetchError
	switch {
	case errors.Is(err, errRefetching) && hasFailed(scope.release):
		// What is reported of the last try stands until there is news.
		return ctrl.Result{}, nil
	case errors.Is(err, errRefetching), errors.Is(err, errFetching):
		reportNotReleased(scope.release, addonsv1.FetchingArtifactReason, err.Error())
		return ctrl.Result{}, nil
	case errors.As(err, &failure):
		result, err := r.failed(ctx, scope, chartReason(err), err)
		if err == nil {
			// All releases that want the chart wait for the same try.
			result.RequeueAfter = max(failure.wait, time.Millisecond)
		}
		return result, err
	default:
		return r.failed(ctx, scope, chartReason(err), err)
	}
}

// hasFailed tells whether a failure of a release is reported.
func hasFailed(release *addonsv1.HelmOpRelease) bool {
	released := conditions.Get(release, addonsv1.ReleasedCondition)
	return released != nil && released.Status == metav1.ConditionFalse && !apiutil.ProgressReasons[released.Reason]
}

// chartReason names an error of getting a chart.
func chartReason(err error) string {
	return reasons.For(err, reasons.ChartErrors, reasons.For(err, reasons.ArtifactErrors, addonsv1.ArtifactFetchFailedReason))
}

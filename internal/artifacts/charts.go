// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
)

// ErrFetching means that a background task fetches or parses the chart. The release is enqueued when the task has
// ended.
var ErrFetching = errors.New("the chart is being fetched or prepared")

// ErrRefetching has the meaning of ErrFetching, after a failed attempt.
var ErrRefetching = errors.New("fetching the chart is retried")

// Fetcher pulls artifacts.
type Fetcher interface {
	// Resolve finds the artifact that a source refers to.
	Resolve(ctx context.Context, source oci.Source) (oci.Artifact, error)

	// Fetch returns an artifact, from the store or from the registry. Its layers are pulled when they are read.
	Fetch(ctx context.Context, url, digest string, access oci.Access) (*oci.Content, error)

	// Stored returns an artifact from the store, without a request.
	Stored(url, digest string) (*oci.Content, bool)
}

// ChartLoader converts pulled artifacts to charts.
type ChartLoader interface {
	Chart(ctx context.Context, source bundle.Source) (*bundle.Chart, error)

	// Cached returns a chart from the cache. It does not read or parse a file.
	Cached(source bundle.Source) (*bundle.Chart, bool)
}

// Charts provides the charts of releases. It is safe for concurrent use.
type Charts struct {
	registry   Fetcher
	loader     ChartLoader
	verifier   verify.Verifier
	references *references.Reader
	tasks      *async.Tasks[*oci.Content]
	failures   *failures
	now        func() time.Time
}

// New returns Charts for a controller with a number of workers.
func New(registry Fetcher, loader ChartLoader, verifier verify.Verifier, references *references.Reader,
	workers int,
) *Charts {
	return &Charts{
		registry: registry, loader: loader, verifier: verifier, references: references,
		tasks: async.NewTasks[*oci.Content](workers), failures: newFailures(), now: time.Now,
	}
}

// Source returns a source that enqueues a release when its background task has ended, successfully or not.
func (c *Charts) Source() source.Source { return c.tasks.Waker.Source() }

// Pulled is the chart of an artifact that is in the store.
type Pulled struct {
	chart    *bundle.Chart
	isCached bool
	loader   ChartLoader
	source   bundle.Source
}

// Chart returns the chart. The caller must not change it. If the cache does not have the chart, for example because the
// chart is too large for the cache, Chart parses it. This may take minutes, because it waits for other parses of the
// namespace. So callers must have a slot.
func (p *Pulled) Chart(ctx context.Context) (*bundle.Chart, error) {
	if p.isCached {
		return p.chart, nil
	}
	return p.loader.Chart(ctx, p.source)
}

func (c *Charts) pulled(source bundle.Source) *Pulled {
	chart, ok := c.loader.Cached(source)
	return &Pulled{chart: chart, isCached: ok, loader: c.loader, source: source}
}

// Get pulls the chart of a release and returns it, see Pull and Pulled.
func (c *Charts) Get(ctx context.Context, release *addonsv1.HelmOpRelease,
	helmOp *addonsv1.HelmOp,
) (*bundle.Chart, error) {
	pulled, err := c.Pull(ctx, release, helmOp, false)
	if err != nil {
		return nil, err
	}
	return pulled.Chart(ctx)
}

// Pull returns the chart of a release.
//
// If the store does not have the chart, or if its signature is not known to be valid, a background task fetches,
// verifies and parses the chart. All releases of the namespace with the same chart share the task. While the task runs,
// the error is ErrFetching, or ErrRefetching if the last attempt failed. After a failure, the error is a *Failure with
// the time of the next attempt. A shortage of the manager itself is no failure of the artifact, see IsBusy.
//
// If the store has the chart and the cache does not, a background task parses it. With hasSlot, there is no task, and
// [Pulled.Chart] parses the chart: the release would lose its slot during the task.
func (c *Charts) Pull(ctx context.Context, release *addonsv1.HelmOpRelease,
	helmOp *addonsv1.HelmOp, hasSlot bool,
) (*Pulled, error) {
	artifact := release.Spec.Artifact
	policy, err := c.references.Policy(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	isSigned := verify.IsVerified(c.verifier, apiutil.KnownArtifacts(&helmOp.Status), &artifact, policy)
	content, stored := c.registry.Stored(artifact.URL, artifact.Digest)
	if stored && isSigned {
		pulled, err := c.storedChart(ctx, content, &artifact, release, policy, hasSlot)
		if !errors.Is(err, ocierr.ErrNotStored) {
			return pulled, err
		}
	}
	// Pull reads the credentials only here: without a request to the registry, an error in them does not matter.
	access, err := c.references.Access(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	unverified := policy
	if isSigned {
		unverified = nil
	}
	// HelmOps do not share a task if the status of this HelmOp confirms the signature. Namespaces do not share tasks
	// either: otherwise a release would wait for another namespace's slot at the registry, and for the backoff after its
	// failures.
	urls := urlsOf(&artifact, helmOp)
	key, err := apiutil.DigestOf(release.Namespace, artifact, urls, access.Digest(),
		references.PolicyDigest(unverified))
	if err != nil {
		return nil, err
	}
	if failure := c.failures.pending(key, c.now()); failure != nil {
		return nil, failure
	}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)}
	content, err, ok := c.tasks.Run(ctx, key, request, func(ctx context.Context) (*oci.Content, error) {
		content, err := async.Guarded(ctx, func(ctx context.Context) (*oci.Content, error) {
			return c.fetch(ctx, urls, &artifact, release.Namespace, access, unverified)
		})
		c.failures.record(key, err, c.now())
		return content, err
	})
	if err := c.outcome(key, ok, err); err != nil {
		return nil, err
	}
	return c.pulled(bundleSource(content, &artifact, release.Namespace, policy, content.ReadLayer)), nil
}

// IsBusy reports whether an artifact could not be read because the manager has no free memory or no free process for it
// at this time. Another try may succeed, whatever the artifact is.
func IsBusy(err error) bool {
	return errors.Is(err, sandbox.ErrNoChild) || errors.Is(err, bytebudget.ErrExhausted)
}

// IsParsed reports whether the cache has the chart of a release. Otherwise, Pull fetches, unpacks or parses the chart.
func (c *Charts) IsParsed(release *addonsv1.HelmOpRelease) bool {
	artifact := &release.Spec.Artifact
	content, stored := c.registry.Stored(artifact.URL, artifact.Digest)
	if !stored {
		return false
	}
	_, ok := c.loader.Cached(bundleSource(content, artifact, release.Namespace, nil, content.ReadStored))
	return ok
}

// outcome returns the error of a finished task. While the task runs, it returns ErrFetching or ErrRefetching.
func (c *Charts) outcome(key string, done bool, err error) error {
	switch {
	case !done && c.failures.isFailing(key):
		return ErrRefetching
	case !done:
		return ErrFetching
	case err == nil:
		return nil
	case IsBusy(err):
		return err
	}
	if failure := c.failures.failure(key, c.now()); failure != nil {
		return failure
	}
	return err
}

// storedChart loads a chart from the store. If the chart cannot be loaded, all releases of the namespace wait for the
// same next attempt. Building a kustomization may take minutes, so a background task does it instead of the worker.
func (c *Charts) storedChart(ctx context.Context, content *oci.Content, artifact *addonsv1.ResolvedArtifact,
	release *addonsv1.HelmOpRelease, policy *verification.Policy, hasSlot bool,
) (*Pulled, error) {
	source := bundleSource(content, artifact, release.Namespace, policy, content.ReadStored)
	if pulled := c.pulled(source); pulled.isCached || hasSlot {
		return pulled, nil
	}
	// Namespaces share neither tasks nor failures, as in Pull.
	key := strings.Join([]string{"stored", release.Namespace, apiutil.ArtifactIdentity(artifact), artifact.Tag}, "\n")
	if failure := c.failures.pending(key, c.now()); failure != nil {
		return nil, failure
	}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)}
	_, err, ok := c.tasks.Run(ctx, key, request, func(ctx context.Context) (*oci.Content, error) {
		_, err := async.Guarded(ctx, func(ctx context.Context) (*bundle.Chart, error) { return c.loader.Chart(ctx, source) })
		if !errors.Is(err, ocierr.ErrNotStored) && ctx.Err() == nil {
			c.failures.record(key, err, c.now())
		}
		return content, err
	})
	if errors.Is(err, ocierr.ErrNotStored) {
		return nil, err
	}
	if err := c.outcome(key, ok, err); err != nil {
		return nil, err
	}
	return c.pulled(source), nil
}

// urlsOf returns the URLs that may have an artifact. An older HelmOp revision keeps the URL that the source had when
// the revision was created. If all artifacts were copied to another registry and the source names this registry now,
// their digests are the same and there is no new revision. The former registry may be gone, and the access settings are
// those of the present source. So the present URL is first. A chart repository and an OCI registry never have the same
// digest: it is the digest of an archive or of a manifest.
func urlsOf(artifact *addonsv1.ResolvedArtifact, helmOp *addonsv1.HelmOp) []string {
	present := apiutil.ArtifactURL(&helmOp.Spec.Source)
	if chartrepo.IsURL(present) != chartrepo.IsURL(artifact.URL) {
		return []string{artifact.URL}
	}
	return slices.Compact([]string{present, artifact.URL})
}

// fetch pulls an artifact into the store from the first of the URLs that has it, and loads it. If the store has the
// manifest, any URL returns it. Only the pull of the layers then shows whether the URL has the artifact.
func (c *Charts) fetch(ctx context.Context, urls []string, artifact *addonsv1.ResolvedArtifact, tenant string,
	access oci.Access, policy *verification.Policy,
) (content *oci.Content, err error) {
	for _, url := range urls {
		found, failure := c.fetchFrom(ctx, url, artifact.Digest, access, policy)
		if errors.Is(failure, ocierr.ErrNotFound) && c.computesDigest(ctx, url, artifact, access) {
			found, failure = c.fetchFrom(ctx, url, artifact.Digest, access, policy)
		}
		if failure == nil {
			failure = c.load(ctx, found, artifact, tenant, policy)
			if ofPull := (*ocierr.Error)(nil); !errors.As(failure, &ofPull) {
				return found, failure // another URL has the same chart
			}
		}
		// A URL that does not have the artifact is not the cause if another URL fails for another reason.
		switch {
		case err == nil, errors.Is(err, ocierr.ErrNotFound):
			err = failure
		case errors.Is(err, verification.ErrUnsigned) && !errors.Is(failure, ocierr.ErrNotFound):
			// The other URL may have the signature. If it is gone for ever, the missing signature is the cause.
			err = fmt.Errorf("%w; %s", failure, err.Error())
		}
	}
	return nil, err
}

// load pulls the layers of an artifact into the store, and puts its chart into the cache.
func (c *Charts) load(ctx context.Context, content *oci.Content, artifact *addonsv1.ResolvedArtifact, tenant string,
	policy *verification.Policy,
) error {
	source := bundleSource(content, artifact, tenant, policy, content.ReadLayer)
	source.PullLayer = func(ctx context.Context, layer int) error { return content.PullLayer(ctx, content.Layers[layer]) }
	_, err := c.loader.Chart(ctx, source)
	return err
}

// computesDigest reports whether a chart repository has the artifact under its version. The index of a chart repository
// may have no digests. The client then finds an archive by its digest only after it has resolved the version since its
// start. For example, the manager was restarted, and an older HelmOp revision needs its chart.
func (c *Charts) computesDigest(ctx context.Context, url string, artifact *addonsv1.ResolvedArtifact,
	access oci.Access,
) bool {
	if !chartrepo.IsURL(url) || artifact.Version == "" {
		return false
	}
	found, err := c.registry.Resolve(ctx, oci.Source{URL: url, Ref: oci.Reference{Tag: artifact.Version}, Access: access})
	return err == nil && found.Digest == artifact.Digest
}

// fetchFrom verifies an artifact at a URL if there is a policy, and pulls it into the store. Its layers are pulled when
// they are read.
func (c *Charts) fetchFrom(ctx context.Context, url, digest string, access oci.Access,
	policy *verification.Policy,
) (*oci.Content, error) {
	if policy != nil {
		if _, err := verify.Verify(ctx, c.verifier, nil, url, digest, access, policy); err != nil {
			return nil, err
		}
	}
	return c.registry.Fetch(ctx, url, digest, access)
}

// Load pulls an artifact and returns its chart, without a background task. It does not verify signatures. The caller
// must not change the chart.
func Load(ctx context.Context, registry Fetcher, loader ChartLoader, artifact *addonsv1.ResolvedArtifact,
	tenant string, access oci.Access,
) (*bundle.Chart, error) {
	content, err := registry.Fetch(ctx, artifact.URL, artifact.Digest, access)
	if err != nil {
		return nil, err
	}
	return loader.Chart(ctx, bundleSource(content, artifact, tenant, nil, content.ReadLayer))
}

// bundleSource describes an artifact for the chart loader. policy contains the required signatures; nil if none are
// required. The loader reads only the layers that it needs.
func bundleSource(content *oci.Content, artifact *addonsv1.ResolvedArtifact, tenant string, policy *verification.Policy,
	read func(context.Context, oci.Layer) ([]byte, error),
) bundle.Source {
	// A registry may put a new tag on an old, signed chart: the signature is for the digest and not for the tag.
	tagVersion := ""
	if policy != nil {
		tagVersion = oci.TagVersion(artifact.Tag)
	}
	return bundle.Source{
		Manifest:  apiutil.BundleManifest(content.ConfigMediaType, content.ArtifactType, content.Layers),
		Selection: apiutil.BundleSelection(artifact),
		Digest:    content.Digest, Name: path.Base(artifact.URL), Version: artifact.Version, Tenant: tenant,
		// An index may offer an old, signed archive as a new version.
		IsNamed:    chartrepo.IsURL(artifact.URL),
		TagVersion: tagVersion,
		ReadLayer: func(ctx context.Context, layer int) ([]byte, error) {
			return read(ctx, content.Layers[layer])
		},
		Owner: bytebudget.Owner{Tenant: tenant, Host: registryOf(artifact.URL)},
	}
}

// registryOf returns the host in the URL of an artifact, in the form of host names in package oci.
func registryOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

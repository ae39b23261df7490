// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// defaultBytes bounds the cached outcomes, in bytes. Most take less than 512 bytes. With more releases, a
// reconciliation without changes must render some of them again.
const defaultBytes = 16 << 20

// ErrObjectRead wraps the error of reading an object of the management cluster that the rendering needs.
var ErrObjectRead = errors.New("cannot read an object of the management cluster")

// Renderer renders the releases of HelmOps. It caches outcomes, but no values: values are rendered again when they are
// needed.
type Renderer struct {
	references *references.Reader
	Objects    *clusterview.Reader
	outcomes   *outcomes
}

// New returns a Renderer.
func New(references *references.Reader, objects *clusterview.Reader) *Renderer {
	return (&Renderer{references: references, Objects: objects}).WithCache(defaultBytes)
}

// WithCache limits the cache of outcomes to a number of bytes. It drops all outcomes, and returns the Renderer.
func (r *Renderer) WithCache(limit int64) *Renderer {
	r.outcomes = newOutcomes(limit)
	return r
}

// Program is a compiled HelmOp, before it is rendered for a Cluster.
type Program struct {
	*templating.Program

	// Variants are the settings that differ between Clusters. Ahead is true if a Cluster in the HelmOp's namespace is
	// rendered for the Kubernetes version of its next upgrade.
	Variants  *Variants
	Ahead     bool
	namespace string

	helmOp types.UID
	// Digest changes whenever the outcome for any Cluster may change. It does not include objects of
	// single Clusters.
	Digest string
	// sources are the objects that contain values.
	sources sources
}

// outcome is the result of a rendering, without the values.
type outcome struct {
	Release          addonsv1.ReleaseIdentity
	ValuesDigest     string
	PostRenderDigest string
	Err              error

	// References are the objects of this Cluster from which its values come, including objects that do not exist.
	References []ClusterReference
}

// choice is the variant of a HelmOp for one Cluster.
type choice struct {
	variant
	// Version is the Kubernetes version for which the variant was selected.
	Version string
}

// Compile reads the values that all Clusters share, and parses the templates of a HelmOp.
func (r *Renderer) Compile(ctx context.Context, helmOp *addonsv1.HelmOp) (*Program, error) {
	own := &helmOp.Spec
	values, err := valuesOf(own.Values, own.ValuesTemplate, own.PostRender)
	if err != nil {
		return nil, err
	}
	spec := templating.Spec{
		ReleaseName:      cmp.Or(own.Release.Name, helmOp.Name),
		ReleaseNamespace: cmp.Or(own.Release.Namespace, apiutil.DefaultReleaseNamespace),
		Values:           values.Values, ValuesTemplate: values.ValuesTemplate, PostRender: values.PostRender,
		Delimiters: references.Delimiters(helmOp),
	}
	read := sources{
		named: map[templating.SourceID]namedSource{}, missing: map[int]missingSource{}, secrets: map[int][]secretContent{},
		hashes: map[templating.SourceID][sha256.Size]byte{},
	}
	if spec.ValuesFrom, err = r.readSources(ctx, helmOp, own.ValuesFrom, "spec.valuesFrom", templating.OfSpec,
		&read); err != nil {
		return nil, err
	}
	if err := read.missingOf([]int{templating.OfSpec}); err != nil {
		return nil, err
	}
	for i := range own.Overrides {
		o := &own.Overrides[i]
		override, err := valuesOf(o.Values, o.ValuesTemplate, o.PostRender)
		if err != nil {
			return nil, err
		}
		override.Name = o.Name
		if override.ValuesFrom, err = r.readSources(ctx, helmOp, o.ValuesFrom, overrideField(i, o)+".valuesFrom", i,
			&read); err != nil {
			return nil, err
		}
		spec.Overrides = append(spec.Overrides, override)
	}
	variants, err := NewVariants(own)
	if err != nil {
		return nil, err
	}
	digest, err := apiutil.DigestOf(spec, read.description())
	if err != nil {
		return nil, err
	}
	compiled, err := templating.Compile(spec)
	if err != nil {
		return nil, err
	}
	return &Program{
		Program: compiled, helmOp: helmOp.UID, Digest: digest, sources: read,
		Variants: variants, Ahead: own.BeforeClusterUpgrade != nil, namespace: helmOp.Namespace,
	}, nil
}

// valuesOf returns the inline values and post-render changes of a spec or an override.
func valuesOf(values *apiextensionsv1.JSON, valuesTemplate string,
	postRender *addonsv1.PostRender,
) (templating.Override, error) {
	override := templating.Override{ValuesTemplate: valuesTemplate}
	if values != nil {
		override.Values = values.Raw
	}
	if postRender == nil {
		return override, nil
	}
	var err error
	override.PostRender, err = json.Marshal(postRender)
	return override, err
}

// isAhead reports whether a release in a Cluster is rendered for the next step of an upgrade. Ahead applies only to
// Clusters in the HelmOp's namespace. HelmOp does not hold upgrades of Clusters in other namespaces, so it has no time
// to prepare a release before such an upgrade.
func (p *Program) isAhead(cluster *clusterv1.Cluster) bool {
	return p.Ahead && cluster.Namespace == p.namespace
}

// choose returns the variant for a Cluster. assigned is the Kubernetes version of the current release; empty if there
// is none. publishesPlans is the result of PublishesPlans; it matters only if isAhead is true.
func (p *Program) choose(objects *clusterview.Objects, cluster *clusterv1.Cluster, assigned string,
	publishesPlans bool,
) (choice, error) {
	version := kubernetesVersion(cluster, objects.Data.ControlPlane, p.isAhead(cluster), assigned, publishesPlans)
	chosen, err := p.Variants.Of(cluster.Labels, version)
	return choice{variant: chosen, Version: version}, err
}

// Outcome renders a release for a Cluster. If no input has changed, it returns the cached outcome. assigned is the
// Kubernetes version of the current HelmOpRelease; empty if there is none. It also returns the objects on which the
// rendering depends; nil if they cannot be read.
func (r *Renderer) Outcome(ctx context.Context, p *Program, u *unstructured.Unstructured,
	cluster *clusterv1.Cluster, assigned string,
) (outcome, choice, *clusterview.Objects) {
	objects, err := r.Objects.Read(ctx, u, cluster)
	if err != nil {
		return outcome{Err: fmt.Errorf("%w: %w", ErrObjectRead, err)}, choice{}, nil
	}
	publishesPlans := false
	if p.isAhead(cluster) {
		publishesPlans, err = PublishesPlans(ctx, r.Objects, cluster, objects.Data.ControlPlane)
		if err != nil {
			return outcome{Err: fmt.Errorf("%w: %w", ErrObjectRead, err)}, choice{}, nil
		}
	}
	chosen, err := p.choose(objects, cluster, assigned, publishesPlans)
	if err != nil {
		return outcome{Err: err}, chosen, objects
	}
	version, err := apiutil.SumOf(p.Digest, objects.Version, chosen.overrides)
	if err != nil {
		return outcome{Err: err}, chosen, objects
	}
	key := outcomeKey{helmOp: p.helmOp, cluster: u.GetUID(), program: p.Digest}
	if known := r.outcomes.get(key); known != nil && known.version == version && r.isCurrent(ctx, p, known.References) {
		return known.outcome, chosen, objects
	}
	result, read, err := r.render(ctx, p, objects, chosen.overrides, cluster)
	rendered := outcome{Err: err, References: read.references}
	if ctx.Err() != nil || errors.Is(err, ErrObjectRead) {
		return rendered, chosen, objects
	}
	if err == nil {
		rendered.Release = addonsv1.ReleaseIdentity{Name: result.Name, Namespace: result.Namespace}
		rendered.ValuesDigest, rendered.PostRenderDigest = result.Digest, result.PostRenderDigest
	}
	r.outcomes.put(key, version, rendered)
	return rendered, chosen, objects
}

// Values renders the values of a release for a Cluster. secretValues are the values that come from Secrets, and their
// keys that may be secret.
func (r *Renderer) Values(ctx context.Context, helmOp *addonsv1.HelmOp, u *unstructured.Unstructured,
	cluster *clusterv1.Cluster,
) (result templating.Result, secretValues []any, err error) {
	p, err := r.Compile(ctx, helmOp)
	if err != nil {
		return templating.Result{}, nil, err
	}
	objects, err := r.Objects.Read(ctx, u, cluster)
	if err != nil {
		return templating.Result{}, nil, fmt.Errorf("%w: %w", ErrObjectRead, err)
	}
	// The version selects only the artifact, not the values.
	chosen, err := p.choose(objects, cluster, "", false)
	if err != nil {
		return templating.Result{}, nil, err
	}
	result, read, err := r.render(ctx, p, objects, chosen.overrides, cluster)
	if err != nil {
		// The sources may exceed the limits, so they are not parsed again.
		return templating.Result{}, nil, err
	}
	for _, secret := range append(p.sources.secretsOf(chosen.overrides), read.secrets...) {
		secretValues = append(secretValues, secret.values()...)
	}
	return result, secretValues, nil
}

// render renders everything for a Cluster, including the objects that belong to the Cluster.
func (r *Renderer) render(ctx context.Context, p *Program, objects *clusterview.Objects, overrides []int,
	cluster *clusterv1.Cluster,
) (templating.Result, clusterValues, error) {
	title := apiutil.TitleOf(p.namespace, client.ObjectKeyFromObject(cluster))
	read, err := r.readClusterSources(ctx, p, objects, overrides, title)
	if err == nil {
		err = p.sources.missingOf(overrides)
	}
	if err != nil {
		return templating.Result{}, read, err
	}
	result, err := p.RenderWith(ctx, objects.Data, read.contents, overrides...)
	return result, read, err
}

// Identity renders the desired name and namespace of an existing release of a Cluster.
func (r *Renderer) Identity(ctx context.Context, helmOp *addonsv1.HelmOp, u *unstructured.Unstructured,
	cluster *clusterv1.Cluster, child *addonsv1.HelmOpRelease,
) (addonsv1.ReleaseIdentity, error) {
	p, err := r.Compile(ctx, helmOp)
	if err != nil {
		return addonsv1.ReleaseIdentity{}, err
	}
	objects, err := r.Objects.Read(ctx, u, cluster)
	if err != nil {
		return addonsv1.ReleaseIdentity{}, fmt.Errorf("%w: %w", ErrObjectRead, err)
	}
	release, err := p.RenderRelease(ctx, objects.Data)
	if err != nil {
		return addonsv1.ReleaseIdentity{}, err
	}
	// The version selects only the artifact, not the options.
	chosen, err := p.Variants.Of(cluster.Labels, "")
	spec := addonsv1.HelmOpReleaseSpec{ReleaseOptions: chosen.Options,
		Release: addonsv1.ReleaseIdentity{Name: release.Name, Namespace: release.Namespace}}
	releasespec.KeepIdentity(&spec, child)
	return spec.Release, err
}

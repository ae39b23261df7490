// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

const (

	// maxRememberedRenderings bounds the outcomes that are kept in memory, some 300 bytes each. With more releases
	// than this, idle passes render some of them again.
	maxRememberedRenderings = 1 << 15
)

// ErrObjectRead wraps an error of reading an object that templates see.
var ErrObjectRead = errors.New("cannot read an object of the Cluster")

// Renderer renders the releases of HelmOps. It remembers outcomes, but never values: those are rendered anew where they
// are needed.
type Renderer struct {
	references *references.Reader
	Objects    *clusterview.Reader
	outcomes   *lru.Cache[outcomeKey, rememberedOutcome]
}

// New returns a Renderer.
func New(references *references.Reader, objects *clusterview.Reader) *Renderer {
	// It fails only if the size is not positive.
	outcomes, _ := lru.New[outcomeKey, rememberedOutcome](maxRememberedRenderings)
	return &Renderer{references: references, Objects: objects, outcomes: outcomes}
}

// Program is what a HelmOp wants before it meets a Cluster.
type Program struct {
	*templating.Program

	// Variants tell what is different for some of the Clusters, and ahead whether the version counts that a Cluster of the
	// HelmOp's own namespace is about to run.
	Variants  *Variants
	Ahead     bool
	namespace string

	helmOp types.UID
	// Digest changes whenever the outcome for any Cluster might. What belongs to one Cluster is not in it.
	Digest string
	// sources are the objects with values.
	sources sources
}

// outcome is what rendering yields, without the values.
type outcome struct {
	Release          addonsv1.ReleaseIdentity
	ValuesDigest     string
	PostRenderDigest string
	Err              error

	// References are the objects of this Cluster that its values come from, or would if they existed.
	References []ClusterReference
}

// choice is what a HelmOp wants of a Cluster in particular.
type choice struct {
	variant
	// Version is the version of Kubernetes that it was made for.
	Version string
}

// outcomeKey has the digest of the program: while a rollout is under way, two revisions are rendered for one Cluster.
type outcomeKey struct {
	helmOp, cluster types.UID
	program         string
}

type rememberedOutcome struct {
	version string
	outcome
}

// Compile reads the values that a HelmOp refers to and that are the same for all Clusters, and parses its templates.
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
	read := sources{named: map[templating.SourceID]namedSource{}, missing: map[int]error{}, secretValues: map[int][]any{}}
	if spec.ValuesFrom, err = r.readSources(ctx, helmOp, own.ValuesFrom, "spec.valuesFrom", templating.OfSpec,
		&read); err != nil {
		return nil, err
	}
	if err := read.missing[templating.OfSpec]; err != nil {
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

// valuesOf are those values, and changes of the chart, that stand in a spec or an override itself.
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

// choose tells what a Cluster gets in particular. Upgrades of Clusters of other namespaces are not held, so there is no
// time before them in which a release could be made ready.
func (p *Program) choose(objects *clusterview.Objects, cluster *clusterv1.Cluster) (choice, error) {
	version := kubernetesVersion(cluster, objects.Data.ControlPlane, p.Ahead && cluster.Namespace == p.namespace)
	chosen, err := p.Variants.Of(cluster.Labels, version)
	return choice{variant: chosen, Version: version}, err
}

// Outcome renders a release for a Cluster if anything that it depends on changed since it did so last. It returns the
// objects that the rendering depends on, too; nil if they cannot be read.
func (r *Renderer) Outcome(ctx context.Context, p *Program, u *unstructured.Unstructured,
	cluster *clusterv1.Cluster,
) (outcome, choice, *clusterview.Objects) {
	objects, err := r.Objects.Read(ctx, u, cluster)
	if err != nil {
		return outcome{Err: fmt.Errorf("%w: %w", ErrObjectRead, err)}, choice{}, nil
	}
	chosen, err := p.choose(objects, cluster)
	if err != nil {
		return outcome{Err: err}, chosen, objects
	}
	version, err := apiutil.DigestOf(p.Digest, objects.Version, chosen.overrides)
	if err != nil {
		return outcome{Err: err}, chosen, objects
	}
	key := outcomeKey{helmOp: p.helmOp, cluster: u.GetUID(), program: p.Digest}
	if known, ok := r.outcomes.Get(key); ok && known.version == version && r.isCurrent(ctx, p, known.References) {
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
	r.outcomes.Add(key, rememberedOutcome{version: version, outcome: rendered})
	return rendered, chosen, objects
}

// Values renders the values of a release for a Cluster. SecretValues are those of them that came from Secrets.
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
	chosen, err := p.choose(objects, cluster)
	if err != nil {
		return templating.Result{}, nil, err
	}
	result, read, err := r.render(ctx, p, objects, chosen.overrides, cluster)
	return result, append(p.sources.secretsOf(chosen.overrides), read.secretValues...), err
}

// render renders everything for a Cluster, with the objects that belong to the Cluster.
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

// Identity renders the name and the namespace of a release for a Cluster.
func (r *Renderer) Identity(ctx context.Context, helmOp *addonsv1.HelmOp, u *unstructured.Unstructured,
	cluster *clusterv1.Cluster,
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
	return addonsv1.ReleaseIdentity{Name: release.Name, Namespace: release.Namespace}, err
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

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

	// Variants tell what is different for some of the Clusters, and ahead whether the version counts that a Cluster of the HelmOp's
	// own namespace is about to run.
	Variants  *Variants
	Ahead     bool
	namespace string

	helmOp types.UID
	// Digest changes whenever the outcome for any Cluster might.
	Digest string
	// secretValues are the values that came from Secrets.
	secretValues []any
}

// outcome is what rendering yields, without the values.
type outcome struct {
	Release          addonsv1.ReleaseIdentity
	ValuesDigest     string
	PostRenderDigest string
	Err              error
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

// Compile reads the values that a HelmOp refers to and parses its templates.
func (r *Renderer) Compile(ctx context.Context, helmOp *addonsv1.HelmOp) (*Program, error) {
	spec := templating.Spec{
		ReleaseName:      helmOp.Spec.Release.Name,
		ReleaseNamespace: helmOp.Spec.Release.Namespace,
		ValuesTemplate:   helmOp.Spec.ValuesTemplate,
	}
	if spec.ReleaseName == "" {
		spec.ReleaseName = helmOp.Name
	}
	if spec.ReleaseNamespace == "" {
		spec.ReleaseNamespace = apiutil.DefaultReleaseNamespace
	}
	if helmOp.Spec.Values != nil {
		spec.Values = helmOp.Spec.Values.Raw
	}
	if helmOp.Spec.PostRender != nil {
		var err error
		if spec.PostRender, err = json.Marshal(helmOp.Spec.PostRender); err != nil {
			return nil, err
		}
	}
	if helmOp.Spec.TemplateDelimiters == addonsv1.TemplateDelimitersDollar {
		spec.Delimiters = templating.Dollar
	}
	for i := range helmOp.Spec.Overrides {
		override := templating.Override{Name: helmOp.Spec.Overrides[i].Name}
		if values := helmOp.Spec.Overrides[i].Values; values != nil {
			override.Values = values.Raw
		}
		spec.Overrides = append(spec.Overrides, override)
	}
	variants, err := NewVariants(&helmOp.Spec)
	if err != nil {
		return nil, err
	}
	var secretValues []any
	for i := range helmOp.Spec.ValuesFrom {
		ref := &helmOp.Spec.ValuesFrom[i]
		source, err := r.valuesSource(ctx, helmOp.Namespace, ref)
		if err != nil {
			return nil, fmt.Errorf("spec.valuesFrom[%d]: %w", i, err)
		}
		if source == nil {
			continue
		}
		spec.ValuesFrom = append(spec.ValuesFrom, *source)
		var values any
		if ref.Kind == apiutil.KindSecret && yaml.Unmarshal(source.Data, &values) == nil {
			secretValues = append(secretValues, values)
		}
	}
	digest, err := apiutil.DigestOf(spec)
	if err != nil {
		return nil, err
	}
	compiled, err := templating.Compile(spec)
	if err != nil {
		return nil, err
	}
	return &Program{
		Program: compiled, helmOp: helmOp.UID, Digest: digest, secretValues: secretValues,
		Variants: variants, Ahead: helmOp.Spec.BeforeClusterUpgrade != nil, namespace: helmOp.Namespace,
	}, nil
}

func (r *Renderer) valuesSource(ctx context.Context, namespace string, ref *addonsv1.ValuesReference) (*templating.ValuesSource, error) {
	data, err := r.references.ReadKey(ctx, ref.Kind, namespace, ref.Name, ref.Key)
	if errors.Is(err, references.ErrReferenceNotFound) && ref.Optional {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &templating.ValuesSource{
		Origin: fmt.Sprintf("%s %s/%s key %s", ref.Kind, namespace, ref.Name, ref.Key),
		Data:   data,
	}, nil
}

// choose tells what a Cluster gets in particular. Upgrades of Clusters of other namespaces are not held, so there is no time before
// them in which a release could be made ready.
func (p *Program) choose(objects *clusterview.Objects, cluster *clusterv1.Cluster) (choice, error) {
	version := kubernetesVersion(cluster, objects.Data.ControlPlane, p.Ahead && cluster.Namespace == p.namespace)
	chosen, err := p.Variants.Of(cluster.Labels, version)
	return choice{variant: chosen, Version: version}, err
}

// Outcome renders a release for a Cluster if anything that it depends on changed since it did so last. It returns the
// objects that the rendering depends on, too; nil if they cannot be read.
func (r *Renderer) Outcome(ctx context.Context, p *Program, u *unstructured.Unstructured, cluster *clusterv1.Cluster) (outcome, choice, *clusterview.Objects) {
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
	if known, ok := r.outcomes.Get(key); ok && known.version == version {
		return known.outcome, chosen, objects
	}
	result, err := p.Render(ctx, objects.Data, chosen.overrides...)
	if ctx.Err() != nil {
		return outcome{Err: ctx.Err()}, chosen, objects
	}
	rendered := outcome{Err: err}
	if err == nil {
		rendered.Release = addonsv1.ReleaseIdentity{Name: result.Name, Namespace: result.Namespace}
		rendered.ValuesDigest, rendered.PostRenderDigest = result.Digest, result.PostRenderDigest
	}
	r.outcomes.Add(key, rememberedOutcome{version: version, outcome: rendered})
	return rendered, chosen, objects
}

// Values renders the values of a release for a Cluster. SecretValues are those of them that came from Secrets.
func (r *Renderer) Values(ctx context.Context, helmOp *addonsv1.HelmOp, u *unstructured.Unstructured, cluster *clusterv1.Cluster,
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
	result, err = p.Render(ctx, objects.Data, chosen.overrides...)
	return result, p.secretValues, err
}

// Identity renders the name and the namespace of a release for a Cluster.
func (r *Renderer) Identity(ctx context.Context, helmOp *addonsv1.HelmOp, u *unstructured.Unstructured, cluster *clusterv1.Cluster,
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

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"context"
	"fmt"
)

// Delimiters are the pair of marks around a template action.
type Delimiters string

const (
	// Curly is {{ }}, as in Helm. It is the default.
	Curly Delimiters = "Curly"

	// Dollar is ${ }, as in Fleet. A literal "${" is written ${"${"}.
	Dollar Delimiters = "Dollar"
)

func (d Delimiters) marks() (left, right string) {
	if d == Dollar {
		return "${", "}"
	}
	return "{{", "}}"
}

// Override are values and changes of the rendered chart for some of the Clusters. Its values are laid over all others,
// in this order: ValuesFrom, Values, ValuesTemplate.
type Override struct {
	// Name is how an error names it.
	Name string

	// ValuesFrom are merged in this order.
	ValuesFrom []ValuesSource

	// Values is a JSON object, or empty. Its strings are templates, its keys are not. Maps merge with what is below, lists
	// replace, and null removes a key, the chart's default included.
	Values []byte

	// ValuesTemplate is a template that yields a YAML map; or empty.
	ValuesTemplate string

	// PostRender is a JSON object, or empty. Its lists are appended to those of the Spec, its maps win key by key.
	PostRender []byte
}

// Spec is the part of a HelmOp that is rendered.
type Spec struct {
	// ReleaseName and ReleaseNamespace are templates; they must not be empty. They cannot read .Release.
	ReleaseName, ReleaseNamespace string

	// ValuesFrom are merged in this order, before Values.
	ValuesFrom []ValuesSource

	// Values is a JSON object, or empty. Its strings are templates, its keys are not.
	Values []byte

	// ValuesTemplate is a template that yields a YAML map, merged last; or empty.
	ValuesTemplate string

	// Overrides are layers on top of all that is above, of which each rendering chooses some.
	Overrides []Override

	// PostRender is a JSON object, or empty. Its strings are templates that yield text, and YAML where they are patches
	// (patches[].patch); its keys are not templates.
	PostRender []byte

	// Delimiters of all the templates. Default: Curly.
	Delimiters Delimiters
}

// Result is what a Program yields for one Cluster.
type Result struct {
	Release

	// Values for Helm; never nil. They hold nil, bool, int64, float64, string, []any and map[string]any, share nothing
	// with the input or another Result, and may hold secrets.
	Values map[string]any

	// Digest is the SHA-256, in hexadecimal, of the JSON of Values with sorted keys.
	Digest string

	// PostRender is what the Spec's became, patches as JSON; nil if there was none.
	PostRender map[string]any

	// PostRenderDigest is the digest of PostRender, as that of Values; empty if there was none.
	PostRenderDigest string
}

// Program is a compiled Spec. It is safe for concurrent use.
type Program struct {
	name, namespace *textTemplate
	base            map[string]any // of the first values sources, up to one that is another for each Cluster
	own             layer
	overrides       []layer
	budget          int // work that one rendering may take
}

// layer is what a Spec or one of its overrides gives.
type layer struct {
	sources        []source
	values         node
	valuesTemplate *textTemplate
	postRender     node
	postRenderAt   place
}

var (
	namePlace      = place{field: "spec.release.name"}
	namespacePlace = place{field: "spec.release.namespace"}
	valuesPlace    = place{field: "spec.values"}
)

// Compile checks everything that does not depend on a Cluster. Its errors are of type *Error.
func Compile(spec Spec) (*Program, error) {
	c := compiler{}
	c.left, c.right = spec.Delimiters.marks()
	p := &Program{base: map[string]any{}, budget: maxWork}
	var err error
	if p.name, err = c.nameTemplate(spec.ReleaseName, namePlace); err != nil {
		return nil, err
	}
	if p.namespace, err = c.nameTemplate(spec.ReleaseNamespace, namespacePlace); err != nil {
		return nil, err
	}
	own := Override{ValuesFrom: spec.ValuesFrom, Values: spec.Values, ValuesTemplate: spec.ValuesTemplate,
		PostRender: spec.PostRender}
	if p.own, err = c.layer(own, place{field: "spec"}, OfSpec); err != nil {
		return nil, err
	}
	p.foldBase()
	for i, override := range spec.Overrides {
		at := place{field: fmt.Sprintf("spec.overrides[%d]", i), origin: "override " + override.Name}
		compiled, err := c.layer(override, at, i)
		if err != nil {
			return nil, err
		}
		p.overrides = append(p.overrides, compiled)
	}
	return p, nil
}

// layer compiles what stands at a place.
func (c *compiler) layer(override Override, at place, index int) (l layer, err error) {
	below := func(field string) place { return place{field: at.field + "." + field, origin: at.origin} }
	if l.sources, err = c.sources(override.ValuesFrom, below("valuesFrom"), index); err != nil {
		return l, err
	}
	if l.values, err = c.values(override.Values, below("values")); err != nil {
		return l, err
	}
	if override.ValuesTemplate != "" {
		if l.valuesTemplate, err = c.template(override.ValuesTemplate, below("valuesTemplate"), yamlMode); err != nil {
			return l, err
		}
	}
	l.postRenderAt = below("postRender")
	l.postRender, err = c.postRender(override.PostRender, l.postRenderAt)
	return l, err
}

// applied are the layers of a rendering, the lowest first. An index that the Spec does not have is none.
func (p *Program) applied(overrides []int) []*layer {
	layers := []*layer{&p.own}
	for _, i := range overrides {
		if i >= 0 && i < len(p.overrides) {
			layers = append(layers, &p.overrides[i])
		}
	}
	return layers
}

// RenderRelease renders the identity of the release, and nothing else. Its errors are of type *Error, or those of ctx.
func (p *Program) RenderRelease(ctx context.Context, objects Objects) (Release, error) {
	return p.release(newRun(ctx, objects, p.budget))
}

// Render is RenderWith without the objects that ClusterSources names, as if none of them existed.
func (p *Program) Render(ctx context.Context, objects Objects, overrides ...int) (Result, error) {
	return p.RenderWith(ctx, objects, nil, overrides...)
}

// RenderWith renders everything for one Cluster, with what was read of ClusterSources and with the overrides at these
// indices of the Spec's, in this order. An index that the Spec does not have is none. Its errors are of type *Error, or
// those of ctx.
func (p *Program) RenderWith(ctx context.Context, objects Objects, contents Contents,
	overrides ...int,
) (Result, error) {
	r, release, err := p.begin(ctx, objects)
	if err != nil {
		return Result{}, err
	}
	layers := p.applied(overrides)
	result := Result{Release: release}
	if result.Values, err = p.renderValues(r, contents, layers); err != nil {
		return Result{}, err
	}
	if result.Digest, err = digest(result.Values); err != nil {
		return Result{}, valuesPlace.at(err, ReasonRenderFailed)
	}
	if result.PostRender, result.PostRenderDigest, err = renderPostRender(r, layers); err != nil {
		return Result{}, err
	}
	return result, nil
}

// begin renders the identity of the release. All other templates see it.
func (p *Program) begin(ctx context.Context, objects Objects) (*run, Release, error) {
	r := newRun(ctx, objects, p.budget)
	release, err := p.release(r)
	if err != nil {
		return nil, Release{}, err
	}
	r.root["Release"] = map[string]any{"Name": release.Name, "Namespace": release.Namespace}
	return r, release, nil
}

// renderValues merges what the sources of values yield, in their order.
func (p *Program) renderValues(r *run, contents Contents, layers []*layer) (map[string]any, error) {
	base, err := canonical(p.base)
	if err != nil {
		return nil, place{field: "spec.valuesFrom"}.at(err, ReasonInvalidValues)
	}
	values := base.(map[string]any) // a map by its type
	for _, l := range layers {
		if values, err = l.over(values, r, contents); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// over lays the values of a layer over others, and returns the result. The others are changed.
func (l *layer) over(values map[string]any, r *run, contents Contents) (map[string]any, error) {
	for i := range l.sources {
		var err error
		if values, err = l.sources[i].over(values, r, contents); err != nil {
			return nil, err
		}
	}
	if l.values != nil {
		rendered, err := l.values.render(r)
		if err != nil {
			return nil, err
		}
		values = merge(values, rendered.(map[string]any)) // Compile takes nothing but an object
	}
	if l.valuesTemplate != nil {
		rendered, err := l.valuesTemplate.renderYAML(r)
		if err != nil {
			return nil, err
		}
		values = merge(values, rendered)
	}
	return values, nil
}

func (p *Program) release(r *run) (Release, error) {
	name, err := p.name.renderText(r)
	if err != nil {
		return Release{}, err
	}
	if err := releaseNameRule.refuse(name); err != nil {
		return Release{}, namePlace.at(err, ReasonInvalidName)
	}
	namespace, err := p.namespace.renderText(r)
	if err != nil {
		return Release{}, err
	}
	if err := namespaceRule.refuse(namespace); err != nil {
		return Release{}, namespacePlace.at(err, ReasonInvalidName)
	}
	return Release{Name: name, Namespace: namespace}, nil
}

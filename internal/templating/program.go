// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"context"
	"fmt"
)

// Delimiters are the marks around a template action.
type Delimiters string

const (
	// Curly is {{ }}, as in Helm. It is the default.
	Curly Delimiters = "Curly"

	// Dollar is ${ }, as in Fleet. A literal "${" is written as ${"${"}.
	Dollar Delimiters = "Dollar"
)

func (d Delimiters) marks() (left, right string) {
	if d == Dollar {
		return "${", "}"
	}
	return "{{", "}}"
}

// Override has values and post-render changes for some Clusters. Its values are merged over all other values, in this
// order: ValuesFrom, Values, ValuesTemplate.
type Override struct {
	// Name is the name of the override in errors.
	Name string

	// ValuesFrom are merged in this order.
	ValuesFrom []ValuesSource

	// Values is a JSON object, or empty. Its strings are templates, but its keys are not. Maps merge with lower layers,
	// and lists replace them. A null removes a key, even if the chart has a default for it.
	Values []byte

	// ValuesTemplate is a template that yields a YAML map, or empty.
	ValuesTemplate string

	// PostRender is a JSON object, or empty. Its lists are appended to the lists of the Spec. Its maps take precedence
	// for each key.
	PostRender []byte
}

// Spec is the rendered part of a HelmOp. The digest of a HelmOp revision covers the JSON of a Spec, also of its
// Overrides and sources. If a field is added later, the JSON must omit the field when it is not set. Otherwise a new
// version of the manager would create a HelmOp revision for each HelmOp, and begin each rollout again.
type Spec struct {
	// ReleaseName and ReleaseNamespace are templates. They must not be empty, and cannot read .Release.
	ReleaseName, ReleaseNamespace string

	// ValuesFrom are merged in this order, before Values.
	ValuesFrom []ValuesSource

	// Values is a JSON object, or empty. Its strings are templates, but its keys are not.
	Values []byte

	// ValuesTemplate is a template that yields a YAML map, or empty. It is merged last.
	ValuesTemplate string

	// Overrides are layers above all other values. Each rendering selects some of them.
	Overrides []Override

	// PostRender is a JSON object, or empty. Its strings are templates that yield text; in patches (patches[].patch),
	// they yield YAML. Its keys are not templates.
	PostRender []byte

	// Delimiters are the delimiters of all templates. Default: Curly.
	Delimiters Delimiters
}

// Result is the result of rendering a Program for one Cluster.
type Result struct {
	Release

	// Values are the values for Helm; never nil. Their types are nil, bool, int64, float64, string, []any and
	// map[string]any. They share nothing with the input or with another Result. They may contain secrets.
	Values map[string]any

	// Digest is the SHA-256, in hexadecimal, of the JSON of Values with sorted keys.
	Digest string

	// PostRender is the rendered PostRender, with patches as JSON; nil without a PostRender.
	PostRender map[string]any

	// PostRenderDigest is the digest of PostRender, in the form of Digest; empty without a PostRender.
	PostRenderDigest string
}

// Program is a compiled Spec. It is safe for concurrent use.
type Program struct {
	name, namespace *textTemplate
	base            map[string]any // of the first values sources, up to the first source that differs between Clusters
	own             layer
	overrides       []layer
	budget          int // work budget of one rendering
}

// layer is a compiled Spec or override.
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

// Compile validates and compiles everything that does not depend on a Cluster. Its errors have the type *Error.
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

// layer compiles the Spec or an override. The parameter at is the place of the Spec or override.
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

// applied returns the layers of a rendering, the lowest first. It ignores indices that the Spec does not have.
func (p *Program) applied(overrides []int) []*layer {
	layers := []*layer{&p.own}
	for _, i := range overrides {
		if i >= 0 && i < len(p.overrides) {
			layers = append(layers, &p.overrides[i])
		}
	}
	return layers
}

// RenderRelease renders only the name and the namespace of the release. Its errors have the type *Error or come from
// ctx.
func (p *Program) RenderRelease(ctx context.Context, objects Objects) (Release, error) {
	return p.release(newRun(ctx, objects, p.budget))
}

// Render is RenderWith without contents: all ClusterSources count as missing.
func (p *Program) Render(ctx context.Context, objects Objects, overrides ...int) (Result, error) {
	return p.RenderWith(ctx, objects, nil, overrides...)
}

// RenderWith renders everything for one Cluster. It uses the contents of ClusterSources and the overrides at these
// indices, in this order. It ignores indices that the Spec does not have. Its errors have the type *Error or come from
// ctx.
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

// begin renders the name and the namespace of the release, which all other templates can read.
func (p *Program) begin(ctx context.Context, objects Objects) (*run, Release, error) {
	r := newRun(ctx, objects, p.budget)
	release, err := p.release(r)
	if err != nil {
		return nil, Release{}, err
	}
	r.root["Release"] = map[string]any{"Name": release.Name, "Namespace": release.Namespace}
	return r, release, nil
}

// renderValues merges the values of all layers in order.
func (p *Program) renderValues(r *run, contents Contents, layers []*layer) (map[string]any, error) {
	base, err := canonical(p.base)
	if err != nil {
		return nil, place{field: "spec.valuesFrom"}.at(err, ReasonInvalidValues)
	}
	values := base.(map[string]any) // the type of p.base ensures a map
	for _, l := range layers {
		if values, err = l.over(values, r, contents); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// over merges the values of a layer over values, and returns the result. It changes values.
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
		values = merge(values, rendered.(map[string]any)) // Compile accepts objects only
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

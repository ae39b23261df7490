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

// ValuesSource is the content of one key of a ConfigMap or Secret.
type ValuesSource struct {
	// Origin is how an error names the source: "Secret cilium-values key values.yaml".
	Origin string

	// Data is a YAML map. It is not a template.
	Data []byte
}

// Override are values for some of the Clusters.
type Override struct {
	// Name is how an error names it.
	Name string

	// Values is a JSON object, or empty. Its strings are templates, its keys are not. Maps merge with what is below, lists
	// replace, and null removes a key, the chart's default included.
	Values []byte
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

	// Overrides are layers on top of all other values, of which each rendering chooses some.
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
	base            map[string]any // of valuesFrom
	values          node
	valuesTemplate  *textTemplate
	overrides       []node
	postRender      node
	budget          int // work that one rendering may take
}

var (
	namePlace      = place{field: "spec.release.name"}
	namespacePlace = place{field: "spec.release.namespace"}
	valuesPlace    = place{field: "spec.values"}
	templatePlace  = place{field: "spec.valuesTemplate"}

	postRenderPlace = place{field: "spec.postRender"}
)

// overridePlace is where the values of an override stand.
func overridePlace(i int, name string) place {
	return place{field: fmt.Sprintf("spec.overrides[%d].values", i), origin: "override " + name}
}

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
	for i, source := range spec.ValuesFrom {
		at := place{field: fmt.Sprintf("spec.valuesFrom[%d]", i), origin: source.Origin}
		values, err := readYAMLMap(string(source.Data), nil)
		if err != nil {
			return nil, at.at(err, ReasonInvalidValues)
		}
		p.base = merge(p.base, values)
	}
	if p.values, err = c.values(spec.Values, valuesPlace); err != nil {
		return nil, err
	}
	if spec.ValuesTemplate != "" {
		if p.valuesTemplate, err = c.template(spec.ValuesTemplate, templatePlace, yamlMode); err != nil {
			return nil, err
		}
	}
	for i, override := range spec.Overrides {
		layer, err := c.values(override.Values, overridePlace(i, override.Name))
		if err != nil {
			return nil, err
		}
		p.overrides = append(p.overrides, layer)
	}
	if p.postRender, err = c.postRender(spec.PostRender); err != nil {
		return nil, err
	}
	return p, nil
}

// RenderRelease renders the identity of the release, and nothing else. Its errors are of type *Error, or those of ctx.
func (p *Program) RenderRelease(ctx context.Context, objects Objects) (Release, error) {
	return p.release(newRun(ctx, objects, p.budget))
}

// Render renders everything for one Cluster, with the overrides at these indices of the Spec's, in this order. An index that the
// Spec does not have is none. Its errors are of type *Error, or those of ctx.
func (p *Program) Render(ctx context.Context, objects Objects, overrides ...int) (Result, error) {
	r := newRun(ctx, objects, p.budget)
	release, err := p.release(r)
	if err != nil {
		return Result{}, err
	}
	r.root["Release"] = map[string]any{"Name": release.Name, "Namespace": release.Namespace}

	result := Result{Release: release}
	if result.Values, err = p.renderValues(r, overrides); err != nil {
		return Result{}, err
	}
	if result.Digest, err = digest(result.Values); err != nil {
		return Result{}, valuesPlace.at(err, ReasonRenderFailed)
	}
	if result.PostRender, result.PostRenderDigest, err = p.renderPostRender(r); err != nil {
		return Result{}, err
	}
	return result, nil
}

// renderValues merges what the sources of values yield, in their order.
func (p *Program) renderValues(r *run, overrides []int) (map[string]any, error) {
	base, err := canonical(p.base)
	if err != nil {
		return nil, place{field: "spec.valuesFrom"}.at(err, ReasonInvalidValues)
	}
	values := base.(map[string]any) // a map by its type
	if p.values != nil {
		rendered, err := p.values.render(r)
		if err != nil {
			return nil, err
		}
		values = merge(values, rendered.(map[string]any)) // Compile takes nothing but an object
	}
	if p.valuesTemplate != nil {
		rendered, err := p.valuesTemplate.renderYAML(r)
		if err != nil {
			return nil, err
		}
		values = merge(values, rendered)
	}
	for _, i := range overrides {
		if i < 0 || i >= len(p.overrides) || p.overrides[i] == nil {
			continue
		}
		rendered, err := p.overrides[i].render(r)
		if err != nil {
			return nil, err
		}
		values = merge(values, rendered.(map[string]any)) // Compile takes nothing but an object
	}
	return values, nil
}

func (p *Program) release(r *run) (Release, error) {
	name, err := p.name.renderText(r)
	if err != nil {
		return Release{}, err
	}
	if err := checkReleaseName(name); err != nil {
		return Release{}, namePlace.at(err, ReasonInvalidName)
	}
	namespace, err := p.namespace.renderText(r)
	if err != nil {
		return Release{}, err
	}
	if err := checkNamespace(namespace); err != nil {
		return Release{}, namespacePlace.at(err, ReasonInvalidName)
	}
	return Release{Name: name, Namespace: namespace}, nil
}

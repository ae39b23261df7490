// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import "regexp"

// patchKey finds the strings of spec.postRender that are documents of their own.
var patchKey = regexp.MustCompile(`^patches\[\d+\]\.patch$`)

// patchNode is a patch. What templates in it yield becomes a value of the patch and never its structure, as in
// spec.valuesTemplate.
type patchNode struct{ *textTemplate }

// render is the patch for one Cluster, as JSON.
func (n patchNode) render(r *run) (any, error) {
	text, err := n.execute(r)
	if err != nil {
		return nil, err
	}
	v, err := readYAML(text, r.expand)
	if err == nil && v == nil {
		err = faultf(ReasonInvalidValues, "is empty")
	}
	if err != nil {
		e := n.at(err, ReasonInvalidValues)
		e.InOutput = true
		return nil, e
	}
	data, err := encodeJSON(v)
	if err != nil {
		return nil, n.at(err, ReasonRenderFailed)
	}
	return string(data), nil
}

// postRender compiles spec.postRender, a JSON object. Its strings yield text, whatever type a template has; a patch yields
// YAML. Nothing at all is a nil node.
func (c compiler) postRender(data []byte) (node, error) {
	d := document{compiler: c, at: postRenderPlace, keyHint: "keys are the same for all Clusters"}
	d.leaf = func(text string, at place) (node, error) {
		if !patchKey.MatchString(at.key) {
			return c.template(text, at, textMode)
		}
		patch, err := c.template(text, at, yamlMode)
		return patchNode{patch}, err
	}
	return d.compile(data)
}

// renderPostRender renders spec.postRender and digests it. Without one, both are empty.
func (p *Program) renderPostRender(r *run) (rendered map[string]any, sum string, err error) {
	if p.postRender == nil {
		return nil, "", nil
	}
	v, err := p.postRender.render(r)
	if err != nil {
		return nil, "", err
	}
	rendered = v.(map[string]any) // Compile takes nothing but an object
	if sum, err = digest(rendered); err != nil {
		return nil, "", postRenderPlace.at(err, ReasonRenderFailed)
	}
	return rendered, sum, nil
}

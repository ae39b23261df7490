// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import "regexp"

// patchKey matches the strings of spec.postRender that are separate documents.
var patchKey = regexp.MustCompile(`^patches\[\d+\]\.patch$`)

// patchNode is a patch. The output of its templates becomes a value of the patch, but never structure, as in
// spec.valuesTemplate.
type patchNode struct{ *textTemplate }

// render returns the patch for one Cluster as JSON.
func (n patchNode) render(r *run) (any, error) {
	text, err := n.execute(r)
	if err != nil {
		return nil, err
	}
	v, err := (&yamlReader{expand: r.expand}).read(text)
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

// postRender compiles spec.postRender, which is a JSON object. Its strings yield text, independent of the type of a
// template. A patch yields YAML. The node of empty data is nil.
func (c *compiler) postRender(data []byte, at place) (node, error) {
	d := document{compiler: c, at: at, keyHint: "keys are the same for all Clusters"}
	d.leaf = func(text string, at place) (node, error) {
		if !patchKey.MatchString(at.key) {
			return c.template(text, at, textMode)
		}
		patch, err := c.template(text, at, yamlMode)
		return patchNode{patch}, err
	}
	return d.compile(data)
}

// renderPostRender renders spec.postRender of the Spec and of the overrides, and returns its digest. If there is none,
// both results are empty.
func renderPostRender(r *run, layers []*layer) (rendered map[string]any, sum string, err error) {
	var last place
	for _, l := range layers {
		if l.postRender == nil {
			continue
		}
		v, err := l.postRender.render(r)
		if err != nil {
			return nil, "", err
		}
		added := v.(map[string]any) // Compile accepts objects only
		if last = l.postRenderAt; rendered == nil {
			rendered = added
			continue
		}
		if rendered, err = addPostRender(rendered, added); err != nil {
			return nil, "", last.at(err, ReasonLimitExceeded)
		}
	}
	if rendered == nil {
		return nil, "", nil
	}
	if sum, err = digest(rendered); err != nil {
		return nil, "", last.at(err, ReasonRenderFailed)
	}
	return rendered, sum, nil
}

// addPostRender adds a second spec.postRender to base: it appends the lists and merges the maps. The result must stay
// within the limits of one spec.postRender.
func addPostRender(base, added map[string]any) (map[string]any, error) {
	for _, key := range sortedKeys(added) {
		switch v := added[key].(type) {
		case []any:
			list, _ := base[key].([]any)
			if list = append(list, v...); len(list) > maxPostRenderItems {
				return nil, faultf(ReasonLimitExceeded,
					"%s of the HelmOp and its overrides are %d together; at most %d are allowed",
					key, len(list), maxPostRenderItems)
			}
			base[key] = list
		case map[string]any:
			below, _ := base[key].(map[string]any)
			if below == nil {
				below = map[string]any{}
			}
			base[key] = merge(below, v)
			for _, kind := range sortedKeys(below) {
				if m, ok := below[kind].(map[string]any); ok && len(m) > maxPostRenderItems {
					return nil, faultf(ReasonLimitExceeded,
						"%s.%s of the HelmOp and its overrides are %d together; at most %d are allowed",
						key, kind, len(m), maxPostRenderItems)
				}
			}
		default:
			base[key] = v
		}
	}
	return base, nil
}

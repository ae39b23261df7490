// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"text/template"
)

// renderText returns the output of a template for a name, without surrounding white space.
func (t *textTemplate) renderText(r *run) (string, error) {
	text, err := t.execute(r)
	return strings.TrimSpace(text), err
}

// render returns the value of a string in spec.values.
func (t *textTemplate) render(r *run) (any, error) {
	text, err := t.execute(r)
	if err != nil {
		return nil, err
	}
	if !t.typed {
		return text, nil
	}
	c := &canonicalizer{}
	v, err := c.value(r.captured, 0)
	if err != nil {
		return nil, t.at(err, ReasonRenderFailed)
	}
	// The copy becomes a part of the values. Thousands of strings may yield the same large object.
	if err := r.spend(c.nodes*costNode + c.bytes); err != nil {
		return nil, t.executionError(r, r.root, err)
	}
	return v, nil
}

// renderYAML returns the map in the output of spec.valuesTemplate.
func (t *textTemplate) renderYAML(r *run) (map[string]any, error) {
	text, err := t.execute(r)
	if err != nil {
		return nil, err
	}
	m, err := (&yamlReader{expand: r.expand}).readMap(text)
	if err != nil {
		e := t.at(err, ReasonInvalidValues)
		e.InOutput = true
		return nil, e
	}
	return m, nil
}

// execute returns the output of the template. In yamlMode, the output has placeholders. The output of a typed template
// is empty.
func (t *textTemplate) execute(r *run) (string, error) {
	if t.trees == nil {
		return t.literal, nil
	}
	r.mode, r.typed, r.captured, r.constants = t.mode, t.typed, nil, t.constants
	r.placeholders, r.markups = nil, map[markup]string{}
	root := r.root
	if t.mutates {
		// The copy keeps the changes of one template away from other templates and from the caller.
		c := &canonicalizer{}
		copied, err := c.value(root, 0)
		if err != nil {
			return "", t.at(err, ReasonRenderFailed)
		}
		if err := r.spend(c.nodes * costCopied); err != nil {
			return "", t.executionError(r, root, err)
		}
		root = copied.(map[string]any) // a copy of a map
	}
	tmpl, err := t.bind(r)
	if err != nil {
		return "", t.errorf(ReasonInvalidTemplate, 0, "does not parse")
	}
	var out limitedBuffer
	if err := tmpl.Execute(&out, root); err != nil {
		return "", t.executionError(r, root, err)
	}
	if err := r.spend(out.Len()); err != nil {
		return "", t.executionError(r, root, err)
	}
	return out.String(), nil
}

// bind converts the parsed template to an executable template with the functions of r.
func (t *textTemplate) bind(r *run) (*template.Template, error) {
	calls := template.FuncMap{emitFunc: r.emit, stepFunc: r.step, rangeFunc: r.loop}
	for _, name := range t.functions {
		calls[name] = r.wrap(name, functions[name])
	}
	tmpl := template.New(rootName).Option("missingkey=error").Funcs(calls)
	for name, tree := range t.trees {
		if _, err := tmpl.AddParseTree(name, tree); err != nil {
			return nil, err
		}
	}
	return tmpl, nil
}

var (
	execErrorShape = regexp.MustCompile(`(?s)^template: ` + rootName +
		`:(\d+):\d+: executing "(?:[^"\\]|\\.)*" at <(.*?)>: (.*)$`)
	fieldChain = regexp.MustCompile(`^\$?[A-Za-z0-9_]*(\.[A-Za-z0-9_]+)+$`)
	missingKey = regexp.MustCompile(`^map has no entry for key "([^"\\]*)"$`)
	nilPointer = regexp.MustCompile(`^nil pointer evaluating .*\.([A-Za-z0-9_]+)$`)
	wrongField = regexp.MustCompile(`^can't evaluate field ([A-Za-z0-9_]+) in type `)
)

// safeCauses match the messages of text/template that contain only types and positions.
var safeCauses = []*regexp.Regexp{
	regexp.MustCompile(`^error calling index: (cannot index slice/array with (type \S+|nil)|index out of range: -?\d+|index of (untyped nil|nil pointer)|can't index item of type \S+)$`),
	regexp.MustCompile(`^error calling len: len of (type \S+|nil pointer)$`),
	regexp.MustCompile(`^error calling (eq|ne|lt|le|gt|ge): (incompatible types for comparison|invalid type for comparison|missing argument for comparison)`),
	regexp.MustCompile(`^wrong number of args for [a-z]+: want (at least )?\d+ got \d+$`),
}

// executionError converts an error of text/template to an Error. It drops text that may contain data.
func (t *textTemplate) executionError(r *run, root map[string]any, err error) error {
	if ctxErr := r.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	line, at, message := 0, "", ""
	if m := execErrorShape.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1]) // the expression matches digits only
		if fieldChain.MatchString(m[2]) && len(m[2]) <= maxShownCause {
			at = m[2]
		}
		message = m[3]
	}
	var f *fault
	if errors.As(err, &f) {
		return t.errorf(f.reason, line, "%s", f.cause)
	}
	if lacks, ok := absent(root, at); ok {
		return t.errorf(ReasonMissingKey, line, "the Cluster has no %s, which %s reads", lacks, at)
	}
	if m := missingKey.FindStringSubmatch(message); m != nil {
		return t.errorf(ReasonMissingKey, line, "no key %q%s", shorten(m[1]), of(at))
	}
	if m := nilPointer.FindStringSubmatch(message); m != nil {
		return t.errorf(ReasonMissingKey, line, "no key %q%s, because its parent has no value", m[1], of(at))
	}
	if m := wrongField.FindStringSubmatch(message); m != nil {
		return t.errorf(ReasonRenderFailed, line, "no key %q%s, because its parent is not a map", m[1], of(at))
	}
	for _, safe := range safeCauses {
		if safe.MatchString(message) {
			return t.errorf(ReasonRenderFailed, line, "%s", message)
		}
	}
	return t.errorf(ReasonRenderFailed, line, "cannot be evaluated%s", of(at))
}

// absent returns the object that a chain of fields reads, if the Cluster does not have this object.
func absent(root map[string]any, chain string) (string, bool) {
	parts := strings.Split(strings.TrimPrefix(chain, "$"), ".")
	if len(parts) < 2 || parts[0] != "" {
		return "", false
	}
	name, holder := parts[1], root
	if name == "ClusterValues" && len(parts) > 2 {
		name = parts[2]
		holder, _ = root["ClusterValues"].(map[string]any)
	}
	what, known := absentObject[name]
	v, present := holder[name]
	return what, known && present && v == nil
}

func of(chain string) string {
	if chain == "" {
		return ""
	}
	return " in " + chain
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Matcher is a compiled [Selector]. It is safe for concurrent use.
type Matcher struct {
	patterns            []pattern
	labels, annotations labels.Selector
}

// pattern is a regular expression for one part of an object's identity.
type pattern struct {
	part func(*unstructured.Unstructured) string
	expr *regexp.Regexp
}

// Compile checks the selector. The error names the field that is wrong.
func (s Selector) Compile() (*Matcher, error) {
	m := &Matcher{labels: labels.Everything(), annotations: labels.Everything()}
	for _, field := range []struct {
		name, text string
		part       func(*unstructured.Unstructured) string
	}{
		{"group", s.Group, func(o *unstructured.Unstructured) string { return o.GroupVersionKind().Group }},
		{"version", s.Version, func(o *unstructured.Unstructured) string { return o.GroupVersionKind().Version }},
		{"kind", s.Kind, (*unstructured.Unstructured).GetKind},
		{"name", s.Name, (*unstructured.Unstructured).GetName},
		{"namespace", s.Namespace, (*unstructured.Unstructured).GetNamespace},
	} {
		if field.text == "" {
			continue
		}
		expr, err := compileWhole(field.text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
		m.patterns = append(m.patterns, pattern{part: field.part, expr: expr})
	}
	for _, field := range []struct {
		name, text string
		selector   *labels.Selector
	}{
		{"labelSelector", s.LabelSelector, &m.labels},
		{"annotationSelector", s.AnnotationSelector, &m.annotations},
	} {
		selector, err := labels.Parse(field.text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
		*field.selector = selector
	}
	return m, nil
}

// compileWhole compiles an expression that must match a whole text.
func compileWhole(text string) (*regexp.Regexp, error) {
	// By itself first: "a)(b" is no expression, but would be one between parentheses.
	if _, err := regexp.Compile(text); err != nil {
		return nil, err
	}
	return regexp.Compile("^(?:" + text + ")$")
}

// Matches tells whether the selector chooses the object. One that selects nothing in particular chooses all.
func (m *Matcher) Matches(obj *unstructured.Unstructured) bool {
	for _, p := range m.patterns {
		if !p.expr.MatchString(p.part(obj)) {
			return false
		}
	}
	return m.labels.Matches(labels.Set(obj.GetLabels())) && m.annotations.Matches(labels.Set(obj.GetAnnotations()))
}

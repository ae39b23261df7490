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

// pattern is a regular expression for one part of an object's reference.
type pattern struct {
	part func(*unstructured.Unstructured) string
	expr *regexp.Regexp
}

// Compile validates and compiles the selector. The error begins with the name of the invalid field.
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

// compileWhole compiles a regular expression so that it must match the whole text.
func compileWhole(text string) (*regexp.Regexp, error) {
	// Compile the text alone first: "a)(b" is not valid, but would be valid between parentheses.
	if _, err := regexp.Compile(text); err != nil {
		return nil, err
	}
	return regexp.Compile("^(?:" + text + ")$")
}

// Matches reports whether an object matches all fields of the selector. A selector without fields matches all objects.
func (m *Matcher) Matches(obj *unstructured.Unstructured) bool {
	for _, p := range m.patterns {
		if !p.expr.MatchString(p.part(obj)) {
			return false
		}
	}
	return m.labels.Matches(labels.Set(obj.GetLabels())) && m.annotations.Matches(labels.Set(obj.GetAnnotations()))
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package knownobjects

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func decodeObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestContentOfWrite checks when the response to a write has the content of the manifest.
func TestContentOfWrite(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		manifest, response string
		isWritten          bool
	}{
		"same":              {"{data: {a: b}}", "{data: {a: b}}", true},
		"added field":       {"{data: {a: b}}", "{data: {a: b, c: d}, more: 1}", true},
		"other value":       {"{data: {a: b}}", "{data: {a: c}}", false},
		"missing field":     {"{data: {a: b}}", "{data: {}}", false},
		"missing map":       {"{data: {a: b}}", "{}", false},
		"empty map":         {"{data: {}}", "{}", true},
		"empty list":        {"{list: []}", "{}", true},
		"null":              {"{data: null}", "{}", true},
		"null for a value":  {"{data: null}", "{data: {a: b}}", false},
		"status":            {"{status: {a: 1}}", "{status: {a: 2}}", true},
		"list":              {"{list: [{a: 1}, {b: 2}]}", "{list: [{a: 1, c: 3}, {b: 2}]}", true},
		"longer list":       {"{list: [{a: 1}]}", "{list: [{a: 1}, {b: 2}]}", false},
		"other order":       {"{list: [1, 2]}", "{list: [2, 1]}", false},
		"text for a number": {"{a: 1}", `{a: "1"}`, false},
		"text of a Secret": {"{kind: Secret, apiVersion: v1, stringData: {a: b}}",
			"{kind: Secret, apiVersion: v1, data: {a: Yg==, c: ZA==}}", true},
		"other text of a Secret": {"{kind: Secret, apiVersion: v1, stringData: {a: b}}",
			"{kind: Secret, apiVersion: v1, data: {a: ZA==}}", false},
		"text and data of a Secret": {"{kind: Secret, apiVersion: v1, data: {c: ZA==}, stringData: {a: b}}",
			"{kind: Secret, apiVersion: v1, data: {a: Yg==}}", false},
		"quantity":         {"{limits: {cpu: 1000m, memory: 1024Mi}}", `{limits: {cpu: "1", memory: 1Gi}}`, true},
		"number":           {"{requests: {cpu: 1}}", `{requests: {cpu: "1"}}`, true},
		"other quantity":   {"{limits: {cpu: 1000m}}", `{limits: {cpu: "2"}}`, false},
		"missing quantity": {"{limits: {cpu: 1000m}}", "{limits: {}}", false},
		"label":            {"{labels: {cpu: 1000m}}", `{labels: {cpu: "1"}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := func(text string) *unstructured.Unstructured {
				if !strings.Contains(text, "kind") {
					text = "{apiVersion: v1, kind: Example, " + text[1:]
				}
				return decodeObject(t, text)
			}
			if got := contentOfWrite(of(test.manifest), of(test.response)) != 0; got != test.isWritten {
				t.Errorf("the response has the content: %t, want %t", got, test.isWritten)
			}
		})
	}
}

// TestIsPlain checks for which manifests a patch can be computed without a read.
func TestIsPlain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		manifest                          string
		withGeneration, withoutGeneration bool
	}{
		"spec":       {"{metadata: {name: a, labels: {b: c}, creationTimestamp: null}, spec: {a: b}}", true, true},
		"data":       {"{metadata: {name: a}, data: {a: b}}", false, true},
		"status":     {"{metadata: {name: a}, spec: {}, status: {}}", false, true},
		"finalizers": {"{metadata: {name: a, finalizers: [b]}, spec: {}}", false, false},
		"version":    {`{metadata: {name: a, resourceVersion: "1"}, spec: {}}`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manifest := decodeObject(t, "{apiVersion: v1, kind: Example, "+test.manifest[1:])
			if isPlain(manifest, true) != test.withGeneration || isPlain(manifest, false) != test.withoutGeneration {
				t.Errorf("with a generation %t, without %t", isPlain(manifest, true), isPlain(manifest, false))
			}
		})
	}
}

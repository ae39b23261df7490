// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// Masker hides secrets in YAML documents: values from Secrets, anywhere and in any notation, and the data of Secrets.
type Masker struct {
	hide func(string) string
}

// NewMasker returns a Masker for the values that came from Secrets. They may be any YAML values.
func NewMasker(secretValues []any) *Masker {
	return &Masker{hide: helmerr.NewRedactor(nil, secretValues).Hide}
}

// Document returns a YAML document without secrets. A document that is not a Secret keeps its format.
func (m *Masker) Document(text string) string {
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil || !maskSecrets(object) {
		return m.hide(text)
	}
	masked, err := yaml.Marshal(object)
	if err != nil {
		return helmerr.Redacted + "\n"
	}
	return m.hide(string(masked))
}

// Text returns a text without the values that came from Secrets.
func (m *Masker) Text(text string) string { return m.hide(text) }

// Values returns values as YAML without secrets.
func (m *Masker) Values(values map[string]any) (string, error) {
	text, err := yaml.Marshal(values)
	return m.hide(string(text)), err
}

// maskSecrets replaces the data of a Secret, or of the Secrets in a List. It reports whether it replaced any.
func maskSecrets(object map[string]any) bool {
	if items, ok := object["items"].([]any); ok && strings.HasSuffix(kindOf(object), "List") {
		found := false
		for _, item := range items {
			if child, ok := item.(map[string]any); ok && maskSecrets(child) {
				found = true
			}
		}
		return found
	}
	if kindOf(object) != "Secret" {
		return false
	}
	for _, field := range []string{"data", "stringData"} {
		data, ok := object[field].(map[string]any)
		if !ok && object[field] != nil {
			object[field] = helmerr.Redacted
		}
		for key := range data {
			data[key] = helmerr.Redacted
		}
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			if _, ok := annotations[lastApplied]; ok {
				annotations[lastApplied] = helmerr.Redacted
			}
		}
	}
	return true
}

// lastApplied is the annotation in which kubectl apply stores the object, including the data of a Secret.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

func kindOf(object map[string]any) string {
	kind, _ := object["kind"].(string)
	return kind
}

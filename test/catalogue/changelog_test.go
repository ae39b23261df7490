// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

var (
	changedRow = regexp.MustCompile(`(?m)^\| [^|]+ \| ([^|]+) \|$`)
	fieldPath  = regexp.MustCompile("`((?:spec|status)[.][A-Za-z.\\[\\]]+)")
)

// TestChangelogNamesFields checks that the fields in the column "now" of CHANGELOG.md exist.
func TestChangelogNamesFields(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, row := range changedRow.FindAllStringSubmatch(read(t, "CHANGELOG.md"), -1) {
		for _, path := range fieldPath.FindAllStringSubmatch(row[1], -1) {
			checked++
			if !hasField(t, path[1]) {
				t.Errorf("CHANGELOG.md names %s, which no CustomResourceDefinition has", path[1])
			}
		}
	}
	if checked < 5 {
		t.Errorf("%d fields were found in the table of CHANGELOG.md", checked)
	}
	if hasField(t, "status.specDigest") || !hasField(t, "spec.overrides[].upgrade") {
		t.Error("the test does not tell existing fields from others")
	}
}

// hasField reports whether a kind of HelmOp has a field.
func hasField(t *testing.T, path string) bool {
	t.Helper()
	for _, file := range files(t, "config/crd/bases/*.yaml") {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(read(t, file)), crd); err != nil {
			t.Fatal(err)
		}
		schema, found := *crd.Spec.Versions[0].Schema.OpenAPIV3Schema, true
		for name := range strings.SplitSeq(path, ".") {
			list := strings.HasSuffix(name, "[]")
			if schema, found = schema.Properties[strings.TrimSuffix(name, "[]")]; !found {
				break
			}
			if list {
				if schema.Items == nil || schema.Items.Schema == nil {
					found = false
					break
				}
				schema = *schema.Items.Schema
			}
		}
		if found {
			return true
		}
	}
	return false
}

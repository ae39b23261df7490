// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// ownWords are the fields of a status that no chart, registry, workload cluster or user writes text into: words and
// digests of HelmOp's own, times, and what the API server has admitted in a field of the same length.
var ownWords = []string{
	"artifact.digest", "artifact.format", "artifact.resolvedAt", "artifact.sourceDigest", "artifact.tag", "artifact.url",
	"artifact.version",
	"artifact.verification.policyDigest", "artifact.verification.provider", "artifact.layerMediaType", "artifact.path",
	"artifact.templating",
	"internal.clusterUID", "conditions[].lastTransitionTime", "conditions[].reason", "conditions[].status",
	"conditions[].type",
	"deletions.confirmation", "deletions.lastAt", "deletions.waitingSince", "drift.fingerprint", "drift.lastCheckedAt",
	"drift.objects[].heldUntil",
	"failures[].cluster", "failures[].reason", "internal.health.progressingSince", "internal.health.since",
	"history[].action", "history[].artifactDigest", "history[].chartVersion", "history[].reason", "history[].time",
	"history[].valuesDigest",
	"inventory.selection", "lastAttemptedAt", "internal.lastAttemptedDigest", "nextTryAt",
	"release.artifactDigest", "release.lastDeployed", "release.valuesDigest",
	"rollout.phase", "rollout.startedAt", "rollout.wave", "shard", "state", "tests[].completedAt", "tests[].startedAt",
	"internal.wasReady.since", "internal.wasReady.until",
}

// longText is what the texts of LongText consist of.
const longText = "ü"

// LongText is longer than any text of a status may be.
func LongText() string { return strings.Repeat(longText, 5000) }

// CheckStatus fails if the API server would refuse a status with texts of any length, again and again: each text of the
// CustomResourceDefinition must be written by the caller with [LongText], or be one that only HelmOp itself writes.
// File is that of the CustomResourceDefinition.
func CheckStatus(t *testing.T, file string, status any) {
	t.Helper()
	schema := statusSchema(t, file)
	raw, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	written := map[string]bool{}
	for _, violation := range violations(schema, value, "", written) {
		t.Errorf("status%s", violation)
	}
	for _, field := range textFields(schema, "") {
		// artifacts are many of artifact.
		own := slices.Contains(ownWords, strings.Replace(strings.TrimPrefix(field, "."), "artifacts[].", "artifact.", 1))
		isLong, isWritten := written[field]
		switch {
		case own && isLong:
			t.Errorf("status%s is among ownWords, but others write it, too", field)
		case !own && !isWritten && !strings.HasPrefix(field, ".artifacts[]"):
			t.Errorf("status%s: let this test write it, or name it among ownWords", field)
		}
	}
}

// statusSchema is what a CustomResourceDefinition admits as the status.
func statusSchema(t *testing.T, file string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(raw, crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
}

// violations are the texts and lists of a value that are longer than a schema admits. written gets the
// fields that have a text, and whether it is one of those that the test writes.
func violations(schema apiextensionsv1.JSONSchemaProps, value any, path string, written map[string]bool) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			found = append(found, violations(schema.Properties[name], field, path+"."+name, written)...)
		}
	case []any:
		if schema.MaxItems != nil && int64(len(value)) > *schema.MaxItems {
			found = append(found, fmt.Sprintf("%s: %d items of at most %d", path, len(value), *schema.MaxItems))
		}
		for _, item := range value {
			found = append(found, violations(*schema.Items.Schema, item, path+"[]", written)...)
		}
	case string:
		written[path] = written[path] || strings.Contains(value, longText)
		if length := int64(len([]rune(value))); schema.Format == "" && schema.Enum == nil &&
			(schema.MaxLength == nil || length > *schema.MaxLength) {
			found = append(found, fmt.Sprintf("%s: a text of %d characters, which has no bound or a lower one", path, length))
		}
	}
	return found
}

// textFields are the paths of all texts that a schema admits.
func textFields(schema apiextensionsv1.JSONSchemaProps, path string) []string {
	var paths []string
	if schema.Type == "string" {
		paths = append(paths, path)
	}
	for name, field := range schema.Properties {
		paths = append(paths, textFields(field, path+"."+name)...)
	}
	if schema.Items != nil {
		paths = append(paths, textFields(*schema.Items.Schema, path+"[]")...)
	}
	return paths
}

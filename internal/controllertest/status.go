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

// ownWords are the fields of a status that contain no text of a chart, registry, workload cluster or user. They contain
// reasons and digests of HelmOp, times, and values that the API server has accepted in another field of the same
// length.
var ownWords = []string{
	"artifact.digest", "artifact.format", "artifact.resolvedAt", "artifact.sourceDigest", "artifact.tag", "artifact.url",
	"artifact.version",
	"artifact.verification.policyDigest", "artifact.verification.provider", "artifact.layerMediaType", "artifact.path",
	"artifact.templating",
	"internal.clusterUID", "internal.clusterRecreatedAt", "conditions[].lastTransitionTime", "conditions[].reason",
	"conditions[].status", "conditions[].type",
	"deletions.confirmation", "deletions.lastAt", "deletions.waitingSince", "drift.fingerprint", "drift.lastCheckedAt",
	"drift.objects[].heldUntil",
	"failures[].cluster", "failures[].reason", "internal.health.progressingSince", "internal.health.since",
	"history[].action", "history[].artifactDigest", "history[].chartVersion", "history[].reason", "history[].time",
	"history[].valuesDigest",
	"inventory.selection", "lastAttemptedAt", "internal.lastAttemptedDigest", "nextTryAt",
	"release.artifactDigest", "release.lastDeployed", "release.valuesDigest",
	"rollout.phase", "rollout.startedAt", "rollout.wave", "shard", "state", "tests[].completedAt", "tests[].startedAt",
	"internal.wasReady.since", "internal.wasReady.until", "internal.upgradeCheck.inputs",
	"internal.upgradeCheck.attempt.inputs", "internal.upgradeCheck.attempt.startedAt",
	"approval.approvedAt", "approval.digest", "approval.releases[]", "endedAt", "passedWave", "phase", "startedAt",
}

// longText is the repeated text of LongText.
const longText = "ü"

// LongText returns a text that is longer than each limit of a status.
func LongText() string { return strings.Repeat(longText, 5000) }

// CheckStatus fails if the API server would reject a status that contains texts of any length. The caller must write
// [LongText] into each text of the CustomResourceDefinition, unless only HelmOp itself writes it. file is the file of
// the CustomResourceDefinition.
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
		// The elements of artifacts have the fields of artifact.
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

// statusSchema returns the schema of the status in a CustomResourceDefinition.
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

// violations returns the texts and lists of a value that are longer than a schema permits. It adds to written the
// fields with a text, and whether the test wrote it.
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

// textFields returns the paths of all texts that a schema permits.
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

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// sharedServer is the API server of all tests of the package. Call newClient to reach it.
var sharedServer apiserver.Shared

func TestMain(m *testing.M) { os.Exit(sharedServer.Run(m)) }

// installation installs the CRDs once in the shared API server.
var installation struct {
	once sync.Once
	err  error
}

// newClient returns a client of an API server that serves the kinds of HelmOp and of Cluster API.
func newClient(t *testing.T) client.Client {
	t.Helper()
	config := sharedServer.Server(t).RESTConfig()
	installation.once.Do(func() {
		own := filepath.Join("..", "..", "config", "crd", "bases")
		_, installation.err = envtest.InstallCRDs(config, envtest.CRDInstallOptions{
			Paths: []string{own, sharedServer.Binaries().CoreCRDs}, ErrorIfPathMissing: true,
		})
	})
	if installation.err != nil {
		t.Fatal(installation.err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCRDs checks every rule and default of the CRDs on a real API server, and the messages of the rules.
func TestCRDs(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	t.Run("validation", func(t *testing.T) { testValidation(t, c) })
	t.Run("defaults", func(t *testing.T) { testDefaults(t, c) })
	t.Run("immutability", func(t *testing.T) { testImmutability(t, c) })
	t.Run("status", func(t *testing.T) { testStatusBounds(t, c) })
	t.Run("managed fields", func(t *testing.T) { testManagedFields(t, c) })
}

func testValidation(t *testing.T, c client.Client) {
	for _, kind := range []struct {
		name, valid string
		cases       []validationCase
	}{
		{"HelmOp", validHelmOp, helmOpCases},
		{"HelmOp for the management cluster", validManagementHelmOp, managementCases},
		{"HelmOpRelease", validRelease, releaseCases},
	} {
		for _, tc := range kind.cases {
			t.Run(kind.name+"/"+tc.name, func(t *testing.T) {
				obj := decode(t, kind.valid)
				if tc.path != "" {
					change(t, obj, tc.path, tc.value)
				}
				err := c.Create(t.Context(), obj)
				expectRefusal(t, err, tc)
			})
		}
	}
}

func testDefaults(t *testing.T, c client.Client) {
	obj := decode(t, validHelmOp)
	change(t, obj, "spec.valuesFrom", []any{valuesRef})
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]any{
		"spec.source.interval":      "10m",
		"spec.source.provider":      "generic",
		"spec.deletionPolicy":       "Uninstall",
		"spec.templateDelimiters":   "Curly",
		"status.observedGeneration": int64(-1),
	} {
		got, _, err := unstructured.NestedFieldNoCopy(obj.Object, strings.Split(path, ".")...)
		if err != nil || got != want {
			t.Errorf("%s is %v, want %v (%v)", path, got, want, err)
		}
	}
	refs, _, _ := unstructured.NestedSlice(obj.Object, "spec", "valuesFrom")
	if key := refs[0].(map[string]any)["key"]; key != "values.yaml" {
		t.Errorf("spec.valuesFrom[0].key is %v, want values.yaml", key)
	}
	release := decode(t, validRelease)
	if err := c.Create(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedInt64(release.Object, "status", "observedGeneration"); got != -1 {
		t.Errorf("status.observedGeneration of a HelmOpRelease is %d, want -1", got)
	}
}

func testImmutability(t *testing.T, c client.Client) {
	obj := decode(t, validRelease)
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	const immutableRelease = "release cannot be changed: another name or namespace is another release"
	for _, tc := range []validationCase{
		{name: "Cluster", path: "spec.clusterRef.name", value: "two",
			field: "spec.clusterRef", message: "clusterRef cannot be changed"},
		{name: "release name", path: "spec.release.name", value: "other",
			field: "spec.release", message: immutableRelease},
		{name: "release namespace", path: "spec.release.namespace", value: "other",
			field: "spec.release", message: immutableRelease},
		{name: "artifact", path: "spec.artifact.digest", value: "sha256:cccc"},
		{name: "values", path: "spec.valuesDigest", value: "sha256:dddd"},
		{name: "deletion policy", path: "spec.deletionPolicy", value: "Orphan"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := obj.DeepCopy()
			change(t, changed, tc.path, tc.value)
			expectRefusal(t, c.Patch(t.Context(), changed, client.MergeFrom(obj)), tc)
		})
	}
}

// testStatusBounds checks that the size of a status does not grow with the fleet or with time.
func testStatusBounds(t *testing.T, c client.Client) {
	failure := map[string]any{"cluster": "one", "reason": "Failed"}
	action := map[string]any{"action": "Install", "succeeded": true}
	for _, tc := range []struct {
		valid string
		validationCase
	}{
		{validHelmOp, validationCase{name: "failures", path: "status.failures", value: repeated(failure, 10)}},
		{validHelmOp, validationCase{
			name: "too many failures",
			path: "status.failures", value: repeated(failure, 11), message: "must have at most 10 items",
		}},
		{validRelease, validationCase{name: "history", path: "status.history", value: repeated(action, 5)}},
		{validRelease, validationCase{
			name: "too much history",
			path: "status.history", value: repeated(action, 6), message: "must have at most 5 items",
		}},
		{validRelease, validationCase{
			name: "negative failures",
			path: "status.failures", value: int64(-1), message: "should be greater than or equal to 0",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obj := decode(t, tc.valid)
			if err := c.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
			before := obj.DeepCopy()
			change(t, obj, tc.path, tc.value)
			expectRefusal(t, c.Status().Patch(t.Context(), obj, client.MergeFrom(before)), tc.validationCase)
		})
	}
}

// testManagedFields checks that the managed fields of a HelmOpRelease have one entry for each part that only HelmOp
// writes. The API server keeps them for each HelmOpRelease in memory, and computes them again with each write.
func testManagedFields(t *testing.T, c client.Client) {
	obj := decode(t, validRelease)
	change(t, obj, "spec.rollout", map[string]any{"revision": int64(1), "reason": "Joined", "at": "2026-01-01T00:00:00Z"})
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	parts := map[string]any{
		"release":   map[string]any{"revision": int64(1), "status": "deployed"},
		"inventory": map[string]any{"revision": int64(1), "selection": "all"},
		"internal":  map[string]any{"clusterUID": "1", "health": map[string]any{"revision": int64(1)}},
		"drift":     map[string]any{"differing": int64(1), "fingerprint": "1"},
	}
	for name, part := range parts {
		change(t, obj, "status."+name, part)
	}
	if err := c.Status().Update(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	var fields strings.Builder
	for _, entry := range obj.GetManagedFields() {
		fields.Write(entry.FieldsV1.GetRawBytes())
	}
	for _, name := range []string{"clusterRef", "release", "artifact", "rollout", "inventory", "internal", "drift"} {
		if !strings.Contains(fields.String(), `"f:`+name+`":{}`) {
			t.Errorf("%s is not one entry of the managed fields: %s", name, fields.String())
		}
	}
}

func decode(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// change sets a field, or removes it if the value is nil.
func change(t *testing.T, obj *unstructured.Unstructured, path string, value any) {
	t.Helper()
	fields := strings.Split(path, ".")
	if value == nil {
		unstructured.RemoveNestedField(obj.Object, fields...)
		return
	}
	if err := unstructured.SetNestedField(obj.Object, value, fields...); err != nil {
		t.Fatal(err)
	}
}

// expectRefusal fails the test unless the error names the field and the message of the case. A case without a message
// expects no error.
func expectRefusal(t *testing.T, err error, tc validationCase) {
	t.Helper()
	if tc.message == "" {
		if err != nil {
			t.Fatalf("the API server refuses a valid object: %v", err)
		}
		return
	}
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		t.Fatalf("got error %v, want one that says that %s is invalid", err, tc.path)
	}
	field := tc.field
	if field == "" {
		field = tc.path
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Field == field && strings.Contains(cause.Message, tc.message) {
			return
		}
	}
	t.Fatalf("got error %v, want %q for %s", err, tc.message, field)
}

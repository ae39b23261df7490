// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
)

const (
	configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  key: secret-value\n"
	service   = "apiVersion: v1\nkind: Service\nmetadata:\n  name: b\n  namespace: other\nspec:\n  ports: [{port: 80}]\n"
	job       = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: migrate\nspec: {}\n"
)

func contentOf(change ...func(*Content)) Content {
	content := Content{
		Chart: &chart.Metadata{Name: "demo", Version: "1.0.0"}, Manifest: configMap + "---\n" + service,
		Hooks: []*release.Hook{{Name: "migrate", Kind: "Job", Manifest: job, Weight: 1,
			Events:         []release.HookEvent{release.HookPreInstall, release.HookPreUpgrade},
			DeletePolicies: []release.HookDeletePolicy{release.HookBeforeHookCreation}}},
	}
	for _, f := range change {
		f(&content)
	}
	return content
}

// inNamespace is the NamespaceOf of a release in the namespace "ns".
func inNamespace(kind schema.GroupVersionKind, named string) string {
	if kind.Kind == "ClusterRole" {
		return ""
	}
	return cmp.Or(named, "ns")
}

func manifest(parts ...string) func(*Content) {
	return func(c *Content) { c.Manifest = strings.Join(parts, "---\n") }
}

func hook(change func(*release.Hook)) func(*Content) {
	return func(c *Content) { change(c.Hooks[0]) }
}

// decode has no bound of memory.
func decode(manifest string) ([]*unstructured.Unstructured, error) {
	return manifests.Decode(nil, manifest)
}

func TestCompare(t *testing.T) {
	t.Parallel()
	flux := strings.Replace(configMap, "  name: a\n", "  name: a\n  labels: {helm.toolkit.fluxcd.io/name: x, "+
		"helm.toolkit.fluxcd.io/namespace: z}\n", 1)
	fleet := strings.Replace(configMap, "  name: a\n", "  name: a\n  labels: {objectset.rio.cattle.io/hash: x}\n"+
		"  annotations: {objectset.rio.cattle.io/id: z}\n", 1)
	for name, tc := range map[string]struct {
		recorded func(*Content)
		want     string
	}{
		"the same":              {func(*Content) {}, ""},
		"another order":         {manifest(service, configMap), ""},
		"comments":              {manifest("# Source: demo/templates/a.yaml\n"+configMap, service), ""},
		"a null field":          {manifest(configMap+"immutable: null\n", service), ""},
		"empty annotations":     {manifest(strings.Replace(configMap, "name: a", "name: a\n  annotations: {}", 1), service), ""},
		"the release namespace": {manifest(strings.Replace(configMap, "name: a", "name: a\n  namespace: ns", 1), service), ""},
		"marks of Flux":         {manifest(flux, service), ""},
		"marks of Fleet":        {manifest(fleet, service), ""},
		"another label of Flux": {manifest(strings.Replace(flux, "/namespace: z", "/digest: z", 1), service),
			"ConfigMap ns/a (changed)"},
		"another value":     {manifest(strings.Replace(configMap, "secret", "other", 1), service), "ConfigMap ns/a (changed)"},
		"another namespace": {manifest(configMap, strings.Replace(service, "other", "ns", 1)), "Service ns/b (removed), Service other/b (added)"},
		"an object less":    {manifest(configMap), "Service other/b (added)"},
		"an object more":    {manifest(configMap, service, job), "Job ns/migrate (removed)"},
		"an object twice":   {manifest(configMap, configMap, service), "ConfigMap ns/a (changed)"},
		"a cluster-scoped object": {manifest(configMap, service, "apiVersion: rbac.authorization.k8s.io/v1\n"+
			"kind: ClusterRole\nmetadata: {name: a}\n"), "ClusterRole a (removed)"},
		"another apiVersion": {manifest(configMap, strings.Replace(service, "v1", "v2", 1)), "Service other/b (changed)"},
		"another chart version": {func(c *Content) { c.Chart = &chart.Metadata{Name: "demo", Version: "0.9.0"} },
			"chart demo 0.9.0 (becomes demo 1.0.0)"},
		"no chart": {func(c *Content) { c.Chart = nil }, "chart without a name (becomes demo 1.0.0)"},
		"no hook":  {func(c *Content) { c.Hooks = nil }, "hook Job ns/migrate (added)"},
		"another order of a hook's events": {hook(func(h *release.Hook) {
			h.Events = []release.HookEvent{release.HookPreUpgrade, release.HookPreInstall}
		}), ""},
		"a hook that ran": {hook(func(h *release.Hook) { h.LastRun.Phase = release.HookPhaseSucceeded }), ""},
		"other events of a hook": {hook(func(h *release.Hook) { h.Events = h.Events[:1] }),
			"hook Job ns/migrate (changed)"},
		"another weight of a hook":            {hook(func(h *release.Hook) { h.Weight = 2 }), "hook Job ns/migrate (changed)"},
		"the default delete policy of a hook": {hook(func(h *release.Hook) { h.DeletePolicies = nil }), ""},
		"another delete policy of a hook": {hook(func(h *release.Hook) {
			h.DeletePolicies = []release.HookDeletePolicy{release.HookSucceeded}
		}), "hook Job ns/migrate (changed)"},
		"another content of a hook": {hook(func(h *release.Hook) { h.Manifest += "status: {}\n" }),
			"hook Job ns/migrate (changed)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			differences, err := Compare(contentOf(tc.recorded), contentOf(), decode, inNamespace)
			if err != nil {
				t.Fatal(err)
			}
			if got := Summarize(differences); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestIsFluxVersion(t *testing.T) {
	t.Parallel()
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, tc := range map[string]struct {
		recorded, version, digest string
		want                      bool
	}{
		"marked":                   {"1.0.0+0123456789ab", "1.0.0", digest, true},
		"without the algorithm":    {"1.0.0+0123456789ab", "1.0.0", strings.TrimPrefix(digest, "sha256:"), true},
		"a v, which Flux removes":  {"1.0.0+0123456789ab", "v1.0.0", digest, true},
		"a pre-release":            {"1.0.0-rc.1+0123456789ab", "1.0.0-rc.1", digest, true},
		"replaced build metadata":  {"1.0.0+0123456789ab", "1.0.0+build.7", digest, true},
		"not marked":               {"1.0.0", "1.0.0", digest, false},
		"another version":          {"1.0.1+0123456789ab", "1.0.0", digest, false},
		"another digest":           {"1.0.0+ba9876543210", "1.0.0", digest, false},
		"more digits":              {"1.0.0+0123456789abc", "1.0.0", digest, false},
		"an artifact with a part":  {"1.0.0+0123456789ab", "1.0.0", "fedcba9876543210", false},
		"no digest":                {"1.0.0+", "1.0.0", "", false},
		"a version that is no one": {"x", "x", digest, false},
	} {
		if got := IsFluxVersion(tc.recorded, tc.version, tc.digest); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestCompareHookThatRan checks that a hook of a chart without a delete policy equals the same hook after Helm ran it
// and stored the default policy.
func TestCompareHookThatRan(t *testing.T) {
	t.Parallel()
	withoutPolicy := contentOf(hook(func(h *release.Hook) { h.DeletePolicies = nil }))
	differences, err := Compare(contentOf(), withoutPolicy, decode, inNamespace)
	if err != nil || len(differences) != 0 {
		t.Errorf("%v, %v", differences, err)
	}
}

// TestCompareUnreadable checks that a manifest that is no YAML is an error and does not count as equal.
func TestCompareUnreadable(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(*Content){
		"manifest": manifest("a: [\n"), "hook": hook(func(h *release.Hook) { h.Manifest = "a: [\n" }),
	} {
		for _, contents := range [][2]Content{{contentOf(broken), contentOf()}, {contentOf(), contentOf(broken)}} {
			if _, err := Compare(contents[0], contents[1], decode, inNamespace); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	}
}

// TestSummarizeIsBounded checks that a summary names a limited number of objects, and no values.
func TestSummarizeIsBounded(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 500 {
		many.WriteString("---\n" + strings.Replace(configMap, "name: a", fmt.Sprintf("name: a%d", i), 1))
	}
	recorded := contentOf(func(c *Content) { c.Manifest = many.String() })
	differences, err := Compare(recorded, contentOf(), decode, inNamespace)
	if err != nil {
		t.Fatal(err)
	}
	text := Summarize(differences)
	if len(text) > 1000 || strings.Contains(text, "secret-value") || !strings.Contains(text, "492 more") {
		t.Error(text)
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apilifecycle

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kindOf parses "group/version Kind".
func kindOf(t *testing.T, apiVersion, kind string) schema.GroupVersionKind {
	t.Helper()
	parsed, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.WithKind(kind)
}

func widgets() *apiextensionsv1.CustomResourceDefinition {
	warning := "use v1 instead"
	return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v1alpha1", Served: false},
			{Name: "v1beta1", Served: true, Deprecated: true, DeprecationWarning: &warning},
			{Name: "v1beta2", Served: true, Deprecated: true},
			{Name: "v1", Served: true, Storage: true}, {Name: "v2alpha1", Served: true},
		}}}
}

// TestAddDropsSchemas checks that definitions are kept without their schemas, which may have megabytes.
func TestAddDropsSchemas(t *testing.T) {
	t.Parallel()
	definition := widgets()
	for i := range definition.Spec.Versions {
		definition.Spec.Versions[i].Schema = &apiextensionsv1.CustomResourceValidation{}
	}
	definitions := Definitions{}
	definitions.Add(definition)
	for _, kept := range definitions {
		for i := range kept.Spec.Versions {
			if kept.Spec.Versions[i].Schema != nil {
				t.Errorf("version %s has its schema", kept.Spec.Versions[i].Name)
			}
		}
		if len(kept.Spec.Versions) != len(definition.Spec.Versions) {
			t.Errorf("kept %+v of %+v", kept, definition)
		}
	}
}

func TestAt(t *testing.T) {
	t.Parallel()
	definitions := Definitions{}
	definitions.Add(widgets())
	for _, tc := range []struct {
		apiVersion, kind, target string
		stage                    Stage
		want                     string
	}{
		{"v1", "ConfigMap", "v1.37", Current, ""},
		{"apps/v1", "Deployment", "v1.99", Current, ""},
		{"policy/v1beta1", "PodDisruptionBudget", "v1.20", Current, "policy/v1"},
		{"policy/v1beta1", "PodDisruptionBudget", "v1.21", Deprecated, "v1.21 v1.25 policy/v1"},
		{"policy/v1beta1", "PodDisruptionBudget", "v1.24", Deprecated, "v1.21 v1.25 policy/v1"},
		{"policy/v1beta1", "PodDisruptionBudget", "v1.25", Removed, "v1.21 v1.25 policy/v1"},
		{"flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", "v1.31", Deprecated, "v1.29 v1.32"},
		{"flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", "v2.0", Removed, "v1.29 v1.32"},
		{"apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", "v1.22", Removed, "v1.16 v1.22"},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "v1.22", Current, ""},
		// The modules do not have these types any more.
		{"policy/v1beta1", "PodSecurityPolicy", "v1.37", Unknown, ""},
		{"autoscaling/v2beta2", "HorizontalPodAutoscaler", "v1.37", Unknown, "autoscaling/v2"},
		{"batch/v2alpha1", "CronJob", "v1.37", Unknown, "batch/v1"},
		// The modules have these types without a lifecycle.
		{"rbac.authorization.k8s.io/v1alpha1", "Role", "v1.37", Unknown, "rbac.authorization.k8s.io/v1"},
		{"node.k8s.io/v1alpha1", "RuntimeClass", "v1.37", Unknown, "node.k8s.io/v1"},
		{"example.com/v1", "Widget", "v1.37", Current, ""},
		{"example.com/v1alpha1", "Widget", "v1.37", Removed, "example.com/v1"},
		{"example.com/v9", "Widget", "v1.37", Removed, "example.com/v1"},
		{"example.com/v1beta1", "Widget", "v1.37", Deprecated, "use v1 instead"},
		{"example.com/v1beta2", "Widget", "v1.37", Deprecated, "example.com/v1"},
		{"metrics.k8s.io/v1beta1", "NodeMetrics", "v1.37", Current, ""},
	} {
		target, err := ParseVersion(tc.target)
		if err != nil {
			t.Fatal(err)
		}
		stage, known := definitions.At(kindOf(t, tc.apiVersion, tc.kind), target)
		if stage != tc.stage {
			t.Errorf("%s %s in %s: got %s, want %s", tc.apiVersion, tc.kind, tc.target, stage, tc.stage)
		}
		dates := fmt.Sprint(known.Deprecated, " ", known.Removed, " ", known.Replacement.GroupVersion())
		if tc.stage == Current {
			continue
		}
		for _, got := range []string{dates, known.Warning, known.Replacement.GroupVersion().String()} {
			if len(tc.want) <= len(got) && got[:len(tc.want)] == tc.want {
				dates = ""
			}
		}
		if dates != "" {
			t.Errorf("%s %s in %s: got %+v, want %q", tc.apiVersion, tc.kind, tc.target, known, tc.want)
		}
	}
}

// TestUndated lists the kinds of the modules whose versions are not known. Name new ones in the documentation of the
// package.
func TestUndated(t *testing.T) {
	t.Parallel()
	got := map[string]bool{}
	for kind := range types.AllKnownTypes() {
		isMeta := strings.HasSuffix(kind.Kind, "Options") || kind.Kind == "WatchEvent"
		if known, ok := OfKubernetes(kind); ok && known.IsUndated && !isMeta {
			got[kind.GroupVersion().String()] = true
		}
	}
	want := []string{"internal.apiserver.k8s.io/v1alpha1", "node.k8s.io/v1alpha1", "rbac.authorization.k8s.io/v1alpha1",
		"scheduling.k8s.io/v1alpha3"}
	if got := slices.Sorted(maps.Keys(got)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"v1.37": "v1.37", "1.37.2": "v1.37", "v1.34.1+k3s1": "v1.34",
		"v1.33.4-eks-1234": "v1.33", "": "", "new": "", "1": ""} {
		got, err := ParseVersion(text)
		if (err != nil) != (want == "") || err == nil && got.String() != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, tc := range []struct{ from, to, want string }{
		{"v1.34", "v1.37", "[v1.35 v1.36 v1.37]"}, {"v1.36", "v1.37", "[v1.37]"}, {"v1.37", "v1.37", "[]"},
		{"v1.38", "v1.37", "[]"}, {"v1.99", "v2.1", "[v2.1]"}, {"v2.0", "v1.37", "[]"},
		{"v1.36", "v1.46", "[v1.37 v1.38 v1.39 v1.40 v1.41 v1.42 v1.43 v1.44 v1.45 v1.46]"},
		{"v1.36", "v1.47", "too many"}, {"v1.36", "v1.200", "too many"}, {"v1.36", "v1.9999", "too many"},
	} {
		from, err := ParseVersion(tc.from)
		if err != nil {
			t.Fatal(err)
		}
		to, err := ParseVersion(tc.to)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := from.StepsTo(to)
		got, isTooMany := fmt.Sprint(steps), errors.Is(err, ErrTooManySteps)
		if err == nil && got != tc.want || isTooMany != (tc.want == "too many") {
			t.Errorf("%s to %s: got %s, %v, want %s", tc.from, tc.to, got, err, tc.want)
		}
	}
}

// TestParseVersionOfLargeNumbers checks that a version whose numbers no version of Kubernetes has is refused.
func TestParseVersionOfLargeNumbers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"v1.10000", "v1.99999999999", "v1.18446744073709551615", "v18446744073709551615.1",
		"v1.18446744073709551616", "v9223372036854775808.1"} {
		if got, err := ParseVersion(text); err == nil {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

func TestSuffixOf(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"v1.35.1-eks-1234567": "-eks-1234567", "v1.34.1+k3s1": "+k3s1",
		"v1.36.2-gke.100+a": "-gke.100+a", "v1.36.2": "", "v1.37.0-rc.1": "", "v1.37.0-alpha.0.1+abc": "+abc", "1.37": "",
		"new": ""} {
		if got := SuffixOf(version); got != want {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
	}
}

// TestVersionIn finds the version of Kubernetes in the modules of a program.
func TestVersionIn(t *testing.T) {
	t.Parallel()
	modules := []*debug.Module{{Path: "k8s.io/other", Version: "v0.99.0"}, {Path: apiModule, Version: "v0.37.2"}}
	if known := versionIn(modules); known != (Version{1, 37}) {
		t.Errorf("got %s", known)
	}
	if known := versionIn(modules[:1]); !known.IsZero() {
		t.Errorf("got %s", known)
	}
}

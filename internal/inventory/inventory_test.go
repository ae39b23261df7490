// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{
			"namespace": namespace, "name": name,
			"labels":      map[string]any{"app": "web", "tier": "front"},
			"annotations": map[string]any{"note": "a text, longer than a label may be, with signs: {}/"},
		},
	}}
}

func TestSelector(t *testing.T) {
	t.Parallel()
	web := object("apps/v1", "Deployment", "shop", "web-1")
	core := object("v1", "Namespace", "", "shop")
	for _, test := range []struct {
		name      string
		selector  Selector
		web, core bool
	}{
		{"all", Selector{}, true, true},
		{"group", Selector{Group: "apps"}, true, false},
		{"part of a group", Selector{Group: "app"}, false, false},
		{"any group, the core one included", Selector{Group: ".*"}, true, true},
		{"version", Selector{Version: "v1"}, true, true},
		{"versions", Selector{Version: "v2|v1"}, true, true},
		{"version with a beginning in common", Selector{Version: "v1beta1|v"}, false, false},
		{"kind", Selector{Kind: "Deployment|StatefulSet"}, true, false},
		{"kind is not a part", Selector{Kind: "Deploy|ment"}, false, false},
		{"kind in another case", Selector{Kind: "deployment"}, false, false},
		{"name", Selector{Name: `web-\d+`}, true, false},
		{"anchored name", Selector{Name: `^web-\d+$`}, true, false},
		{"namespace", Selector{Namespace: "shop"}, true, false},
		{"label", Selector{LabelSelector: "app=web,tier in (front, back),!gone"}, true, true},
		{"other label", Selector{LabelSelector: "app!=web"}, false, false},
		{"annotation", Selector{AnnotationSelector: "note"}, true, true},
		{"other annotation", Selector{AnnotationSelector: "other"}, false, false},
		{"all of them", Selector{Group: "apps", Version: "v1", Kind: "D.*", Name: "w.*", Namespace: "s.*",
			LabelSelector: "app", AnnotationSelector: "note"}, true, false},
		{"one does not match", Selector{Kind: "Deployment", Name: "web-2"}, false, false},
	} {
		matcher, err := test.selector.Compile()
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if web, core := matcher.Matches(web), matcher.Matches(core); web != test.web || core != test.core {
			t.Errorf("%s: %t, %t; want %t, %t", test.name, web, core, test.web, test.core)
		}
	}
}

func TestSelectorErrors(t *testing.T) {
	t.Parallel()
	for field, selector := range map[string]Selector{
		"group":              {Group: "("},
		"version":            {Version: "a)(b"},
		"kind":               {Kind: "(a{900}){900}"},
		"name":               {Name: `\`},
		"namespace":          {Namespace: "[a"},
		"labelSelector":      {LabelSelector: "a in b"},
		"annotationSelector": {AnnotationSelector: "=="},
	} {
		if _, err := selector.Compile(); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

func FuzzSelector(f *testing.F) {
	f.Add("a|b", "a=b")
	f.Add("(?i)x", "!a")
	f.Add("a)|(?:", "a in (b)")
	f.Fuzz(func(t *testing.T, expression, labels string) {
		matcher, err := Selector{Name: expression, LabelSelector: labels}.Compile()
		if err != nil {
			return
		}
		matcher.Matches(object("v1", "ConfigMap", "", expression))
		matcher.Matches(&unstructured.Unstructured{})
	})
}

func TestFromObjectsAndSort(t *testing.T) {
	t.Parallel()
	refs := FromObjects([]*unstructured.Unstructured{
		object("apps/v1", "Deployment", "b", "x"), object("v1", "Secret", "a", "y"), object("v1", "Secret", "a", "x"),
		object("v1", "ConfigMap", "a", "z"), object("apps/v1beta1", "Deployment", "a", "x"),
		object("apps/v1", "Deployment", "a", "x"),
		object("v1", "Namespace", "", "z"),
	})
	if want := (Ref{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "b", Name: "x"}); refs[0] != want {
		t.Errorf("%+v, want %+v", refs[0], want)
	}
	if got := refs[0].APIVersion() + " " + refs[1].APIVersion(); got != "apps/v1 v1" {
		t.Errorf("versions %s", got)
	}
	Sort(refs)
	var got []string
	for _, ref := range refs {
		got = append(got, ref.Version+" "+ref.String())
	}
	want := []string{
		"v1 Namespace z", "v1 ConfigMap a/z", "v1 Secret a/x", "v1 Secret a/y",
		"v1 Deployment a/x", "v1beta1 Deployment a/x", "v1 Deployment b/x",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if Of(&unstructured.Unstructured{}) != (Ref{}) {
		t.Error("an empty object has a name")
	}
}

func TestHasHealth(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"v1 ConfigMap": false, "v1 Secret": false, "v1 ServiceAccount": false, "v1 Namespace": false,
		"rbac.authorization.k8s.io/v1 Role": false, "rbac.authorization.k8s.io/v1beta1 ClusterRoleBinding": false,
		"apiextensions.k8s.io/v1 CustomResourceDefinition": false, "networking.k8s.io/v1 NetworkPolicy": false,
		"admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration": false, "storage.k8s.io/v1 StorageClass": false,
		"v1 Service": true, "v1 Pod": true, "v1 PersistentVolumeClaim": true, "apps/v1 Deployment": true,
		"apps/v1 DaemonSet": true,
		"batch/v1 Job":      true, "policy/v1 PodDisruptionBudget": true, "apiregistration.k8s.io/v1 APIService": true,
		"networking.k8s.io/v1 Ingress": true, "example.com/v1 Secret": true, "example.com/v1 Thing": true, " ": true,
	} {
		apiVersion, kind, _ := strings.Cut(text, " ")
		if got := HasHealth(schema.FromAPIVersionAndKind(apiVersion, kind)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

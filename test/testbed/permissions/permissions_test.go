// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package permissions

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	var (
		get      = Permission{Resource: "secrets", Verb: "get"}
		getHere  = Permission{Namespace: "here", Resource: "secrets", Verb: "get"}
		getThere = Permission{Namespace: "there", Resource: "secrets", Verb: "get"}
		getOther = Permission{Group: "g", Resource: "secrets", Verb: "get"}
		patch    = Permission{Group: "g", Resource: "things/status", Verb: "patch"}
		whole    = Permission{Group: "g", Resource: "things", Verb: "patch"}
		watchAll = Permission{Group: "g", Resource: "*", Verb: "watch"}
		watch    = Permission{Group: "g", Resource: "things", Verb: "watch"}
	)
	type list = []Permission
	for name, test := range map[string]struct {
		granted, needed list
		exceptions      map[Permission]string
		want            string
	}{
		"all used":                  {granted: list{get, patch}, needed: list{getHere, patch}},
		"more is used than granted": {granted: list{get}, needed: list{get, watch}},
		"another verb": {granted: list{watch}, needed: list{whole},
			want: `"watch things.g", but no request used it`},
		"another group":             {granted: list{get}, needed: list{getOther}, want: `"get secrets"`},
		"object, not subresource":   {granted: list{patch}, needed: list{whole}, want: `"patch things/status.g"`},
		"subresource, not object":   {granted: list{whole}, needed: list{patch}, want: `"patch things.g"`},
		"another namespace":         {granted: list{getHere}, needed: list{getThere, get}, want: `"get secrets in here"`},
		"all resources":             {granted: list{watchAll}, needed: list{watch}},
		"all resources, other verb": {granted: list{watchAll}, needed: list{whole}, want: `"watch *.g"`},
		"granted twice": {
			granted: list{get, getHere}, needed: list{getHere},
			want: `"get secrets in here", but "get secrets" covers it`,
		},
		"exception": {granted: list{get}, exceptions: map[Permission]string{get: "why"}},
		"exception that is not granted": {
			granted: list{get}, needed: list{get}, exceptions: map[Permission]string{patch: "why"},
			want: `exception "patch things/status.g" (why)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needed := map[Permission]bool{}
			for _, permission := range test.needed {
				needed[permission] = true
			}
			text := ""
			if err := check(test.granted, needed, test.exceptions); err != nil {
				text = err.Error()
			}
			if !strings.Contains(text, test.want) || (text == "") != (test.want == "") || strings.Contains(text, "\n") {
				t.Errorf("got %q, want one error with %q", text, test.want)
			}
		})
	}
}

func TestNeededBy(t *testing.T) {
	t.Parallel()
	type request = apiserver.Request
	const stream = "/api/v1/secrets?sendInitialEvents=true&watch=true"
	for name, test := range map[string]struct {
		request request
		want    string
	}{
		"object":        {request{Verb: "get", Resource: "secrets", Namespace: "ns", Name: "s"}, "[get secrets in ns]"},
		"subresource":   {request{Verb: "patch", Group: "g", Resource: "a", Subresource: "b"}, "[patch a/b.g]"},
		"missing":       {request{Verb: "get", Resource: "secrets", Code: 404}, "[get secrets]"},
		"watch":         {request{Verb: "watch", Resource: "secrets", URI: "/api/v1/secrets?watch=true"}, "[watch secrets]"},
		"streamed list": {request{Verb: "watch", Resource: "secrets", URI: stream}, "[watch secrets list secrets]"},
		"as another":    {request{Verb: "get", Resource: "secrets", Impersonated: "b"}, "[]"},
		"refused":       {request{Verb: "get", Resource: "secrets", Code: 403}, "[]"},
		"no resource":   {request{Verb: "get", URI: "/version"}, "[]"},
	} {
		if got := fmt.Sprint(neededBy(test.request)); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestGranted(t *testing.T) {
	t.Parallel()
	const manifests = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: r, namespace: ns}
rules: [{apiGroups: ["", g], resources: [events], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: b, namespace: ns}
roleRef: {kind: Role, name: r}
subjects: [{kind: ServiceAccount, name: a, namespace: ns}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r}
rules:
- {apiGroups: [g], resources: [things], verbs: [get, list]}
- {apiGroups: [g], resources: [things], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: other}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: b}
roleRef: {kind: ClusterRole, name: r}
subjects: [{kind: ServiceAccount, name: a, namespace: ns}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: other}
roleRef: {kind: ClusterRole, name: other}
subjects: [{kind: ServiceAccount, name: other, namespace: ns}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: a, namespace: ns}
`
	got, err := Granted(strings.NewReader(manifests), "ns", "a")
	want := []Permission{
		{Namespace: "ns", Resource: "events", Verb: "create"},
		{Namespace: "ns", Group: "g", Resource: "events", Verb: "create"},
		{Group: "g", Resource: "things", Verb: "get"}, {Group: "g", Resource: "things", Verb: "list"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	const log = `E1 err="User \"u\" cannot list resource \"things\" in API group \"g\" at the cluster scope"
E2 err="\\\"u\\\" cannot get resource \\\"secrets\\\" in API group \\\"\\\" in the namespace \\\"ns\\\""
{"message": "User "u" cannot patch resource "things/status" in API group "g" in the namespace "ns": more"}
E3 err="User \"u\" cannot list resource \"things\" in API group \"g\" at the cluster scope"
E4 err="things.g \"a\" is forbidden: a policy denied the request"`
	want := []Permission{
		{Verb: "list", Resource: "things", Group: "g"}, {Verb: "get", Resource: "secrets", Namespace: "ns"},
		{Verb: "patch", Resource: "things/status", Group: "g", Namespace: "ns"},
	}
	if got := Refused(log); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	rule := func(groups, resources, verbs string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: strings.Split(groups, ","), Resources: strings.Split(resources, ","),
			Verbs: strings.Split(verbs, ",")}
	}
	type rules = []rbacv1.PolicyRule
	for name, test := range map[string]struct{ rules, want rules }{
		"another group":    {rules{rule("h", "a", "get")}, rules{rule("h", "a", "get")}},
		"another resource": {rules{rule("g", "b,*", "get")}, rules{rule("g", "b,*", "get")}},
		"another verb":     {rules{rule("g", "a", "list")}, rules{rule("g", "a", "list")}},
		"nothing else":     {rules{rule("g", "a", "get")}, nil},
		"one of each": {rules{rule("g,h", "a,b", "get,list"), rule("h", "a", "get")}, rules{
			rule("h", "a,b", "get,list"), rule("g", "b", "get,list"), rule("g", "a", "list"), rule("h", "a", "get"),
		}},
		"in two rules": {rules{rule("g", "a", "get,list"), rule("g", "a,b", "get")},
			rules{rule("g", "a", "list"), rule("g", "b", "get")}},
	} {
		before := fmt.Sprint(test.rules)
		if diff := cmp.Diff(test.want, Without(test.rules, "g", "a", "get")); diff != "" {
			t.Errorf("%s (-want, +got):\n%s", name, diff)
		}
		if before != fmt.Sprint(test.rules) {
			t.Errorf("%s: the given rules are now %v", name, test.rules)
		}
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package permissions compares the RBAC rules of a ServiceAccount with the requests that the ServiceAccount sent to API
// servers. So a test can fail if a role grants permissions that are not used. The package also removes single
// permissions from rules, and finds the messages of API servers about missing permissions.
package permissions

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// Permission is the smallest part of a role: one verb on one resource.
type Permission struct {
	// Namespace is the namespace in which the permission applies. Empty means all namespaces, and objects without a
	// namespace.
	Namespace string
	// Group, Resource and Verb are as in a role: "helmops/status" is a resource, and "*" means all.
	Group, Resource, Verb string
}

// String returns, for example, "patch helmops/status.addons.cluster.x-k8s.io".
func (p Permission) String() string {
	text := p.Verb + " " + p.Resource
	if p.Group != "" {
		text += "." + p.Group
	}
	if p.Namespace != "" {
		text += " in " + p.Namespace
	}
	return text
}

// Grants reports whether a role with p permits q.
func (p Permission) Grants(q Permission) bool {
	return (p.Namespace == "" || p.Namespace == q.Namespace) && matches(p.Group, q.Group) &&
		matches(p.Resource, q.Resource) && matches(p.Verb, q.Verb)
}

func matches(granted, needed string) bool { return granted == "*" || granted == needed }

// Used collects the permissions that one user used at API servers. The zero value is ready for use. The methods may be
// called concurrently.
type Used struct {
	mu     sync.Mutex
	needed map[Permission]bool
}

// Add adds the requests of a user from the audit log of a server. It ignores requests that the user sent as another
// user, because they use permissions of the other user.
func (u *Used) Add(server *apiserver.Server, user string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.needed == nil {
		u.needed = map[Permission]bool{}
	}
	return server.EachRequest(user, func(r apiserver.Request) {
		for _, permission := range neededBy(r) {
			u.needed[permission] = true
		}
	})
}

// neededBy returns the permissions that a request needed.
func neededBy(r apiserver.Request) []Permission {
	// A refused impersonation is logged as a refused request of the user itself.
	if r.Impersonated != "" || r.Resource == "" || r.Code == http.StatusForbidden {
		return nil
	}
	p := Permission{Namespace: r.Namespace, Group: r.Group, Resource: r.Resource, Verb: r.Verb}
	if r.Subresource != "" {
		p.Resource += "/" + r.Subresource
	}
	if !strings.Contains(r.URI, "sendInitialEvents=true") {
		return []Permission{p}
	}
	// A client lists if a server does not stream the existing objects.
	list := p
	list.Verb = "list"
	return []Permission{p, list}
}

// Check returns an error that names each granted permission that no request used, and each granted permission that
// another one covers. It also names each exception that no role grants. The exceptions are permissions that may be
// unused, with the reasons.
func (u *Used) Check(granted []Permission, exceptions map[Permission]string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return check(granted, u.needed, exceptions)
}

func check(granted []Permission, needed map[Permission]bool, exceptions map[Permission]string) error {
	var errs []error
	for _, permission := range granted {
		used := false
		for permissionNeeded := range needed {
			used = used || permission.Grants(permissionNeeded)
		}
		if _, except := exceptions[permission]; !used && !except {
			errs = append(errs, fmt.Errorf("a role grants %q, but no request used it: remove the rule", permission))
		}
		for _, other := range granted {
			if other != permission && other.Grants(permission) {
				errs = append(errs, fmt.Errorf("a role grants %q, but %q covers it: remove the rule", permission, other))
			}
		}
	}
	for permission, reason := range exceptions {
		if !slices.Contains(granted, permission) {
			err := fmt.Errorf("no role grants the exception %q (%s): remove the exception", permission, reason)
			errs = append(errs, err)
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// refusal matches the message of an API server about a request that RBAC refuses.
var refusal = regexp.MustCompile(
	`cannot (\w+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)")?`)

// Refused returns the permissions that API servers found missing, from a text with their messages, such as a log. The
// quotes of the messages may be escaped. Each permission occurs once.
func Refused(text string) []Permission {
	var all []Permission
	for _, found := range refusal.FindAllStringSubmatch(strings.ReplaceAll(text, `\`, ""), -1) {
		p := Permission{Verb: found[1], Resource: found[2], Group: found[3], Namespace: found[4]}
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// Without returns rules that grant the same permissions as the given rules, except one verb on one resource.
func Without(rules []rbacv1.PolicyRule, group, resource, verb string) []rbacv1.PolicyRule {
	var kept []rbacv1.PolicyRule
	for _, rule := range rules {
		if !slices.Contains(rule.APIGroups, group) || !slices.Contains(rule.Resources, resource) ||
			!slices.Contains(rule.Verbs, verb) {
			kept = append(kept, rule)
			continue
		}
		others := func(all []string, except string) []string {
			return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return one == except })
		}
		otherGroups, otherResources, otherVerbs := rule, rule, rule
		otherGroups.APIGroups = others(rule.APIGroups, group)
		otherResources.APIGroups, otherResources.Resources = []string{group}, others(rule.Resources, resource)
		otherVerbs.APIGroups, otherVerbs.Resources = []string{group}, []string{resource}
		otherVerbs.Verbs = others(rule.Verbs, verb)
		for _, part := range []rbacv1.PolicyRule{otherGroups, otherResources, otherVerbs} {
			if len(part.APIGroups) > 0 && len(part.Resources) > 0 && len(part.Verbs) > 0 {
				kept = append(kept, part)
			}
		}
	}
	return kept
}

// Granted reads manifests and returns the permissions that their bindings give to a ServiceAccount. A rule with
// resource names counts as a rule for all names.
func Granted(manifests io.Reader, namespace, account string) ([]Permission, error) {
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}
	var bindings []rbacv1.RoleBinding
	roles := map[string][]rbacv1.PolicyRule{}
	for decoder := yaml.NewYAMLOrJSONDecoder(manifests, 4096); ; {
		// A ClusterRoleBinding has the fields of a RoleBinding, and a ClusterRole those of a Role.
		var object struct {
			rbacv1.RoleBinding
			Rules []rbacv1.PolicyRule `json:"rules"`
		}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return expand(bindings, roles, subject), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the roles: %w", err)
		}
		if strings.HasSuffix(object.Kind, "Binding") {
			bindings = append(bindings, object.RoleBinding)
		} else {
			roles[roleKey(object.Kind, object.Namespace, object.Name)] = object.Rules
		}
	}
}

func roleKey(kind, namespace, name string) string {
	if kind == "ClusterRole" {
		namespace = ""
	}
	return kind + "/" + namespace + "/" + name
}

// expand returns each permission of a subject once.
func expand(bindings []rbacv1.RoleBinding, roles map[string][]rbacv1.PolicyRule, subject rbacv1.Subject) []Permission {
	var all []Permission
	for _, binding := range bindings {
		if !slices.Contains(binding.Subjects, subject) {
			continue
		}
		for _, rule := range roles[roleKey(binding.RoleRef.Kind, binding.Namespace, binding.RoleRef.Name)] {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						p := Permission{Namespace: binding.Namespace, Group: group, Resource: resource, Verb: verb}
						if !slices.Contains(all, p) {
							all = append(all, p)
						}
					}
				}
			}
		}
	}
	return all
}

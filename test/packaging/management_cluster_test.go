// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestManagementClusterAddsOneRight checks that config/management-cluster is config/default with the flag and the
// rights for it. The only right of the manager itself among them is to impersonate one ServiceAccount.
func TestManagementClusterAddsOneRight(t *testing.T) {
	t.Parallel()
	text, err := command("go", "tool", "-modfile=hack/tools/codegen/go.mod", "kustomize", "build",
		"config/management-cluster")
	if err != nil {
		t.Fatal(err)
	}
	_, plain := deployment(t)
	managers := map[string]bool{}
	for _, obj := range parse(t, variable.ReplaceAllString(text, "$2")) {
		if obj.GetLabels()["cluster.x-k8s.io/provider"] != "addon-helmop" {
			t.Errorf("%s %s has no label for clusterctl's deletion", obj.GetKind(), obj.GetName())
		}
		switch obj.GetKind() {
		case "Deployment":
			made := convert[appsv1.Deployment](t, obj)
			args := made.Spec.Template.Spec.Containers[0].Args
			for i := range args {
				args[i] = expand(args[i], made.Spec.Template.Spec.Containers[0].Env)
			}
			if want := append(slices.Clone(plain.Args), "--management-cluster-namespaces=helmop-system"); !slices.Equal(args,
				want) {
				t.Errorf("the arguments are %v, not %v", args, want)
			}
			managerFlags(t, args)
			if rolling := made.Spec.Strategy.RollingUpdate; rolling == nil || rolling.MaxUnavailable.IntValue() != 0 {
				t.Error("a manager is stopped before the next one is ready")
			}
		case "ClusterRoleBinding":
			binding := convert[rbacv1.ClusterRoleBinding](t, obj)
			if binding.RoleRef.Name == "cluster-admin" &&
				(len(binding.Subjects) != 1 || binding.Subjects[0].Name != "helmop-management") {
				t.Errorf("cluster-admin is for %v", binding.Subjects)
			}
		case "Role":
			role := convert[rbacv1.Role](t, obj)
			for _, rule := range role.Rules {
				if slices.Contains(rule.Verbs, "impersonate") {
					managers[role.Name] = slices.Equal(rule.ResourceNames, []string{"helmop-management"}) &&
						slices.Equal(rule.Resources, []string{"serviceaccounts"})
				}
			}
		}
	}
	if len(managers) != 1 || !managers["helmop-management-impersonator-role"] {
		t.Errorf("ServiceAccounts that may be impersonated: %v", managers)
	}
}

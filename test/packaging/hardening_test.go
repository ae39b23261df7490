// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dialguard"
)

// TestHardeningComponents checks that the optional components match the objects of config/default.
func TestHardeningComponents(t *testing.T) {
	t.Parallel()
	objs := parse(t, variable.ReplaceAllString(buildWith(t, "network-policy", "high-availability"), "$2"))
	policies, budgets, deployments := ofKind(objs, "NetworkPolicy"), ofKind(objs, "PodDisruptionBudget"),
		ofKind(objs, "Deployment")
	if len(policies) != 1 || len(budgets) != 1 || len(deployments) != 1 {
		t.Fatalf("%d NetworkPolicies, %d PodDisruptionBudgets, %d Deployments", len(policies), len(budgets), len(deployments))
	}
	d := convert[appsv1.Deployment](t, deployments[0])
	policy, budget := convert[networkingv1.NetworkPolicy](t, policies[0]),
		convert[policyv1.PodDisruptionBudget](t, budgets[0])
	pod := labels.Set(d.Spec.Template.Labels)
	if policy.Namespace != d.Namespace || !labels.SelectorFromSet(policy.Spec.PodSelector.MatchLabels).Matches(pod) {
		t.Errorf("the NetworkPolicy does not select the pods with %v", pod)
	}
	if budget.Namespace != d.Namespace || !labels.SelectorFromSet(budget.Spec.Selector.MatchLabels).Matches(pod) ||
		*d.Spec.Replicas < 2 {
		t.Errorf("the PodDisruptionBudget does not fit the %d pods with %v", *d.Spec.Replicas, pod)
	}
	var open []int32
	for _, port := range policy.Spec.Ingress[0].Ports {
		open = append(open, port.Port.IntVal)
	}
	for _, port := range d.Spec.Template.Spec.Containers[0].Ports {
		if !slices.Contains(open, port.ContainerPort) {
			t.Errorf("the port %s cannot be reached", port.Name)
		}
	}
	if len(open) != len(d.Spec.Template.Spec.Containers[0].Ports) {
		t.Errorf("ports %v are open", open)
	}
}

// TestNetworkPolicyClosesMetadataServices checks that the NetworkPolicy closes the same addresses as the dialer of the
// manager: the link-local addresses and the metadata services of clouds.
func TestNetworkPolicyClosesMetadataServices(t *testing.T) {
	t.Parallel()
	objs := parse(t, variable.ReplaceAllString(buildWith(t, "network-policy"), "$2"))
	policy := convert[networkingv1.NetworkPolicy](t, ofKind(objs, "NetworkPolicy")[0])
	want := []string{"169.254.0.0/16", "fe80::/10"}
	for _, prefix := range dialguard.MetadataServices() {
		want = append(want, prefix.String())
	}
	var closed []string
	for _, rule := range policy.Spec.Egress {
		for _, peer := range rule.To {
			within := netip.MustParsePrefix(peer.IPBlock.CIDR)
			for _, except := range peer.IPBlock.Except {
				prefix := netip.MustParsePrefix(except)
				if !within.Overlaps(prefix) || !dialguard.IsMetadata(prefix.Addr()) {
					t.Errorf("%s is not closed in %s, or the manager does not refuse it", except, within)
				}
				closed = append(closed, except)
			}
		}
	}
	slices.Sort(want)
	if slices.Sort(closed); !slices.Equal(closed, want) {
		t.Errorf("closed: %v, want %v", closed, want)
	}
}

// buildWith returns the output of config/default with components.
func buildWith(t *testing.T, components ...string) string {
	t.Helper()
	overlay, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Abs(filepath.Join(root, "config"))
	if err != nil {
		t.Fatal(err)
	}
	// kustomize accepts no absolute paths.
	config, err := filepath.Rel(overlay, folder)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("resources: [%s/default]\ncomponents:\n", config)
	for _, component := range components {
		text += fmt.Sprintf("- %s/%s\n", config, component)
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	built, err := command("go", "tool", "-modfile=hack/tools/codegen/go.mod", "kustomize", "build", overlay)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// TestMemoryIsLimited checks that the container has a memory limit, which the manager reads and divides.
func TestMemoryIsLimited(t *testing.T) {
	t.Parallel()
	_, container := deployment(t)
	limit, request := container.Resources.Limits.Memory(), container.Resources.Requests.Memory()
	if limit.IsZero() || request.IsZero() || limit.Cmp(*request) < 0 {
		t.Errorf("memory: request %s, limit %s", request, limit)
	}
	for _, variable := range container.Env {
		if variable.Name == "MEMORY_LIMIT" && variable.ValueFrom != nil && variable.ValueFrom.ResourceFieldRef != nil &&
			variable.ValueFrom.ResourceFieldRef.Resource == "limits.memory" {
			return
		}
	}
	t.Error("the manager does not get its limit")
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// built returns the objects of a kustomization.
func built(t *testing.T, folder string) []unstructured.Unstructured {
	t.Helper()
	text, err := command("go", "tool", "-modfile=hack/tools/codegen/go.mod", "kustomize", "build", folder)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, variable.ReplaceAllString(text, "$2"))
}

// TestPrometheusMatchesInstallation checks that config/prometheus finds the managers of config/default and
// config/shard, and that the token of the PodMonitor may read the metrics and nothing else.
func TestPrometheusMatchesInstallation(t *testing.T) {
	t.Parallel()
	objs := built(t, "config/prometheus")
	service := convert[corev1.Service](t, ofKind(objs, "Service")[0])
	monitor := ofKind(objs, "PodMonitor")[0]
	pods, _, _ := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
	endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "podMetricsEndpoints")
	endpoint := endpoints[0].(map[string]any)
	deployments := append(ofKind(objects(t), "Deployment"), ofKind(built(t, "config/shard"), "Deployment")...)
	if len(deployments) != 2 {
		t.Fatalf("%d Deployments", len(deployments))
	}
	for _, obj := range deployments {
		d := convert[appsv1.Deployment](t, obj)
		pod := labels.Set(d.Spec.Template.Labels)
		if service.Namespace != d.Namespace || monitor.GetNamespace() != d.Namespace ||
			!labels.SelectorFromSet(service.Spec.Selector).Matches(pod) || !labels.SelectorFromSet(pods).Matches(pod) {
			t.Errorf("the Service or the PodMonitor does not select the pods with %v", pod)
		}
		if !slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports, func(port corev1.ContainerPort) bool {
			return port.Name == endpoint["port"] && port.Name == service.Spec.Ports[0].TargetPort.StrVal &&
				port.ContainerPort == service.Spec.Ports[0].Port
		}) {
			t.Errorf("%s has no port %v", d.Name, endpoint["port"])
		}
	}

	account := convert[corev1.ServiceAccount](t, ofKind(objs, "ServiceAccount")[0])
	secret := convert[corev1.Secret](t, ofKind(objs, "Secret")[0])
	credentials, _, _ := unstructured.NestedStringMap(endpoint, "authorization", "credentials")
	wantCredentials := map[string]string{"name": secret.Name, "key": corev1.ServiceAccountTokenKey}
	if !reflect.DeepEqual(credentials, wantCredentials) {
		t.Errorf("the PodMonitor uses the token %v, not %v", credentials, wantCredentials)
	}
	if secret.Type != corev1.SecretTypeServiceAccountToken ||
		secret.Annotations[corev1.ServiceAccountNameKey] != account.Name || secret.Namespace != account.Namespace {
		t.Errorf("the Secret is not a token of %s", account.Name)
	}
	role := convert[rbacv1.ClusterRole](t, ofKind(objs, "ClusterRole")[0])
	binding := convert[rbacv1.ClusterRoleBinding](t, ofKind(objs, "ClusterRoleBinding")[0])
	if want := []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}; !reflect.DeepEqual(
		role.Rules, want) {
		t.Errorf("the role permits %v, not %v", role.Rules, want)
	}
	if want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}; binding.RoleRef.
		Name != role.Name || !reflect.DeepEqual(binding.Subjects, want) {
		t.Errorf("the role is bound to %v, not %v", binding.Subjects, want)
	}
}

// TestAlertsAreDocumented checks that docs/monitoring.md has a section for each alert, and no other alert.
func TestAlertsAreDocumented(t *testing.T) {
	t.Parallel()
	rule := ofKind(built(t, "config/prometheus"), "PrometheusRule")[0]
	groups, _, err := unstructured.NestedSlice(rule.Object, "spec", "groups")
	if err != nil {
		t.Fatal(err)
	}
	var alerts []string
	for _, group := range groups {
		rules, _, _ := unstructured.NestedSlice(group.(map[string]any), "rules")
		for _, rule := range rules {
			alerts = append(alerts, rule.(map[string]any)["alert"].(string))
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for line := range strings.Lines(string(page)) {
		if alert, ok := strings.CutPrefix(strings.TrimSpace(line), "### HelmOp"); ok {
			documented = append(documented, "HelmOp"+alert)
		}
	}
	if !slices.Equal(alerts, documented) {
		t.Errorf("docs/monitoring.md has the alerts %q, not %q", documented, alerts)
	}
}

// TestDashboard checks the ConfigMap for Grafana's sidecar.
func TestDashboard(t *testing.T) {
	t.Parallel()
	objs := built(t, "config/grafana")
	if len(objs) != 1 {
		t.Fatalf("%d objects", len(objs))
	}
	configMap := convert[corev1.ConfigMap](t, objs[0])
	if configMap.Labels["grafana_dashboard"] != "1" || !json.Valid([]byte(configMap.Data["helmop.json"])) {
		t.Errorf("%s is no dashboard", configMap.Name)
	}
}

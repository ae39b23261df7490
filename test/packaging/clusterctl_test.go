// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"
)

const (
	providerLabel = "addon-helmop"
	namespace     = "helmop-system"
)

// TestComponentsHaveOnlyVariablesWithDefaults checks every "${". clusterctl reads the whole file as a template,
// including texts: one "${" in another form fails the installation.
func TestComponentsHaveOnlyVariablesWithDefaults(t *testing.T) {
	t.Parallel()
	text, err := components()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(variable.ReplaceAllString(line, ""), "${") {
			t.Errorf("clusterctl cannot parse %q: want ${HELMOP_NAME:=default}, and no \"${\" in descriptions",
				strings.TrimSpace(line))
		}
	}
	if !variable.MatchString(text) {
		t.Error("the components have no variables at all")
	}
}

func TestAllObjectsHaveProviderLabel(t *testing.T) {
	t.Parallel()
	clusterScoped := []string{"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
	namespaced := []string{"ServiceAccount", "Role", "RoleBinding", "Deployment"}
	namespaces := 0
	for _, obj := range objects(t) {
		name := obj.GetKind() + " " + obj.GetName()
		if got := obj.GetLabels()[clusterv1.ProviderNameLabel]; got != providerLabel {
			t.Errorf("%s has provider label %q", name, got)
		}
		switch {
		case obj.GetKind() == "Namespace":
			namespaces++
			if obj.GetName() != namespace {
				t.Errorf("%s, want %s", name, namespace)
			}
		case slices.Contains(clusterScoped, obj.GetKind()):
			// `clusterctl delete` leaves other cluster-wide objects behind: a binding to a ServiceAccount that anyone could
			// create again.
			if obj.GetKind() != "CustomResourceDefinition" && !strings.HasPrefix(obj.GetName(), namespace+"-") {
				t.Errorf("clusterctl does not delete %s, because its name does not begin with the namespace", name)
			}
		case slices.Contains(namespaced, obj.GetKind()):
			if obj.GetNamespace() != namespace {
				t.Errorf("%s is in namespace %q", name, obj.GetNamespace())
			}
		default:
			t.Errorf("%s: an installation must not have webhooks, certificates and other kinds", name)
		}
	}
	if namespaces != 1 {
		t.Errorf("%d Namespaces, want 1", namespaces)
	}
}

// TestBindingsReferToInstalledObjects checks accounts and roles of bindings. clusterctl does not rename objects, and a
// wrong name would fail only when the manager runs.
func TestBindingsReferToInstalledObjects(t *testing.T) {
	t.Parallel()
	objs := objects(t)
	exists := func(kind, name string) bool {
		for _, obj := range ofKind(objs, kind) {
			if obj.GetName() == name {
				return true
			}
		}
		return false
	}
	check := func(name string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if !exists(ref.Kind, ref.Name) {
			t.Errorf("%s refers to %s %s, which is not installed", name, ref.Kind, ref.Name)
		}
		for _, s := range subjects {
			if s.Kind != "ServiceAccount" || s.Namespace != namespace || !exists(s.Kind, s.Name) {
				t.Errorf("%s binds %s %s/%s, which is not installed", name, s.Kind, s.Namespace, s.Name)
			}
		}
	}
	bindings := 0
	for _, obj := range ofKind(objs, "ClusterRoleBinding") {
		b := convert[rbacv1.ClusterRoleBinding](t, obj)
		check(b.Name, b.RoleRef, b.Subjects)
		bindings++
	}
	for _, obj := range ofKind(objs, "RoleBinding") {
		b := convert[rbacv1.RoleBinding](t, obj)
		check(b.Name, b.RoleRef, b.Subjects)
		bindings++
	}
	if bindings < 3 {
		t.Errorf("%d bindings, want those of the manager, the aggregated role and the leader election", bindings)
	}
	d, _ := deployment(t)
	if !exists("ServiceAccount", d.Spec.Template.Spec.ServiceAccountName) {
		t.Errorf("service account %q is not installed", d.Spec.Template.Spec.ServiceAccountName)
	}
}

// TestManagerRoleWritesOnlyItsOwn checks that the manager only reads Cluster API's objects and the objects for
// templates, and writes only its own kinds.
func TestManagerRoleWritesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	writable := []string{"addons.cluster.x-k8s.io", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io"}
	for _, obj := range ofKind(objects(t), "ClusterRole") {
		role := convert[rbacv1.ClusterRole](t, obj)
		for _, rule := range role.Rules {
			reads := !slices.ContainsFunc(rule.Verbs,
				func(v string) bool { return !slices.Contains([]string{"get", "list", "watch"}, v) })
			for _, group := range rule.APIGroups {
				ownEvents := group == "" && slices.Equal(rule.Resources, []string{"events"})
				if !reads && !ownEvents && !patchesClusters(group, &rule) && !slices.Contains(writable, group) {
					t.Errorf("%s may %v %v of group %q", role.Name, rule.Verbs, rule.Resources, group)
				}
			}
		}
	}
}

// patchesClusters reports whether a rule grants only the rights to hold upgrades and deletions of Clusters and to
// publish conditions.
func patchesClusters(group string, rule *rbacv1.PolicyRule) bool {
	isOther := func(of ...string) func(string) bool {
		return func(s string) bool { return !slices.Contains(of, s) }
	}
	return group == "cluster.x-k8s.io" && !slices.ContainsFunc(rule.Resources, isOther("clusters", "clusters/status")) &&
		!slices.ContainsFunc(rule.Verbs, isOther("get", "list", "watch", "patch"))
}

func TestCRDLabels(t *testing.T) {
	t.Parallel()
	const move, moveHierarchy = "clusterctl.cluster.x-k8s.io/move", "clusterctl.cluster.x-k8s.io/move-hierarchy"
	wantHierarchy := map[string]bool{"HelmOp": true, "HelmOpRelease": false, "HelmOpRevision": false}
	crds := ofKind(objects(t), "CustomResourceDefinition")
	if len(crds) != len(wantHierarchy) {
		t.Errorf("%d CRDs, want %d", len(crds), len(wantHierarchy))
	}
	for _, obj := range crds {
		crd := convert[apiextensionsv1.CustomResourceDefinition](t, obj)
		want, known := wantHierarchy[crd.Spec.Names.Kind]
		if _, got := crd.Labels[moveHierarchy]; !known || got != want {
			t.Errorf("%s: label %s is %v, want %v (known kind: %v)", crd.Name, moveHierarchy, got, want, known)
		}
		// A release without its HelmOp must not be moved.
		if _, got := crd.Labels[move]; got {
			t.Errorf("%s has label %s", crd.Name, move)
		}
		// The Cluster API visualizer shows kinds with this label, whose objects name their Cluster in a label.
		if _, got := crd.Labels["visualizer.cluster.x-k8s.io"]; got != (crd.Spec.Names.Kind == "HelmOpRelease") {
			t.Errorf("%s: the label of the visualizer is set: %t", crd.Name, got)
		}
		version := crd.Labels["cluster.x-k8s.io/v1beta2"]
		if !slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == version && v.Served
		}) {
			t.Errorf("%s: the contract label names version %q, which is not served", crd.Name, version)
		}
		if crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
			t.Errorf("%s converts by %s", crd.Name, crd.Spec.Conversion.Strategy)
		}
	}
}

// releaseManifests are the files with the objects of an installation that `make release-manifests` writes.
var releaseManifests = []string{"addon-components.yaml", "shard-components.yaml", "one-namespace-components.yaml"}

func TestReleaseManifests(t *testing.T) {
	t.Parallel()
	release := func(version string) (string, []byte, error) {
		out := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "hack/release-manifests.sh", version, "registry.example/team/manager", "v9")
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "OUT="+out)
		text, err := cmd.CombinedOutput()
		return filepath.Join(out, "addon-helmop", version), text, err
	}

	folder, text, err := release("v0.1.7")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, name := range releaseManifests {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		manager := convert[appsv1.Deployment](t, managerOf(t, variable.ReplaceAllString(string(data), "$2")))
		for _, container := range manager.Spec.Template.Spec.Containers {
			if container.Image != "registry.example/team/manager:v9" {
				t.Errorf("%s runs the image %s", name, container.Image)
			}
		}
	}
	metadata, err := os.ReadFile(filepath.Join(folder, "metadata.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	checkMetadata(t, metadata)

	for _, version := range []string{"v99.0.0", "0.1.0", "main"} {
		if _, text, err := release(version); err == nil {
			t.Errorf("the version %s, which clusterctl refuses, was accepted\n%s", version, text)
		}
	}
}

func checkMetadata(t *testing.T, data []byte) {
	t.Helper()
	var metadata struct {
		APIVersion    string `json:"apiVersion"`
		Kind          string `json:"kind"`
		ReleaseSeries []struct {
			Major    int    `json:"major"`
			Minor    int    `json:"minor"`
			Contract string `json:"contract"`
		} `json:"releaseSeries"`
	}
	if err := yaml.UnmarshalStrict(data, &metadata); err != nil {
		t.Fatal(err)
	}
	if metadata.APIVersion != "clusterctl.cluster.x-k8s.io/v1alpha3" || metadata.Kind != "Metadata" {
		t.Errorf("metadata.yaml is a %s of %s", metadata.Kind, metadata.APIVersion)
	}
	for _, series := range metadata.ReleaseSeries {
		if series.Contract != clusterv1.GroupVersion.Version {
			t.Errorf("series %d.%d is for contract %s, want %s", series.Major, series.Minor, series.Contract,
				clusterv1.GroupVersion.Version)
		}
	}
}

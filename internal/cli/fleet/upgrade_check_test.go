// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradecheck"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// gadgets is a CustomResourceDefinition with a deprecated version.
func gadgets() *apiextensionsv1.CustomResourceDefinition {
	warning := "gadgets of v1alpha1 go away"
	schema := &apiextensionsv1.CustomResourceValidation{
		OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets.upgrade.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "upgrade.example.com",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget"}, Scope: "Namespaced",
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1alpha1", Served: true, Deprecated: true, DeprecationWarning: &warning, Schema: schema},
				{Name: "v1", Served: true, Storage: true, Schema: schema}}}}
}

// installGadgets installs the definition once. errGadgets is the error of this installation.
var (
	installGadgets sync.Once
	errGadgets     error
)

// upgradeBed is a previewBed with the chart "addon" in two versions. The HelmOp "old" has the first version and is
// installed. The HelmOp "new" has the second version from the second step of an upgrade.
type upgradeBed struct {
	*previewBed
	now apilifecycle.Version
}

func newUpgradeBed(t *testing.T, name string) *upgradeBed {
	t.Helper()
	b := &upgradeBed{previewBed: newPreviewBed(t, name)}
	server := sharedServer.Server(t)
	// The tests share the server.
	installGadgets.Do(func() {
		_, errGadgets = envtest.InstallCRDs(server.RESTConfig(),
			envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{gadgets()}})
	})
	err := errGadgets
	if err != nil {
		t.Fatal(err)
	}
	if b.now, err = apilifecycle.ParseVersion(server.Version()); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: addon\nversion: 1.0.0\nkubeVersion: \"<" + b.step(2) + "-0\"\n",
		"templates/gadget.yaml": "apiVersion: upgrade.example.com/v1alpha1\nkind: Gadget\nmetadata: {name: gadget-{{ " +
			".Release.Name }}}\n",
		"templates/test.yaml": "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata:\n  name: test\n" +
			"  annotations: {helm.sh/hook: pre-rollback}\n",
		// The cluster would refuse these objects now.
		"templates/later.yaml": "{{ if ne .Capabilities.KubeVersion.Minor \"" + fmt.Sprint(b.now.Minor) + "\" }}\n" +
			"apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: budget, namespace: apps}\n---\n" +
			"apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: scaling}\n{{ end }}\n",
		"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config-{{ .Release.Name }}}\ndata:\n" +
			"  policy: '{{ .Capabilities.APIVersions.Has \"policy/v1\" }}'\n",
	}
	b.push("1.0.0", files)
	files["Chart.yaml"] = "apiVersion: v2\nname: addon\nversion: 2.0.0\n"
	files["templates/gadget.yaml"] = strings.Replace(files["templates/gadget.yaml"], "v1alpha1", "v1", 1)
	delete(files, "templates/test.yaml")
	delete(files, "templates/later.yaml")
	b.push("2.0.0", files)
	b.addon("old", nil)
	b.addon("new", []addonsv1.KubernetesVersionReference{{KubernetesVersion: ">=" + b.step(2),
		Ref: addonsv1.ArtifactReference{Tag: "2.0.0"}}})
	b.install("old", client.ObjectKey{Namespace: b.namespace, Name: "prod-1"})
	return b
}

func (b *upgradeBed) push(version string, files map[string]string) {
	b.Helper()
	if _, err := b.registry.PushChart(b.Context(), "addon", version, registry.ChartFiles(maps.Clone(files))); err != nil {
		b.Fatal(err)
	}
}

// addon creates a HelmOp with the first version of the chart.
func (b *upgradeBed) addon(name string, refs []addonsv1.KubernetesVersionReference) {
	b.Helper()
	helmOp := b.helmOp("web")
	helmOp.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: b.namespace}
	helmOp.Spec.Source.URL, helmOp.Spec.Source.Ref.Tag = "oci://"+b.registry.Host()+"/addon", "1.0.0"
	helmOp.Spec.RefsByKubernetesVersion = refs
	helmOp.Spec.Release.Name, helmOp.Spec.Overrides, helmOp.Spec.PostRender = name, nil, nil
	helmOp.Spec.Values, helmOp.Spec.ValuesFrom, helmOp.Status.Artifact = nil, nil, nil
	b.create(helmOp)
}

// step returns a later minor version than the version of the cluster, such as 1.38.
func (b *upgradeBed) step(n int) string { return fmt.Sprintf("%d.%d", b.now.Major, b.now.Minor+n) }

// check runs the command and returns its output with names for the versions.
func (b *upgradeBed) check(args ...string) result {
	b.Helper()
	got := b.run(append([]string{"upgrade-check", "--ca-file", b.authority}, args...)...)
	names := strings.NewReplacer(b.step(0), "1.NOW", b.step(1), "1.NEXT", b.step(2), "1.LAST")
	got.out = names.Replace(got.out)
	return got
}

// TestUpgradeCheck compares the output for an upgrade by two minor versions. The command must not write anything.
func TestUpgradeCheck(t *testing.T) {
	t.Parallel()
	b := newUpgradeBed(t, "upgradecheck")
	before := b.snapshot()
	got := b.check("--to", "v"+b.step(2), "new", "old", "web")
	if !errors.Is(got.err, kube.ErrDiffers) {
		t.Fatalf("got %v\n%s%s", got.err, got.out, got.errOut)
	}
	b.compare("upgrade-check", got.out+got.errOut)
	if after := b.snapshot(); after != before {
		t.Errorf("the check changed objects:\n%s\n%s", before, after)
	}
	for want, args := range map[string][]string{
		"the cluster runs v1.NOW already": {"--to", b.step(0), "old"},
		"Kubernetes v1.NEXT, 1 releas":    {"--to", "v" + b.step(1), "web", "--cluster", "prod-2"},
	} {
		if got := b.check(args...); got.err != nil || !strings.Contains(got.out, want) {
			t.Errorf("%q: got %v\n%s", args, got.err, got.out)
		}
	}
}

// TestUpgradeCheckOfNothing checks Clusters that already run the version or a newer one. For a newer version, the
// command must print an error after the report; for the same version, it must print a note. A Cluster that lost its
// kubeconfig and has the release is a failure.
func TestUpgradeCheckOfNothing(t *testing.T) {
	t.Parallel()
	b := newUpgradeBed(t, "upgradenothing")
	got := b.check("--to", fmt.Sprintf("v%d.%d", b.now.Major, b.now.Minor-1), "web")
	if !errors.Is(got.err, kube.ErrResultFailed) || !strings.Contains(got.out, "runs v1.NOW already") {
		t.Errorf("an older version: got %v\n%s", got.err, got.out)
	}
	got = b.check("--to", b.step(0), "web")
	if got.err != nil || !strings.Contains(got.errOut, "note: nothing was checked") {
		t.Errorf("the same version: got %v\n%s%s", got.err, got.out, got.errOut)
	}
	got = b.check("--to", b.step(1), "web", "--cluster", "prod-2,prdo-1")
	if !errors.Is(got.err, kube.ErrResultFailed) || !strings.Contains(got.err.Error(), "prdo-1") ||
		!strings.Contains(got.out, "prod-2") {
		t.Errorf("a wrong name: got %v\n%s", got.err, got.out)
	}
	b.release(b.helmOp("web"), "prod-2", 1, ready("1.0.0", time.Hour))
	secrets := b.admin().CoreV1().Secrets(b.namespace)
	if err := secrets.Delete(t.Context(), "prod-2-kubeconfig", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	got = b.check("--to", b.step(1), "web", "--cluster", "prod-2")
	if !errors.Is(got.err, kube.ErrResultFailed) || !strings.Contains(got.out, "has a release that is not checked") {
		t.Errorf("a lost kubeconfig: got %v\n%s", got.err, got.out)
	}
}

// TestUpgradeCheckVerifies checks that the signatures of a chart are verified for each HelmOp, although another HelmOp
// uses the same chart without verification.
func TestUpgradeCheckVerifies(t *testing.T) {
	t.Parallel()
	b := newUpgradeBed(t, "upgradeverifies")
	b.addon("strict", nil)
	strict := b.helmOp("strict")
	strict.Spec.Source.Verify = &addonsv1.Verification{Provider: addonsv1.VerificationProviderCosign,
		SecretRef: &addonsv1.SecretReference{Name: "no-keys"}}
	// The artifact is resolved already. So only the load of the chart verifies it.
	known, err := b.previewer().Release(t.Context(), b.helmOp("old"), client.ObjectKey{Namespace: b.namespace,
		Name: "prod-1"})
	if err != nil {
		t.Fatal(err)
	}
	strict.Status.Artifact = &addonsv1.ArtifactStatus{ResolvedArtifact: known.HelmOpRelease.Spec.Artifact}
	if strict.Status.Artifact.SourceDigest, err = apiutil.SourceDigest(&strict.Spec.Source); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), b.helmOp("strict")); err != nil {
		t.Fatal(err)
	}
	strict.ResourceVersion = ""
	b.create(strict)
	got := b.check("--to", b.step(1), "old", "strict")
	if !errors.Is(got.err, kube.ErrResultFailed) || !strings.Contains(got.out, "no-keys: not found") {
		t.Errorf("got %v\n%s", got.err, got.out)
	}
}

// TestUpgradeCheckGoesOn has a HelmOp that cannot be read and a Cluster that does not respond. They must not stop the
// others, and the command must connect to the Cluster only once.
func TestUpgradeCheckGoesOn(t *testing.T) {
	t.Parallel()
	b := newUpgradeBed(t, "upgradegoeson")
	var asked atomic.Int32
	dead := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(dead.Close)
	config, err := clientcmd.Write(clientcmdapi.Config{CurrentContext: "c",
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: dead.URL}},
		Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	b.secret("prod-3-kubeconfig", clusterv1.ClusterSecretType, "value", string(config))
	for _, name := range []string{"a", "b", "z"} {
		b.addon(name, nil)
		helmOp := b.helmOp(name)
		if helmOp.Spec.ClusterSelector.MatchLabels = map[string]string{"region": "us"}; name == "b" {
			helmOp.Spec.ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "region", Operator: "Near"}}}
		}
		if err := b.Update(t.Context(), helmOp); err != nil {
			t.Fatal(err)
		}
	}
	got := b.check("--to", b.step(1), "a", "--cluster", "prod-3")
	once := asked.Load()
	if once == 0 || !strings.Contains(got.out, "1 failed") {
		t.Fatalf("a dead Cluster: got %d requests, %v\n%s", once, got.err, got.out)
	}
	asked.Store(0)
	got = b.check("--to", b.step(1), "a", "b", "old", "z")
	if !errors.Is(got.err, kube.ErrResultFailed) || strings.Count(got.out, "prod-3: ") != 2 ||
		!strings.Contains(got.out, "HelmOp \"b\"\n  not checked: ") || !strings.Contains(got.out, "HelmOp \"old\"\n  2 of 2") {
		t.Errorf("got %v\n%s", got.err, got.out)
	}
	if asked.Load() > once {
		t.Errorf("got %d requests, want %d", asked.Load(), once)
	}
}

// TestUpgradeCheckAhead has a chart that HelmOp uses before the upgrade. It must be checked for the running version.
func TestUpgradeCheckAhead(t *testing.T) {
	t.Parallel()
	b := newUpgradeBed(t, "upgradeahead")
	template := map[string]any{"templateRef": map[string]any{"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
		"kind": "Template", "name": "template"}}
	admin, err := dynamic.NewForConfig(sharedServer.Server(t).RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	classes := admin.Resource(clusterv1.GroupVersion.WithResource("clusterclasses")).Namespace(b.namespace)
	class := &unstructured.Unstructured{Object: map[string]any{"apiVersion": clusterv1.GroupVersion.String(),
		"kind": "ClusterClass", "metadata": map[string]any{"name": "class"},
		"spec": map[string]any{"controlPlane": template, "infrastructure": template}}}
	if _, err := classes.Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster := apiutil.NewCluster()
	if err := b.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "prod-1"}, cluster); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedMap(cluster.Object, map[string]any{"classRef": map[string]any{"name": "class"},
		"version": "v" + b.step(0) + ".0"}, "spec", "topology"); err != nil {
		t.Fatal(err)
	}
	if err := b.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	b.push("3.0.0", map[string]string{"Chart.yaml": "apiVersion: v2\nname: addon\nversion: 3.0.0\nkubeVersion: \">=" +
		b.step(1) + "-0\"\n", "templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\n"})
	b.push("3.1.0", map[string]string{"Chart.yaml": "apiVersion: v2\nname: addon\nversion: 3.1.0\n",
		"templates/role.yaml": "apiVersion: rbac.authorization.k8s.io/v1alpha1\nkind: Role\nmetadata: {name: role}\n"})
	for tag, want := range map[string]string{
		"3.0.0": "! v1.NOW KubeVersionExcluded: chart 3.0.0 excludes v1.NOW",
		"3.1.0": "! v1.NOW APINotServed: Role of rbac.authorization.k8s.io/v1alpha1 is not served by v1.NOW, before the " +
			"upgrade to v1.NEXT: chart 3.1.0 renders role"} {
		name := "ahead-" + strings.ReplaceAll(tag, ".", "-")
		b.addon(name, []addonsv1.KubernetesVersionReference{{KubernetesVersion: ">=" + b.step(1),
			Ref: addonsv1.ArtifactReference{Tag: tag}}})
		helmOp := b.helmOp(name)
		helmOp.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
		if err := b.Update(t.Context(), helmOp); err != nil {
			t.Fatal(err)
		}
		if got := b.check("--to", b.step(1), name, "--cluster", "prod-1"); !errors.Is(got.err, kube.ErrDiffers) ||
			!strings.Contains(got.out, want) {
			t.Errorf("%s: got %v\n%s%s", tag, got.err, got.out, got.errOut)
		}
	}
}

// TestUpgradeCheckJSON checks the machine-readable output for a pinned Cluster and for other Clusters.
func TestUpgradeCheckJSON(t *testing.T) {
	t.Parallel()
	b := newUpgradeBed(t, "upgradejson")
	helmOp := b.helmOp("old")
	b.release(helmOp, "prod-1", 1, ready("1.0.0", time.Hour))
	release := &addonsv1.HelmOpRelease{}
	key := client.ObjectKey{Namespace: b.namespace, Name: apiutil.ChildName("old", "prod-1")}
	if err := b.Get(t.Context(), key, release); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), release); err != nil {
		t.Fatal(err)
	}
	release.ResourceVersion, release.Spec.Release.Namespace = "", b.namespace
	release.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: "3"}
	b.create(release)
	got := b.check("--to", b.step(1), "old", "-l", "ingress=nginx", "-o", "json")
	if !errors.Is(got.err, kube.ErrDiffers) {
		t.Fatalf("got %v\n%s%s", got.err, got.out, got.errOut)
	}
	var report rendering.UpgradeCheck
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Fatalf("%v\n%s", err, got.out)
	}
	if report.Releases != 1 || report.ToDo != 1 || len(report.HelmOps) != 1 || len(report.HelmOps[0].Groups) != 1 {
		t.Fatalf("got %+v", report)
	}
	group := report.HelmOps[0].Groups[0]
	found := map[upgradecheck.Reason]upgradecheck.Finding{}
	for _, finding := range group.Findings {
		found[finding.Reason] = finding
	}
	removed := found[upgradecheck.APIRemoved]
	if !removed.Hook || !removed.InRelease || removed.InChart || !removed.ToDo ||
		!strings.Contains(removed.WayOut, "unpin") {
		t.Errorf("got %+v", removed)
	}
	if deprecated := found[upgradecheck.APIDeprecated]; deprecated.ToDo || deprecated.Kind != "Gadget" {
		t.Errorf("got %+v", deprecated)
	}
}

// TestUpgradeCheckFailures checks Clusters that do not respond or are not ready, and invalid arguments.
func TestUpgradeCheckFailures(t *testing.T) {
	t.Parallel()
	b := newUpgradeBed(t, "upgradefails")
	b.secret("prod-3-kubeconfig", clusterv1.ClusterSecretType, "value", "none")
	helmOp := b.helmOp("old")
	helmOp.Spec.ClusterSelector.MatchLabels = map[string]string{"region": "us"}
	if err := b.Update(t.Context(), helmOp); err != nil {
		t.Fatal(err)
	}
	got := b.check("--to", b.step(1), "old")
	for _, want := range []string{"4 releases: 3 not ready, 1 failed", "prod-3: ", "has no kubeconfig yet",
		"prod-6: the control plane of the Cluster is not initialized"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("want %q in\n%s", want, got.out)
		}
	}
	if !errors.Is(got.err, kube.ErrResultFailed) || errors.Is(got.err, kube.ErrDiffers) {
		t.Errorf("got %v", got.err)
	}
	for text, args := range map[string][]string{
		"set --to":                               {},
		`"new" is not a version of Kubernetes`:   {"--to", "new"},
		"--cluster and --selector":               {"--to", "v1.99", "--cluster", "a", "-l", "b"},
		`--output "table" is unknown`:            {"--to", "v1.99", "-o", "table"},
		`--selector "=": `:                       {"--to", "v1.99", "-l", "="},
		`there is no HelmOp "absent"`:            {"--to", "v1.99", "absent"},
		"no HelmOp selects the Cluster nowhere":  {"--to", "v1.99", "old", "--cluster", "nowhere"},
		"no HelmOp selects the Clusters a, b":    {"--to", "v1.99", "old", "--cluster", "a,prod-4,b"},
		`a Cluster with the labels "region=uss"`: {"--to", "v1.99", "old", "-l", "region=uss"},
	} {
		b.fails(text, append([]string{"upgrade-check"}, args...)...)
	}
}

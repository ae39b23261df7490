// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// nextChart is the next version of renderedChart. It changes the ConfigMap and the Secret, and adds a Service. It also
// has an object that exists without an owner, and an object of a kind that no cluster serves.
var nextChart = registry.ChartFiles(map[string]string{
	"Chart.yaml":  "apiVersion: v2\nname: web\nversion: 1.3.0\n",
	"values.yaml": "replicas: 1\n",
	"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata:\n" +
		"  cluster: {{ .Values.cluster | quote }}\n  replicas: {{ .Values.replicas | quote }}\n" +
		"  url: https://user:{{ .Values.password }}@example.org\n",
	"templates/secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: credential}\nstringData:\n" +
		"  password: {{ .Values.password }}\n  plain: changed-in-the-chart\n",
	"templates/service.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n",
	"templates/foreign.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: foreign}\ndata: {a: b}\n",
	"templates/widget.yaml":  "apiVersion: missing.example.com/v1\nkind: Widget\nmetadata: {name: widget}\n",
	"templates/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hook\n" +
		"  annotations: {helm.sh/hook: pre-upgrade}\n",
})

// previewBed is a renderBed whose HelmOp is installed in the workload cluster of prod-1 and prod-2, with a next
// version.
type previewBed struct {
	*renderBed
	digests *regexp.Regexp
}

func newPreviewBed(t *testing.T, name string) *previewBed {
	t.Helper()
	b := &previewBed{renderBed: newRenderBed(t, name), digests: regexp.MustCompile(`\[digest [0-9a-f]{8}\]`)}
	kubeconfig, err := os.ReadFile(b.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	b.secret("prod-2-kubeconfig", clusterv1.ClusterSecretType, "value", string(kubeconfig))
	if _, err := b.registry.PushChart(t.Context(), "web", "1.3.0", nextChart); err != nil {
		t.Fatal(err)
	}
	b.install("web", client.ObjectKey{Namespace: b.namespace, Name: "prod-1"})
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "foreign", Namespace: b.namespace}}
	configMaps := b.admin().CoreV1().ConfigMaps(b.namespace)
	if _, err := configMaps.Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *previewBed) admin() kubernetes.Interface {
	b.Helper()
	admin, err := kubernetes.NewForConfig(sharedServer.Server(b.T).RESTConfig())
	if err != nil {
		b.Fatal(err)
	}
	return admin
}

// previewer returns the Previewer that the commands use.
func (b *previewBed) previewer() *preview.Previewer {
	b.Helper()
	source := rendering.Source{ReadFlags: registryaccess.ReadFlags{CAFile: b.authority}}
	connection := kube.NewBase(kube.Options{})
	connection.ConfigFlags.KubeConfig = &b.kubeconfig
	c, err := connection.Connect()
	if err != nil {
		b.Fatal(err)
	}
	previewer, end, err := source.Previewer(c, &connection, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := end(); err != nil {
			b.Error(err)
		}
	})
	return previewer
}

// install installs the release of a HelmOp in a Cluster. It does the same as the manager, but without postRender.
func (b *previewBed) install(name string, cluster client.ObjectKey) {
	b.Helper()
	ctx, p, helmOp := b.Context(), b.previewer(), b.helmOp(name)
	release, err := p.Release(ctx, helmOp, cluster)
	if err != nil {
		b.Fatal(err)
	}
	access, err := references.NewReader(p.Client, p.Client).Access(ctx, helmOp)
	if err != nil {
		b.Fatal(err)
	}
	chart, err := artifacts.Load(ctx, p.Registry, p.Charts, &release.HelmOpRelease.Spec.Artifact, b.namespace, access)
	if err != nil {
		b.Fatal(err)
	}
	desired, options := releasespec.DesiredOf(release.HelmOpRelease)
	target := model.Target{Key: "workload", Config: sharedServer.Server(b.T).RESTConfig()}
	observation, err := p.Engine.Observe(ctx, target, desired.Namespace, desired.Name)
	if err != nil {
		b.Fatal(err)
	}
	decision := decide.Next(observation, desired, model.Policy{}, model.Past{}, time.Now())
	if _, err := p.Engine.Act(ctx, target, decision, desired, options, chart, release.Values); err != nil {
		b.Fatal(err)
	}
}

// snapshot returns the resource versions of the objects in the namespace.
func (b *previewBed) snapshot() string {
	b.Helper()
	var text strings.Builder
	core := b.admin().CoreV1()
	configMaps, err := core.ConfigMaps(b.namespace).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, object := range configMaps.Items {
		fmt.Fprintln(&text, object.Name, object.ResourceVersion)
	}
	secrets, err := core.Secrets(b.namespace).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, object := range secrets.Items {
		fmt.Fprintln(&text, object.Name, object.ResourceVersion)
	}
	services, err := core.Services(b.namespace).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	helmOps := &addonsv1.HelmOpList{}
	if err := b.List(b.Context(), helmOps, client.InNamespace(b.namespace)); err != nil {
		b.Fatal(err)
	}
	for _, object := range helmOps.Items {
		fmt.Fprintln(&text, object.Name, object.ResourceVersion)
	}
	fmt.Fprintln(&text, len(services.Items), "services")
	return text.String()
}

// preview runs the command and returns its output with equal digests.
func (b *previewBed) preview(args ...string) result {
	b.Helper()
	got := b.run(append([]string{"preview", "--ca-file", b.authority}, args...)...)
	got.out = b.digests.ReplaceAllString(got.out, "[digest 00000000]")
	if strings.Contains(got.out+got.errOut, planted) {
		b.Errorf("%q shows the secret:\n%s", args, got.out+got.errOut)
	}
	return got
}

// TestPreview compares the outputs of the preview of a new version in two Clusters.
func TestPreview(t *testing.T) {
	t.Parallel()
	b := newPreviewBed(t, "preview")
	before := b.snapshot()
	got := b.preview("web", "--set-version", "1.3.0")
	if !errors.Is(got.err, kube.ErrDiffers) {
		t.Fatalf("got %v\n%s%s", got.err, got.out, got.errOut)
	}
	b.compare("preview", got.out+got.errOut)
	got = b.preview("web", "--set-version", "1.3.0", "--summary")
	b.compare("preview-summary", got.out+got.errOut)
	if got := b.preview("web", "--cluster", "prod-1"); got.err != nil || !strings.Contains(got.out, "prod-1: no changes") {
		t.Errorf("a release in sync: %v\n%s", got.err, got.out)
	}
	shown := b.run("preview", "--ca-file", b.authority, "web", "--set-version", "1.3.0", "--show-secrets")
	if !strings.Contains(shown.out, planted) {
		t.Errorf("--show-secrets hides the secret:\n%s", shown.out)
	}
	if after := b.snapshot(); after != before {
		t.Errorf("the preview changed objects:\n%s\n%s", before, after)
	}
}

// TestPreviewJSON checks the machine-readable output.
func TestPreviewJSON(t *testing.T) {
	t.Parallel()
	b := newPreviewBed(t, "previewjson")
	got := b.preview("web", "--set-version", "1.3.0", "--cluster", "prod-2", "-o", "json")
	var report rendering.Preview
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Fatalf("%v\n%s", err, got.out)
	}
	if report.Clusters != 1 || report.Differ != 1 || len(report.Groups) != 1 || report.Groups[0].Hash == "" {
		t.Fatalf("got %+v", report)
	}
	found := map[string]preview.Operation{}
	for _, change := range report.Groups[0].Changes {
		for _, operation := range change.Operations {
			found[change.Change+" "+change.Kind+" "+change.Name+" "+operation.Op+" "+operation.Path] = operation
		}
	}
	if operation, ok := found["Update ConfigMap config remove /data/upgrade"]; !ok || operation.From != "false" {
		t.Errorf("got %+v in %v", operation, found)
	}
	if _, ok := found["Update Secret credential replace /data/plain"]; !ok {
		t.Errorf("the change of the Secret is missing: %v", found)
	}
	if got := b.preview("web", "--set-version", "1.3.0", "-o", "yaml"); !strings.Contains(got.out, "\ngroups:\n") {
		t.Errorf("got %s", got.out)
	}
}

// TestPreviewFile previews a HelmOp that does not exist, and a HelmOp that the management cluster refuses.
func TestPreviewFile(t *testing.T) {
	t.Parallel()
	b := newPreviewBed(t, "previewfile")
	text := fmt.Sprintf(`apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmOp
metadata: {name: other}
spec:
  clusterSelector: {matchLabels: {region: eu}}
  source: {url: "oci://%s/web", ref: {semver: ">=1.0.0 <1.3.0"}, secretRef: {name: registry}}
  release: {name: other, namespace: other-namespace}
  values: {cluster: "{{ .ClusterName }}", password: x}
`, b.registry.Host())
	file := filepath.Join(t.TempDir(), "helmop.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := b.preview("-f", file, "--summary")
	if want := `HelmOp "other" in 2 Clusters: 2 differ
  2 of 2 alike: prod-1, prod-2: +1 Namespace, +2 ConfigMap, +1 Secret, runs ConfigMap hook (pre-install)
`; !errors.Is(got.err, kube.ErrDiffers) || got.out != want {
		t.Errorf("got %v\n%s%s", got.err, got.out, got.errOut)
	}
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("replicas: 7"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin := b.runAs(t.Context(), b.kubeconfig, text, "preview", "-f", "-", "--ca-file", b.authority, "--values", values)
	if !strings.Contains(stdin.out, `+  replicas: "7"`) {
		t.Errorf("got %v\n%s", stdin.err, stdin.out)
	}
	if err := b.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "other"}, &addonsv1.HelmOp{}); err == nil {
		t.Error("the HelmOp was stored")
	}
	misspelt := strings.Replace(text, "clusterSelector", "clusterSelektor", 1)
	refused := b.runAs(t.Context(), b.kubeconfig, misspelt, "preview", "-f", "-")
	if refused.err == nil || !errors.Is(refused.err, kube.ErrUsage) {
		t.Errorf("got %v", refused.err)
	}
	incomplete := strings.Replace(text, "  clusterSelector: {matchLabels: {region: eu}}\n", "", 1)
	refused = b.runAs(t.Context(), b.kubeconfig, incomplete, "preview", "-f", "-")
	if refused.err == nil || !errors.Is(refused.err, kube.ErrResultFailed) ||
		!strings.Contains(refused.err.Error(), "exactly one of clusterSelector and managementCluster") {
		t.Errorf("got %v", refused.err)
	}
}

// TestPreviewFailures previews Clusters that do not respond or are not ready, and artifacts without a signature.
func TestPreviewFailures(t *testing.T) {
	t.Parallel()
	b := newPreviewBed(t, "previewfails")
	b.secret("prod-3-kubeconfig", clusterv1.ClusterSecretType, "value", strings.ReplaceAll(`apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
users: [{name: a, user: {token: none}}]
`, "\t", "  "))
	helmOp := b.helmOp("web")
	helmOp.Spec.ClusterSelector = &metav1.LabelSelector{}
	if err := b.Update(t.Context(), helmOp); err != nil {
		t.Fatal(err)
	}
	got := b.preview("web", "--set-version", "1.3.0", "--summary", "--cluster", "prod-2,prod-3,prod-4,prod-6")
	for _, want := range []string{`HelmOp "web" in 4 Clusters: 1 differ, 2 not ready, 1 failed`,
		"prod-3: cluster unreachable: ", "/prod-4 has no kubeconfig yet",
		"prod-6: the control plane of the Cluster is not initialized", "prod-2: "} {
		if !strings.Contains(got.out, want) {
			t.Errorf("want %q in\n%s", want, got.out)
		}
	}
	if !errors.Is(got.err, kube.ErrResultFailed) || errors.Is(got.err, kube.ErrDiffers) {
		t.Errorf("got %v", got.err)
	}
	helmOp = b.helmOp("web")
	helmOp.Spec.Source.Verify = &addonsv1.Verification{Provider: addonsv1.VerificationProviderCosign,
		SecretRef: &addonsv1.SecretReference{Name: "keys"}}
	b.secret("keys", "Opaque", "cosign.pub", cosignKey)
	if err := b.Update(t.Context(), helmOp); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"preview", "web"}, {"render", "web", "--cluster", "prod-1"}} {
		got := b.run(append(args, "--ca-file", b.authority)...)
		if text := fmt.Sprint(got.out, got.err); got.err == nil || !strings.Contains(text, "signature") {
			t.Errorf("%q of an artifact without a signature: %s", args, text)
		}
	}
	for text, args := range map[string][]string{
		"the HelmOp is missing":        {"preview"},
		"cannot be used together":      {"preview", "web", "-f", "x"},
		`--output "table" is unknown`:  {"preview", "web", "-o", "table"},
		"--summary cannot be used":     {"preview", "web", "-o", "json", "--summary"},
		"--cluster and --selector":     {"preview", "web", "--cluster", "a", "-l", "b"},
		"no such file":                 {"preview", "-f", "/nowhere"},
		`there is no HelmOp "absent"`:  {"preview", "absent"},
		`--selector "=": `:             {"preview", "web", "-l", "="},
		`no Cluster with the labels "`: {"preview", "web", "-l", "region=typo"},
	} {
		b.fails(text, args...)
	}
}

// TestPreviewShowsUninstallations previews a HelmOp that loses a Cluster, and a HelmOp whose release gets another name.
func TestPreviewShowsUninstallations(t *testing.T) {
	t.Parallel()
	b := newPreviewBed(t, "previewleaves")
	helmOp := b.helmOp("web")
	release, err := b.previewer().Release(t.Context(), helmOp, client.ObjectKey{Namespace: b.namespace, Name: "prod-2"})
	if err != nil {
		t.Fatal(err)
	}
	b.create(release.HelmOpRelease)
	fileWith := func(change func(*addonsv1.HelmOpSpec)) string {
		changed := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: b.namespace},
			Spec: *helmOp.Spec.DeepCopy()}
		changed.SetGroupVersionKind(addonsv1.GroupVersion.WithKind("HelmOp"))
		change(&changed.Spec)
		data, err := yaml.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		return writeFile(t, data)
	}
	lost := fileWith(func(spec *addonsv1.HelmOpSpec) {
		spec.ClusterSelector.MatchLabels = map[string]string{"ingress": "nginx"}
	})
	uninstalls := "prod-2: the HelmOp does not select the Cluster: HelmOp would uninstall release " + b.namespace +
		"/web\n"
	renames := "prod-2: first uninstalls release " + b.namespace + "/web, because the release is " + b.namespace +
		"/other now, ±1 Secret, ±1 ConfigMap, runs ConfigMap hook (pre-install)\n"
	renamed := fileWith(func(spec *addonsv1.HelmOpSpec) { spec.Release.Name = "other" })
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"-f", lost}, uninstalls},
		{[]string{"-f", lost, "-l", "region=eu"}, uninstalls},
		{[]string{"-f", lost, "--cluster", "prod-2"}, uninstalls},
		{[]string{"-f", renamed, "--cluster", "prod-2"}, renames},
	} {
		got := b.preview(append(tc.args, "--summary")...)
		if !errors.Is(got.err, kube.ErrDiffers) || !strings.Contains(got.out, tc.want) {
			t.Errorf("%q: %v, want %q in\n%s", tc.args, got.err, tc.want, got.out)
		}
	}
	got := b.preview("-f", lost, "--cluster", "prod-3")
	if !errors.Is(got.err, kube.ErrResultFailed) || errors.Is(got.err, kube.ErrDiffers) ||
		!strings.Contains(got.out, "the HelmOp does not select the Cluster, so it would install nothing in it") {
		t.Errorf("a Cluster that is not selected: %v\n%s", got.err, got.out)
	}
}

// TestPreviewHidesFormerSecret previews a HelmOp whose release gets another name, after its Secret has changed. A new
// chart drops the field with the secret. So only the Helm record of the former release has the former secret. The
// preview fails if it cannot read the record, and hides the objects if there is none.
func TestPreviewHidesFormerSecret(t *testing.T) {
	t.Parallel()
	b := newPreviewBed(t, "previewrenames")
	helmOp, ctx := b.helmOp("web"), b.Context()
	release, err := b.previewer().Release(ctx, helmOp, client.ObjectKey{Namespace: b.namespace, Name: "prod-1"})
	if err != nil {
		t.Fatal(err)
	}
	b.create(release.HelmOpRelease)
	chart := registry.ChartFiles(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.4.0\n",
		"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata:\n" +
			"  cluster: {{ .Values.cluster | quote }}\n  upgrade: changed\n",
	})
	if _, err := b.registry.PushChart(ctx, "web", "1.4.0", chart); err != nil {
		t.Fatal(err)
	}
	secrets := b.admin().CoreV1().Secrets(b.namespace)
	rotated := []byte(`{"data": {"values.yaml": "` +
		base64.StdEncoding.EncodeToString([]byte("password: rotated-credential")) + `"}}`)
	if _, err := secrets.Patch(ctx, "web", types.MergePatchType, rotated, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	changed := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: b.namespace}, Spec: helmOp.Spec}
	changed.SetGroupVersionKind(addonsv1.GroupVersion.WithKind("HelmOp"))
	changed.Spec.Source.Ref.Tag, changed.Spec.Release.Name = "1.4.0", "other"
	expect := func(texts map[addonsv1.DeletionPolicy]string, wantErr error) {
		t.Helper()
		for policy, want := range texts {
			changed.Spec.DeletionPolicy = policy
			data, err := yaml.Marshal(changed)
			if err != nil {
				t.Fatal(err)
			}
			// The function preview checks that the output does not have the former secret.
			got := b.preview("-f", writeFile(t, data), "--cluster", "prod-1")
			if !errors.Is(got.err, wantErr) || !strings.Contains(got.out, want) {
				t.Errorf("%s: %v, want %q in\n%s", policy, got.err, want, got.out)
			}
		}
	}
	const url = "  url: https://user:[redacted]@example.com [digest 00000000]\n"
	expect(map[addonsv1.DeletionPolicy]string{addonsv1.DeletionPolicyUninstall: "\n-" + url,
		addonsv1.DeletionPolicyOrphan: "\n " + url}, kube.ErrDiffers)
	records := metav1.ListOptions{LabelSelector: "owner=helm,name=web"}
	list, err := secrets.List(ctx, records)
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d records: %v", len(list.Items), err)
	}
	unreadable := []byte(`{"data": {"release": "eA=="}}`)
	if _, err := secrets.Patch(ctx, list.Items[0].Name, types.MergePatchType, unreadable,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	former := b.namespace + "/web"
	failed := "reading the values of release " + former + ", to hide its secrets: "
	expect(map[addonsv1.DeletionPolicy]string{addonsv1.DeletionPolicyUninstall: failed,
		addonsv1.DeletionPolicyOrphan: failed}, kube.ErrResultFailed)
	if err := secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, records); err != nil {
		t.Fatal(err)
	}
	object := " ConfigMap " + b.namespace + "/config: "
	hidden := "the content is hidden, because it may have secrets that are not known: there is no Helm record of " +
		"release " + former + "\n"
	expect(map[addonsv1.DeletionPolicy]string{addonsv1.DeletionPolicyUninstall: "#" + object + "Unchecked: " + hidden,
		addonsv1.DeletionPolicyOrphan: "!" + object + "OwnedByOther: " + hidden}, kube.ErrDiffers)
}

// cosignKey is a public key without a meaning.
const cosignKey = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEhyQCx0E9wQWSFI9ULGwy3BuRklnt
IqozONbbdbqz11hlRJy9c7SG+hdcFl9jE9uE/dwtuwU2MqU9T/cN0YkWww==
-----END PUBLIC KEY-----
`

// TestPreviewManagementCluster previews and renders in the management cluster with a kubeconfig that refers to files.
func TestPreviewManagementCluster(t *testing.T) {
	t.Parallel()
	b := newPreviewBed(t, "previewmanagement")
	helmOp := b.helmOp("web")
	own := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: b.namespace}, Spec: helmOp.Spec}
	own.Spec.ClusterSelector, own.Spec.Overrides = nil, nil
	own.Spec.ManagementCluster = &addonsv1.ManagementCluster{ImpersonateServiceAccountName: "admin"}
	own.Spec.Release.Name = "own"
	own.Status.Artifact = helmOp.Status.Artifact
	own.Spec.Values.Raw = []byte(`{"cluster": "management"}`)
	b.create(own)
	kubeconfig := b.withFiles()
	for _, args := range [][]string{{"preview", "own", "--summary"}, {"render", "own"}} {
		got := b.runAs(t.Context(), kubeconfig, "", append(args, "--ca-file", b.authority)...)
		// The ServiceAccount has no permissions. So the engine connected, and the API server refused the request.
		if text := fmt.Sprint(got.out, got.err); !strings.Contains(text, "system:serviceaccount:"+b.namespace+":admin") {
			t.Errorf("%q: %s", args, text)
		}
	}
}

// withFiles returns a kubeconfig whose certificates are in files.
func (b *previewBed) withFiles() string {
	b.Helper()
	config, err := clientcmd.LoadFromFile(b.kubeconfig)
	if err != nil {
		b.Fatal(err)
	}
	folder := b.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			b.Fatal(err)
		}
		return path
	}
	for _, cluster := range config.Clusters {
		cluster.CertificateAuthority = write("ca.crt", cluster.CertificateAuthorityData)
		cluster.CertificateAuthorityData = nil
	}
	path := filepath.Join(folder, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		b.Fatal(err)
	}
	return path
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// planted is the content of the Secret in the tests.
const planted = "planted-credential"

var renderedChart = registry.ChartFiles(map[string]string{
	"Chart.yaml":        "apiVersion: v2\nname: web\nversion: 1.2.3\n",
	"values.yaml":       "replicas: 1\n",
	"crds/widgets.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-crds}\n",
	"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata:\n" +
		"  cluster: {{ .Values.cluster | quote }}\n  replicas: {{ .Values.replicas | quote }}\n" +
		"  major: {{ .Capabilities.KubeVersion.Major | quote }}\n  upgrade: {{ .Release.IsUpgrade | quote }}\n" +
		"  url: https://user:{{ .Values.password }}@example.com\n",
	"templates/secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: credential}\nstringData:\n" +
		"  password: {{ .Values.password }}\n  plain: in-the-chart\n",
	"templates/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: " +
		"pre-install}\n",
	"templates/NOTES.txt": "The password is {{ .Values.password }}.\n",
})

// renderBed is a fleetBed with the HelmOp "web", whose chart is in a registry. It also has a kubeconfig for the Cluster
// prod-1, which is the management cluster itself.
type renderBed struct {
	*fleetBed
	registry  *registry.Registry
	authority string
}

func newRenderBed(t *testing.T, name string) *renderBed {
	t.Helper()
	b := &renderBed{fleetBed: newFleetBed(t, name)}
	r, err := registry.Start(t.Context(), registry.Options{Dir: t.TempDir(), Implementation: registry.InProcess})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	b.registry, b.authority = r, filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(b.authority, r.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	chart, err := r.PushChart(t.Context(), "web", "1.2.3", renderedChart)
	if err != nil {
		t.Fatal(err)
	}
	config, err := r.DockerConfigJSON()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := os.ReadFile(b.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	b.secret("registry", corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, string(config))
	b.secret("web", corev1.SecretTypeOpaque, "values.yaml", "password: "+planted)
	b.secret("prod-1-kubeconfig", clusterv1.ClusterSecretType, "value", string(kubeconfig))
	b.web(chart.Digest.String())
	return b
}

func (b *renderBed) secret(name string, kind corev1.SecretType, key, value string) {
	b.Helper()
	admin, err := kubernetes.NewForConfig(sharedServer.Server(b.T).RESTConfig())
	if err != nil {
		b.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace,
		Labels: map[string]string{clusterv1.ClusterNameLabel: "prod-1"}}, Type: kind,
		Data: map[string][]byte{key: []byte(value)}}
	if _, err := admin.CoreV1().Secrets(b.namespace).Create(b.Context(), secret, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

// web creates the HelmOp, resolved to a digest.
func (b *renderBed) web(digest string) {
	b.Helper()
	text := `
clusterSelector: {matchLabels: {region: eu}}
source: {ref: {tag: 1.2.3}, secretRef: {name: registry}}
release: {name: web, namespace: NAMESPACE}
values: {cluster: "{{ .ClusterName }}"}
valuesFrom: [{kind: Secret, name: web}]
overrides: [{name: first, clusterSelector: {matchLabels: {ingress: nginx}}, values: {replicas: 3}}]
postRender: {commonMetadata: {labels: {team: web}}}
`
	h := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: b.namespace}}
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "NAMESPACE", b.namespace)), &h.Spec); err != nil {
		b.Fatal(err)
	}
	h.Spec.Source.URL = "oci://" + b.registry.Host() + "/web"
	source, err := apiutil.SourceDigest(&h.Spec.Source)
	if err != nil {
		b.Fatal(err)
	}
	h.Status.Artifact = &addonsv1.ArtifactStatus{SourceDigest: source, ResolvedAt: ago(0),
		ResolvedArtifact: addonsv1.ResolvedArtifact{URL: h.Spec.Source.URL, Tag: "1.2.3", Version: "1.2.3", Digest: digest}}
	b.create(h)
}

// TestRender renders values and objects for a Cluster with its override. Everything secret must be hidden.
func TestRender(t *testing.T) {
	t.Parallel()
	b := newRenderBed(t, "render")
	values := []string{"values", "web", "--cluster", "prod-1"}
	got := b.run(values...)
	b.compare("values", got.out+got.errOut)
	render := []string{"render", "web", "--cluster", "prod-1", "--ca-file", b.authority}
	got = b.run(render...)
	if got.err != nil {
		t.Fatal(got.err)
	}
	b.compare("render", got.out+got.errOut)
	for _, args := range [][]string{values, render} {
		if got := b.run(args...); strings.Contains(got.out+got.errOut, planted) {
			t.Errorf("%q shows the secret:\n%s", args, got.out+got.errOut)
		}
		if got := b.run(append(args, "--show-secrets")...); !strings.Contains(got.out, planted) {
			t.Errorf("%q --show-secrets hides the secret: %v\n%s", args, got.err, got.out)
		}
	}
	if got := b.run(append(render, "--no-hooks", "--no-crds")...); got.err != nil ||
		strings.Contains(got.out, "name: hook") || strings.Contains(got.out, "from-crds") {
		t.Errorf("got %+v", got)
	}
}

// TestRenderRefusals checks that errors name the missing argument or object.
func TestRenderRefusals(t *testing.T) {
	t.Parallel()
	b := newRenderBed(t, "refused")
	b.fails("the Cluster is missing: set --cluster", "values", "web")
	b.fails(`clusters.cluster.x-k8s.io "prod-9" not found`, "values", "web", "--cluster", "prod-9")
	b.fails("prod-2 has no kubeconfig yet", "render", "web", "--cluster", "prod-2")
	if got := b.run("values", "web", "--cluster", "prod-3"); got.err != nil ||
		!strings.Contains(got.errOut, `HelmOp "web" does not select Cluster "prod-3"`) {
		t.Errorf("got %+v", got)
	}
	b.fails("certificate", "render", "web", "--cluster", "prod-1")
	h := b.helmOp("web")
	h.Spec.Source.Ref.Tag = "9"
	if err := b.Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	b.fails("the source of the HelmOp is not resolved", "render", "web", "--cluster", "prod-1", "--ca-file", b.authority)
	h.Spec.ValuesFrom[0].Name = "absent"
	if err := b.Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	b.fails("absent: not found; create it", "values", "web", "--cluster", "prod-1")
}

// TestNewerVersions looks for newer versions in the registry.
func TestNewerVersions(t *testing.T) {
	t.Parallel()
	b := newRenderBed(t, "newer")
	for _, version := range []string{"1.3.0", "2.0.0", "3.0.0-rc.1"} {
		if _, err := b.registry.PushChart(t.Context(), "web", version, renderedChart); err != nil {
			t.Fatal(err)
		}
	}
	h := b.helmOp("web")
	h.Spec.Source.Ref = addonsv1.ArtifactReference{Semver: "1.x"}
	if err := b.Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	b.release(h, "prod-1", 1, ready("1.2.3", time.Hour))
	b.release(h, "prod-2", 1, ready("1.3.0", time.Hour))
	args := []string{"versions", "web", "--check-registry", "--ca-file", b.authority}
	b.compare("versions-newer", b.ok(args...))
	if out := b.ok(append(args, "-o", "json")...); !strings.Contains(out, `"newer"`) {
		t.Errorf("got\n%s", out)
	}
	// Without the CA, the registry cannot be read. The command must print a warning and the rest.
	got := b.run("versions", "web", "--check-registry")
	if got.err != nil || !strings.Contains(got.out, "1.2.3") ||
		!strings.Contains(got.errOut, "warning: the versions of HelmOp web cannot be read: ") {
		t.Errorf("got %+v", got)
	}
}

func TestNewerThan(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"": "", "1.0.0": "1.2.0 2.0.0", "1.2.0": "2.0.0", "v1.1.0": "1.2.0 2.0.0",
		"2.0.0": "", "2.0.0-rc.1": "2.0.0"} {
		if got := strings.Join(newerThan(version, []string{"1.2.0", "2.0.0", "2.0.0", ""}), " "); got != want {
			t.Errorf("%q: got %q", version, got)
		}
	}
}

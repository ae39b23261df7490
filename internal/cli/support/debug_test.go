// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// plants are the secrets of a test.
type plants struct {
	all []string
	// logged are the secrets in the log of the manager.
	logged []string
}

// new returns a new secret. It has characters that JSON, YAML and URLs escape.
func (p *plants) new(where string) string {
	secret := `p"a&n/t ` + where + `=@` + strconv.Itoa(len(p.all)+1000)
	p.all = append(p.all, secret)
	return secret
}

// find returns the secrets in a text, in any notation.
func (p *plants) find(text string) []string {
	var found []string
	for _, secret := range p.all {
		quoted := strconv.Quote(secret)
		forms := []string{secret, quoted[1 : len(quoted)-1], url.QueryEscape(secret), url.PathEscape(secret),
			strings.ReplaceAll(secret, " ", "")}
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			for shift := range 3 {
				// The characters that have bits of the secret only.
				encoded := encoding.EncodeToString(append(make([]byte, shift), secret...))
				forms = append(forms, encoded[(8*shift+5)/6:8*(shift+len(secret))/6])
			}
		}
		if slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, form) }) {
			found = append(found, secret)
		}
	}
	return found
}

// unpack returns the contents of an archive by the names of its files, without the folder.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	compressed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files, archive := map[string]string{}, tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutPrefix(header.Name, strings.TrimSuffix(filepath.Base(path), ".tar.gz")+"/")
		if !ok {
			t.Errorf("the archive has %q", header.Name)
		}
		files[name] = string(data)
	}
}

func (b *bed) secret(namespace, name, key, value string) {
	b.Helper()
	b.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data: map[string][]byte{key: []byte(value)}})
}

// withStatus creates an object and its status.
func (b *bed) withStatus(object client.Object) {
	b.Helper()
	status := object.DeepCopyObject().(client.Object)
	b.create(object)
	status.SetResourceVersion(object.GetResourceVersion())
	status.SetUID(object.GetUID())
	if err := b.Status().Update(b.Context(), status); err != nil {
		b.Fatal(err)
	}
}

// yamlString returns a text as a YAML string.
func yamlString(text string) string { return strconv.Quote(text) }

// plantFleet creates a HelmOp, its release, its revision, an Event and a Cluster with a secret in every place.
func (b *bed) plantFleet(p *plants) {
	b.Helper()
	fixed, templated, previous := p.new("fixed"), p.new("templated"), p.new("previous")
	b.secret(b.namespace, "fixed", "values.yaml", "deep: [{password: "+yamlString(fixed)+"}]")
	b.secret(b.namespace, "prod-1-cloud", "token", templated)
	b.secret(b.namespace, "previous", "values.yaml", "a: "+yamlString(previous))
	b.secret(b.namespace, "registry", "other", p.new("registry"))
	b.secret(b.namespace, "prod-1-kubeconfig", "value", p.new("kubeconfig"))
	b.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "config"},
		Data: map[string]string{"values.yaml": "a: " + p.new("configmap")}})
	inline := p.new("inline")
	text := `
clusterSelector: {}
source: {url: "oci://example.com/chart", ref: {tag: "1"}, secretRef: {name: registry}}
values: {password: ` + yamlString(inline) + `, plain: ` + yamlString(p.new("plain")) + `}
valuesTemplate: ` + yamlString("a: "+p.new("template")) + `
valuesFrom: [{kind: Secret, name: fixed}, {kind: Secret, name: "{{ .ClusterName }}-cloud", key: token, targetPath: t},
  {kind: ConfigMap, name: config}]
postRender:
  patches: [{patch: ` + yamlString("a: "+p.new("patch")) + `}]
  commonMetadata: {annotations: {a: ` + yamlString(p.new("metadata")) + `}}
overrides:
- {name: one, clusterSelector: {matchExpressions: [{key: region, operator: In, values: [eu-kept]}]},
   values: {a: ` + yamlString(p.new("override")) + `}, valuesTemplate: ` + yamlString("b: "+p.new("override-template")) + `}
`
	h := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "web"}}
	h.Annotations = map[string]string{
		"example.com/note": p.new("annotation"),
		"kubectl.kubernetes.io/last-applied-configuration": `{"a":` + strconv.Quote(p.new("applied")) + `}`,
		addonsv1.GroupVersion.Group + "/retry":             "kept-request"}
	if err := yaml.UnmarshalStrict([]byte(text), &h.Spec); err != nil {
		b.Fatal(err)
	}
	messages := "the chart says " + fixed + ", " + base64.StdEncoding.EncodeToString([]byte("x"+templated)) + " and " +
		url.QueryEscape(inline) + " " + previous + " \x1b]0;x\a"
	h.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "ReleasesFailed",
		Message: messages, LastTransitionTime: metav1.NewTime(testNow)}}
	revision := &addonsv1.HelmOpRevision{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "web-1"},
		Spec:   addonsv1.HelmOpRevisionSpec{Number: 1, Digest: "d", HelmOp: *h.Spec.DeepCopy()},
		Status: addonsv1.HelmOpRevisionStatus{Phase: addonsv1.RolloutPhaseComplete}}
	revision.Spec.ContentFrom.PostRender = 1
	revision.Spec.HelmOp.ValuesFrom[0].Name = "previous"
	b.withStatus(h)
	b.create(revision)
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace,
		Name: apiutil.ChildName("web", "prod-1"), Labels: apiutil.ChildSelector(h)},
		Spec: addonsv1.HelmOpReleaseSpec{ClusterRef: addonsv1.ClusterReference{Name: "prod-1"},
			Release:      addonsv1.ReleaseIdentity{Name: "web", Namespace: "web"},
			Artifact:     addonsv1.ResolvedArtifact{URL: "oci://example.com/chart", Digest: "sha256:1"},
			ValuesDigest: "d", DeletionPolicy: addonsv1.DeletionPolicyOrphan}}
	if err := controllerutil.SetControllerReference(h, release, b.Scheme()); err != nil {
		b.Fatal(err)
	}
	release.Status.LastError = messages
	b.withStatus(release)
	b.create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "e"}, Type: "Warning",
		Reason: "UpgradeFailed", Message: messages, LastTimestamp: metav1.NewTime(testNow),
		InvolvedObject: corev1.ObjectReference{APIVersion: addonsv1.GroupVersion.String(), Kind: "HelmOpRelease",
			Namespace: b.namespace, Name: release.Name}})
	other := helmOpOf(b.namespace, "other")
	other.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: "Secret", Name: "of-other"}}
	b.create(other)
	p.logged = []string{fixed, p.new("other")}
	b.secret(b.namespace, "of-other", "values.yaml", "a: "+yamlString(p.logged[1]))
	b.plantCluster(p)
}

func (b *bed) plantCluster(p *plants) {
	b.Helper()
	cluster := apiutil.NewCluster()
	cluster.SetNamespace(b.namespace)
	cluster.SetName("prod-1")
	cluster.SetAnnotations(map[string]string{"cluster.x-k8s.io/conversion-data": p.new("conversion")})
	topology := map[string]any{"classRef": map[string]any{"name": "class"}, "version": "v1.34.0",
		"variables": []any{map[string]any{"name": "kept-variable", "value": map[string]any{"x": p.new("variable")}}}}
	cluster.Object["spec"] = map[string]any{"topology": topology}
	b.create(cluster)
}

// plantManager creates a Deployment and a Pod of the manager with a secret in every place.
func (b *bed) plantManager(p *plants) {
	b.Helper()
	referenced := p.new("referenced")
	b.secret(b.managers, "environment", "key", referenced)
	labels := map[string]string{"control-plane": "controller-manager", "cluster.x-k8s.io/provider": "addon-helmop"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels,
		Annotations: map[string]string{"example.com/a": p.new("pod-annotation")}}}
	template.Spec.Containers = []corev1.Container{
		{Name: "manager", Image: "example.com/helmop:v1-kept",
			Args: []string{"--v=5", "--api-token=" + p.new("argument"), "--registry-token-hosts=kept.example.com"},
			Env: []corev1.EnvVar{{Name: "DB_PASSWORD", Value: p.new("variable-password")},
				{Name: "HARMLESS", Value: p.new("variable-harmless")},
				{Name: "HTTPS_PROXY", Value: "http://user:" + url.PathEscape(p.new("proxy")) + "@proxy-kept.example.com:3128"},
				{Name: "FROM", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "key",
					LocalObjectReference: corev1.LocalObjectReference{Name: "environment"}}}}}},
		{Name: "sidecar", Image: "example.com/sidecar:v2-kept", Command: []string{"sh", "-c", "echo " + p.new("sidecar")}},
	}
	b.create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: b.managers, Name: "helmop", Labels: labels,
		Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": p.new("deployment")}},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}})
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = b.managers, "manager-0"
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "manager", RestartCount: 2, Image: "example.com/helmop:v1-kept"}}
	b.withStatus(pod)
	b.setLog("manager-0", 0, line("E", "failed-kept", `err=<`+"\n\t"+
		strings.Join(append(p.logged, referenced), " and ")+"\n\t"+
		base64.StdEncoding.EncodeToString([]byte(referenced))+"\x1b]0;x\a\n >"))
}

// TestDebug plants secrets everywhere, and looks for them in the archive.
func TestDebug(t *testing.T) {
	t.Parallel()
	b, p := newBed(t), &plants{}
	b.plantFleet(p)
	b.plantManager(p)
	for name, args := range map[string][]string{"all": nil, "one": {"web"}} {
		path := filepath.Join(t.TempDir(), name+".tar.gz")
		out, errOut, err := b.run(t.Context(), "", append([]string{"debug", "-o", path}, args...)...)
		if err != nil || out != path+"\n" || !strings.Contains(errOut, "Look through the archive before you share it") {
			t.Fatalf("%s: got %v\n%s%s", name, err, out, errOut)
		}
		files := unpack(t, path)
		for file, content := range files {
			if found := p.find(content); len(found) > 0 {
				t.Errorf("%s: %s has %q:\n%s", name, file, found, content)
			}
			if strings.Contains(content, "\x1b") {
				t.Errorf("%s: %s has an escape sequence", name, file)
			}
		}
		for file, texts := range map[string][]string{
			"README.md":                    {"objects/helmops.yaml", "the log manager-0.previous.log: ", "the list of providers.clusterctl"},
			"versions.yaml":                {"example.com/helmop:v1-kept", "restarts: 2", "kubernetes: v1.", "helmops.addons.cluster.x-k8s.io", "storage: v1alpha1"},
			"conditions.txt":               {"ReleasesFailed", "web"},
			"events.txt":                   {"UpgradeFailed", "helmoprelease/web-prod-1-"},
			"objects/helmops.yaml":         {"name: web", "oci://example.com/chart", "name: fixed", "kept-request", "eu-kept", "values: '[redacted]'"},
			"objects/helmopreleases.yaml":  {"the chart says [redacted]", "name: prod-1"},
			"objects/helmoprevisions.yaml": {"phase: Complete", "postRender: 1", "values: '[redacted]'"},
			"objects/clusters.yaml":        {"name: prod-1", "kept-variable", "version: v1.34.0"},
			"objects/events.yaml":          {"UpgradeFailed"},
			"objects/deployments.yaml": {"example.com/helmop:v1-kept", "v2-kept", "proxy-kept.example.com:3128", "DB_PASSWORD",
				"--api-token=[redacted]", "--registry-token-hosts=kept.example.com", "--v=5"},
			"objects/pods.yaml":  {"restartCount: 2"},
			"logs/manager-0.log": {"failed-kept", "[redacted]"},
		} {
			for _, text := range texts {
				if !strings.Contains(files[file], text) {
					t.Errorf("%s: %s does not have %q:\n%s", name, file, text, files[file])
				}
			}
		}
		if hasOther := strings.Contains(files["objects/helmops.yaml"], "name: other"); hasOther != (name == "all") {
			t.Errorf("%s: the other HelmOp is in the archive: %v", name, hasOther)
		}
	}
}

// TestProxies masks addresses of proxies with user and password.
func TestProxies(t *testing.T) {
	t.Parallel()
	m := newMasker(nil, nil)
	for value, want := range map[string]string{
		"http://proxy:3128":            "http://proxy:3128",
		"user:secret@proxy:3128":       "[redacted]@proxy:3128",
		"http://user:p'w@proxy:3128":   "http://[redacted]@proxy:3128",
		"http://user:p@ss@proxy:3128":  "http://[redacted]@proxy:3128",
		`http://user:p"/ w@proxy:3128`: "http://[redacted]@proxy:3128",
	} {
		masked := m.item("env", map[string]any{"name": "HTTPS_PROXY", "value": value}, "Pod").(map[string]any)
		if masked["value"] != want {
			t.Errorf("%s: got %s", value, masked["value"])
		}
	}
	for text, want := range map[string]string{
		"proxyconnect http://user:p@s's@proxy:3128: refused": "proxyconnect http://[redacted]@proxy:3128: refused",
		`{"url":"https://kept:6443","mail":"a@b"}`:           `{"url":"https://kept:6443","mail":"a@b"}`,
	} {
		if got := m.text(text); got != want {
			t.Errorf("got %s", got)
		}
	}
}

// TestManySecrets has a fleet with a Secret for each Cluster.
func TestManySecrets(t *testing.T) {
	t.Parallel()
	c := &collection{}
	for i := range 60 {
		var lines strings.Builder
		for j := range 50 {
			fmt.Fprintf(&lines, "key-%d: %x\n", j, sha256.Sum256([]byte{byte(i), byte(j)}))
		}
		secret := &corev1.Secret{Data: map[string][]byte{"values": []byte(lines.String())}}
		c.secrets = append(c.secrets, valuesOf(secret)...)
	}
	secret := fmt.Sprintf("%x", sha256.Sum256([]byte{59, 49}))
	condition := map[string]any{"type": "Ready", "status": "True", "reason": "Ready", "message": "has " + secret}
	object := &unstructured.Unstructured{Object: map[string]any{"kind": "HelmOp",
		"status": map[string]any{"conditions": []any{condition}}}}
	c.helmOps = []*unstructured.Unstructured{object}
	m := newMasker(nil, c.secrets)
	if m.hidesAll() {
		t.Error("all texts are hidden")
	}
	files, err := filesOf(c, m, testNow)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(files, func(file archiveFile) bool { return file.name == "conditions.txt" })
	if got := strings.Fields(files[at].content); !slices.Contains(got, "True") || !slices.Contains(got, "[redacted]") {
		t.Errorf("got %s", files[at].content)
	}
	if m := newMasker(nil, []any{strings.Repeat("<", 17<<20)}); !m.hidesAll() {
		t.Error("too many secrets are searched for")
	}
}

// TestDebugFaults expects that a failed read is noted and stops nothing.
func TestDebugFaults(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.create(helmOpOf(b.namespace, "web"))
	path := filepath.Join(t.TempDir(), "a.tar.gz")
	b.deny("/deployments", "/pods", "/version", "/events", "/secrets")
	_, errOut, err := b.run(t.Context(), "", "debug", "-o", path)
	if err != nil || !strings.Contains(errOut, "could not be read; README.md in the archive has the reasons") ||
		strings.Contains(errOut, "may have their values") {
		t.Fatalf("got %v\n%s", err, errOut)
	}
	files := unpack(t, path)
	for _, text := range []string{"- the list of deployments.apps: ", "- the Pods of the manager: ",
		"- the version of Kubernetes: ", "- the list of events: "} {
		if !strings.Contains(files["README.md"], text) {
			t.Errorf("README.md does not have %q:\n%s", text, files["README.md"])
		}
	}
	if !strings.Contains(files["objects/helmops.yaml"], "name: web") {
		t.Errorf("got %q", files["objects/helmops.yaml"])
	}
	for text, args := range map[string][]string{
		"exists; remove it, or set --output": {"-o", path},
		"must end with .tar.gz":              {"-o", "a.zip"},
		`there is no HelmOp "no"`:            {"no", "-o", path + ".tar.gz"},
		"cannot be used with the name":       {"web", "-A", "-o", path + ".tar.gz"},
		"no such file or directory":          {"-o", filepath.Join(path+"-no", "a.tar.gz")},
	} {
		if _, _, err := b.run(t.Context(), "", append([]string{"debug"}, args...)...); err == nil ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("%q: got %v", args, err)
		}
	}
	b.deny("/helmops")
	if _, errOut, err = b.run(t.Context(), "", "debug", "-o", path+"2.tar.gz"); err != nil ||
		!strings.Contains(errOut, "not all Secrets could be read, so the archive may have their values") {
		t.Errorf("got %v\n%s", err, errOut)
	}
	b.deny("/")
	path = filepath.Join(t.TempDir(), "b.tar.gz")
	if _, _, err := b.run(t.Context(), "", "debug", "-o", path); err == nil ||
		!strings.Contains(err.Error(), "nothing could be read") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestDebugInterrupted ends the command while it reads a log, before it reads the Secrets.
func TestDebugInterrupted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.create(helmOpOf(b.namespace, "web"))
	b.pod("manager-0", map[string]string{"cluster.x-k8s.io/provider": "addon-helmop"}, 0, line("I", "hello", ""))
	ctx, cancel := context.WithCancel(t.Context())
	b.beforeLog = cancel
	path := filepath.Join(t.TempDir(), "a.tar.gz")
	if _, _, err := b.run(ctx, "", "debug", "-o", path); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the archive exists: %v", err)
	}
}

func TestSecretNames(t *testing.T) {
	t.Parallel()
	names := &secretNames{}
	for _, name := range []string{"fixed", "{{ .ClusterName }}-cloud", "a.b-${ .x }"} {
		names.add(name)
	}
	for name, want := range map[string]bool{"prod-1-cloud": true, "prod-1-cloud-2": false, "a.b-c": true, "axb-c": false,
		"fixed": false} {
		if got := names.matches(name); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if !slices.Equal(names.fixed, []string{"fixed"}) {
		t.Errorf("got %q", names.fixed)
	}
}

// TestSecretsOfSpec expects all Secrets to which the spec of a HelmOp refers.
func TestSecretsOfSpec(t *testing.T) {
	t.Parallel()
	spec := &addonsv1.HelmOpSpec{}
	if err := yaml.UnmarshalStrict([]byte(`
source:
  secretRef: {name: a}
  certSecretRef: {name: b}
  proxySecretRef: {name: c}
  verify: {secretRef: {name: d}, trustedRootSecretRef: {name: e}}
valuesFrom: [{kind: Secret, name: f}, {kind: ConfigMap, name: no}]
overrides: [{name: o, valuesFrom: [{kind: Secret, name: g}]}]
storage: {type: Registry, registry: {secretRef: {name: h}, certSecretRef: {name: i}, proxySecretRef: {name: j}}}
`), spec); err != nil {
		t.Fatal(err)
	}
	names := &secretNames{}
	names.addSpec(spec)
	if slices.Sort(names.fixed); strings.Join(names.fixed, "") != "abcdefghij" {
		t.Errorf("got %q", names.fixed)
	}
}

// TestSecretsOfPodSpec expects all Secrets to which a Pod refers.
func TestSecretsOfPodSpec(t *testing.T) {
	t.Parallel()
	spec := &corev1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(`
initContainers: [{name: i, envFrom: [{secretRef: {name: a}}]}]
containers: [{name: c, env: [{name: V, valueFrom: {secretKeyRef: {name: b, key: k}}}]}]
volumes:
- {name: v, secret: {secretName: c}}
- {name: w, projected: {sources: [{configMap: {name: other}}, {secret: {name: d}}]}}
`), spec); err != nil {
		t.Fatal(err)
	}
	names := &secretNames{}
	names.addPodSpec(spec)
	if slices.Sort(names.fixed); strings.Join(names.fixed, "") != "abcd" {
		t.Errorf("got %q", names.fixed)
	}
}

func TestCRDVersions(t *testing.T) {
	t.Parallel()
	condition := func(kind, status string) map[string]any {
		return map[string]any{"type": kind, "status": status, "message": "m"}
	}
	got := crdVersionsOf(map[string]any{"metadata": map[string]any{"name": "n"},
		"spec": map[string]any{"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true},
			map[string]any{"name": "v0", "served": false}}},
		"status": map[string]any{"storedVersions": []any{"v0", "v1"}, "conditions": []any{condition("Established", "False"),
			condition("NamesAccepted", "True"), condition("NonStructuralSchema", "True")}}})
	if got.Name != "n" || got.Storage != "v1" || !slices.Equal(got.Served, []string{"v1"}) || len(got.Stored) != 2 ||
		!slices.Equal(got.Problems, []string{"Established: m", "NonStructuralSchema: m"}) {
		t.Errorf("got %+v", got)
	}
}

// TestMaskVersions hides a secret in texts, and keeps names.
func TestMaskVersions(t *testing.T) {
	t.Parallel()
	given := &versions{Client: "helmop v1", Kubernetes: "v1.36.3",
		Managers: []managerVersion{{Pod: "helmop-0", Image: "example.com/s3cret:v1", ImageID: "s3cret@sha256:1"}},
		CRDs:     []crdVersions{{Name: "helmops.x", Problems: []string{"Established: s3cret"}}}}
	got := newMasker(nil, []any{"helmop", "s3cret"}).versions(given)
	if got.Client != given.Client || got.Managers[0].Pod != "helmop-0" || got.CRDs[0].Name != "helmops.x" {
		t.Errorf("names are hidden: %v", got)
	}
	if text := fmt.Sprint(*got); strings.Contains(text, "s3cret") || !strings.Contains(text, ":v1") {
		t.Errorf("got %s", text)
	}
	if given.Managers[0].Image != "example.com/s3cret:v1" || given.CRDs[0].Problems[0] != "Established: s3cret" {
		t.Errorf("the original is changed: %v", given)
	}
}

// TestMaskCutLog leaves out the rest of an entry at the beginning of a log, and keeps the lines of a panic.
func TestMaskCutLog(t *testing.T) {
	t.Parallel()
	m := newMasker(nil, []any{"s3cret"})
	const rest = "[redacted]: the rest of an entry whose beginning is not in the log\n"
	whole := line("I", "kept", "")
	for text, want := range map[string]string{
		"":                             "",
		whole + "\n":                   whole + "\n",
		"\t00000000  73 33\n >\n":      rest,
		"eyJ\",\"v\":8}\n" + whole:     rest + whole + "\n",
		"\t0\n >\n" + whole + "\na":    rest + whole + "\na\n",
		whole + "\npanic: s3cret\n\tb": whole + "\npanic: [redacted]\n\tb\n",
	} {
		var entries []entry
		if err := readEntries(strings.NewReader(text), false, func(e entry) { entries = append(entries, e) }); err != nil {
			t.Fatal(err)
		}
		if got := m.log(entries); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestMaskEntry leaves out what client-go logs with a high verbosity.
func TestMaskEntry(t *testing.T) {
	t.Parallel()
	m := newMasker(nil, []any{"s3cret"})
	for text, want := range map[string]string{
		line("I", "kept s3cret", `a="body"`):                        line("I", "kept [redacted]", `a="body"`),
		line("I", "Response Body", "body=<\n\t00000000  73 33\n >"): "[redacted]: the content of a request or response",
		`{"ts":1,"msg":"Response Body","v":8,"body":"eyJ"}`:         "[redacted]: the content of a request or response",
	} {
		e := newEntry(text, testNow)
		if got := m.entry(&e); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q", text, got)
		}
	}
}

// TestCutOff reads two Secrets with a client whose rate limit delays the second read beyond the timeout. The client
// refuses this read before the context ends.
func TestCutOff(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: 0.001, Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limiterDelay/2)
	defer cancel()
	c := &collector{collection: &collection{}}
	readSecrets(ctx, clients, "fleet", &secretNames{fixed: []string{"one", "two"}}, c.noteSecrets)
	if err := c.cutOff(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v: %v", c.notRead, err)
	}
	withTime, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, ctx := range []context.Context{t.Context(), withTime} {
		if err := c.cutOff(ctx); err != nil {
			t.Errorf("reads failed long before the timeout: %v", err)
		}
	}
}

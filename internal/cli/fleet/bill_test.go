// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/bill"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// listedChart has images in a Deployment, a hook, an image volume and a custom resource.
var listedChart = registry.ChartFiles(map[string]string{
	"Chart.yaml": "apiVersion: v2\nname: listed\nversion: 1.0.0\n",
	"crds/widgets.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n" +
		"metadata: {name: widgets.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n" +
		"  names: {kind: Widget, plural: widgets}\n  versions: [{name: v1}, {name: v1beta1}]\n",
	"templates/app.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app}\nspec:\n  template:\n    spec:\n" +
		"      containers: [{name: app, image: {{ .Values.image | quote }}}]\n" +
		"      volumes: [{name: data, image: {reference: {{ .Values.data | quote }}}}]\n",
	"templates/hook.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n" +
		"spec: {containers: [{name: hook, image: {{ .Values.hook | quote }}}]}\n",
	"templates/widget.yaml": "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: widget}\n" +
		"spec: {template: {spec: {initContainers: [{name: a, image: {{ .Values.image | quote }}}]}}}\n",
})

// billBed is a renderBed with a HelmOp "listed" whose images are in the registry, except one.
type billBed struct{ *renderBed }

func newBillBed(t *testing.T, name string) *billBed {
	t.Helper()
	b := &billBed{newRenderBed(t, name)}
	for repository, tag := range map[string]string{"app": "1", "app-eu": "1", "data": "1"} {
		chart := registry.ChartFiles(map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\nversion: " + tag + ".0.0\n",
			"values.yaml": "name: " + repository + "\n"})
		if _, err := b.registry.PushChart(t.Context(), repository, tag, chart); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.registry.PushChart(t.Context(), "charts/listed", "1.0.0", listedChart); err != nil {
		t.Fatal(err)
	}
	spec := `
clusterSelector: {matchLabels: {cni: calico}}
source: {ref: {tag: 1.0.0}, secretRef: {name: registry}}
release: {name: listed, namespace: NAMESPACE}
values: {image: "HOST/app:1", data: "HOST/data:1", hook: "HOST/absent:2"}
overrides: [{name: eu, clusterSelector: {matchLabels: {region: eu}}, values: {image: "HOST/app-eu:1"}}]
`
	spec = strings.NewReplacer("NAMESPACE", b.namespace, "HOST", b.registry.Host()).Replace(spec)
	h := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Name: "listed", Namespace: b.namespace}}
	if err := yaml.UnmarshalStrict([]byte(spec), &h.Spec); err != nil {
		t.Fatal(err)
	}
	h.Spec.Source.URL = "oci://" + b.registry.Host() + "/charts/listed"
	b.create(h)
	return b
}

// bill runs the command with the access to the registry.
func (b *billBed) bill(args ...string) result {
	b.Helper()
	config, err := b.registry.DockerConfigJSON()
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "config.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		b.Fatal(err)
	}
	return b.run(append([]string{"bill", "--ca-file", b.authority, "--registry-config", file}, args...)...)
}

// hashes matches digests and texts that depend on them. Archives contain the time of the test. Names contain ports,
// which differ between runs, too.
var hashes = regexp.MustCompile(
	`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|(sha256:)?[0-9a-f]{64}|sha256:[0-9a-f]{12}|-[0-9a-f]{16}\b`)

// compareBill compares an output. It replaces the host of the registry and the hashes first.
func (b *billBed) compareBill(golden string, got result) {
	b.Helper()
	if got.err != nil {
		b.Errorf("%v\n%s", got.err, got.errOut)
	}
	host := b.registry.Host()
	text := strings.NewReplacer(host, "registry.example", strings.ReplaceAll(host, ":", "-"), "registry.example",
		url.QueryEscape(host), "registry.example").Replace(got.out)
	known := map[string]string{}
	b.compare(golden, hashes.ReplaceAllStringFunc(text, func(hash string) string {
		if known[hash] == "" {
			known[hash] = fmt.Sprintf("HASH-%d", len(known)+1)
		}
		return known[hash]
	}))
}

// partly returns the output of a command that fails only because one image is missing in the registry.
func (b *billBed) partly(got result) result {
	b.Helper()
	warning := "warning: " + b.registry.Host() + "/absent:2: look up "
	if !errors.Is(got.err, kube.ErrResultFailed) || strings.Count(got.errOut, "warning: ") != 1 ||
		got.err.Error() != "1 artifact is not known completely; see the warnings" || !strings.Contains(got.errOut, warning) {
		b.Errorf("got %v\n%s, want the warning %q", got.err, got.errOut, warning)
	}
	return result{out: got.out}
}

// TestBill lists a HelmOp in Clusters with different values. The command connects to one Cluster; the others have no
// kubeconfig.
func TestBill(t *testing.T) {
	t.Parallel()
	b := newBillBed(t, "bill")
	b.compareBill("bill", b.partly(b.bill("listed")))
	b.compareBill("bill-wide", b.partly(b.bill("listed", "--offline", "-o", "wide", "--cluster", "prod-1")))
	b.compareBill("bill-json", b.partly(b.bill("listed", "-o", "json", "-l", "region=eu")))
	b.compareBill("bill-yaml", b.bill("listed", "-o", "yaml", "--no-lookup", "--cluster", "canary-1"))
	b.compareBill("bill-spdx", b.partly(b.bill("listed", "-o", "spdx")))
	b.compareBill("bill-cyclonedx", b.partly(b.bill("listed", "-o", "cyclonedx")))
}

// TestBillDocuments reads the documents with the libraries of their projects.
func TestBillDocuments(t *testing.T) {
	t.Parallel()
	b := newBillBed(t, "billdocuments")
	var document v2_3.Document
	if err := spdxjson.ReadInto(strings.NewReader(b.bill("listed", "-o", "spdx").out), &document); err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(&document); err != nil || len(document.Packages) != 5 {
		t.Errorf("%v, %d packages, want a chart and 4 images", err, len(document.Packages))
	}
	var bom cyclonedx.BOM
	text := b.bill("listed", "-o", "cyclonedx").out
	if err := cyclonedx.NewBOMDecoder(strings.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.SpecVersion != cyclonedx.SpecVersion1_6 || len(*bom.Components) != 5 {
		t.Errorf("version %s, %d components, want a chart and 4 images", bom.SpecVersion, len(*bom.Components))
	}
	refs := map[string]bool{"helmop-bill": true}
	for i := range *bom.Components {
		refs[(*bom.Components)[i].BOMRef] = true
	}
	for _, dependency := range *bom.Dependencies {
		if !refs[dependency.Ref] {
			t.Errorf("the dependency of %q, which is no component", dependency.Ref)
		}
	}
}

// TestBillMissing compares a bill with a registry that has a part of it.
func TestBillMissing(t *testing.T) {
	t.Parallel()
	b := newBillBed(t, "billmissing")
	at := "oci://" + b.registry.Host() + "/gap"
	file := filepath.Join(t.TempDir(), "bill.json")
	written := b.bill("listed", "-o", "json")
	if err := os.WriteFile(file, []byte(written.out), 0o600); err != nil {
		t.Fatal(err)
	}
	// The copy of an image has its own name. An image with the same tag is a different image.
	place := "gap/" + strings.ReplaceAll(b.registry.Host(), ":", "-") + "/"
	same := registry.ChartFiles(map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\nversion: 1.0.0\n",
		"values.yaml": "name: app\n"})
	for repository, chart := range map[string]registry.Chart{place + "app": same, place + "data": listedChart} {
		if _, err := b.registry.PushChart(t.Context(), repository, "1", chart); err != nil {
			t.Fatal(err)
		}
	}
	b.compareBill("bill-missing", b.partly(b.bill("--from", file, "--missing-in", at)))
	if got := b.bill("listed", "--no-lookup", "--missing-in", at); !errors.Is(got.err, kube.ErrDiffers) {
		t.Errorf("got %v", got.err)
	}

	var missing rendering.Missing
	data := b.bill("listed", "--missing-in", at, "-o", "json")
	if err := json.Unmarshal([]byte(data.out), &missing); err != nil || len(missing.Missing) != 4 ||
		len(missing.Unknown) != 1 {
		t.Errorf("%v: want the chart and 3 images as missing, and one image as unknown\n%s", err, data.out)
	}
	// An artifact below the prefix is its own copy.
	own := b.bill("listed", "--missing-in", "oci://"+b.registry.Host()+"/charts", "-o", "json")
	missing = rendering.Missing{}
	if err := json.Unmarshal([]byte(own.out), &missing); err != nil || len(missing.Missing) != 4 ||
		strings.Contains(own.out, "Chart") {
		t.Errorf("%v: %s, want the 4 images only", err, own.out)
	}
	unreachable := b.bill("listed", "--missing-in", "oci://127.0.0.1:1/gap", "--timeout", "20s")
	if unreachable.err == nil || errors.Is(unreachable.err, kube.ErrDiffers) ||
		!errors.Is(unreachable.err, kube.ErrResultFailed) {
		t.Errorf("a registry that does not answer: %v", unreachable.err)
	}
}

// TestBillPinned lists a pinned Cluster with the contents of its HelmOp revision, although the tag has moved.
func TestBillPinned(t *testing.T) {
	t.Parallel()
	b := newBillBed(t, "billpinned")
	helmOp := b.helmOp("listed")
	pushed, err := b.registry.PushChart(t.Context(), "charts/listed", "1.0.0", listedChart)
	if err != nil {
		t.Fatal(err)
	}
	revision := &addonsv1.HelmOpRevision{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace,
		Name: apiutil.RevisionName(helmOp.Name, 1), Labels: apiutil.ChildSelector(helmOp)}}
	revision.Spec = addonsv1.HelmOpRevisionSpec{Number: 1, Digest: "d", HelmOp: *helmOp.Spec.DeepCopy(),
		Artifact: &addonsv1.ResolvedArtifact{URL: helmOp.Spec.Source.URL, Tag: "1.0.0", Version: "1.0.0",
			Digest: pushed.Digest.String()}}
	revision.Spec.HelmOp.Overrides = nil
	b.create(revision)
	if _, err := b.registry.PushChart(t.Context(), "charts/listed", "1.0.0", registry.ChartFiles(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: listed\nversion: 1.0.0\n", "templates/pod.yaml": "apiVersion: v1\nkind: Pod\n" +
			"metadata: {name: a}\nspec: {containers: [{name: a, image: {{ .Values.image | quote }}}]}\n"})); err != nil {
		t.Fatal(err)
	}
	b.release(helmOp, "prod-2", 1, ready("1.0.0", time.Hour))
	previewer := preview.New(preview.Options{Client: b.WithWatch})
	then, err := previewer.At(t.Context(), helmOp, 1)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := previewer.Release(t.Context(), then, client.ObjectKey{Namespace: b.namespace, Name: "prod-2"})
	if err != nil {
		t.Fatal(err)
	}
	b.changeRelease("prod-2", func(release *addonsv1.HelmOpRelease) {
		release.Spec.Artifact = rendered.HelmOpRelease.Spec.Artifact
		release.Spec.ValuesDigest = rendered.HelmOpRelease.Spec.ValuesDigest
	})
	b.setPin("prod-2", "1")
	b.compareBill("bill-pinned", b.partly(b.bill("listed", "-l", "region=eu")))
	var list bill.Bill
	data := b.partly(b.bill("listed", "-l", "region=eu", "-o", "json")).out
	if err := json.Unmarshal([]byte(data), &list); err != nil || len(list.Charts) != 2 {
		t.Fatalf("%v: want 2 charts\n%s", err, data)
	}
	for i := range list.Charts {
		if chart := &list.Charts[i]; chart.IsEarlier != (chart.Digest == pushed.Digest.String()) {
			t.Errorf("%+v, want the mark at %s only", chart, pushed.Digest)
		}
	}
	b.changeRelease("prod-2", func(release *addonsv1.HelmOpRelease) { release.Spec.ValuesDigest = "other" })
	got := b.bill("listed", "--cluster", "prod-2", "-o", "wide")
	if !errors.Is(got.err, kube.ErrResultFailed) || !strings.Contains(got.out, "or an object in valuesFrom has changed") {
		t.Errorf("other values than the HelmOp revision renders: %v\n%s", got.err, got.out)
	}
	b.setPin("prod-2", "9")
	got = b.bill("listed", "--cluster", "prod-2")
	if got.err == nil || !strings.Contains(got.out, "reading HelmOp revision 9") {
		t.Errorf("got %v\n%s", got.err, got.out)
	}
}

// setPin pins the release of the HelmOp "listed" in a Cluster.
func (b *billBed) setPin(cluster, revision string) {
	b.Helper()
	b.changeRelease(cluster, func(release *addonsv1.HelmOpRelease) {
		release.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: revision}
	})
}

// changeRelease changes the release of the HelmOp "listed" in a Cluster.
func (b *billBed) changeRelease(cluster string, change func(*addonsv1.HelmOpRelease)) {
	b.Helper()
	release := &addonsv1.HelmOpRelease{}
	key := client.ObjectKey{Namespace: b.namespace, Name: apiutil.ChildName("listed", cluster)}
	if err := b.Get(b.Context(), key, release); err != nil {
		b.Fatal(err)
	}
	change(release)
	if err := b.Update(b.Context(), release); err != nil {
		b.Fatal(err)
	}
}

// TestBillSecrets has an image with a value from a Secret in its name. The list must not contain the image, and the
// command must print a warning.
func TestBillSecrets(t *testing.T) {
	t.Parallel()
	b := newBillBed(t, "billsecrets")
	helmOp := b.helmOp("listed")
	helmOp.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: "Secret", Name: "web"}}
	helmOp.Spec.Overrides = nil
	text := strings.ReplaceAll(string(helmOp.Spec.Values.Raw), "absent:2", planted+":1")
	helmOp.Spec.Values.Raw = []byte(text)
	if err := b.Update(b.Context(), helmOp); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"wide", "json", "spdx", "cyclonedx"} {
		got := b.bill("listed", "--offline", "-o", format)
		if strings.Contains(got.out+got.errOut, planted) || !errors.Is(got.err, kube.ErrResultFailed) ||
			!strings.Contains(got.errOut, "/[redacted]:1: its name contains a value from a Secret") {
			t.Errorf("%s: %v\n%s\n%s", format, got.err, got.out, got.errOut)
		}
	}
}

// TestBillFailures checks that the command names what it cannot list, and lists the rest.
func TestBillFailures(t *testing.T) {
	t.Parallel()
	b := newBillBed(t, "billfailures")
	got := b.bill("listed", "--set-version", "9.9.9", "-l", "region=eu")
	if got.err == nil || !errors.Is(got.err, kube.ErrResultFailed) ||
		!strings.Contains(got.err.Error(), "the contents of 2 Clusters are not known completely") ||
		!strings.Contains(got.out, "2 alike: prod-1, prod-2") || !strings.Contains(got.out, "listed:9.9.9: not found") {
		t.Errorf("got %v\n%s", got.err, got.out)
	}
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, args := range map[string][]string{
		"selects the Cluster":          {"listed", "--cluster", "prod-9"},
		"want oci://HOST/PREFIX":       {"listed", "--missing-in", "mirror.example"},
		"cannot be used with -o spdx":  {"listed", "--missing-in", "oci://a/b", "-o", "spdx"},
		"name of one HelmOp":           {"--set-version", "1.0.0"},
		"--from cannot be used":        {"listed", "--from", bad},
		"not a bill":                   {"--from", bad},
		"there is no HelmOp":           {"nothing"},
		`with the labels "region=typ"`: {"listed", "-l", "region=typ", "--missing-in", "oci://a/b"},
	} {
		if got := b.bill(args...); got.err == nil || !strings.Contains(got.err.Error(), text) {
			t.Errorf("%q: got %v, want %q", args, got.err, text)
		}
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"oras.land/oras-go/v2/registry"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/mirror"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

const (
	one = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	two = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

// listed is a bill with images and charts. Two charts have the same tag, and one of these is for pinned Clusters. Other
// charts come from chart repositories, and one of these repositories is on the host of the prefix.
var listed = &Bill{
	Version: Version,
	Groups: []Group{{Clusters: []string{"a"}, Releases: []Release{
		{HelmOp: "web", Chart: "oci://r.example/web:1@" + two, Images: []string{"app:1"},
			CRDs:         []CRD{{Name: "widgets.example.com", Versions: []string{"v1"}}},
			Verification: &Verification{Provider: "cosign", Signers: []string{"key a"}}},
		{HelmOp: "other", Verification: &Verification{Provider: "cosign", Message: "unsigned"}, Message: "unsigned"},
	}}},
	Charts: []Chart{
		{Name: "oci://r.example/web:1@" + one, URL: "oci://r.example/web", Tag: "1", Digest: one, IsEarlier: true,
			Findings: Findings{Attached: []Attached{{Kind: KindSignature, Digest: two, Tag: "sha256-1.sig"}}}},
		{Name: "oci://r.example/web:1@" + two, URL: "oci://r.example/web", Tag: "1", Digest: two},
		{Name: "https://c.example/stable/metrics:1.0+b@" + one, URL: "https://c.example/stable/metrics", Version: "1.0+b",
			Digest: one},
		{Name: "https://m.example/base/own:2@" + two, URL: "https://m.example/base/own", Tag: "2", Version: "2",
			Digest: two},
	},
	Images: []Image{
		{Name: "app:1", Repository: "docker.io/library/app", Tag: "1", Digest: two},
		{Name: "m.example/base/copied:1", Repository: "m.example/base/copied", Tag: "1"},
		{Name: "r.example/app@" + one, Repository: "r.example/app", Digest: one},
		{Name: "not an image", Findings: Findings{Message: "no such name"}},
	},
}

var prefix = registry.Reference{Registry: "m.example", Repository: "base"}

// TestSources checks which artifacts are copied with which tag, and that copies are not copied again.
func TestSources(t *testing.T) {
	t.Parallel()
	got, err := listed.Sources(prefix)
	want := []mirror.Entry{
		{Source: "oci://r.example/web@" + one, Digest: one},
		{Source: "oci://r.example/web:1", Tag: "1", Digest: two},
		{Source: "https://c.example/stable/metrics:1.0+b", Version: "1.0+b", ArchiveDigest: one},
		{Source: "https://m.example/base/own:2", Version: "2", ArchiveDigest: two},
		{Source: "app:1", Tag: "1", Digest: two, IsImage: true},
		{Source: "r.example/app@" + one, Digest: one, IsImage: true},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, got, want)
	}
}

// TestChecks checks where each artifact is looked for.
func TestChecks(t *testing.T) {
	t.Parallel()
	checks, err := listed.checks(prefix)
	var got []string
	for i := range checks {
		got = append(got, checks[i].Kind+" "+checks[i].Target)
	}
	want := []string{
		"Chart m.example/base/r.example/web@" + one, "Signature m.example/base/r.example/web:sha256-1.sig",
		"Chart m.example/base/r.example/web:1", "Chart m.example/base/c.example/stable/metrics:1.0_b",
		"Chart m.example/base/m.example/base/own:2",
		"Image m.example/base/docker.io/library/app:1", "Image m.example/base/copied:1",
		"Image m.example/base/r.example/app@" + one,
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%q, want\n%q", err, got, want)
	}
}

// TestMovedTag checks that no chart gets a tag that another Cluster resolved to another chart.
func TestMovedTag(t *testing.T) {
	t.Parallel()
	moved := &Bill{Version: Version, Charts: []Chart{{URL: "oci://r.example/web", Tag: "1", Digest: one},
		{URL: "oci://r.example/web", Tag: "1", Digest: two}}}
	_, sourcesErr := moved.Sources(prefix)
	_, checksErr := moved.checks(prefix)
	for _, err := range []error{sourcesErr, checksErr} {
		if err == nil || !strings.Contains(err.Error(), "oci://r.example/web:1, "+one+" and "+two) {
			t.Errorf("got %v", err)
		}
	}
}

// TestAddChart checks that a chart is an earlier one only if no unpinned Cluster has it.
func TestAddChart(t *testing.T) {
	t.Parallel()
	artifact := &addonsv1.ResolvedArtifact{URL: "oci://r.example/web", Tag: "1", Digest: one}
	helmOp := &addonsv1.HelmOp{}
	if isPresent(helmOp, artifact) {
		t.Error("a HelmOp without an artifact has one")
	}
	helmOp.Status.Artifact = &addonsv1.ArtifactStatus{ResolvedArtifact: *artifact}
	moved := *artifact
	moved.Digest = two
	if !isPresent(helmOp, artifact) || isPresent(helmOp, &moved) {
		t.Error("the artifact of the HelmOp is mistaken for an earlier one")
	}
	for _, order := range [][]bool{{true}, {true, true}, {true, false}, {false, true}} {
		m := &making{charts: map[string]*found[Chart]{}}
		name := ""
		for _, isEarlier := range order {
			name = m.addChart(artifact, reader{}, isEarlier)
		}
		if got, want := m.charts[name].artifact.IsEarlier, !slices.Contains(order, false); got != want {
			t.Errorf("%v: %t, want %t", order, got, want)
		}
	}
}

func TestPackageURL(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"pkg:oci/web@sha256%3A1?repository_url=r.example%3A5000/team/web&tag=1": ociPackageURL("r.example:5000/team/web",
			"sha256:1", "1"),
		"pkg:oci/app?repository_url=docker.io/library/app":         ociPackageURL("docker.io/library/app", "", ""),
		"pkg:generic/metrics@1.0%2Bb?checksum=sha256%3A" + one[7:]: listed.Charts[2].packageURL(),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	predicate := func(kind string) map[string]string { return map[string]string{predicateAnnotation: kind} }
	for want, referrers := range map[string][]oci.Referrer{
		KindSignature: {{ArtifactType: "application/vnd.cncf.notary.signature"},
			{ArtifactType: "application/vnd.dev.sigstore.bundle.v0.3+json", Annotations: predicate(signPredicate)}},
		KindAttestation: {{ArtifactType: "application/vnd.dev.sigstore.bundle.v0.3+json",
			Annotations: predicate("https://slsa.dev/provenance/v1")}, {ArtifactType: "application/vnd.in-toto+json"}},
		KindSBOM:  {{ArtifactType: "application/spdx+json"}, {ArtifactType: "application/vnd.cyclonedx+json"}},
		KindOther: {{ArtifactType: "application/example"}, {}},
	} {
		for i := range referrers {
			if got := kindOf(&referrers[i]); got != want {
				t.Errorf("%+v: %s, want %s", referrers[i], got, want)
			}
		}
	}
}

// TestDescribe checks that values from Secrets are in no name and in no message.
func TestDescribe(t *testing.T) {
	t.Parallel()
	parse := func(text string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	crd := "{kind: CustomResourceDefinition, metadata: {name: %s}, spec: {versions: [{name: %s}]}}"
	objects := []*unstructured.Unstructured{parse(fmt.Sprintf(crd, "planted.example.com", "v1")),
		parse(fmt.Sprintf(crd, "widgets.example.com", "planted")), parse(fmt.Sprintf(crd, "a.example.com", "v1")),
		parse("{kind: Pod, spec: {containers: [{image: r.example/planted:1}, {image: app:1}]}}")}
	for name, message := range map[string]string{"": "CRD [redacted].example.com: " + secretInName,
		"the planted failure": "the [redacted] failure"} {
		release := &Release{Message: name}
		release.describe(objects)
		release.mask(&preview.Release{SecretValues: []any{"planted"}})
		got, want := fmt.Sprint(release.Images, release.CRDs), "[app:1 r.example/[redacted]:1] [a.example.com (v1) "+
			"[redacted].example.com (v1) widgets.example.com ([redacted])]"
		if got != want || release.Message != message {
			t.Errorf("%s, %q, want %s, %q", got, release.Message, want, message)
		}
	}
}

// TestText checks the texts in the tables about signatures and about unknown artifacts.
func TestText(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := listed.WriteText(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cosign: verified, key a", "Unknown", "widgets.example.com (v1)",
		short(two, false)} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for text, isBill := range map[string]bool{
		`{"version": "helmop.bill/v1", "clusters": 1}`: true, "version: helmop.bill/v1\n": true, "version: helmop.bill/v9\n": false,
		"a: [": false,
	} {
		if _, err := Read([]byte(text)); (err == nil) != isBill {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestReadRefuses checks that a bill is refused if its fields contradict each other or name a place outside of the
// registries.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	chart := func(url, tag, version, digest string) string {
		c := Chart{URL: url, Tag: tag, Version: version, Digest: digest}
		return fmt.Sprintf(`charts: [{name: %q, url: %q, tag: %q, version: %q, digest: %q}]`, c.name(), url, tag, version,
			digest)
	}
	image := func(name, repository, tag, digest string) string {
		return fmt.Sprintf(`{name: %q, repository: %q, tag: %q, digest: %q}`, name, repository, tag, digest)
	}
	images := func(list ...string) string { return "images: [" + strings.Join(list, ", ") + "]" }
	valid := image("r.example/a:1", "r.example/a", "1", one)
	attached := func(text string) string {
		return images(strings.Replace(valid, "}", ", attached: ["+text+"]}", 1))
	}
	for text, want := range map[string]string{
		chart("oci://r.example/web", "1", "1", one):                                  "",
		chart("https://c.example/a/web", "1.0+b", "1.0+b", one):                      "",
		chart("oci://r.example/web", "1", "", "sha256:1"):                            "is not a digest",
		chart("oci://r.example/web", "1", "", ""):                                    "is not a digest",
		chart("oci://r.example/web", "a/b", "", one):                                 "is not a tag",
		chart("oci://r.example/web@"+two, "", "", one):                               "its URL",
		chart("oci://user@r.example/web", "", "", one):                               "its URL",
		chart("file:///etc/web", "", "", one):                                        "its URL",
		chart("https://user:word@c.example/web", "", "1", one):                       "its URL",
		chart("https://c.example/web?a=b", "", "1", one):                             "its URL",
		chart("https://c.example/web#a", "", "1", one):                               "its URL",
		chart("https://c.example", "", "1", one):                                     "its URL",
		chart("https://c.example/web", "2", "1", one):                                "must be the version",
		chart("https://c.example/web", "", "", one):                                  "must be the version",
		chart("https://c.example/web", "", "../1", one):                              "is not a tag",
		strings.Replace(chart("oci://r.example/web", "1", "", one), ":1@", ":2@", 1): "are those of",
		images(valid): "",
		images(image("app:1", "docker.io/library/app", "1", "")):     "",
		images(image("r.example/a:1@"+one, "r.example/a", "", one)):  "",
		images(image("not an image", "", "", "")):                    "",
		images(image("r.example/a:1", "r.example/other", "1", one)):  "do not match its name",
		images(image("r.example/a:1", "", "", one)):                  "do not match its name",
		images(image("r.example/a:1", "r.example/a", "2", one)):      "do not match its name",
		images(image("not an image", "r.example/a", "1", one)):       "do not match its name",
		images(image("not an image", "", "", one)):                   "is not the name of an image",
		images(image("r.example/a@"+one, "r.example/a", "", two)):    "is not the digest in its name",
		images(image("r.example/a:1", "r.example/a", "1", "latest")): "is not a digest",
		images(valid, valid):                        "listed twice",
		attached("{digest: a}"):                     "is not a digest",
		attached("{digest: " + one + ", tag: a/b}"): "is not a tag",
	} {
		_, err := Read([]byte("version: " + Version + "\n" + text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// schema returns the official JSON schema of CycloneDX 1.6. It is in the module of the library.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")
	folder, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	for name, file := range map[string]string{"bom-1.6.schema.json": "bom-1.6.schema.json",
		"spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		data, err := os.Open(filepath.Join(strings.TrimSpace(string(folder)), "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(data)
		if err = errors.Join(err, data.Close()); err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource("http://cyclonedx.org/schema/"+name, document); err != nil {
			t.Fatal(err)
		}
	}
	compiled, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// TestDocuments checks the documents by the rules of their projects, and that they are the same for the same bill.
func TestDocuments(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for name, write := range map[string]func(io.Writer, time.Time) error{
		"CycloneDX": listed.WriteCycloneDX, "SPDX": listed.WriteSPDX,
	} {
		var first, second bytes.Buffer
		err := errors.Join(write(&first, created), write(&second, created))
		if err != nil || first.String() != second.String() {
			t.Fatalf("%s: %v, or the documents differ", name, err)
		}
		if !strings.Contains(first.String(), listed.Images[3].Message) {
			t.Errorf("%s does not say what is not known:\n%s", name, first.String())
		}
		if name == "SPDX" {
			var document v2_3.Document
			if err := spdxjson.ReadInto(&first, &document); err != nil {
				t.Fatal(err)
			}
			if err := spdxlib.ValidateDocument(&document); err != nil {
				t.Error(err)
			}
			continue
		}
		document, err := jsonschema.UnmarshalJSON(&first)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema(t).Validate(document); err != nil {
			t.Errorf("%v\n%s", err, second.String())
		}
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/pack"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/exit"
)

// read reads the files below a folder.
func (b *bed) read(dir string) map[string]string {
	b.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return files
}

// TestRoundTrip pushes and pulls in each format, and pushes the pulled files again. The digest must be the same.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, format := range pack.Formats {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.write("dir/one.yaml", configMap)
			b.write("dir/two.json", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"two"}}`)
			files, pulledTo, args := b.read(b.path("dir")), "out", []string{"pull"}
			if format == "HelmChart" {
				b.write("dir/Chart.yaml", "apiVersion: v2\nname: cni\nversion: 1.2.3\n")
				files, pulledTo, args = b.read(b.path("dir")), "out/cni", []string{"pull", "--untar"}
			}
			if format == "Plain" {
				pulledTo = "out/manifests"
			} else {
				// Files without objects are kept.
				b.write("dir/fleet.yaml", "defaultNamespace: apps\n")
				files = b.read(b.path("dir"))
			}
			first := decode[pushed](t, b.ok("push", b.path("dir"), b.at("base"), "--format", strings.ToLower(string(format)),
				"--tag", "1.2.3", "-o", "json"))
			got := decode[pulled](t, b.ok(append(args, first.Reference, "--dir", b.path("out"), "-o", "json")...))
			if got.Format != string(format) || got.Digest != first.Digest || len(got.Files) != len(files) {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff(files, b.read(b.path(pulledTo))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			again := decode[pushed](t, b.ok("push", b.path(pulledTo), b.at("copy"), "--format", string(format), "--tag", "1.2.3",
				"-o", "json"))
			if again.Digest != first.Digest {
				t.Errorf("%s and %s", first.Digest, again.Digest)
			}
		})
	}
}

func TestPullChart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("cni/Chart.yaml", "apiVersion: v2\nname: cni\nversion: 1.2.3\n")
	reference := strings.TrimSpace(b.ok("push", b.path("cni"), b.at("charts/cni")))
	if got := b.ok("pull", reference, "-d", b.path("out")); got != b.path("out/cni-1.2.3.tgz")+"\n" {
		t.Errorf("%q", got)
	}
	again := strings.TrimSpace(b.ok("push", b.path("out/cni-1.2.3.tgz"), b.at("charts/cni")))
	if again != reference {
		t.Errorf("%s and %s", reference, again)
	}
	before := b.read(b.path("out"))
	b.fails(exit.Failed, "nothing was written", "pull", reference, "-d", b.path("out"))
	if diff := cmp.Diff(before, b.read(b.path("out"))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	b.fails(exit.NotFound, "none", "pull", b.at("none:v1"), "-d", b.path("out"))
}

func TestDiff(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	secret := "apiVersion: v1\nkind: Secret\nmetadata:\n  name: %\nstringData:\n  password: "
	b.write("old/all.yaml", configMap+"data:\n  a: one\n---\n"+strings.ReplaceAll(secret, "%", "two")+"planted-old\n---\n"+
		strings.ReplaceAll(secret, "%", "same")+
		"planted-same\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: gone, namespace: ns}\n")
	b.write("new/one.yaml", "data:\n  a: two\n"+configMap)
	b.write("new/two.yaml", strings.ReplaceAll(secret, "%", "two")+"planted-new\n")
	b.write("new/same.yaml", strings.ReplaceAll(secret, "%", "same")+"planted-same\n")
	b.write("new/crd.yaml",
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\nspec: {}\n")
	before := strings.TrimSpace(b.ok("push", b.path("old"), b.at("base:old"), "--format", "files"))
	after := strings.TrimSpace(b.ok("push", b.path("new"), b.at("base:new"), "--format", "plain"))

	if got := b.run("diff", before, before); got.code != exit.Done || got.out != "" {
		t.Errorf("%+v", got)
	}
	got := b.run("diff", before, after, "-o", "json")
	if got.code != exit.Failed || strings.Contains(got.out+got.err, "planted") {
		t.Fatalf("%+v", got)
	}
	var changes []string
	for _, object := range decode[diffed](t, got.out).Objects {
		changes = append(changes, object.Change+" "+object.Object)
	}
	want := []string{
		"changed ConfigMap one", "added CustomResourceDefinition.apiextensions.k8s.io a.b", "removed Deployment.apps ns/gone",
		"changed Secret two",
	}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	text := b.run("diff", before, after).out
	for _, line := range []string{"--- old/ConfigMap one\n+++ new/ConfigMap one\n", "\n-  a: one\n", "\n+  a: two\n",
		"+++ /dev/null\n", "\n-  password: '*** "} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
	b.fails(exit.NotFound, "none", "diff", before, b.at("none:v1"))
	b.fails(exit.Usage, "neither a tag nor a digest", "diff", before, b.at("base"))
	b.write("broken/a.yaml", "a: b: c\n")
	broken := strings.TrimSpace(b.ok("push", b.path("broken"), b.at("base:broken")))
	b.fails(exit.Usage, "a.yaml", "diff", before, broken)
}

// TestDiffOfCharts renders charts with values.
func TestDiffOfCharts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var references []string
	for _, version := range []string{"1.0.0", "1.1.0"} {
		b.write("cni/Chart.yaml", "apiVersion: v2\nname: cni\nversion: "+version+"\n")
		b.write("cni/values.yaml", "name: own\n")
		b.write("cni/templates/a.yaml",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Values.name }}', namespace: '{{ .Release.Namespace "+
				"}}'}\ndata: {v: '{{ .Chart.Version }}'}\n")
		references = append(references, strings.TrimSpace(b.ok("push", b.path("cni"), b.at("charts/cni"))))
	}
	got := b.run(slices.Concat([]string{"diff"}, references,
		[]string{"-n", "ns", "-f", b.write("values.yaml", "name: given\n"), "-o", "yaml"})...)
	if got.code != exit.Failed || !strings.Contains(got.out, "object: ConfigMap ns/given\n") ||
		!strings.Contains(got.out, "+  v: 1.1.0") {
		t.Errorf("%+v", got)
	}
	b.fails(exit.Usage, "--values", slices.Concat([]string{"diff"}, references, []string{"-f", b.path("none")})...)
}

// TestEndlessChart compares and mirrors a chart that does not end. --timeout must stop it. On a slow machine, the time
// may end before the chart is rendered, so each command is repeated with more time.
func TestEndlessChart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("endless/Chart.yaml", "apiVersion: v2\nname: endless\nversion: 1.0.0\n")
	b.write("endless/templates/a.yaml", "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}\n")
	b.ok("push", b.path("endless"), b.at("charts/endless"))
	b.write("one/object.yaml", configMap)
	b.ok("push", b.path("one"), b.at("team/one:v1"))
	chart := b.at("charts/endless:1.0.0")
	stops := func(code int, args ...string) {
		var got result
		for _, timeout := range []string{"4s", "16s", "1m4s"} {
			want := "not finished after " + timeout + " (--timeout): context deadline exceeded: install: render limit " +
				"exceeded: rendering the chart was stopped: it was not done in time at template " +
				"\"endless/templates/a.yaml\"; simplify the chart, or raise --timeout\n"
			got = b.run(append(args, "--timeout", timeout)...)
			if got.code == code && strings.Contains(got.err, want) {
				return
			}
		}
		b.Errorf("%q: exit code %d: %s", args, got.code, got.err)
	}
	var commands sync.WaitGroup
	defer commands.Wait()
	commands.Go(func() { stops(exit.Usage, "diff", chart, b.at("team/one:v1")) })
	commands.Go(func() {
		stops(exit.Failed, "mirror", chart, "--images", "--to", b.at("mirrored"), "--lock", b.path("lock.yaml"))
	})
}

// TestDiffTakesListsApart compares charts with several Lists, and with objects that have only a generateName.
func TestDiffTakesListsApart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	list := "apiVersion: v1\nkind: List\nitems:\n"
	var references []string
	for _, version := range []string{"1.0.0", "1.1.0"} {
		b.write("cni/Chart.yaml", "apiVersion: v2\nname: cni\nversion: "+version+"\n")
		b.write("cni/templates/a.yaml",
			list+"- {apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {v: '{{ .Chart.Version }}'}}\n"+
				"- {apiVersion: v1, kind: Secret, metadata: {name: two}, stringData: {v: 'planted-{{ .Chart.Version }}'}}\n")
		b.write("cni/templates/b.yaml", list+"- {apiVersion: v1, kind: ConfigMap, metadata: {name: same}}\n")
		b.write("cni/templates/c.yaml",
			"apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: j-}\nspec: {parallelism: {{ .Chart.Version | replace "+
				"\".\" \"\" }}}\n"+
				"---\napiVersion: batch/v1\nkind: Job\nmetadata: {generateName: j-}\n")
		references = append(references, strings.TrimSpace(b.ok("push", b.path("cni"), b.at("charts/cni"))))
	}
	got := b.run(append([]string{"diff", "-o", "json"}, references...)...)
	if got.code != exit.Failed || strings.Contains(got.out+got.err, "planted") {
		t.Fatalf("%+v", got)
	}
	var changes []string
	for _, object := range decode[diffed](t, got.out).Objects {
		changes = append(changes, object.Change+" "+object.Object)
	}
	if diff := cmp.Diff([]string{"changed ConfigMap one", "changed Job.batch j-", "changed Secret two"},
		changes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

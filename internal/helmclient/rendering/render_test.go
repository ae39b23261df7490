// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

var demoRelease = chartutil.ReleaseOptions{Name: "web", Namespace: "apps", Revision: 1, IsInstall: true}

// installed returns the release that Helm creates from a chart.
func installed(t *testing.T, chrt *chart.Chart, values map[string]any) (*release.Release, error) {
	t.Helper()
	config := &action.Configuration{
		Releases: storage.Init(driver.NewMemory()), KubeClient: &kubefake.PrintingKubeClient{Out: &bytes.Buffer{}},
		Capabilities: chartutil.DefaultCapabilities.Copy(), Log: func(string, ...any) {},
	}
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace = demoRelease.Name, demoRelease.Namespace
	return install.Run(chrt, CopyValues(values))
}

// equalToHelm compares the release of a chart with the release that Helm alone creates.
func equalToHelm(t *testing.T, r *Renderer, chrt *chart.Chart, values map[string]any) {
	t.Helper()
	g := NewWithT(t)
	want, wantErr := installed(t, CopyChart(chrt), values)
	rendered, err := r.Render(t.Context(), Source{Chart: chrt, Values: values},
		Options{Release: demoRelease, Capabilities: chartutil.DefaultCapabilities.Copy()})
	if wantErr != nil {
		if err == nil {
			_, err = installed(t, rendered.Literal, values)
		}
		g.Expect(err).To(MatchError(wantErr.Error()))
		return
	}
	g.Expect(err).NotTo(HaveOccurred())
	got, err := installed(t, rendered.Literal, values)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Manifest).To(Equal(want.Manifest))
	g.Expect(got.Info.Notes).To(Equal(want.Info.Notes))
	g.Expect(got.Hooks).To(Equal(want.Hooks))
	g.Expect(got.Config).To(Equal(want.Config))
	g.Expect(jsonOf(t, rendered.Recorded)).To(Equal(jsonOf(t, want.Chart)), "the chart in the record")
}

func file(name, text string) *chart.File { return &chart.File{Name: name, Data: []byte(text)} }

// treeChart returns a chart with all parts that Helm changes, and with texts that are difficult to copy.
func treeChart() *chart.Chart {
	child := newChart("1.0.0", nil)
	child.Metadata.Name = "child"
	child.Values = map[string]any{"color": "red", "exports": map[string]any{"shared": map[string]any{"imported": "yes"}},
		"large": float64(1e21)}
	child.Templates = []*chart.File{
		file("templates/cm.yaml", configMap("{{ .Release.Name }}-{{ .Chart.Name }}",
			"{{ .Values.color }}/{{ .Template.Name }}/{{ .Values.large }}")),
		file("templates/NOTES.txt", "of the child"),
	}
	library := newChart("1.0.0", nil)
	library.Metadata.Name, library.Metadata.Type = "library", "library"
	library.Templates = []*chart.File{file("templates/_l.tpl", `{{ define "library.name" }}lib{{ end }}`),
		file("templates/no.yaml", "not rendered")}
	parent := newChart("1.0.0", map[string]string{
		"a.yaml": configMap("a", `{{ "{{" }} $x {{ "}}" }} {{ "{{{-" }} trim -}} <no value> {{ .Values.absent }}`),
		"b.yaml": "{{- if .Values.never }}\nkind: x\n{{- end }}\n",
		"hook.yaml": strings.Replace(configMap("hook", "{{ .Values.number }}"),
			"metadata:\n", "metadata:\n  annotations: {helm.sh/hook: pre-install}\n", 1),
		"many.yaml": "{{ range $i, $v := .Values.list }}\n---\n" +
			configMap("many-{{ $i }}", "{{ $v }} {{ kindOf $v }} {{ typeOf $v }}") + "{{ end }}",
		"NOTES.txt": "Hello {{ .Release.Name }} {{ .Release.Revision }} {{ .Capabilities.KubeVersion.Major }} {{ include " +
			"\"library.name\" . }}\n\n",
		"_h.tpl":     `{{ define "x" }}{{ tpl .Values.template . }}{{ end }}`,
		"tpl.yaml":   configMap("tpl", `{{ include "x" . }}`),
		"empty.yaml": "", "only-define.yaml": `{{ define "y" }}{{ end }}`,
		"windows.yaml": strings.ReplaceAll(configMap("w", "1"), "\n", "\r\n"),
		"files.yaml":   configMap("files", `{{ .Files.Get "README.md" }} {{ len .Subcharts }} {{ .Chart.IsRoot }}`),
	})
	parent.Files = []*chart.File{file("README.md", "read {{ me }}")}
	parent.Values = map[string]any{"list": []any{float64(1), "a", nil, true}, "number": float64(3),
		"template": "{{ .Release.Name }} \\{\\{", "removed": "x"}
	parent.Metadata.Dependencies = []*chart.Dependency{
		{Name: "child", Version: "1.x", ImportValues: []any{"shared"}},
		{Name: "child", Version: "1.x", Alias: "twin", Condition: "twin.enabled"},
		{Name: "child", Version: "1.x", Alias: "off", Condition: "off.enabled"}, {Name: "library", Version: "1.x"},
	}
	parent.AddDependency(child, library)
	return parent
}

func jsonOf(t *testing.T, c *chart.Chart) string {
	t.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestRenderEqualsHelm(t *testing.T) {
	t.Parallel()
	r := newTestRenderer(t, sandbox.Limits{})
	broken := func(template string) *chart.Chart {
		return newChart("1.0.0", map[string]string{"a.yaml": "\n" + template})
	}
	tooNew := newChart("1.0.0", nil)
	tooNew.Metadata.KubeVersion = ">= 99.0.0"
	empty := treeChart()
	empty.Metadata.Dependencies = []*chart.Dependency{}
	mismatch := treeChart()
	mismatch.Values["child"] = "no table"
	for name, tc := range map[string]struct {
		chart  *chart.Chart
		values map[string]any
	}{
		"tree": {chart: treeChart(), values: map[string]any{
			"list": []any{int64(1), 2.5, "x", nil, map[string]any{"a": int64(1 << 40)}}, "number": int64(1000000),
			"removed": nil,
			"off":     map[string]any{"enabled": false}, "twin": map[string]any{"color": "blue"},
		}},
		"tree without values":  {chart: treeChart()},
		"empty dependencies":   {chart: empty},
		"a parse error":        {chart: broken("{{ if }}")},
		"fail":                 {chart: broken(`x: {{ fail "because" }}`)},
		"required":             {chart: broken(`{{ required "needs it" .Values.a }}`)},
		"an execution error":   {chart: broken("    {{ .Values.a.b.c }}")},
		"an error of an index": {chart: broken(`{{ index .Values.list 7 }}`)},
		"no YAML":              {chart: broken("kind: {")},
		"kubeVersion":          {chart: tooNew},
		"values of another":    {chart: mismatch},
		"an unknown function":  {chart: broken("{{ nothing }}")},
		"a lookup": {chart: broken(configMap("x",
			`{{ lookup "v1" "Secret" "a" "b" | len }}{{ (lookup "v1" "Secret" "a" "").items | len }}`))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			equalToHelm(t, r, tc.chart, tc.values)
		})
	}
}

// TestRenderedTextIsNotParsed checks that Helm does not parse rendered texts as templates again in the manager. An
// action of a template takes hundreds of bytes.
func TestRenderedTextIsNotParsed(t *testing.T) { //nolint:paralleltest // It measures memory.
	text := strings.Repeat("{{", 200_000)
	literal := literalChart(&chart.Metadata{Name: "demo"}, []*chart.File{file("demo/templates/NOTES.txt", text)})
	literal.Metadata.APIVersion, literal.Metadata.Version = "v2", "1.0.0"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rls, err := installed(t, literal, nil)
	runtime.ReadMemStats(&after)
	if err != nil || rls.Info.Notes != text {
		t.Fatalf("the text of %d bytes has changed: %v", len(text), err)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 16<<20 {
		t.Errorf("a text of %d KiB takes %d MiB", len(text)>>10, taken>>20)
	}
}

func FuzzLiteralText(f *testing.F) {
	for _, text := range []string{"", "{{", "{{{", "{{{{", "a{{- b -}}", `{{"{{"}}`, "{{/* */}}", "\xff{{\x00", "}}{{"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "<no value>") {
			t.Skip("Helm takes it out of every text")
		}
		literal := literalChart(&chart.Metadata{Name: "demo"}, []*chart.File{file("demo/templates/NOTES.txt", text)})
		literal.Metadata.APIVersion, literal.Metadata.Version = "v2", "1.0.0"
		rls, err := installed(t, literal, nil)
		if err != nil || rls.Info.Notes != text {
			t.Errorf("%q became %q, %v", text, rls.Info.Notes, err)
		}
	})
}

func TestLookup(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newTestRenderer(t, sandbox.Limits{})
	refused := errors.New("it is refused here")
	asked := []string{}
	lookup := func(apiVersion, kind, namespace, name string) (map[string]any, error) {
		asked = append(asked, fmt.Sprintf("%s %s %s %s", apiVersion, kind, namespace, name))
		switch {
		case kind == "Node":
			return nil, refused
		case name == "absent":
			return map[string]any{}, nil
		case name == "":
			return map[string]any{"kind": "List", "items": []any{map[string]any{"metadata": map[string]any{"name": "one"}}}}, nil
		}
		return map[string]any{"kind": kind, "data": map[string]any{"count": int64(7), "half": 0.5}}, nil
	}
	text := func(template string) (string, error) {
		rendered, err := r.Render(t.Context(), Source{Chart: newChart("1.0.0", map[string]string{"NOTES.txt": template})},
			Options{Release: demoRelease, Capabilities: chartutil.DefaultCapabilities.Copy(), Lookup: lookup})
		if err != nil {
			return "", err
		}
		return string(rendered.Literal.Files[0].Data), nil
	}
	g.Expect(text(`{{ with lookup "v1" "Secret" "a" "b" }}{{ .data.count }} {{ typeOf .data.count }} {{ .data.half }}{{ end }}`)).To(Equal("7 int64 0.5"))
	g.Expect(text(`{{ range (lookup "apps/v1" "Deployment" "" "").items }}{{ .metadata.name }}{{ end }}`)).To(Equal("one"))
	g.Expect(text(`{{ if not (lookup "v1" "Secret" "a" "absent") }}none{{ end }}`)).To(Equal("none"))
	_, err := text("\n" + `{{ lookup "v1" "Node" "" "x" }}`)
	g.Expect(err).To(MatchError(refused))
	g.Expect(err).To(MatchError(ContainSubstring("demo/templates/NOTES.txt:2:3")))
	g.Expect(asked).To(Equal([]string{"v1 Secret a b", "apps/v1 Deployment  ", "v1 Secret a absent", "v1 Node  x"}))
	_, err = text(`{{ range until 2000 }}{{ $x := lookup "v1" "Secret" "a" "b" }}{{ end }}`)
	g.Expect(err).To(MatchError(ContainSubstring("looks up more than 1000")))
}

// schemaOf returns a schema that takes 2^depth validations.
func schemaOf(depth int, leaf string) string {
	text := `{"$ref":"#/$defs/d0","$defs":{`
	for i := range depth {
		text += fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	return text + fmt.Sprintf(`"d%d":%s}}`, depth, leaf)
}

// TestHostileCharts checks charts that would end or block the manager without limits.
func TestHostileCharts(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all limits")
	}
	tight := newTestRenderer(t, sandbox.Limits{Memory: 256 << 20, CPU: 2 * time.Second})
	// A text of more than 32 MiB is copied several times before its length is checked. How much memory that takes
	// depends on when garbage is collected.
	roomy := newTestRenderer(t, sandbox.Limits{Memory: 1 << 30, CPU: 20 * time.Second})
	template := func(text string) *chart.Chart {
		return newChart("1.0.0", map[string]string{"good.yaml": configMap("good", "1"), "bad.yaml": text,
			"zz.yaml": configMap("zz", "1")})
	}
	schema := func(text string) *chart.Chart {
		chrt := template("")
		chrt.Schema = []byte(text)
		return chrt
	}
	aliases := template("")
	for i := range 20_000 {
		aliases.Metadata.Dependencies = append(aliases.Metadata.Dependencies,
			&chart.Dependency{Name: "sub", Version: "1.x", Alias: fmt.Sprintf("a%d", i)})
	}
	sub := newChart("1.0.0", nil)
	sub.Metadata.Name, sub.Values = "sub", map[string]any{"list": make([]any, 10_000)}
	aliases.AddDependency(sub)
	imports := template("")
	imports.Metadata.Dependencies = []*chart.Dependency{{Name: "sub", Version: "1.x"}}
	for i := range 50 {
		imports.Metadata.Dependencies[0].ImportValues = append(imports.Metadata.Dependencies[0].ImportValues,
			map[string]any{"child": "exported", "parent": fmt.Sprintf("p%d", i)})
	}
	exporting := newChart("1.0.0", nil)
	exporting.Metadata.Name = "sub"
	exporting.Values = map[string]any{"exported": map[string]any{"list": make([]any, 6_000)}}
	imports.AddDependency(exporting)
	bad := `template "demo/templates/bad.yaml"`
	for name, tc := range map[string]struct {
		chart *chart.Chart
		text  string
	}{
		"repeat":      {template(`{{ repeat 1099511627776 "x" | len }}`), bad},
		"repeat less": {template(`{{ repeat 68719476736 "x" | len }}`), "more than 256 MiB of memory at " + bad},
		"a range":     {template(`{{ range until 2000000000 }}{{ end }}`), bad},
		"nested loops": {template(`{{ range until 100000 }}{{ range until 1000 }}{{ end }}{{ end }}`),
			"more than 2s of CPU time at " + bad},
		"keys": {template(`{{ range until 1000 }}{{ $x := genCA "x" 1 }}{{ end }}`),
			"more than 2s of CPU time at " + bad},
		"a schema":        {schema(schemaOf(40, `true`)), "more than 2s of CPU time at values.schema.json"},
		"a broken schema": {schema(schemaOf(20, `{"type":"string"}`)), "values.schema.json"},
		"aliased bytes": {template("x: &x \"{{ repeat 1000000 \"y\" }}\"\nl: [{{ range until 1000 }}*x,{{ end }}]\n"),
			"split the chart, "},
		"many texts":       {template(`{{ repeat 40000000 "x" }}`), "32 MiB"},
		"many values":      {template(`l: [{{ range until 200000 }}{a: 0},{{ end }}]`), "300000 values"},
		"UTF-16":           {template("\xff\xfea\x00:\x00 \x00b\x00"), "not UTF-8 text"},
		"a directive":      {template("%TAG ! tag:x,\r---\r- !a b"), "%TAG"},
		"notes":            {newChart("1.0.0", map[string]string{"NOTES.txt": `{{ repeat 1000000 "{{" }}`}), "1 MiB"},
		"imported values":  {imports, "more than 250000 values"},
		"aliased subchart": {aliases, "the dependencies and values of the chart"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, r := NewWithT(t), tight
			if name == "many texts" || name == "many values" {
				r = roomy
			}
			source := Source{Chart: tc.chart}
			err := r.CheckValues(t.Context(), source)
			if err == nil {
				_, err = r.Render(t.Context(), source,
					Options{Release: demoRelease, Capabilities: chartutil.DefaultCapabilities.Copy()})
			}
			switch name {
			case "aliased bytes", "many texts", "many values":
				g.Expect(err).To(MatchError(ErrInvalidChart))
				g.Expect(err).To(MatchError(ContainSubstring("from demo/templates/bad.yaml on")))
				return
			case "UTF-16", "a directive", "notes", "imported values":
				g.Expect(err).To(MatchError(ErrInvalidChart))
				g.Expect(err).To(MatchError(ContainSubstring(tc.text)))
				return
			}
			if name == "repeat" && !errors.Is(err, ErrLimit) {
				// The Go runtime panics for this size, and Helm converts the panic to an error of the template.
				g.Expect(err).To(MatchError(ContainSubstring("demo/templates/bad.yaml")))
				return
			}
			g.Expect(err).To(MatchError(ErrLimit))
			g.Expect(err).To(MatchError(ContainSubstring(tc.text)))
		})
	}
}

// TestOtherTenantIsNotBlocked checks that the chart of a tenant is rendered while another tenant renders more charts
// than there are child processes.
func TestOtherTenantIsNotBlocked(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newTestRenderer(t, sandbox.Limits{CPU: time.Minute})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	endless := newChart("1.0.0",
		map[string]string{"a.yaml": `{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}`})
	for range 2 * runtime.GOMAXPROCS(0) {
		go func() {
			_, _ = r.Render(ctx, Source{Chart: endless, Tenant: "a"},
				Options{Release: demoRelease, Capabilities: chartutil.DefaultCapabilities.Copy()})
		}()
	}
	_, err := r.Render(t.Context(), Source{Chart: newChart("1.0.0", nil), Tenant: "b"},
		Options{Release: demoRelease, Capabilities: chartutil.DefaultCapabilities.Copy()})
	g.Expect(err).NotTo(HaveOccurred())
}

func TestPostRendererInATask(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := newTestRenderer(t, sandbox.Limits{})
	changes := &PostRender{Labels: map[string]string{"team": "a"}}
	renderer, err := r.PostRenderer(t.Context(), changes, "apps", Source{})
	g.Expect(err).NotTo(HaveOccurred())
	made, err := renderer.Run(bytes.NewBufferString(manifestOf(serviceText)))
	g.Expect(err).NotTo(HaveOccurred())
	want := mustRender(t, *changes, manifestOf(serviceText))
	g.Expect(made.String()).To(Equal(want))

	changes.Patches = []Patch{{Patch: "apiVersion: v1\nkind: Service\nmetadata: {name: absent}"}}
	renderer, err = r.PostRenderer(t.Context(), changes, "apps", Source{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = renderer.Run(bytes.NewBufferString(manifestOf(serviceText)))
	g.Expect(err).To(MatchError(ErrPostRender))
	g.Expect(err).To(MatchError(ContainSubstring("matches no object")))

	nothing, err := r.PostRenderer(t.Context(), nil, "apps", Source{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(nothing).To(BeNil())
}

func BenchmarkRender(b *testing.B) {
	chrt := newChart("1.0.0", nil)
	for i := range 100 {
		text := "{{ range until 10 }}\n---\n" + configMap("x-{{ . }}", "{{ .  | quote }}"+strings.Repeat("text ", 200)) +
			"{{ end }}"
		chrt.Templates = append(chrt.Templates, file(fmt.Sprintf("templates/%d.yaml", i), text))
	}
	options := Options{Release: demoRelease, Capabilities: chartutil.DefaultCapabilities.Copy()}
	inChildren := sandbox.NewPool(sandbox.Options{})
	b.Cleanup(inChildren.Close)
	for name, runner := range map[string]sandbox.Runner{"children": inChildren, "here": sandbox.InProcess(Tasks())} {
		b.Run(name, func(b *testing.B) {
			r := NewRenderer(runner)
			for b.Loop() {
				if _, err := r.Render(b.Context(), Source{Chart: chrt}, options); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile has artifacts that need more memory or CPU time than the limits permit: in the renderer, or in the
// manager, which parses what was rendered. The end-to-end tests and the benchmark share them.
package hostile

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// Version is the version, and the tag, of all artifacts.
const Version = "1.0.0"

// Chart is a hostile chart.
type Chart struct {
	Name string
	// Reason is the reason of the failure.
	Reason string
	// Limit is a regular expression for the part of the error that names the limit and the place.
	Limit string

	file, text string
}

// Charts returns charts that exceed the limits by templates, a schema, rendered texts or the folder crds.
func Charts() []Chart {
	template := func(name, limit, text string) Chart {
		return Chart{Name: name, Reason: addonsv1.RenderLimitExceededReason,
			Limit: fmt.Sprintf("%s at template %q", limit, name+"/templates/bad.yaml"), file: "templates/bad.yaml", text: text}
	}
	// The renderer can handle these charts. The manager would take gigabytes to parse the result.
	result := func(name, limit, file, text string) Chart {
		return Chart{Name: name, Reason: addonsv1.ChartInvalidReason, Limit: limit, file: file, text: text}
	}
	// A renderer has the lowest CPU priority, so that on a full machine the time is over first.
	const cpu = "(more than .* of CPU time|it was not done in time)"
	return []Chart{
		template("memory", "of memory", `{{ repeat 68719476736 "x" | len }}`),
		template("list", "(of memory|of CPU time|it was not done in time)", `{{ range until 2000000000 }}{{ end }}`),
		template("loops", cpu, `{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}`),
		{Name: "schema", Reason: addonsv1.RenderLimitExceededReason, Limit: cpu + " at values.schema.json",
			file: "values.schema.json", text: Schema()},
		result("values", "the manifests have more than .* values", "templates/bad.yaml",
			"kind: ConfigMap\nl: [{{ range until 300000 }}{a: 0},{{ end }}]"),
		result("notes", "the notes have more than", "templates/NOTES.txt", `{{ repeat 5000000 "{{" }}`),
		result("crds", "crds/bad.yaml: the manifests have more than", "crds/bad.yaml", Aliases()),
		result("encoding", "crds/bad.yaml: it is not UTF-8 text", "crds/bad.yaml", inUTF16(Aliases())),
	}
}

// Large returns a chart within all limits, in a few hundred bytes: its manifests have six megabytes, and its hook never
// ends. Each action on it keeps its memory until its timeout.
func Large() Chart {
	const hook = `apiVersion: v1
kind: Pod
metadata: {name: "{{ .Release.Name }}", annotations: {helm.sh/hook: pre-install}}
spec: {containers: [{name: a, image: example.com/a}]}
`
	return Chart{Name: "large", file: "templates/all.yaml", text: hook + `{{ range until 6 }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ $.Release.Name }}-{{ . }}"}
data: {a: "{{ repeat 1000000 "a" }}"}
{{ end }}`}
}

// inUTF16 returns a text in UTF-16, which YAML parsers read, too.
func inUTF16(text string) string {
	var data []byte
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		data = binary.LittleEndian.AppendUint16(data, unit)
	}
	return string(data)
}

// Files returns the chart to push.
func (c Chart) Files() registry.Chart {
	return registry.ChartFiles(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: " + c.Name + "\nversion: " + Version + "\n", c.file: c.text,
	})
}

// Aliases returns a manifest of about a megabyte that has twenty gigabytes with expanded YAML aliases.
func Aliases() string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: aliases}\na: &a " + strings.Repeat("x", 1<<20) +
		"\nl: [" + strings.Repeat("*a, ", 20_000) + "]\n"
}

// Schema returns a schema that takes 2^40 validations.
func Schema() string {
	text := `{"$ref":"#/$defs/d0","$defs":{`
	for i := range 40 {
		text += fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	return text + `"d40":true}}`
}

// Kustomization returns an artifact of Flux. Its kustomization, in the folder deploy, writes a label of 1 MB into 1,000
// fields.
func Kustomization() (registry.Raw, error) {
	text := "configMapGenerator: [{name: a, literals: [a=b]}]\nlabels:\n- pairs: {l: " + strings.Repeat("x", 1_000_000) +
		"}\n  fields:\n"
	for i := range 1000 {
		text += fmt.Sprintf("  - {path: f%d, create: true}\n", i)
	}
	archive, err := registry.Archive(registry.TextFile("deploy/kustomization.yaml", text))
	return registry.Raw{ConfigType: "application/vnd.cncf.flux.config.v1+json", Layers: []registry.Layer{{
		MediaType: "application/vnd.cncf.flux.content.v1.tar+gzip", Data: archive,
	}}}, err
}

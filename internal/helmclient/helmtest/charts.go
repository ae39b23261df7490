// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmtest

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
)

// BigCRDChart returns a chart with CRDs of about 35 KiB each and dashboards of about 40 KiB each. Their texts compress
// as well as real schemas and dashboards: they repeat few words many times, and contain numbers.
func BigCRDChart(crds, dashboards int) *chart.Chart {
	random := rand.New(rand.NewSource(1))
	word := func() string {
		const syllables = "ba be bi bo ca ce co da de di do fa fe ga go la le lo ma me mi mo na ne ni no pa pe po ra re " +
			"ri ro sa se si so ta te ti to"
		parts := strings.Fields(syllables)
		text := ""
		for range 2 + random.Intn(2) {
			text += parts[random.Intn(len(parts))]
		}
		return text
	}
	vocabulary := make([]string, 600)
	for i := range vocabulary {
		vocabulary[i] = word()
	}
	sentence := func(words int) string {
		chosen := make([]string, words)
		for i := range chosen {
			chosen[i] = vocabulary[random.Intn(1+random.Intn(len(vocabulary)))]
		}
		return strings.Join(chosen, " ")
	}
	chrt := NewChart("1.0.0", nil)
	for i := range crds {
		text := CrdOf(fmt.Sprintf("size%d.test", i), "v1")
		for len(text) < 35<<10 {
			text += "                " + sentence(1) + ":\n                  description: " + sentence(25) +
				"\n                  type: string\n"
		}
		chrt.Files = append(chrt.Files, &chart.File{Name: fmt.Sprintf("crds/%d.yaml", i), Data: []byte(text)})
	}
	for i := range dashboards {
		text := `{"panels":[`
		for len(text) < 40<<10 {
			text += fmt.Sprintf(`{"id":%d,"gridPos":{"h":8,"w":12,"x":%d,"y":%d},"datasource":"$datasource",`+
				`"targets":[{"expr":"sum(rate(%s{job=\"%s\"}[5m])) by (%s)"}],"title":"%s"},`,
				random.Intn(1000), random.Intn(24), random.Intn(100), sentence(1), sentence(1), sentence(1), sentence(4))
		}
		chrt.Files = append(chrt.Files, &chart.File{Name: fmt.Sprintf("dashboards/%d.json", i), Data: []byte(text)})
	}
	return chrt
}

// NewChart returns a chart with templates, given as content by name.
func NewChart(version string, templates map[string]string) *chart.Chart {
	chrt := &chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: "demo", Version: version,
		AppVersion: "1." + version}}
	for name, content := range templates {
		chrt.Templates = append(chrt.Templates, &chart.File{Name: "templates/" + name, Data: []byte(content)})
	}
	return chrt
}

// ConfigMap returns the manifest of a ConfigMap with the data under "key".
func ConfigMap(name, data string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  key: %q\n", name, data)
}

// ValueConfigMap is the template of a ConfigMap with the value "cidr".
const ValueConfigMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-value\ndata:\n  " +
	"key: {{ .Values.cidr | quote }}\n"

// CrdOf returns a CRD for the kind Widget of a group; the last version is the storage version.
func CrdOf(group string, versions ...string) string {
	text := fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: "+
		"widgets.%s\n  annotations: {by: chart}\n"+
		"spec:\n  group: %s\n  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}\n  scope: "+
		"Namespaced\n  versions:\n", group, group)
	for i, version := range versions {
		text += fmt.Sprintf("  - name: %s\n    served: true\n    storage: %t\n    schema: {openAPIV3Schema: {type: "+
			"object, x-kubernetes-preserve-unknown-fields: true}}\n",
			version, i == len(versions)-1)
	}
	return text
}

// ChartWithCRDs returns a chart with templates and with files in its folder crds, given as content by name.
func ChartWithCRDs(version string, templates, crds map[string]string) *chart.Chart {
	chrt := NewChart(version, templates)
	for _, name := range slices.Sorted(maps.Keys(crds)) {
		chrt.Files = append(chrt.Files, &chart.File{Name: "crds/" + name, Data: []byte(crds[name])})
	}
	return chrt
}

// TwoConfigMaps returns templates of two ConfigMaps: one has the value "cidr", and the other has the name "first".
func TwoConfigMaps() map[string]string {
	return map[string]string{"value.yaml": ValueConfigMap, "first.yaml": ConfigMap("first", "1")}
}

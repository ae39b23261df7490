// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/spf13/pflag"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // the manager has this format too
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/manager"
)

// setting is a value below "settings".
type setting struct {
	name, value string
	// flag is the flag that gets the value, such as "--kube-api-qps", or another user of the value.
	flag string
}

// add adds a setting, unless it exists.
func (m *maker) add(one setting) {
	if !slices.ContainsFunc(m.settings, func(s setting) bool { return s.name == one.name }) {
		m.settings = append(m.settings, one)
	}
}

// help explains a setting by the description of its flag.
func (m *maker) help(one setting) string {
	name, isFlag := strings.CutPrefix(one.flag, "--")
	if !isFlag {
		return strings.TrimSpace(one.flag)
	}
	text := one.flag
	if flag := managerFlags().Lookup(name); flag != nil {
		text += ": " + strings.Join(strings.Fields(flag.Usage), " ")
	}
	return text
}

// comment wraps a text at 100 columns.
func comment(text, prefix string) string {
	var all, line strings.Builder
	for _, word := range strings.Fields(text) {
		if line.Len() > 0 && len(prefix)+line.Len()+1+len(word) > 100 {
			all.WriteString(prefix + line.String() + "\n")
			line.Reset()
		}
		if line.Len() > 0 {
			line.WriteByte(' ')
		}
		line.WriteString(word)
	}
	return all.String() + prefix + line.String()
}

// managerFlags are the flags of the manager, whose descriptions explain the settings.
var managerFlags = sync.OnceValue(func() *pflag.FlagSet {
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	(&manager.Options{}).AddFlags(flags)
	logsv1.AddFlags(logs.NewOptions(), flags)
	return flags
})

// valuesText is the template of values.yaml.
var valuesText = template.Must(template.New("values.yaml").Parse(`# The values of the chart of HelmOp {{ .Version }}.

image:
  repository: {{ .Image }}
  # Default: the appVersion of the chart.
  tag: ""
  # A digest, "sha256:…", which takes precedence over the tag.
  digest: ""
  pullPolicy: {{ .PullPolicy }}
imagePullSecrets: []

replicas: {{ .Replicas }}

# At least two replicas on different nodes, and a PodDisruptionBudget.
highAvailability:
  enabled: false

# Limits the connections from and to the manager's Pods. Add missing ports of registries and API servers by a
# NetworkPolicy of your own: policies add up.
networkPolicy:
  enabled: false

# Gives Kubernetes' roles view, edit and admin their rights on HelmOps, see docs/multi-tenancy.md.
userRoles:
  enabled: false

# The manager serves only the namespace in settings.watchNamespace, and has no rights in other namespaces, see
# docs/multi-tenancy.md.
oneNamespace:
  enabled: false

# The CustomResourceDefinitions. Helm keeps them on uninstallation, because HelmOps would be deleted with them.
crds:
  enabled: true

serviceAccount:
  # For cloud identities, see docs/oci.md.
  annotations: {}

# The manager divides its memory limit, so it needs one.
resources:
{{ .Resources }}
podAnnotations:
{{ .PodAnnotations }}
podLabels: {}
nodeSelector: {}
tolerations:
{{ .Tolerations }}
# These two take precedence over those of highAvailability.
affinity: {}
topologySpreadConstraints: []
priorityClassName: ""

# Further flags of the manager, see docs/reference/flags.md. If a flag occurs twice, the last one counts.
extraArgs: []
extraEnv: []

# The variables HELMOP_… of clusterctl.
settings:
{{- range .Settings }}
{{ .Help }}
  {{ .Name }}: {{ .Value }}
{{- end }}
`))

// values returns values.yaml.
func (m *maker) values() ([]byte, error) {
	type entry struct{ Name, Value, Help string }
	data := map[string]any{
		"Version": m.options.Version, "Image": m.options.Image, "PullPolicy": m.pullPolicy, "Replicas": m.replicas,
	}
	for name, value := range map[string]any{
		"Resources": m.resources, "PodAnnotations": m.podAnnotations, "Tolerations": m.tolerations,
	} {
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, err
		}
		data[name] = strings.TrimRight(indented(string(text), "  "), "\n")
	}
	slices.SortFunc(m.settings, func(a, b setting) int { return strings.Compare(a.name, b.name) })
	var settings []entry
	for _, one := range m.settings {
		value, err := json.Marshal(one.value)
		if err != nil {
			return nil, err
		}
		settings = append(settings, entry{Name: one.name, Value: string(value), Help: comment(m.help(one), "  # ")})
	}
	data["Settings"] = settings
	var text strings.Builder
	if err := valuesText.Execute(&text, data); err != nil {
		return nil, fmt.Errorf("write the values: %w", err)
	}
	return []byte(text.String()), nil
}

// freeForm are the values with content of Kubernetes, which the schema does not describe.
var freeForm = []string{
	"resources", "podAnnotations", "podLabels", "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints",
	"imagePullSecrets", "extraArgs", "extraEnv", "annotations",
}

// schema returns the JSON schema of the values. With the schema, a value that the chart does not have is an error.
func schema(values []byte) ([]byte, error) {
	var parsed map[string]any
	if err := yaml.Unmarshal(values, &parsed); err != nil {
		return nil, err
	}
	top := schemaOf("", parsed)
	top["$schema"] = "http://json-schema.org/draft-07/schema#"
	properties, ok := top["properties"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the values are not an object")
	}
	// Helm adds the values that charts share.
	properties["global"] = map[string]any{"type": "object"}
	data, err := json.MarshalIndent(top, "", "  ")
	return append(data, '\n'), err
}

func schemaOf(name string, value any) map[string]any {
	switch value := value.(type) {
	case map[string]any:
		if slices.Contains(freeForm, name) {
			return map[string]any{"type": "object"}
		}
		properties := map[string]any{}
		for key, one := range value {
			properties[key] = schemaOf(key, one)
		}
		return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	case []any:
		return map[string]any{"type": "array"}
	case bool:
		return map[string]any{"type": "boolean"}
	case float64:
		return map[string]any{"type": "integer", "minimum": 0}
	default:
		return map[string]any{"type": []string{"string", "number", "boolean", "null"}}
	}
}

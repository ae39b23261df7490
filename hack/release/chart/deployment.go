// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// draft is an object in which some fields become template actions. yaml.Marshal would quote actions, so each field has
// a token until the object is YAML.
type draft struct{ lines []line }

// line is a line of YAML with a token, and the lines that replace it.
type line struct {
	token string
	// replacement returns the new lines, given the indentation and the key of the old line.
	replacement func(indent, key string) string
}

// token returns a token for a line.
func (t *draft) token(replacement func(indent, key string) string) string {
	token := fmt.Sprintf("TOKEN-%d", len(t.lines))
	t.lines = append(t.lines, line{token: token, replacement: replacement})
	return token
}

// scalar returns a token that becomes an action.
func (t *draft) scalar(action string) string {
	return t.token(func(indent, key string) string { return indent + key + action + "\n" })
}

// optional returns a token for a field that is a value of the chart. The field is omitted if the value is empty.
func (t *draft) optional(value string) string {
	return t.token(func(indent, key string) string {
		return fmt.Sprintf("%[1]s{{- with .Values.%[2]s }}\n%[1]s%[3]s\n"+
			"%[1]s{{- toYaml . | nindent %[4]d }}\n%[1]s{{- end }}\n", indent, value, strings.TrimSpace(key), len(indent)+2)
	})
}

// render returns the object as a template.
func (t *draft) render(object *unstructured.Unstructured) (string, error) {
	text, err := marshal(object)
	if err != nil {
		return "", err
	}
	for _, line := range t.lines {
		pattern := regexp.MustCompile(`(?m)^( *)((?:- )?(?:[A-Za-z/.-]+: )?)` + line.token + "\n")
		found := pattern.FindStringSubmatch(text)
		if found == nil {
			return "", fmt.Errorf("%s %s: %s is not one line", object.GetKind(), object.GetName(), line.token)
		}
		text = strings.Replace(text, found[0], line.replacement(found[1], found[2]), 1)
	}
	return text, nil
}

func serviceAccount(object *unstructured.Unstructured) (string, error) {
	object = object.DeepCopy()
	t := &draft{}
	if err := unstructured.SetNestedField(object.Object, t.optional("serviceAccount.annotations"), "metadata",
		"annotations"); err != nil {
		return "", err
	}
	return t.render(object)
}

// deployment returns the template of the manager's Deployment. The affinity with high availability comes from hardened.
func (m *maker) deployment(object, hardened *unstructured.Unstructured) (string, error) {
	object = object.DeepCopy()
	t := &draft{}
	spec, ok := object.Object["spec"].(map[string]any)
	if !ok || hardened == nil {
		return "", errors.New("config has no Deployment")
	}
	m.replicas = spec["replicas"]
	spec["replicas"] = t.scalar("{{ if .Values.highAvailability.enabled }}{{ max 2 (int .Values.replicas) }}" +
		"{{ else }}{{ .Values.replicas }}{{ end }}")

	meta, _, _ := unstructured.NestedMap(spec, "template", "metadata")
	pod, _, _ := unstructured.NestedMap(spec, "template", "spec")
	containers, _ := pod["containers"].([]any)
	if len(containers) != 1 {
		return "", fmt.Errorf("%d containers", len(containers))
	}
	container, ok := containers[0].(map[string]any)
	if !ok {
		return "", errors.New("the container is not an object")
	}

	m.podAnnotations, meta["annotations"] = meta["annotations"], t.optional("podAnnotations")
	labels, ok := meta["labels"].(map[string]any)
	if !ok {
		return "", errors.New("the Pods have no labels")
	}
	labels["zz.more"] = t.token(func(indent, _ string) string {
		return fmt.Sprintf("%[1]s{{- with .Values.podLabels }}\n%[1]s{{- toYaml . | nindent %[2]d }}\n%[1]s{{- end }}\n",
			indent, len(indent))
	})

	m.tolerations, pod["tolerations"] = pod["tolerations"], t.optional("tolerations")
	for _, name := range []string{
		"affinity", "imagePullSecrets", "nodeSelector", "priorityClassName", "topologySpreadConstraints",
	} {
		if pod[name] != nil {
			return "", fmt.Errorf("config sets %s, for which the chart has no default", name)
		}
	}
	pod["imagePullSecrets"], pod["nodeSelector"] = t.optional("imagePullSecrets"), t.optional("nodeSelector")
	pod["priorityClassName"] = t.token(func(indent, key string) string {
		return fmt.Sprintf("%[1]s{{- with .Values.priorityClassName }}\n%[1]s%[2]s{{ . | quote }}\n%[1]s{{- end }}\n",
			indent, key)
	})
	for _, name := range []string{"affinity", "topologySpreadConstraints"} {
		value, err := podField(hardened, name)
		if err != nil {
			return "", err
		}
		pod[name] = t.orWithHighAvailability(name, value)
	}

	container["image"] = t.scalar(`{{ include "helmop.image" . | quote }}`)
	m.pullPolicy, container["imagePullPolicy"] = container["imagePullPolicy"], t.scalar("{{ .Values.image.pullPolicy }}")
	m.resources, container["resources"] = withDefaults(container["resources"]), t.optional("resources")
	args, _ := container["args"].([]any)
	container["args"] = append(args, t.token(func(indent, _ string) string {
		return fmt.Sprintf("%[1]s{{- range .Values.extraArgs }}\n%[1]s- {{ . | quote }}\n%[1]s{{- end }}\n", indent)
	}))
	env, _ := container["env"].([]any)
	container["env"] = append(env, t.token(func(indent, _ string) string {
		return fmt.Sprintf("%[1]s{{- with .Values.extraEnv }}\n%[1]s{{- toYaml . | nindent %[2]d }}\n%[1]s{{- end }}\n",
			indent, len(indent))
	}))
	spec["template"] = m.withSettings(t, map[string]any{"metadata": meta, "spec": pod}, "")
	return t.render(object)
}

// podField returns a field of the Pods of the Deployment with high availability, as YAML.
func podField(deployment *unstructured.Unstructured, name string) (string, error) {
	value, ok, err := unstructured.NestedFieldCopy(deployment.Object, "spec", "template", "spec", name)
	if err != nil || !ok {
		return "", fmt.Errorf("config/high-availability does not set %s", name)
	}
	data, err := yaml.Marshal(value)
	return string(data), err
}

// orWithHighAvailability returns a token for a field that is a value of the chart. If the value is empty, the field has
// a different content with high availability, and is omitted without it.
func (t *draft) orWithHighAvailability(value, content string) string {
	return t.token(func(indent, key string) string {
		return fmt.Sprintf("%[1]s{{- if .Values.%[5]s }}\n%[1]s%[2]s\n%[1]s{{- toYaml .Values.%[5]s | nindent %[3]d }}\n"+
			"%[1]s{{- else if .Values.highAvailability.enabled }}\n%[1]s%[2]s\n%[4]s%[1]s{{- end }}\n",
			indent, strings.TrimSpace(key), len(indent)+2, indented(content, indent+"  "), value)
	})
}

func indented(text, indent string) string {
	return indent + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+indent) + "\n"
}

// variable matches a variable of clusterctl, with its default.
var variable = regexp.MustCompile(`\$\{HELMOP_([A-Z0-9_]+):=([^{}]*)\}`)

// empty is the default of a variable whose value is empty, because clusterctl has no empty defaults.
const empty = "$(EMPTY)"

// withDefaults replaces the variables in an object by their defaults.
func withDefaults(in any) any {
	switch in := in.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range in {
			out[key] = withDefaults(value)
		}
		return out
	case []any:
		out := make([]any, len(in))
		for i, value := range in {
			out[i] = withDefaults(value)
		}
		return out
	case string:
		return variable.ReplaceAllString(in, "$2")
	default:
		return in
	}
}

// withSettings replaces the variables in an object with actions, and collects the settings that the actions read. flag
// is the flag to which the text belongs.
func (m *maker) withSettings(t *draft, in any, flag string) any {
	switch in := in.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range in {
			out[key] = m.withSettings(t, value, explain(in, key))
		}
		return out
	case []any:
		out := make([]any, len(in))
		for i, value := range in {
			name, _, _ := strings.Cut(fmt.Sprint(value), "=")
			out[i] = m.withSettings(t, value, name)
		}
		return out
	case string:
		if variable.MatchString(in) {
			return t.scalar(m.action(in, flag))
		}
		return in
	default:
		return in
	}
}

// explain says where a field is used: it returns the name of the environment variable or of the volume that contains
// it.
func explain(in map[string]any, key string) string {
	name, ok := in["name"].(string)
	switch {
	case ok && key == "value":
		return "The environment variable " + name
	case key == "sizeLimit":
		return "The size limit of the volume"
	default:
		return ""
	}
}

// action returns the action for a text with variables.
func (m *maker) action(text, flag string) string {
	var parts []string
	for text != "" {
		at := variable.FindStringSubmatchIndex(text)
		if at == nil {
			parts = append(parts, strconv.Quote(text))
			break
		}
		if at[0] > 0 {
			parts = append(parts, strconv.Quote(text[:at[0]]))
		}
		name, fallback := camel(text[at[2]:at[3]]), text[at[4]:at[5]]
		m.add(setting{name: name, value: strings.ReplaceAll(fallback, empty, ""), flag: flag})
		parts = append(parts, fmt.Sprintf(`(include "helmop.setting" (dict "value" .Values.settings.%s "default" %s))`, name,
			strconv.Quote(fallback)))
		text = text[at[1]:]
	}
	return "{{ print " + strings.Join(parts, " ") + " | quote }}"
}

// camel returns the name of the setting of a variable: KUBE_API_QPS becomes kubeApiQps.
func camel(variable string) string {
	var name strings.Builder
	for i, word := range strings.Split(strings.ToLower(variable), "_") {
		if i > 0 && word != "" {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		name.WriteString(word)
	}
	return name.String()
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/redaction"
)

var (
	// contentFields are the fields with values, templates of values, patches and file contents.
	contentFields = []string{"values", "valuesTemplate", "patch", "data", "stringData", "binaryData"}

	// identityFields are the fields without texts of users. Their texts are kept, even if a Secret contains the same text.
	identityFields = []string{"apiVersion", "kind", "name", "namespace", "uid", "resourceVersion", "type",
		"creationTimestamp", "lastTransitionTime"}

	// sensitiveField matches the names of fields with credentials.
	sensitiveField = regexp.MustCompile(`(?i)passw|token|credential|api_?key|private_?key`)

	// sensitiveArgument matches arguments with credentials. It does not match flags for files and hosts.
	sensitiveArgument = regexp.MustCompile(`(?i)^--?[^=]*(?:pass|secret|token|key|cred)[^=]*=`)
	harmlessArgument  = regexp.MustCompile(`^[^=]*-(?:file|dir|hosts|name)=`)

	// userInfo is the part of a URL with user and password. The password may have an "@", as in Go's package net/url.
	userInfo = regexp.MustCompile(`://[^/\s"]*@`)

	// proxyUser is the part with user and password of the address of a proxy. The scheme may be missing, and the password
	// may have any characters.
	proxyUser = regexp.MustCompile(`(?s)^([a-zA-Z0-9]+://)?.*@`)

	// shownAnnotations are prefixes of annotations whose values are kept.
	shownAnnotations = []string{addonsv1.GroupVersion.Group + "/", "cluster.x-k8s.io/paused",
		"cluster.x-k8s.io/managed-by", "deployment.kubernetes.io/revision", "kubectl.kubernetes.io/default-container"}

	// shownVariables are the environment variables whose values are kept.
	shownVariables = []string{"EMPTY", "HOME", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "GOGC", "GODEBUG", "GOMEMLIMIT"}
)

// masker removes what an archive must not contain: values in specs, annotations and environment variables, and the
// values of Secrets in any text.
type masker struct{ hide func(string) string }

// newMasker returns a masker. inline are values in specs: the values with sensitive keys are hidden. secrets are the
// values of Secrets.
func newMasker(inline map[string]any, secrets []any) *masker {
	return &masker{helmerr.NewLargeRedactor(inline, secrets).Hide}
}

// hidesAll reports whether the masker hides all texts, because the secrets are too large to be searched for.
func (m *masker) hidesAll() bool { return m.hide("-") == redaction.Hidden }

// text returns a text without secrets and without escape sequences of terminals.
func (m *masker) text(text string) string {
	return printers.EscapeTerminal(m.hide(userInfo.ReplaceAllString(text, "://"+redaction.Mark+"@")))
}

// entry returns the text of an entry of a log without secrets.
func (m *masker) entry(e *entry) string {
	if _, ok := e.keys[keyBody]; ok {
		return redaction.Mark + ": the content of a request or response, which may be a Secret"
	}
	return m.text(e.text)
}

// log returns the texts of the entries of a log without secrets. The text before the first whole entry may be the rest
// of the content of a response, because the log was cut there. Later lines without a header come from a panic.
func (m *masker) log(entries []entry) string {
	var text strings.Builder
	whole := slices.IndexFunc(entries, func(e entry) bool { return e.isWhole })
	if whole != 0 && len(entries) > 0 {
		text.WriteString(redaction.Mark + ": the rest of an entry whose beginning is not in the log\n")
	}
	if whole >= 0 {
		for i := range entries[whole:] {
			text.WriteString(m.entry(&entries[whole+i]) + "\n")
		}
	}
	return text.String()
}

// object returns a copy of an object without secrets.
func (m *masker) object(object map[string]any) map[string]any {
	kind, _ := object["kind"].(string)
	masked, _ := m.value("", object, kind).(map[string]any)
	if metadata, ok := masked["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	return masked
}

// versions returns a copy of versions without secrets. Names and numbers are kept, even if a Secret contains the same
// text: a user name at a registry is often the name of a program.
func (m *masker) versions(v *versions) *versions {
	masked := *v
	masked.Managers, masked.CRDs = slices.Clone(v.Managers), slices.Clone(v.CRDs)
	for i := range masked.Managers {
		masked.Managers[i].Image = m.text(masked.Managers[i].Image)
		masked.Managers[i].ImageID = m.text(masked.Managers[i].ImageID)
	}
	for i := range masked.CRDs {
		masked.CRDs[i].Problems = slices.Clone(masked.CRDs[i].Problems)
		for j, problem := range masked.CRDs[i].Problems {
			masked.CRDs[i].Problems[j] = m.text(problem)
		}
	}
	return &masked
}

// value returns a copy of the value of a field.
func (m *masker) value(field string, value any, kind string) any {
	switch typed := value.(type) {
	case map[string]any:
		return m.fields(field, typed, kind)
	case []any:
		items := make([]any, len(typed))
		for i := range typed {
			items[i] = m.item(field, typed[i], kind)
		}
		return items
	case string:
		switch {
		case slices.Contains(identityFields, field):
			return userInfo.ReplaceAllString(typed, "://"+redaction.Mark+"@")
		case sensitiveField.MatchString(field) && !strings.HasSuffix(field, "Name"):
			return redaction.Mark
		}
		return m.text(typed)
	default:
		return value
	}
}

// fields returns a copy of a map.
func (m *masker) fields(parent string, from map[string]any, kind string) map[string]any {
	_, isRequirement := from["operator"]
	to := make(map[string]any, len(from))
	for field, value := range from {
		_, isText := value.(string)
		switch {
		case parent == "annotations" && !isShown(field, shownAnnotations) && isText:
			to[field] = redaction.Mark
		case slices.Contains(contentFields, field) && !isRequirement && isContent(value),
			// Variables of the topology of a Cluster may be credentials.
			field == "value" && kind == "Cluster":
			to[field] = redaction.Mark
		default:
			to[field] = m.value(field, value, kind)
		}
	}
	return to
}

// isShown reports whether a name begins with one of the prefixes.
func isShown(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// isContent reports whether a value is content. It is false for numbers: contentFrom of a HelmOpRevision has numbers in
// the fields with these names.
func isContent(value any) bool {
	switch value.(type) {
	case map[string]any, []any, string:
		return true
	default:
		return false
	}
}

// item returns a copy of an item of the list in a field.
func (m *masker) item(field string, value any, kind string) any {
	fields, isMap := value.(map[string]any)
	switch text, isText := value.(string); {
	case isMap && field == "env":
		return m.variable(fields, kind)
	case isMap && (field == "containers" || field == "initContainers" || field == "ephemeralContainers") &&
		fields["name"] != managerContainer:
		// HelmOp does not know the commands of other containers.
		return map[string]any{"name": fields["name"], "image": m.value("image", fields["image"], kind)}
	case isText && (field == "args" || field == "command") && !harmlessArgument.MatchString(text):
		return m.text(maskArgument(text))
	default:
		return m.value(field, value, kind)
	}
}

// maskArgument returns an argument without a credential.
func maskArgument(text string) string {
	if found := sensitiveArgument.FindString(text); found != "" {
		return found + redaction.Mark
	}
	return text
}

// variable returns a copy of an environment variable of a container.
func (m *masker) variable(fields map[string]any, kind string) map[string]any {
	masked := m.fields("env", fields, kind)
	name, _ := fields["name"].(string)
	value, _ := masked["value"].(string)
	switch {
	case value == "":
	case slices.Contains(shownVariables, name):
		masked["value"] = proxyUser.ReplaceAllString(value, "${1}"+redaction.Mark+"@")
	default:
		masked["value"] = redaction.Mark
	}
	return masked
}

// valuesIn returns the values in the spec of a HelmOp. Values with sensitive keys are searched for in them.
func valuesIn(spec *addonsv1.HelmOpSpec) []any {
	found := []any{jsonOf(spec.Values), yamlOf(spec.ValuesTemplate)}
	for i := range spec.Overrides {
		found = append(found, jsonOf(spec.Overrides[i].Values), yamlOf(spec.Overrides[i].ValuesTemplate))
	}
	return found
}

// jsonOf returns values; nil if there are none.
func jsonOf(values *apiextensionsv1.JSON) any {
	if values == nil {
		return nil
	}
	return yamlOf(string(values.Raw))
}

// yamlOf returns the parsed value of a YAML text; nil if the text is not YAML.
func yamlOf(text string) any {
	var value any
	if yaml.Unmarshal([]byte(text), &value) != nil {
		return nil
	}
	return value
}

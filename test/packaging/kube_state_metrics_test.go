// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// customResourceState is the part of the configuration of kube-state-metrics that HelmOp uses. The module of
// kube-state-metrics would be a large dependency for it; the test of hack/tools/kubestatemetrics uses it.
type customResourceState struct {
	Kind string `json:"kind"`
	Spec struct {
		Resources []stateResource `json:"resources"`
	} `json:"spec"`
}

type stateResource struct {
	GroupVersionKind struct {
		Group   string `json:"group"`
		Version string `json:"version"`
		Kind    string `json:"kind"`
	} `json:"groupVersionKind"`
	MetricNamePrefix string              `json:"metricNamePrefix"`
	LabelsFromPath   map[string][]string `json:"labelsFromPath"`
	Metrics          []stateMetric       `json:"metrics"`
}

type stateMetric struct {
	Name      string `json:"name"`
	Help      string `json:"help"`
	ErrorLogV int    `json:"errorLogV"`
	Each      struct {
		Type     string      `json:"type"`
		Gauge    *stateValue `json:"gauge"`
		StateSet *stateValue `json:"stateSet"`
		Info     *stateValue `json:"info"`
	} `json:"each"`
}

// stateValue has the fields of a gauge, a state set and an info.
type stateValue struct {
	Path           []string            `json:"path"`
	LabelsFromPath map[string][]string `json:"labelsFromPath"`
	LabelFromKey   string              `json:"labelFromKey"`
	ValueFrom      []string            `json:"valueFrom"`
	NilIsZero      bool                `json:"nilIsZero"`
	LabelName      string              `json:"labelName"`
	List           []string            `json:"list"`
}

var stateName = regexp.MustCompile(`^[a-z][a-z_]*[a-z]$`)

// TestKubeStateMetrics checks the configuration of kube-state-metrics against the CustomResourceDefinitions: each path
// is a field, and each value of a gauge is a number, a bool, a time, or the status of a condition.
func TestKubeStateMetrics(t *testing.T) {
	t.Parallel()
	objs := built(t, "config/kube-state-metrics")
	config := customResourceState{}
	configMap := convert[corev1.ConfigMap](t, ofKind(objs, "ConfigMap")[0])
	if err := yaml.UnmarshalStrict([]byte(configMap.Data["config.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	if config.Kind != "CustomResourceStateMetrics" {
		t.Errorf("kind %q", config.Kind)
	}
	role := convert[rbacv1.ClusterRole](t, ofKind(objs, "ClusterRole")[0])
	names := map[string]bool{}
	for _, resource := range config.Spec.Resources {
		crd := readCRD(t, resource.GroupVersionKind.Kind)
		if gvk := resource.GroupVersionKind; gvk.Group != crd.Spec.Group || gvk.Version != crd.Spec.Versions[0].Name {
			t.Errorf("there is no %s of %s/%s", gvk.Kind, gvk.Group, gvk.Version)
		}
		if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Resources, crd.Spec.Names.Plural) && slices.Contains(r.APIGroups, crd.Spec.Group) &&
				slices.Equal(r.Verbs, []string{"list", "watch"})
		}) {
			t.Errorf("the role does not permit to read %s", crd.Spec.Names.Plural)
		}
		schema := withMetadata(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
		for label, path := range resource.LabelsFromPath {
			if _, err := fieldOf(schema, path); err != nil {
				t.Errorf("label %s of %s: %v", label, crd.Spec.Names.Kind, err)
			}
		}
		for _, metric := range resource.Metrics {
			name := resource.MetricNamePrefix + "_" + metric.Name
			if names[name] || !stateName.MatchString(name) || metric.Help == "" {
				t.Errorf("%s needs a name of its own and a help text", name)
			}
			names[name] = true
			for _, err := range metric.check(schema) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if len(config.Spec.Resources) != 2 || len(names) < 20 {
		t.Errorf("%d kinds have %d metrics", len(config.Spec.Resources), len(names))
	}
}

func readCRD(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "config", "crd", "bases",
		"addons.cluster.x-k8s.io_"+strings.ToLower(kind)+"s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// withMetadata adds the fields of metadata that CustomResourceDefinitions leave out.
func withMetadata(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	schema = schema.DeepCopy()
	schema.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"namespace": text, "name": text, "generation": {Type: "integer"},
			"creationTimestamp": {Type: "string", Format: "date-time"},
			"labels":            {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &text}},
		}}
	return schema
}

// fieldOf returns the schema of a field.
func fieldOf(schema *apiextensionsv1.JSONSchemaProps, path []string) (*apiextensionsv1.JSONSchemaProps, error) {
	for i, name := range path {
		property, ok := schema.Properties[name]
		switch {
		case ok:
			schema = &property
		case schema.AdditionalProperties != nil:
			schema = schema.AdditionalProperties.Schema
		default:
			return nil, fmt.Errorf("there is no field %s", strings.Join(path[:i+1], "."))
		}
	}
	return schema, nil
}

// check returns the errors of a metric. schema is the schema of the object.
func (m *stateMetric) check(schema *apiextensionsv1.JSONSchemaProps) (errs []error) {
	value := map[string]*stateValue{"Gauge": m.Each.Gauge, "StateSet": m.Each.StateSet, "Info": m.Each.Info}[m.Each.Type]
	if value == nil {
		return []error{fmt.Errorf("there is no %s", m.Each.Type)}
	}
	field, err := fieldOf(schema, value.Path)
	if err != nil {
		return []error{err}
	}
	if field.Type == "array" {
		field = field.Items.Schema // one series for each element
	}
	for label, path := range value.LabelsFromPath {
		if of, err := fieldOf(field, path); err != nil {
			errs = append(errs, err)
		} else if of.Type != "string" {
			errs = append(errs, fmt.Errorf("the label %s has the type %s", label, of.Type))
		}
	}
	var values []apiextensionsv1.JSONSchemaProps
	switch of, err := fieldOf(field, value.ValueFrom); {
	case err != nil:
		return append(errs, err)
	case value.LabelFromKey != "":
		for _, property := range of.Properties { // one series for each field
			values = append(values, property)
		}
	case m.Each.Type != "Info":
		values = append(values, *of)
	}
	for _, of := range values {
		isCondition := slices.Equal(value.Path, []string{"status", "conditions"}) &&
			slices.Equal(value.ValueFrom, []string{"status"})
		switch {
		case m.Each.Type == "StateSet":
			errs = append(errs, checkStates(&of, value)...)
		case of.Type == "integer", of.Type == "boolean", of.Format == "date-time", isCondition:
		default:
			errs = append(errs, fmt.Errorf("the value has the type %s", of.Type))
		}
	}
	return errs
}

// listed matches one of the values that the description of a field lists.
var listed = regexp.MustCompile(`(?m)^- ([A-Z]\w+): `)

// checkStates compares the states of a state set with the values of the field.
func checkStates(field *apiextensionsv1.JSONSchemaProps, value *stateValue) []error {
	var want []string
	for _, state := range field.Enum {
		want = append(want, strings.Trim(string(state.Raw), `"`))
	}
	if len(want) == 0 {
		for _, match := range listed.FindAllStringSubmatch(field.Description, -1) {
			want = append(want, match[1])
		}
	}
	got := slices.Sorted(slices.Values(value.List))
	if slices.Sort(want); value.LabelName == "" || !slices.Equal(got, want) {
		return []error{fmt.Errorf("the states are %q, and those of the field %q", got, want)}
	}
	return nil
}

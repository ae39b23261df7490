// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart makes the Helm chart of HelmOp from the kustomizations in config. With the default values, the chart
// has the same objects as config/default, except the Namespace, which Helm creates. With the value oneNamespace, it has
// the objects of config/one-namespace. A test compares both.
package chart

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Name is the name of the chart.
const Name = "helmop"

const (
	// namespace is the namespace in config/default. In the chart, it is the namespace of the release.
	namespace = "helmop-system"
	// keepAnnotation makes `helm uninstall` keep an object.
	keepAnnotation = "helm.sh/resource-policy"
)

// optional holds the components of config, by the values that enable them.
var optional = map[string]string{
	highAvailability: "high-availability", "networkPolicy": "network-policy", "userRoles": "user-roles",
}

const (
	// highAvailability is the value that also changes the Deployment.
	highAvailability = "highAvailability"
	// oneNamespace is the value that selects the objects of the folder oneNamespaceFolder.
	oneNamespace, oneNamespaceFolder = "oneNamespace", "one-namespace"
	// servedNamespace is the variable of this folder that has no default. The action after it replaces the variable.
	servedNamespace       = "${HELMOP_WATCH_NAMESPACE}"
	servedNamespaceAction = `{{ required "oneNamespace needs settings.watchNamespace" .Values.settings.watchNamespace }}`
)

// Options describe the chart.
type Options struct {
	// Config is the folder config.
	Config fs.FS
	// Version is the version of HelmOp, such as "v0.1.0".
	Version string
	// Image is the name of the image, without tag.
	Image string
	// License is the text of the licence.
	License []byte
}

// Files returns the files of the chart by their paths.
func Files(options Options) (map[string][]byte, error) {
	plain, err := build(options.Config, "default")
	if err != nil {
		return nil, err
	}
	components := map[string][]*unstructured.Unstructured{}
	for value, folder := range optional {
		if components[value], err = build(options.Config, "default", folder); err != nil {
			return nil, err
		}
	}
	narrow, err := build(options.Config, oneNamespaceFolder)
	if err != nil {
		return nil, err
	}
	made := &maker{options: options, narrow: narrow, files: map[string][]byte{
		"LICENSE":                options.License,
		"README.md":              []byte(readme),
		"templates/_helpers.tpl": []byte(helpers),
		"templates/NOTES.txt":    []byte(notes),
		"templates/crds.yaml":    []byte(crds),
	}}
	if err := made.objects(plain, components); err != nil {
		return nil, err
	}
	if err := made.metadata(plain); err != nil {
		return nil, err
	}
	return made.files, nil
}

// maker collects the files of a chart.
type maker struct {
	options Options
	files   map[string][]byte
	// narrow are the objects of a manager of one namespace.
	narrow   []*unstructured.Unstructured
	settings []setting
	// resources, tolerations and podAnnotations are the defaults of these values.
	resources, tolerations, podAnnotations any
	replicas                               any
	pullPolicy                             any
}

// objects writes the templates of all objects: the objects of config/default, and the objects that a component adds.
func (m *maker) objects(plain []*unstructured.Unstructured, components map[string][]*unstructured.Unstructured) error {
	var roles []string
	for _, object := range plain {
		switch object.GetKind() {
		case "Namespace":
		case "CustomResourceDefinition":
			if err := m.crd(object); err != nil {
				return err
			}
		case "Deployment":
			text, err := m.deployment(object, find(components[highAvailability], "Deployment"))
			if err != nil {
				return err
			}
			m.files["templates/deployment.yaml"] = []byte(text)
		case "ServiceAccount":
			text, err := serviceAccount(object)
			if err != nil {
				return err
			}
			m.files["templates/serviceaccount.yaml"] = []byte(text)
		default:
			text, err := marshal(object)
			if err != nil {
				return err
			}
			if !contains(m.narrow, object) {
				text = fmt.Sprintf("{{- if not .Values.%s.enabled }}\n%s{{- end }}\n", oneNamespace, text)
			}
			roles = append(roles, text)
		}
	}
	m.files["templates/rbac.yaml"] = []byte(strings.Join(roles, "---\n"))
	for value, folder := range optional {
		if err := m.added(value, folder, plain, components[value]); err != nil {
			return err
		}
	}
	return m.added(oneNamespace, oneNamespaceFolder, plain, m.narrow)
}

// added writes the template of the objects that a value enables: the objects that a folder of config adds to the plain
// objects.
func (m *maker) added(value, folder string, plain, all []*unstructured.Unstructured) error {
	var added []string
	for _, object := range all {
		if contains(plain, object) {
			continue
		}
		text, err := marshal(object)
		if err != nil {
			return err
		}
		added = append(added, strings.ReplaceAll(text, servedNamespace, servedNamespaceAction))
	}
	if len(added) == 0 {
		return fmt.Errorf("config/%s adds no object", folder)
	}
	m.files["templates/"+folder+".yaml"] = fmt.Appendf(nil, "{{- if .Values.%s.enabled }}\n%s{{- end }}\n", value,
		strings.Join(added, "---\n"))
	return nil
}

// contains reports whether objects contain an object with the same kind and name.
func contains(objects []*unstructured.Unstructured, object *unstructured.Unstructured) bool {
	return slices.ContainsFunc(objects, func(one *unstructured.Unstructured) bool {
		return one.GetKind() == object.GetKind() && one.GetName() == object.GetName()
	})
}

// crd writes a CustomResourceDefinition as a file that is not a template, because its texts contain braces.
func (m *maker) crd(object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[keepAnnotation] = "keep"
	object.SetAnnotations(annotations)
	text, err := yaml.Marshal(object)
	m.files["files/crds/"+object.GetName()+".yaml"] = text
	return err
}

// marshal returns an object as a template. Its namespace is the namespace of the release.
func marshal(object *unstructured.Unstructured) (string, error) {
	data, err := yaml.Marshal(object)
	if err != nil {
		return "", err
	}
	if strings.Contains(string(data), "{{") {
		return "", fmt.Errorf("%s %s has braces, which Helm reads as a template", object.GetKind(), object.GetName())
	}
	return inRelease(string(data)), nil
}

// inRelease replaces the namespace.
func inRelease(text string) string {
	return strings.ReplaceAll(text, "namespace: "+namespace+"\n", "namespace: {{ .Release.Namespace }}\n")
}

func find(objects []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	for _, object := range objects {
		if object.GetKind() == kind {
			return object
		}
	}
	return nil
}

// metadata writes Chart.yaml and the values.
func (m *maker) metadata(objects []*unstructured.Unstructured) error {
	annotations, err := hubAnnotations(m.options, objects)
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(m.options.Version, "v")
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": "v2", "name": Name, "type": "application", "version": version, "appVersion": m.options.Version,
		"description": "HelmOp, a Cluster API addon provider that installs Helm charts in workload clusters",
		"home":        home,
		"sources":     []any{home},
		"keywords":    []any{"cluster-api", "addon-provider", "helm", "oci"},
		// The CustomResourceDefinitions contain CEL rules.
		"kubeVersion": ">=1.29.0-0",
		"annotations": annotations,
	})
	if err != nil {
		return err
	}
	m.files["Chart.yaml"] = data
	if m.files["values.yaml"], err = m.values(); err != nil {
		return err
	}
	m.files["values.schema.json"], err = schema(m.files["values.yaml"])
	return err
}

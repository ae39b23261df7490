// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// home is the page of the project.
const home = "https://github.com/helmop/cluster-api-addon-provider-helmop"

// hubCRD describes a kind for Artifact Hub, see https://artifacthub.io/docs/topics/annotations/helm/.
type hubCRD struct {
	Kind        string `json:"kind"`
	Version     string `json:"version"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
}

// hubAnnotations returns the annotations of the chart that Artifact Hub reads.
func hubAnnotations(options Options, objects []*unstructured.Unstructured) (map[string]any, error) {
	var kinds []hubCRD
	for _, object := range objects {
		if object.GetKind() == "CustomResourceDefinition" {
			kind, err := hubCRDOf(object)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", object.GetName(), err)
			}
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b hubCRD) int { return cmp.Compare(a.Name, b.Name) })
	annotations := map[string]any{
		"artifacthub.io/category":   "integration-delivery",
		"artifacthub.io/license":    "Apache-2.0",
		"artifacthub.io/operator":   "true",
		"artifacthub.io/prerelease": fmt.Sprint(strings.Contains(options.Version, "-")),
	}
	for name, value := range map[string]any{
		"crds":   kinds,
		"images": []map[string]string{{"name": "manager", "image": options.Image + ":" + options.Version}},
		"links": []map[string]string{
			{"name": "Documentation", "url": home + "/tree/main/docs"},
			{"name": "Changelog", "url": home + "/blob/main/CHANGELOG.md"},
		},
	} {
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, err
		}
		annotations["artifacthub.io/"+name] = string(text)
	}
	return annotations, nil
}

// hubCRDOf describes the stored version of a CustomResourceDefinition by the first sentence of its description.
func hubCRDOf(object *unstructured.Unstructured) (hubCRD, error) {
	kind, _, err := unstructured.NestedString(object.Object, "spec", "names", "kind")
	if err != nil {
		return hubCRD{}, err
	}
	versions, _, err := unstructured.NestedSlice(object.Object, "spec", "versions")
	if err != nil {
		return hubCRD{}, err
	}
	for _, version := range versions {
		fields, ok := version.(map[string]any)
		if !ok || fields["storage"] != true {
			continue
		}
		description, _, err := unstructured.NestedString(fields, "schema", "openAPIV3Schema", "description")
		if err != nil {
			return hubCRD{}, err
		}
		first, _, _ := strings.Cut(strings.Join(strings.Fields(description), " "), ". ")
		return hubCRD{Kind: kind, Version: fmt.Sprint(fields["name"]), Name: object.GetName(), DisplayName: kind,
			Description: strings.TrimSuffix(first, ".") + "."}, nil
	}
	return hubCRD{}, fmt.Errorf("no version is stored")
}

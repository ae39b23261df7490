// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

const (
	// fleetAction is the start of a template action in Fleet.
	fleetAction = "${"

	// fleetLabelPrefix is the start of a value that Fleet replaces with a label of the cluster.
	fleetLabelPrefix = "global.fleet.clusterLabels."

	// valuesFileKey is the key with the values if a reference names no key.
	valuesFileKey = "values.yaml"
)

// fleetRoots are the keys of ClusterValues that Fleet's add-on provider for Cluster API sets and that HelmOp supports.
var fleetRoots = []string{"Cluster", "ControlPlane", "InfrastructureCluster"}

// setFleetValues converts the values of a HelmOp of Fleet. In Fleet, templateValues take precedence over values, and
// valuesFrom takes precedence over both. So the conversion puts valuesFrom into an override for all Clusters.
func (r *fleetReader) setFleetValues(item *Item, from *fleetHelmOp, placed []fleetPlace) {
	spec, helm := &item.HelmOp.Spec, from.Spec.Helm
	if !helm.DisablePreProcess {
		spec.TemplateDelimiters = addonsv1.TemplateDelimitersDollar
	} else if len(helm.TemplateValues) > 0 {
		item.gap("spec.helm.templateValues", "disablePreProcess is set, so that Fleet ignores them")
	}
	spec.Values, spec.ValuesTemplate = item.fleetValues("spec.helm", helm, helm.DisablePreProcess, nil)
	if len(helm.ValuesFiles) > 0 {
		item.gap("spec.helm.valuesFiles", "Fleet ignores them for a chart of a repository, and so does HelmOp")
	}
	if references := item.fleetReferences("spec.helm.valuesFrom", helm.ValuesFrom, from.Spec.DownstreamResources); len(
		references) > 0 {
		spec.Overrides = append(spec.Overrides, addonsv1.Override{Name: "values-from", ValuesFrom: references})
	}
	for _, resource := range from.Spec.DownstreamResources {
		item.gap("spec.downstreamResources", "the copies of the %s %q stay in the Clusters, and nothing updates them "+
			"any more", resource.Kind, resource.Name)
	}
	text := templatesOf(helm)
	for i := range from.Spec.Targets {
		if target := from.Spec.Targets[i].Helm; target != nil {
			text += templatesOf(target)
		}
	}
	for _, place := range placed {
		item.checkFleetRoots(place, text, helm.DisablePreProcess)
	}
	if strings.Contains(text, fleetAction) && !helm.DisablePreProcess {
		item.gap("spec.helm.values", "HelmOp keeps text from a Cluster as text, and Fleet reads the result as YAML: the "+
			"label 1.10 is the number 1.1 in Fleet; use fromYaml where the preview shows such a difference")
	}
}

// templatesOf returns all values of options of Helm as text.
func templatesOf(helm *fleetHelm) string {
	// Marshalling cannot fail, because all values are from JSON.
	data, _ := json.Marshal([]any{helm.Values, helm.TemplateValues})
	return string(data)
}

// fleetValues converts values and templateValues. It also omits the keys in replaced from the values.
func (i *Item) fleetValues(field string, helm *fleetHelm, isLiteral bool, replaced map[string]string,
) (*apiextensionsv1.JSON, string) {
	values := maps.Clone(helm.Values)
	if !isLiteral {
		maps.DeleteFunc(values, func(key string, _ any) bool {
			_, isTemplate := helm.TemplateValues[key]
			_, isReplaced := replaced[key]
			return isTemplate || isReplaced
		})
	}
	if len(values) == 0 && (isLiteral || len(helm.TemplateValues) == 0) {
		return nil, ""
	}
	var raw *apiextensionsv1.JSON
	if len(values) > 0 {
		data, err := json.Marshal(mapStrings(values, true, fleetValue(isLiteral)))
		if err != nil {
			i.block(field+".values", "they cannot be written as JSON: %v", err)
		}
		raw = &apiextensionsv1.JSON{Raw: data}
	}
	if isLiteral {
		return raw, ""
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(helm.TemplateValues)) {
		text.WriteString(fleetTemplate(key, helm.TemplateValues[key]))
	}
	return raw, text.String()
}

// fleetValue converts a string in values. In Fleet, names of labels are replaced only in maps.
func fleetValue(isLiteral bool) func(text string, isInMap bool) string {
	return func(text string, isInMap bool) string {
		label, isLabel := strings.CutPrefix(text, fleetLabelPrefix)
		read := fmt.Sprintf("get .ClusterLabels %q | default \"\"", label)
		switch {
		case isLabel && isInMap && isLiteral:
			return "{{ " + read + " }}"
		case isLabel && isInMap:
			return "${ " + read + " }"
		case isLiteral:
			return escape(text)
		default:
			return text
		}
	}
}

var (
	plainKey    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	indentation = regexp.MustCompile(`\b(n?indent)(\s+)([0-9]+)`)
)

// fleetTemplate converts the template of a key in templateValues to a part of a valuesTemplate, indented below the key.
func fleetTemplate(key, text string) string {
	if !plainKey.MatchString(key) {
		key = strconv.Quote(key)
	}
	text = indentation.ReplaceAllStringFunc(text, func(call string) string {
		parts := indentation.FindStringSubmatch(call)
		columns, err := strconv.Atoi(parts[3])
		if err != nil {
			return call
		}
		return parts[1] + parts[2] + strconv.Itoa(columns+2)
	})
	var template strings.Builder
	template.WriteString(key + ":\n")
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		if strings.TrimSpace(line) != "" {
			template.WriteString("  ")
		}
		template.WriteString(line)
	}
	return template.String()
}

// fleetReferences converts ConfigMaps and Secrets with values. Fleet reads these objects in the clusters. HelmOp reads
// them in its own namespace, which has the originals of the objects that Fleet copies to the clusters.
func (i *Item) fleetReferences(field string, from []fleetValuesFrom, copied []fleetResource,
) []addonsv1.ValuesReference {
	var references []addonsv1.ValuesReference
	add := func(kind string, ref *fleetKey) {
		if ref == nil {
			return
		}
		isCopied := slices.ContainsFunc(copied, func(resource fleetResource) bool {
			return strings.EqualFold(resource.Kind, kind) && resource.Name == ref.Name
		})
		if !isCopied {
			i.block(field, "Fleet reads the %s %q in the Clusters, and HelmOp reads it in namespace %q of the management "+
				"cluster; create it there, and add it to spec.downstreamResources, so that both read the same", kind, ref.Name,
				i.HelmOp.Namespace)
		}
		references = append(references, addonsv1.ValuesReference{Kind: kind, Name: ref.Name,
			Key: nonEmpty(ref.Key, valuesFileKey)})
	}
	for _, source := range from {
		add("ConfigMap", source.ConfigMapKeyRef)
		add("Secret", source.SecretKeyRef)
	}
	return references
}

// checkFleetRoots adds a blocking gap for templates that read an object that the Cluster of Cluster API does not have.
func (i *Item) checkFleetRoots(place fleetPlace, text string, isLiteral bool) {
	isTemplate := strings.Contains(text, fleetAction) && !isLiteral
	if isTemplate && len(place.fleet.Labels) == 0 {
		i.block("spec.helm.values", "Fleet's Cluster %s has no label, so that Fleet does not render templates for it; set a "+
			"label on the Cluster", place.fleet.Name)
	}
	if isTemplate && place.fleet.Name != place.capi.Name && strings.Contains(text, ".ClusterName") {
		i.block("spec.helm.values", "templates read .ClusterName, which is %q in Fleet and %q in HelmOp; write the name in "+
			"another way", place.fleet.Name, place.capi.Name)
	}
	if isTemplate || strings.Contains(text, fleetLabelPrefix) {
		i.checkFleetMetadata("label", text, place, place.fleet.Labels, place.capi.Labels)
	}
	if !isTemplate {
		return
	}
	i.checkFleetMetadata("annotation", text, place, place.fleet.Annotations, place.capi.Annotations)
	for _, root := range slices.Sorted(maps.Keys(place.fleet.Spec.TemplateValues)) {
		if !slices.Contains(fleetRoots, root) && strings.Contains(text, ".ClusterValues."+root) {
			i.block("spec.helm.values", "templates read .ClusterValues.%s of Fleet's Cluster %s, which HelmOp does not have; "+
				"use a label or an annotation of the Cluster", root, place.fleet.Name)
		}
	}
}

// checkFleetMetadata adds a blocking gap for templates that read a label or an annotation whose value differs between
// the Cluster of Fleet and the Cluster of Cluster API.
func (i *Item) checkFleetMetadata(what, text string, place fleetPlace, fleet, capi map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(fleet)) {
		if value, found := capi[key]; (!found || value != fleet[key]) && strings.Contains(text, key) {
			i.block("spec.helm.values", "templates read the %s %q of Fleet's Cluster %s, and Cluster %s does not have the "+
				"same; set it there", what, key, place.fleet.Name, place.capi.Name)
		}
	}
}

// namespaceMetadata returns labels and annotations of the namespace of a release; nil if there are none. Fleet sets the
// labels and annotations of all targets in all clusters.
func namespaceMetadata(from *fleetHelmOp) *addonsv1.ObjectMetadata {
	all := addonsv1.ObjectMetadata{Labels: maps.Clone(from.Spec.NamespaceLabels),
		Annotations: maps.Clone(from.Spec.NamespaceAnnotations)}
	for i := range from.Spec.Targets {
		all.Labels = merged(all.Labels, from.Spec.Targets[i].NamespaceLabels)
		all.Annotations = merged(all.Annotations, from.Spec.Targets[i].NamespaceAnnotations)
	}
	if len(all.Labels)+len(all.Annotations) == 0 {
		return nil
	}
	return &all
}

func merged(base, over map[string]string) map[string]string {
	if base == nil {
		return maps.Clone(over)
	}
	maps.Copy(base, over)
	return base
}

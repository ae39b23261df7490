// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import "maps"

// Objects are what a template may read of a Cluster, as the API server serves them (unstructured content). They are
// not changed. An object that the Cluster does not have is nil.
type Objects struct {
	// Cluster is the CAPI Cluster. Without one, as in the management cluster, templates see none of these objects and no
	// alias: to read one is to read a key that does not exist.
	Cluster map[string]any

	// ControlPlane is what spec.controlPlaneRef names.
	ControlPlane map[string]any

	// InfrastructureCluster is what spec.infrastructureRef names.
	InfrastructureCluster map[string]any

	// ClusterClass is what spec.topology.classRef names.
	ClusterClass map[string]any
}

// Release names a Helm release.
type Release struct {
	Name, Namespace string
}

// The roots that may be nil, and what a Cluster lacks when they are. Aliases are here too, for the error message.
var absentObject = map[string]string{
	"ControlPlane":          "control plane object",
	"InfrastructureCluster": "infrastructure object",
	"InfraCluster":          "infrastructure object",
	"ClusterClass":          "ClusterClass",
}

const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// root is the dot of every template. The names besides those of Objects are those of CAAPH (InfraCluster) and of Fleet
// with its CAPI add-on (ClusterName … ClusterValues), so that templates written for them go on working.
func (o Objects) root() map[string]any {
	if o.Cluster == nil {
		return map[string]any{}
	}
	cluster, controlPlane := served(o.Cluster), served(o.ControlPlane)
	infra, class := served(o.InfrastructureCluster), served(o.ClusterClass)
	metadata, _ := cluster["metadata"].(map[string]any)
	root := map[string]any{
		"Cluster":               cluster,
		"ControlPlane":          orNil(controlPlane),
		"InfrastructureCluster": orNil(infra),
		"InfraCluster":          orNil(infra),
		"ClusterClass":          orNil(class),
		"ClusterName":           metadata["name"],
		"ClusterNamespace":      metadata["namespace"],
		"ClusterLabels":         orEmpty(metadata["labels"]),
		"ClusterAnnotations":    orEmpty(metadata["annotations"]),
		"ClusterValues": map[string]any{
			"Cluster":               cluster,
			"ControlPlane":          orNil(controlPlane),
			"InfrastructureCluster": orNil(infra),
		},
	}
	return root
}

// served drops the bookkeeping that no template needs and that changes without meaning. The copy is shallow.
func served(object map[string]any) map[string]any {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return object
	}
	metadata = maps.Clone(metadata)
	delete(metadata, "managedFields")
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		annotations = maps.Clone(annotations)
		delete(annotations, lastAppliedAnnotation)
		metadata["annotations"] = annotations
	}
	object = maps.Clone(object)
	object["metadata"] = metadata
	return object
}

// orNil turns a nil map into nil, so that {{ if .ControlPlane }} and error messages see it as absent.
func orNil(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}

func orEmpty(v any) any {
	if v == nil {
		return map[string]any{}
	}
	return v
}

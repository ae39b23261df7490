// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import "maps"

// Objects are the objects of a Cluster that templates can read, as unstructured content of the API server. The package
// does not change them. An object that the Cluster does not have is nil.
type Objects struct {
	// Cluster is the CAPI Cluster. It is nil in the management cluster. Templates then have no objects and no aliases,
	// and reading one is an error about a missing key.
	Cluster map[string]any

	// ControlPlane is the object of spec.controlPlaneRef.
	ControlPlane map[string]any

	// InfrastructureCluster is the object of spec.infrastructureRef.
	InfrastructureCluster map[string]any

	// ClusterClass is the object of spec.topology.classRef.
	ClusterClass map[string]any
}

// Release is the name and the namespace of a Helm release.
type Release struct {
	Name, Namespace string
}

// absentObject maps each root that can be nil, including aliases, to the name of the missing object in error messages.
var absentObject = map[string]string{
	"ControlPlane":          "control plane object",
	"InfrastructureCluster": "infrastructure object",
	"InfraCluster":          "infrastructure object",
	"ClusterClass":          "ClusterClass",
}

const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// root returns the dot of every template. It has the names of Objects. It also has the names of CAAPH (InfraCluster)
// and of Fleet with its CAPI add-on (ClusterName … ClusterValues), so that existing templates keep working.
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

// served returns a copy without managedFields and without the last-applied annotation. No template needs them, and they
// change often. The copy is shallow.
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

// orNil converts a nil map to nil. {{ if .ControlPlane }} and error messages then treat the object as absent.
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

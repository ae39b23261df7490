// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// RequestUpgrade requests an upgrade of a Cluster to a version. Cluster API has processed the request, and has not
// published a plan.
func RequestUpgrade(cluster *clusterv1.Cluster, version string) {
	cluster.Generation = 2
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: version}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "control-plane"}
	conditions.Set(cluster, metav1.Condition{Type: clusterv1.ClusterTopologyReconciledCondition,
		Status: metav1.ConditionFalse, Reason: clusterv1.ClusterTopologyReconciledClusterUpgradingReason})
}

// UpgradeClient returns a client of a management cluster with the objects that a Cluster of RequestUpgrade refers to.
// The control plane runs a version. If publishesPlans is true, the schema of Clusters has the field for the plan of an
// upgrade.
func UpgradeClient(t *testing.T, namespace, running string, publishesPlans bool) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	controlPlane := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
		"metadata": map[string]any{"namespace": namespace, "name": "control-plane"},
		"spec":     map[string]any{"version": running}, "status": map[string]any{"version": running}}}
	class := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": clusterv1.GroupVersion.String(), "kind": "ClusterClass",
		"metadata": map[string]any{"namespace": namespace, "name": "class"}}}
	controlPlanes := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name: "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", Labels: map[string]string{
			clusterv1.GroupVersion.String(): "v1beta2"}}}
	clusters := DefinitionOfClusters("clusters", 1, map[string]bool{clusterv1.GroupVersion.Version: publishesPlans})
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(controlPlane, class, controlPlanes, clusters).Build()
}

// DefinitionOfClusters returns the CustomResourceDefinition of Clusters. hasPlan says in which of its versions the
// status has the field for the plan of an upgrade.
func DefinitionOfClusters(uid string, generation int64, hasPlan map[string]bool) *apiextensionsv1.
	CustomResourceDefinition {
	type properties = map[string]apiextensionsv1.JSONSchemaProps
	definition := &apiextensionsv1.CustomResourceDefinition{}
	definition.Name, definition.UID, definition.Generation = "clusters.cluster.x-k8s.io", types.UID(uid), generation
	for _, version := range []string{"v1beta1", clusterv1.GroupVersion.Version} {
		controlPlane := properties{"replicas": {Type: "integer"}}
		if hasPlan[version] {
			controlPlane["upgradePlan"] = apiextensionsv1.JSONSchemaProps{Type: "array"}
		}
		status := properties{"status": {Properties: properties{"controlPlane": {Properties: controlPlane}}}}
		definition.Spec.Versions = append(definition.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Properties: status}}})
	}
	return definition
}

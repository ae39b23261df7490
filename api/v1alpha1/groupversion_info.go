// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 contains the API of HelmOp, a Cluster API addon provider that installs Helm charts
// from OCI registries in the workload clusters that a selector chooses.
//
// +kubebuilder:object:generate=true
// +groupName=addons.cluster.x-k8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Names of the resources for the commands in messages. Rancher Fleet has a kind HelmOp, too, so "kubectl get helmop"
// may return either kind. The name with the group is unique.
const (
	HelmOpResource        = "helmops.addons.cluster.x-k8s.io"
	HelmOpReleaseResource = "helmopreleases.addons.cluster.x-k8s.io"
)

var (
	// GroupVersion is the group and version of the objects of this package.
	GroupVersion = schema.GroupVersion{Group: "addons.cluster.x-k8s.io", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the types of this package to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &HelmOp{}, &HelmOpList{}, &HelmOpRelease{}, &HelmOpReleaseList{},
		&HelmOpRevision{}, &HelmOpRevisionList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

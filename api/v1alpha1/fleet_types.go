// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagementCluster installs a release in the management cluster itself.
type ManagementCluster struct {
	// impersonateServiceAccountName names the ServiceAccount, in the namespace of the HelmOp, under whose rights everything is done in the
	// management cluster. The manager must be permitted to impersonate it, and it may read and write Secrets in the namespace of the
	// release, where Helm keeps its records.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ImpersonateServiceAccountName string `json:"impersonateServiceAccountName"`
}

// Dependency is a HelmOp that comes first.
type Dependency struct {
	// name of the HelmOp, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// readyExpr is a CEL expression over "release", the HelmOpRelease of the dependency in the same Cluster as the API server
	// serves it, that is true when the dependency is ready enough; for example "release.status.release.version.startsWith('1.')".
	// It is asked in addition to the condition Ready, which must be true for the release as it is wanted now.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ReadyExpr string `json:"readyExpr,omitempty"`
}

// Override is what is different for some of the Clusters. Its options (install, upgrade and so on) win over those of the HelmOp,
// field by field: an option that is not set here, or an empty list, leaves the HelmOp's; lists replace.
type Override struct {
	// name of the override.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// clusterSelector chooses its Clusters among those that the HelmOp selects.
	// +required
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`

	// ref tells which artifact of the repository they get. It wins over refsByKubernetesVersion and over source.ref.
	// +optional
	Ref *ArtifactReference `json:"ref,omitempty"`

	// valuesFrom are ConfigMaps and Secrets that hold values for these Clusters, as in spec.valuesFrom. They win over all values
	// of the HelmOp, valuesTemplate included.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ValuesFrom []ValuesReference `json:"valuesFrom,omitempty"`

	// values win over all values of the HelmOp and over valuesFrom of the override. Maps merge, lists replace, and null removes a
	// key, the chart's default included. Strings are templates, as in spec.values.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *apiextensionsv1.JSON `json:"values,omitempty"`

	// valuesTemplate is one template that yields values as YAML, as spec.valuesTemplate. It wins over values and valuesFrom of the
	// override.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	ValuesTemplate string `json:"valuesTemplate,omitempty"`

	// postRender is added to that of the HelmOp: its patches and images follow those of the HelmOp, its labels and annotations win
	// over those of the HelmOp. Together there are at most 64 of each.
	// +optional
	PostRender *PostRender `json:"postRender,omitempty"`

	ReleaseOptions `json:",inline"`
}

// KubernetesVersionReference tells which artifact Clusters with some versions of Kubernetes get.
type KubernetesVersionReference struct {
	// kubernetes is a range of versions, for example ">=1.35" or ">=1.33 <1.35". Pre-release and build parts of a Cluster's version
	// are left out of account. A Cluster whose version is not known is in no range.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	KubernetesVersion string `json:"kubernetesVersion"`

	// ref tells which artifact of the repository.
	// +required
	Ref ArtifactReference `json:"ref"`
}

// ClusterNamespaces lets a HelmOp serve Clusters of other namespaces than its own.
type ClusterNamespaces struct {
	// namespaceSelector chooses the other namespaces by their labels; an empty one chooses all. The HelmOp's own needs not be chosen.
	// +required
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`

	// authorizationServiceAccountName names the ServiceAccount, in the namespace of the HelmOp, whose rights count: a Cluster of another namespace
	// is served only if this account may get the Secret with its kubeconfig, <cluster>-kubeconfig in the namespace of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	AuthorizationServiceAccountName string `json:"authorizationServiceAccountName"`
}

// BeforeClusterUpgrade holds an upgrade of Kubernetes in a Cluster until its release is as the new version needs it.
type BeforeClusterUpgrade struct {
	// timeout is how long an upgrade is held at most. It goes on then, whatever the release is. Default: 30m.
	// +optional
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be at least 1s and at most 24h"
	Timeout metav1.Duration `json:"timeout,omitempty,omitzero"`
}

// BeforeClusterDelete uninstalls the release of a Cluster before the Cluster goes.
type BeforeClusterDelete struct {
	// timeout is how long the deletion of a Cluster is held at most, whether its API server answers or not. Default: 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be at least 1s and at most 24h"
	Timeout metav1.Duration `json:"timeout,omitempty,omitzero"`
}

// ClusterOptions tell how a release takes part in the life of its Cluster.
type ClusterOptions struct {
	// dependsOn are HelmOps that come first: in each Cluster, the release waits, before it is installed or changed, until theirs are
	// Ready, and they are uninstalled only after it. What runs is left alone meanwhile.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	DependsOn []Dependency `json:"dependsOn,omitempty"`

	// clusterCondition is the type of a condition that each selected Cluster gets, for example HelmOpReady: true while the releases
	// of all HelmOps that name it are Ready there; Clusters of other namespaces than the HelmOp's get none. With that type in its spec.availabilityGates, a Cluster is Available only with
	// them in place.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9][-A-Za-z0-9_.]*/)?[A-Za-z][A-Za-z0-9_]*Ready$')",message="clusterCondition must be a condition type that ends with Ready, for example HelmOpReady"
	// +kubebuilder:validation:XValidation:rule="!(self in ['Ready', 'InfrastructureReady', 'ControlPlaneReady', 'ClusterClassReady', 'WorkerMachinesReady', 'ControlPlaneMachinesReady'])",message="clusterCondition must not be a condition of Cluster API's own"
	ClusterCondition string `json:"clusterCondition,omitempty"`

	// beforeClusterUpgrade holds upgrades of Kubernetes in Clusters of a ClusterClass, by Cluster API's before-upgrade annotation, until
	// the release is as the new version needs it, see refsByKubernetesVersion. Without it, upgrades are not held; those of Clusters of
	// other namespaces than the HelmOp's never are.
	// +optional
	BeforeClusterUpgrade *BeforeClusterUpgrade `json:"beforeClusterUpgrade,omitempty"`

	// beforeClusterDelete uninstalls the release of a Cluster that is deleted before the Cluster goes, so that what it made outside,
	// load balancers and volumes for example, goes, too. Cluster API knows no other way to hold the deletion of any Cluster, so it is
	// paused meanwhile. Without it, and in Clusters of other namespaces than the HelmOp's, releases of a deleted Cluster are
	// forgotten without a call.
	// +optional
	BeforeClusterDelete *BeforeClusterDelete `json:"beforeClusterDelete,omitempty"`
}

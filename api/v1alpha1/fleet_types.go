// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagementCluster installs a release in the management cluster itself.
type ManagementCluster struct {
	// impersonateServiceAccountName names the ServiceAccount, in the namespace of the HelmOp, that HelmOp impersonates
	// for all requests in the management cluster. The manager must have the right to impersonate it. The ServiceAccount
	// must have the right to read and write Secrets in the namespace of the release, where Helm stores its records.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ImpersonateServiceAccountName string `json:"impersonateServiceAccountName"`
}

// Dependency is a HelmOp whose releases are installed first.
type Dependency struct {
	// name of the HelmOp, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// readyExpr is a CEL expression over "release", the HelmOpRelease of the dependency in the same Cluster as the API
	// server returns it. The dependency is ready if the expression is true and its condition Ready is true for its
	// current spec. Example: "release.status.release.version.startsWith('1.')".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ReadyExpr string `json:"readyExpr,omitempty"`
}

// Override is what is different for some of the Clusters. Its options (install, upgrade and so on) win over those of
// the HelmOp, field by field: an option that is not set here, or an empty list, leaves the HelmOp's; lists replace.
type Override struct {
	// name of the override.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// clusterSelector chooses its Clusters among those that the HelmOp selects.
	// +required
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`

	// ref selects the artifact of the repository for these Clusters. It wins over refsByKubernetesVersion and over
	// source.ref.
	// +optional
	Ref *ArtifactReference `json:"ref,omitempty"`

	// valuesFrom are ConfigMaps and Secrets that hold values for these Clusters, as in spec.valuesFrom. They win over all
	// values of the HelmOp, valuesTemplate included.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ValuesFrom []ValuesReference `json:"valuesFrom,omitempty"`

	// values win over all values of the HelmOp and over valuesFrom of the override. Maps merge, lists replace, and null
	// removes a key, the chart's default included. Strings are templates, as in spec.values.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *apiextensionsv1.JSON `json:"values,omitempty"`

	// valuesTemplate is one template that yields values as YAML, as spec.valuesTemplate. It wins over values and
	// valuesFrom of the override.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	ValuesTemplate string `json:"valuesTemplate,omitempty"`

	// postRender is added to that of the HelmOp: its patches and images follow those of the HelmOp, its labels and
	// annotations win over those of the HelmOp. Together there are at most 64 of each.
	// +optional
	PostRender *PostRender `json:"postRender,omitempty"`

	ReleaseOptions `json:",inline"`
}

// KubernetesVersionReference selects the artifact for Clusters with some Kubernetes versions.
type KubernetesVersionReference struct {
	// kubernetesVersion is a range of versions, for example ">=1.35" or ">=1.33 <1.35". The pre-release and build parts
	// of a Cluster's version are ignored. A Cluster without a known version is in no range.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	KubernetesVersion string `json:"kubernetesVersion"`

	// ref selects the artifact of the repository.
	// +required
	Ref ArtifactReference `json:"ref"`
}

// ClusterNamespaces lets a HelmOp select Clusters of other namespaces than its own.
type ClusterNamespaces struct {
	// namespaceSelector selects the other namespaces by their labels; an empty selector selects all. The HelmOp's own
	// namespace is always included.
	// +required
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`

	// authorizationServiceAccountName names the ServiceAccount, in the namespace of the HelmOp, whose rights are
	// checked. A Cluster of another namespace is selected only if this ServiceAccount may get the Secret
	// <cluster>-kubeconfig in the namespace of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	AuthorizationServiceAccountName string `json:"authorizationServiceAccountName"`
}

// BeforeClusterUpgrade holds a Kubernetes upgrade of a Cluster until the release is ready for the new version.
type BeforeClusterUpgrade struct {
	// timeout is how long an upgrade is held at most. After that it continues, even if the release is not ready.
	// Default: 30m.
	// +optional
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be at least 1s and at most 24h"
	Timeout metav1.Duration `json:"timeout,omitempty,omitzero"`

	// preflight is whether a pending upgrade also waits until a check of the release for the new version has found
	// nothing that must be done: an API that the new version does not serve, a chart whose kubeVersion excludes it, a
	// chart that cannot be rendered for it. The condition KubernetesUpgradeReady of the HelmOpRelease has the result.
	// Like each hold, this one ends after timeout at the latest. Ignored checks nothing, unless the annotation
	// addons.cluster.x-k8s.io/check-kubernetes-upgrade of the Cluster requests it. Default: Ignored.
	// +optional
	Preflight UpgradePreflight `json:"preflight,omitempty"`
}

// UpgradePreflight is whether a release is checked before an upgrade of Kubernetes. The zero value is the same as
// Ignored.
// +kubebuilder:validation:Enum=Ignored;Required
type UpgradePreflight string

const (
	// UpgradePreflightIgnored does not wait for a check.
	UpgradePreflightIgnored UpgradePreflight = "Ignored"

	// UpgradePreflightRequired waits until a check has found nothing that must be done.
	UpgradePreflightRequired UpgradePreflight = "Required"
)

// BeforeClusterDelete uninstalls the release of a Cluster before the Cluster is deleted.
type BeforeClusterDelete struct {
	// timeout is how long the deletion of a Cluster is held at most, even if its API server does not answer. Default:
	// 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be at least 1s and at most 24h"
	Timeout metav1.Duration `json:"timeout,omitempty,omitzero"`
}

// ClusterOptions are how a release takes part in the lifecycle of its Cluster.
type ClusterOptions struct {
	// dependsOn are HelmOps whose releases are installed first. In each Cluster, the release is installed or changed
	// only when their releases are Ready, and their releases are uninstalled only after it. An installed release is not
	// touched while it waits.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	DependsOn []Dependency `json:"dependsOn,omitempty"`

	// clusterCondition is the type of a condition that HelmOp sets on each selected Cluster, for example HelmOpReady.
	// It is true while the releases of all HelmOps that name the type are Ready in the Cluster. With the type in
	// spec.availabilityGates of a Cluster, the Cluster is Available only with these releases. Clusters of other
	// namespaces than the HelmOp's do not get the condition.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9][-A-Za-z0-9_.]*/)?[A-Za-z][A-Za-z0-9_]*Ready$')",message="clusterCondition must be a condition type that ends with Ready, for example HelmOpReady"
	// +kubebuilder:validation:XValidation:rule="self != 'HelmOpKubernetesUpgradeReady'",message="clusterCondition must not be HelmOpKubernetesUpgradeReady, which has the result of checks"
	// +kubebuilder:validation:XValidation:rule="!(self in ['Ready', 'InfrastructureReady', 'ControlPlaneReady', 'ClusterClassReady', 'WorkerMachinesReady', 'ControlPlaneMachinesReady'])",message="clusterCondition must not be a condition of Cluster API's own"
	ClusterCondition string `json:"clusterCondition,omitempty"`

	// beforeClusterUpgrade holds Kubernetes upgrades of Clusters with a ClusterClass, by Cluster API's before-upgrade
	// annotation, until the release is ready for the new version, see refsByKubernetesVersion. In an upgrade over several
	// minor versions, the release is prepared for one step after the other. Default: upgrades are not held. Upgrades of
	// Clusters of other namespaces than the HelmOp's are never held.
	// +optional
	BeforeClusterUpgrade *BeforeClusterUpgrade `json:"beforeClusterUpgrade,omitempty"`

	// beforeClusterDelete uninstalls the release of a Cluster that is being deleted before the Cluster is deleted, so
	// that load balancers and volumes that the release created are deleted, too. HelmOp pauses the Cluster meanwhile,
	// because Cluster API has no other hold for the deletion of any Cluster. Without it, and in Clusters of other
	// namespaces than the HelmOp's, the releases of a deleted Cluster are dropped without a request to the Cluster.
	// +optional
	BeforeClusterDelete *BeforeClusterDelete `json:"beforeClusterDelete,omitempty"`
}

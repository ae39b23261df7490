// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagementCluster installs a release in the management cluster.
type ManagementCluster struct {
	// impersonateServiceAccountName is the name of a ServiceAccount in the
	// namespace of the HelmOp. HelmOp impersonates this ServiceAccount for all
	// requests to the management cluster. The manager must have the right to
	// impersonate the ServiceAccount. The ServiceAccount must have the right to
	// read and write Secrets in the namespace of the release, because Helm stores
	// its records in these Secrets.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ImpersonateServiceAccountName string `json:"impersonateServiceAccountName"`
}

// Dependency is a HelmOp whose release must be Ready first.
type Dependency struct {
	// name of the HelmOp in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// readyExpr is an additional condition for the dependency, as a CEL
	// expression. The variable "release" of the expression is the HelmOpRelease of
	// the dependency in the same Cluster. The dependency is ready if the
	// HelmOpRelease is Ready for its current spec and the expression is true.
	// Example: "release.status.release.version.startsWith('1.')". Default: no
	// additional condition.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ReadyExpr string `json:"readyExpr,omitempty"`
}

// Override changes the configuration for some of the Clusters. A field of the
// override wins over the same field of the HelmOp. If a field of the override
// is not set, or is an empty list, the value of the HelmOp applies. A list of
// the override replaces the list of the HelmOp.
type Override struct {
	// name of the override. Two overrides of a HelmOp must not have the same
	// name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// clusterSelector selects the Clusters of the override by their labels, among
	// the Clusters that the HelmOp selects. A selector has at most 256 labels,
	// expressions and values.
	// +required
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`

	// ref selects another artifact of the same repository for these Clusters, for
	// example another version of the chart. ref wins over refsByKubernetesVersion
	// and source.ref.
	// +optional
	Ref *ArtifactReference `json:"ref,omitempty"`

	// valuesFrom lists ConfigMaps and Secrets with values for these Clusters, in
	// the same form as spec.valuesFrom. These values win over all values of the
	// HelmOp, also over spec.valuesTemplate.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ValuesFrom []ValuesReference `json:"valuesFrom,omitempty"`

	// values are values for these Clusters, in the same form as spec.values, with
	// templates. These values win over all values of the HelmOp and over
	// valuesFrom of the override. Maps are merged, and lists are replaced. The
	// value null removes a key, also if the key is a default of the chart.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *apiextensionsv1.JSON `json:"values,omitempty"`

	// valuesTemplate is one template that renders values as YAML, in the same form
	// as spec.valuesTemplate. The rendered values win over values and valuesFrom
	// of the override.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	ValuesTemplate string `json:"valuesTemplate,omitempty"`

	// postRender changes the rendered objects for these Clusters, in addition to
	// spec.postRender. HelmOp applies the patches and images of spec.postRender
	// first, then the patches and images of the override. Labels and annotations
	// of the override win. For a Cluster, spec.postRender and all overrides
	// together may have at most 64 patches, 64 images, 64 labels and 64
	// annotations.
	// +optional
	PostRender *PostRender `json:"postRender,omitempty"`

	ReleaseOptions `json:",inline"`
}

// KubernetesVersionReference selects an artifact for Clusters with some
// Kubernetes versions.
type KubernetesVersionReference struct {
	// kubernetesVersion is a range of Kubernetes versions. Examples: ">=1.35" or
	// ">=1.33 <1.35". HelmOp ignores the pre-release and build parts of the
	// version of a Cluster. A Cluster without a known Kubernetes version does not
	// match any range.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	KubernetesVersion string `json:"kubernetesVersion"`

	// ref selects an artifact of the same repository for these Clusters.
	// +required
	Ref ArtifactReference `json:"ref"`
}

// ClusterNamespaces lets a HelmOp select Clusters in other namespaces.
type ClusterNamespaces struct {
	// namespaceSelector selects the other namespaces by their labels. An empty
	// selector selects all namespaces. The namespace of the HelmOp is always
	// included. A selector has at most 256 labels, expressions and values.
	// +required
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`

	// authorizationServiceAccountName is the name of a ServiceAccount in the
	// namespace of the HelmOp. HelmOp selects a Cluster in another namespace only
	// if this ServiceAccount may get the Secret <cluster>-kubeconfig in the
	// namespace of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	AuthorizationServiceAccountName string `json:"authorizationServiceAccountName"`
}

// BeforeClusterUpgrade holds a Kubernetes upgrade of a Cluster until the
// release is ready for the new version.
type BeforeClusterUpgrade struct {
	// timeout is the longest time for which HelmOp holds an upgrade. After this
	// time, the upgrade continues, also if the release is not ready. Example: 1h.
	// Default: 30m.
	// +optional
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be at least 1s and at most 24h, for example 30m"
	Timeout metav1.Duration `json:"timeout,omitempty,omitzero"`

	// preflight sets whether a pending upgrade of Kubernetes also waits for a
	// check. The check finds problems of the release with the new Kubernetes
	// version. Default: Ignored.
	// - Required: the upgrade waits until the check has found nothing that must be
	//   done. Problems are an API that the new version does not serve, a chart
	//   whose kubeVersion excludes the new version, and a chart that HelmOp cannot
	//   render for the new version. After timeout, the upgrade continues in any
	//   case.
	// - Ignored: the upgrade does not wait for the check. HelmOp makes the check
	//   only if the Cluster has the annotation
	//   addons.cluster.x-k8s.io/check-kubernetes-upgrade.
	//
	// The condition KubernetesUpgradeReady of the HelmOpRelease has the result of
	// the check.
	// +optional
	Preflight UpgradePreflight `json:"preflight,omitempty"`
}

// UpgradePreflight is whether a release is checked before an upgrade of Kubernetes. The zero value is the same as
// Ignored.
// +kubebuilder:validation:Enum=Ignored;Required
type UpgradePreflight string

const (
	// UpgradePreflightIgnored means that the upgrade of Kubernetes does not wait for the check.
	UpgradePreflightIgnored UpgradePreflight = "Ignored"

	// UpgradePreflightRequired means that the upgrade of Kubernetes waits until the check of the release finds nothing
	// that a user must do first.
	UpgradePreflightRequired UpgradePreflight = "Required"
)

// BeforeClusterDelete uninstalls the release of a Cluster before the Cluster
// is deleted.
type BeforeClusterDelete struct {
	// timeout is the longest time for which HelmOp holds the deletion of a
	// Cluster. After this time, the deletion continues, also if the release is not
	// uninstalled, for example because the API server of the Cluster does not
	// answer. Example: 1h. Default: 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="timeout must be at least 1s and at most 24h, for example 30m"
	Timeout metav1.Duration `json:"timeout,omitempty,omitzero"`
}

// ClusterOptions connect a release with the lifecycle of its Cluster and with
// other releases.
type ClusterOptions struct {
	// dependsOn lists HelmOps whose releases must be Ready first. In each Cluster,
	// HelmOp installs or changes the release only when the releases of these
	// HelmOps are Ready. While the release waits, HelmOp does not change the
	// release. HelmOp first uninstalls this release, and then the releases of the
	// HelmOps in dependsOn. Default: no dependencies.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	DependsOn []Dependency `json:"dependsOn,omitempty"`

	// clusterCondition is the type of a condition that HelmOp sets on each
	// selected Cluster, for example HelmOpReady. The condition is True while the
	// releases of all HelmOps with this clusterCondition are Ready in the Cluster.
	// If a Cluster must be Available only when these releases are Ready, add the
	// type to spec.availabilityGates of the Cluster. HelmOp does not set the
	// condition on Clusters in other namespaces than the HelmOp. Default: no
	// condition.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9][-A-Za-z0-9_.]*/)?[A-Za-z][A-Za-z0-9_]*Ready$')",message="clusterCondition must be a condition type that ends with Ready, for example HelmOpReady"
	// +kubebuilder:validation:XValidation:rule="self != 'HelmOpKubernetesUpgradeReady'",message="clusterCondition must not be HelmOpKubernetesUpgradeReady, which has the result of checks: choose another type, for example HelmOpReady"
	// +kubebuilder:validation:XValidation:rule="!(self in ['Ready', 'InfrastructureReady', 'ControlPlaneReady', 'ClusterClassReady', 'WorkerMachinesReady', 'ControlPlaneMachinesReady'])",message="clusterCondition must not be a condition type of Cluster API: choose another type, for example HelmOpReady"
	ClusterCondition string `json:"clusterCondition,omitempty"`

	// beforeClusterUpgrade holds Kubernetes upgrades of Clusters with a
	// ClusterClass until the release is ready for the new version.
	// refsByKubernetesVersion selects the chart for the new version. HelmOp uses
	// the before-upgrade annotation of Cluster API. In an upgrade over several
	// minor versions, HelmOp prepares the release for each step. HelmOp does not
	// hold upgrades of Clusters in other namespaces than the HelmOp. Default:
	// HelmOp holds no upgrades.
	// +optional
	BeforeClusterUpgrade *BeforeClusterUpgrade `json:"beforeClusterUpgrade,omitempty"`

	// beforeClusterDelete uninstalls the release before its Cluster is deleted.
	// The uninstallation also deletes load balancers and volumes that the release
	// created. HelmOp pauses the Cluster until the release is uninstalled, because
	// Cluster API has no other way to hold the deletion of every kind of Cluster.
	// beforeClusterDelete has no effect for Clusters in other namespaces than the
	// HelmOp.
	//
	// Default: when a Cluster is deleted, HelmOp deletes only the HelmOpRelease,
	// and sends no request to the workload cluster.
	// +optional
	BeforeClusterDelete *BeforeClusterDelete `json:"beforeClusterDelete,omitempty"`
}

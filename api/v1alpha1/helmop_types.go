// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// HelmOpSpec is the desired state of a HelmOp: which chart, with which values,
// in which clusters.
type HelmOpSpec struct {
	// clusterSelector selects Clusters by their labels. HelmOp installs the
	// release in each selected Cluster. The Clusters must be in the namespace of
	// the HelmOp, unless clusterNamespaces is set. An empty selector selects all
	// Clusters. If a Cluster is no longer selected, HelmOp deletes its release,
	// see deletionPolicy and maxDeletions. A selector has at most 256 labels,
	// expressions and values. Set exactly one of clusterSelector and
	// managementCluster.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// managementCluster installs the release in the management cluster, and in no
	// Cluster. The flag --management-cluster-namespaces of the manager must list
	// the namespace of the HelmOp. With managementCluster, templates cannot use
	// .Cluster. Set exactly one of clusterSelector and managementCluster.
	// +optional
	ManagementCluster *ManagementCluster `json:"managementCluster,omitempty"`

	// paused stops all actions of HelmOp for this object. While paused is true,
	// HelmOp does not resolve the source and does not install, upgrade, correct or
	// uninstall any release. Default: false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// source is the registry or chart repository of the chart, and the version to
	// install.
	// +required
	Source ArtifactSource `json:"source"`

	// release is the name and namespace of the Helm release. Default: the name of
	// the HelmOp as the name, and "default" as the namespace.
	// +optional
	Release ReleaseTemplate `json:"release,omitempty,omitzero"`

	// values are the values of the chart, the same as in a values.yaml file. Do
	// not write secrets into values: use valuesFrom.
	//
	// Each string may contain templates over the Cluster, for example "{{
	// .Cluster.metadata.name }}". If the string is exactly one template action,
	// the result keeps its type: a number stays a number. Otherwise the result is
	// a string. Keys are not templates.
	//
	// HelmOp merges all values in this order: valuesFrom, values, valuesTemplate,
	// overrides. Later values win. Maps are merged, and lists are replaced.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *apiextensionsv1.JSON `json:"values,omitempty"`

	// valuesTemplate is one template that renders values as YAML. Use
	// valuesTemplate if you need loops or conditions. The rendered values win over
	// values and valuesFrom.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	ValuesTemplate string `json:"valuesTemplate,omitempty"`

	// valuesFrom lists ConfigMaps and Secrets that contain values. These objects
	// must be in the namespace of the HelmOp. A later entry wins over an earlier
	// entry. The contents of the objects are not templates. The name of an object
	// may be the same for all Clusters, or a template with a different result for
	// each Cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ValuesFrom []ValuesReference `json:"valuesFrom,omitempty"`

	// templateDelimiters are the delimiters of all templates: in release, values,
	// valuesTemplate, the names in valuesFrom, postRender and overrides. Default:
	// Curly.
	// - Curly: "{{" and "}}".
	// - Dollar: a dollar sign and braces, as in shell variables. Use Dollar if the
	//   values contain "{{" for another tool.
	// +optional
	// +kubebuilder:default=Curly
	TemplateDelimiters TemplateDelimiters `json:"templateDelimiters,omitempty"`

	// postRender changes the rendered objects of the chart, before HelmOp installs
	// the objects. Use postRender for changes that are not possible with the
	// values of the chart.
	// +optional
	PostRender *PostRender `json:"postRender,omitempty"`

	ReleaseOptions `json:",inline"`

	// storage sets where HelmOp stores Helm's records of new installations and
	// upgrades. A change of storage does not move existing records and does not
	// create a HelmOp revision. Default: the registry in the manager's flag
	// --record-storage-url or, without this flag, Secrets in the workload
	// clusters.
	// +optional
	Storage *RecordStorage `json:"storage,omitempty"`

	// overrides change values, options or the version of the chart for some of the
	// Clusters. HelmOp merges all overrides that select a Cluster, field by field.
	// A later override wins over an earlier override.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Overrides []Override `json:"overrides,omitempty"`

	// refsByKubernetesVersion selects the version of the chart by the Kubernetes
	// version of the control plane of a Cluster. HelmOp uses the first entry whose
	// range contains the Kubernetes version. If no entry matches, HelmOp uses
	// source.ref.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	RefsByKubernetesVersion []KubernetesVersionReference `json:"refsByKubernetesVersion,omitempty"`

	// rollout limits how many Clusters change at the same time, and in which
	// order. Default: all Clusters get a new HelmOp revision at once.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// maintenance limits the times at which HelmOp changes releases. Default: only
	// the maintenance annotations of the Clusters limit the times.
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`

	// preflight sets checks that must pass before HelmOp installs or upgrades a
	// release. A change of preflight does not create a HelmOp revision. Default:
	// no checks.
	// +optional
	Preflight *Preflight `json:"preflight,omitempty"`

	// revisionHistoryLimit is the number of unused HelmOpRevisions that HelmOp
	// keeps. If all HelmOpRevisions of the HelmOp together are larger than 4 MiB,
	// HelmOp keeps fewer. Default: 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// clusterNamespaces allows clusterSelector to select Clusters in other
	// namespaces, too. Default: clusterSelector selects only Clusters in the
	// namespace of the HelmOp.
	// +optional
	ClusterNamespaces *ClusterNamespaces `json:"clusterNamespaces,omitempty"`

	ClusterOptions `json:",inline"`

	// deletionPolicy sets what HelmOp does with a release when its Cluster is no
	// longer selected, when the HelmOp is deleted, or when the name or namespace
	// of the release changes. Default: Uninstall.
	// - Uninstall: HelmOp uninstalls the release.
	// - Orphan: HelmOp leaves the release installed.
	//
	// When a Cluster is deleted, HelmOp deletes only the HelmOpRelease and sends
	// no request to the workload cluster. To uninstall the release first, set
	// beforeClusterDelete.
	// +optional
	// +kubebuilder:default=Uninstall
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// maxDeletions limits how many releases HelmOp deletes at once because their
	// Clusters are no longer selected. The value is a number, or a percentage of
	// the existing releases, rounded down and at least 1. Example: 10 or "25%".
	// Default: the larger of 25% and 3, but never all releases if there is more
	// than one. With 0, every deletion waits for a confirmation. With "100%", no
	// deletion waits.
	//
	// If HelmOp would delete more releases, all of these deletions wait until a
	// user confirms them with the annotation
	// addons.cluster.x-k8s.io/confirm-deletions. HelmOp counts deletions together
	// if each begins less than 10 minutes after the previous deletion.
	// maxDeletions does not limit the deletion of releases whose Clusters are
	// deleted or under deletion, or whose HelmOp is deleted.
	//
	// With managementCluster, maxDeletions limits how many objects an upgrade, a
	// rollback or an uninstallation deletes, unless the HelmOp is deleted. The
	// default is then the larger of 25% and 3, also if these are all objects. If
	// this action would delete a Namespace, a CustomResourceDefinition or an
	// object of Cluster API or its providers, the action always waits for a
	// confirmation, unless maxDeletions is "100%". Templates of Cluster API are
	// an exception.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 0 or a percentage from 1% to 100%, for example 3 or 25%"
	MaxDeletions *intstr.IntOrString `json:"maxDeletions,omitempty"`
}

// TemplateDelimiters are the delimiters of template actions.
// +kubebuilder:validation:Enum=Curly;Dollar
type TemplateDelimiters string

const (
	// TemplateDelimitersCurly are "{{" and "}}".
	TemplateDelimitersCurly TemplateDelimiters = "Curly"

	// TemplateDelimitersDollar are "${" and "}". What is written here must not find its way into the CRDs: clusterctl
	// takes "${" for a variable of its own.
	TemplateDelimitersDollar TemplateDelimiters = "Dollar"
)

// ReleaseTemplate is the name and namespace of the Helm release in each
// cluster.
type ReleaseTemplate struct {
	// name is the name of the release. The name may contain templates over the
	// Cluster, for example "cni-{{ .Cluster.metadata.name }}". If the result
	// changes, HelmOp deletes the old release, see deletionPolicy, and installs a
	// new release. Default: the name of the HelmOp.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name,omitempty"`

	// namespace is the namespace of the release in the workload cluster. The
	// namespace may contain templates over the Cluster. If the result changes,
	// HelmOp deletes the old release, see deletionPolicy, and installs a new
	// release. Default: "default".
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Namespace string `json:"namespace,omitempty"`
}

// ValuesReference names a ConfigMap or Secret that contains values, in the
// namespace of the HelmOp.
type ValuesReference struct {
	// kind of the object: ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:Enum=ConfigMap;Secret
	Kind string `json:"kind"`

	// name of the object. HelmOp reads the object in the namespace of the HelmOp,
	// also for Clusters in other namespaces.
	//
	// The name may be a template over the Cluster. Example: "{{
	// .Cluster.metadata.name }}-cloud-config" is a different Secret for each
	// Cluster.
	//
	// If an object with a fixed name changes, HelmOp creates a HelmOp revision. If
	// an object with a templated name changes, HelmOp updates only the releases of
	// the Clusters that use the object, at once. If an object with a templated
	// name does not exist, only the releases of the Clusters that use the object
	// fail.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.contains('{{') || self.contains('$') || size(self) <= 253 && self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",message="must be the name of an object (lower case letters, digits, '-' and '.', at most 253 characters) or a template"
	Name string `json:"name"`

	// key is the key in the ConfigMap or Secret. Without targetPath, the data of
	// the key must be values in YAML. Default: values.yaml.
	// +optional
	// +kubebuilder:default=values.yaml
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`

	// targetPath is the place in the values where HelmOp sets the data of the key,
	// as a string and without changes. The syntax is the syntax of "helm install
	// --set". Examples: "cloud.password" or "servers[0].token". To use a dot in
	// the name of a key, write a backslash before the dot:
	// "annotations.example\\.com/token".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([^.\[\]\\,=]|\\.)+(\[[0-9]{1,3}\])*(\.([^.\[\]\\,=]|\\.)+(\[[0-9]{1,3}\])*)*$`
	TargetPath string `json:"targetPath,omitempty"`

	// optional allows the object or the key to be missing. HelmOp then renders the
	// values without this entry. Default: false.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// ClusterCounts counts the selected Clusters by their state.
type ClusterCounts struct {
	// selected is the number of Clusters that clusterSelector selects. Clusters
	// under deletion do not count.
	Selected int32 `json:"selected"`

	// upToDate is the number of selected Clusters whose release has the current
	// HelmOp revision.
	UpToDate int32 `json:"upToDate"`

	// ready is the number of selected Clusters whose release is Ready with its
	// current spec.
	Ready int32 `json:"ready"`

	// failed is the number of selected Clusters whose release failed to render,
	// install or upgrade.
	Failed int32 `json:"failed"`

	// waiting is the number of selected Clusters whose control plane is not
	// initialized yet.
	Waiting int32 `json:"waiting"`

	// unreachable is the number of selected Clusters whose API server does not
	// answer.
	Unreachable int32 `json:"unreachable"`

	// paused is the number of selected Clusters that are paused.
	Paused int32 `json:"paused"`

	// stalled is the number of selected Clusters whose release is Stalled: HelmOp
	// does not retry the release any more.
	Stalled int32 `json:"stalled"`

	// drifted is the number of selected Clusters in which objects differ from the
	// release.
	Drifted int32 `json:"drifted"`

	// blocked is the number of selected Clusters whose release waits for another
	// HelmOp, see spec.dependsOn, or for images, see spec.preflight.
	Blocked int32 `json:"blocked"`

	// deferred is the number of selected Clusters in which a new HelmOp revision,
	// or a change of the Cluster, waits for maintenance, see spec.maintenance.
	// Waiting corrections of drift and waiting retries are not counted.
	// +optional
	Deferred int32 `json:"deferred,omitempty"`

	// pinned is the number of selected Clusters whose release is Ready with
	// another HelmOp revision than the current one, because the annotation
	// addons.cluster.x-k8s.io/pinned-revision pins the release.
	// +optional
	Pinned int32 `json:"pinned,omitempty"`
}

// ClusterFailure is the failure of a release in one Cluster.
type ClusterFailure struct {
	// cluster is the name of the Cluster. If the Cluster is in another namespace
	// than the HelmOp, cluster is <namespace>/<name>.
	// +required
	// +kubebuilder:validation:MaxLength=317
	Cluster string `json:"cluster"`

	// reason is the reason of the failure in CamelCase, for example UpgradeFailed.
	// The conditions of HelmOpReleases have the same reasons.
	// +required
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`

	// message says what failed, why, and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// HelmOpStatus is the observed state of a HelmOp. Its size does not grow with
// the number of Clusters.
type HelmOpStatus struct {
	// observedGeneration is the metadata.generation of the HelmOp that the manager
	// last reconciled. If observedGeneration is lower than metadata.generation,
	// the status is outdated.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the conditions of the HelmOp.
	// - Always: Ready, Resolved, RollingOut and Paused.
	// - With spec.source.verify: Verified.
	// - With spec.rollout.approval Required: Approved.
	// - If the spec refers to Secrets or other objects: Movable.
	// - While deletions wait for a confirmation: DeletionsHeld.
	// - While a Cluster has the mark of clusterctl move: ClusterBeingMoved.
	// - While the HelmOp waits for a user: Stalled.
	// - While the HelmOp is under deletion: Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// shard is the shard of the manager that reconciles the HelmOp. If the manager
	// runs without the flag --shard, shard is empty. To change the shard, pause
	// the HelmOp and change its label addons.cluster.x-k8s.io/shard.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Shard *string `json:"shard,omitempty"`

	// artifact is the artifact that HelmOp found for spec.source. While the
	// registry is unreachable, artifact does not change.
	// +optional
	Artifact *ArtifactStatus `json:"artifact,omitempty"`

	// artifacts are the artifacts that HelmOp found for the references in
	// spec.overrides and spec.refsByKubernetesVersion.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=48
	Artifacts []ReferencedArtifact `json:"artifacts,omitempty"`

	// lastResolveRequest is the value of the annotation
	// addons.cluster.x-k8s.io/resolve-requested-at at the last requested lookup.
	// If the value is longer than 64 characters, lastResolveRequest is the digest
	// of the value.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastResolveRequest string `json:"lastResolveRequest,omitempty"`

	// rollout is the progress of the rollout of the current HelmOp revision.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// clusters counts the selected Clusters by their state.
	// +optional
	Clusters *ClusterCounts `json:"clusters,omitempty"`

	// deletions counts the releases that HelmOp will delete because their Clusters
	// are no longer selected.
	// +optional
	Deletions *DeletionStatus `json:"deletions,omitempty"`

	// failures lists at most 10 Clusters whose release failed, with the cause.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Failures []ClusterFailure `json:"failures,omitempty"`
}

// HelmOp installs a Helm chart in the Clusters that clusterSelector selects,
// and keeps the releases in their desired state.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=helmops,shortName=hop,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="All selected Clusters have the desired release"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the condition Ready"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.artifact.version`,description="Version of the resolved chart"
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.clusters.selected`,description="Selected Clusters"
// +kubebuilder:printcolumn:name="Up-to-date",type=integer,JSONPath=`.status.clusters.upToDate`,description="Clusters with the current HelmOp revision"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.clusters.failed`,description="Clusters with a failed release"
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.rollout.phase`,description="Phase of the rollout"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is wrong, and what to do"
// +kubebuilder:printcolumn:name="HelmOp-Revision",type=integer,priority=1,JSONPath=`.status.rollout.revision`,description="Number of the current HelmOp revision"
// +kubebuilder:printcolumn:name="Wave",type=string,priority=1,JSONPath=`.status.rollout.wave`,description="Current wave"
// +kubebuilder:printcolumn:name="Waiting-For",type=string,priority=1,JSONPath=`.status.rollout.waitingFor`,description="What the rollout waits for"
// +kubebuilder:printcolumn:name="Source",type=string,priority=1,JSONPath=`.spec.source.url`
type HelmOp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the HelmOp.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.clusterSelector) != has(self.managementCluster)",message="exactly one of clusterSelector and managementCluster must be set"
	// +kubebuilder:validation:XValidation:rule="!has(self.managementCluster) || !(has(self.clusterNamespaces) || has(self.overrides) || has(self.refsByKubernetesVersion))",message="clusterNamespaces, overrides and refsByKubernetesVersion are for Clusters: remove them, or use clusterSelector instead of managementCluster"
	// +kubebuilder:validation:XValidation:rule="!has(self.managementCluster) || !(has(self.clusterCondition) || has(self.beforeClusterUpgrade) || has(self.beforeClusterDelete))",message="clusterCondition, beforeClusterUpgrade and beforeClusterDelete are for Clusters: remove them, or use clusterSelector instead of managementCluster"
	// +kubebuilder:validation:XValidation:rule="!has(self.managementCluster) || !has(self.impersonateServiceAccountName)",message="impersonateServiceAccountName is for workload clusters: set managementCluster.impersonateServiceAccountName instead"
	Spec HelmOpSpec `json:"spec"`

	// status is the observed state of the HelmOp.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status HelmOpStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions of the HelmOp.
func (h *HelmOp) GetConditions() []metav1.Condition { return h.Status.Conditions }

// SetConditions replaces the conditions of the HelmOp.
func (h *HelmOp) SetConditions(conditions []metav1.Condition) { h.Status.Conditions = conditions }

// HelmOpList is a list of HelmOps.
//
// +kubebuilder:object:root=true
type HelmOpList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items of the list.
	Items []HelmOp `json:"items"`
}

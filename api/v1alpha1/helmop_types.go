// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// HelmOpSpec is the desired state of a HelmOp: which chart, with which values, in which clusters.
type HelmOpSpec struct {
	// clusterSelector selects the Clusters in the namespace of the HelmOp that get the release. An empty selector
	// selects all. A Cluster that is no longer selected loses the release, see deletionPolicy. Exactly one of
	// clusterSelector and managementCluster must be set.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// managementCluster installs the release in the management cluster itself, and in no Cluster. The manager must
	// allow this for the namespace of the HelmOp with its flag --management-cluster-namespaces. Templates then have no
	// Cluster.
	// +optional
	ManagementCluster *ManagementCluster `json:"managementCluster,omitempty"`

	// paused stops everything that HelmOp does for this object: it does not resolve, install, upgrade or uninstall
	// anything while paused is true. Default: false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// source is where the chart comes from.
	// +required
	Source ArtifactSource `json:"source"`

	// release is the name and namespace of the Helm release. Default: the name of the HelmOp, in the namespace
	// "default".
	// +optional
	Release ReleaseTemplate `json:"release,omitempty,omitzero"`

	// values of the chart. Every string in it is a template over the Cluster. A string that is one template action
	// and nothing else takes the type of what the action yields; other strings stay strings. Keys are not
	// templates. Precedence: valuesFrom, values, valuesTemplate, overrides; later wins, maps merge, lists replace.
	// Write no secret here: use valuesFrom.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Values *apiextensionsv1.JSON `json:"values,omitempty"`

	// valuesTemplate is one template that yields values as YAML, for what values cannot say (loops, conditions).
	// It wins over values and valuesFrom.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	ValuesTemplate string `json:"valuesTemplate,omitempty"`

	// valuesFrom are ConfigMaps and Secrets, in the namespace of the HelmOp, that hold values. A later one wins over an
	// earlier one. Their contents are not templates. An object may have the same name for all Clusters, or one name for
	// each Cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ValuesFrom []ValuesReference `json:"valuesFrom,omitempty"`

	// templateDelimiters are the delimiters of all templates: in release, values, valuesTemplate, the names in valuesFrom,
	// postRender and overrides. Curly is "{{ }}". Dollar is a dollar sign and braces, as in shell variables. Default:
	// Curly.
	// +optional
	// +kubebuilder:default=Curly
	TemplateDelimiters TemplateDelimiters `json:"templateDelimiters,omitempty"`

	// postRender changes what the chart rendered before it is installed.
	// +optional
	PostRender *PostRender `json:"postRender,omitempty"`

	ReleaseOptions `json:",inline"`

	// storage is where the records of the releases are stored. A change does not create a HelmOp revision and does not
	// move records: it applies to new records. Default: the manager's --record-storage-url or, without that flag,
	// Secrets in the workload clusters.
	// +optional
	Storage *RecordStorage `json:"storage,omitempty"`

	// overrides are differences for some of the Clusters. All overrides that select a Cluster are merged in their
	// order: a later one wins over an earlier one, field by field.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Overrides []Override `json:"overrides,omitempty"`

	// refsByKubernetesVersion selects the artifact by the Kubernetes version of the control plane of a Cluster. The
	// first entry whose range contains the version is used instead of source.ref.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	RefsByKubernetesVersion []KubernetesVersionReference `json:"refsByKubernetesVersion,omitempty"`

	// rollout is how a new HelmOp revision is assigned to the Clusters. Without it, all Clusters get the HelmOp revision
	// at once.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// maintenance is when releases may be changed. Without it, only the limits in the annotations of Clusters count.
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`

	// preflight are checks before a release is installed or upgraded. A change does not create a HelmOp revision. Default:
	// none.
	// +optional
	Preflight *Preflight `json:"preflight,omitempty"`

	// revisionHistoryLimit is how many HelmOpRevisions that are not in use are kept. Fewer are kept if all
	// HelmOpRevisions together have more than 4 MiB. Default: 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// clusterNamespaces lets clusterSelector select Clusters of other namespaces, too. Without it, only Clusters in the
	// namespace of the HelmOp are selected.
	// +optional
	ClusterNamespaces *ClusterNamespaces `json:"clusterNamespaces,omitempty"`

	ClusterOptions `json:",inline"`

	// deletionPolicy is what happens to a release when its Cluster is no longer selected, when the HelmOp is deleted,
	// or when the name or namespace of the release changes. Uninstall uninstalls it, Orphan leaves it installed. The
	// releases of a Cluster that is deleted are dropped without a request to the Cluster, unless beforeClusterDelete is
	// set. Default: Uninstall.
	// +optional
	// +kubebuilder:default=Uninstall
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// maxDeletions is how many releases may be deleted at once because their Clusters are no longer selected: a number,
	// or a percentage of the existing releases, rounded down and at least 1. If more are due, all of them wait until
	// the annotation addons.cluster.x-k8s.io/confirm-deletions confirms them. Deletions less than 10 minutes apart
	// count together. Clusters that are gone or under deletion do not count, and neither does the deletion of the
	// HelmOp itself. With 0 every deletion waits, with 100% none does. With managementCluster it counts the objects
	// that an upgrade deletes; the deletion of a Cluster of Cluster API then always waits, unless maxDeletions is 100%.
	// Default: the larger of 25% and 3.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 0 or a percentage from 1% to 100%"
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

// ReleaseTemplate is the name and namespace of the Helm release in each cluster.
type ReleaseTemplate struct {
	// name of the release, a template over the Cluster. Default: the name of the HelmOp. If the result changes, the old
	// release is deleted, see deletionPolicy, and a new one is installed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name,omitempty"`

	// namespace of the release in the workload cluster, a template over the Cluster. Default: "default". If the result
	// changes, the old release is deleted, see deletionPolicy, and a new one is installed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Namespace string `json:"namespace,omitempty"`
}

// ValuesReference names a ConfigMap or Secret, in the namespace of the HelmOp, that holds values.
type ValuesReference struct {
	// kind of the object.
	// +required
	// +kubebuilder:validation:Enum=ConfigMap;Secret
	Kind string `json:"kind"`

	// name of the object. It may be a template over the Cluster, as in values: "{{ .Cluster.metadata.name }}-cloud-config"
	// is another Secret for each Cluster. The object is always read in the namespace of the HelmOp, also for a Cluster of
	// another namespace. A change of an object with a fixed name makes a new HelmOp revision. A change of an object with a
	// templated name updates its Cluster at once, and no other. A missing object with a templated name fails its Cluster
	// only.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.contains('{{') || self.contains('$') || size(self) <= 253 && self.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$')",message="must be the name of an object (lower case letters, digits, '-' and '.', at most 253 characters) or a template"
	Name string `json:"name"`

	// key of the object. Without targetPath its value is a map of values as YAML. Default: values.yaml.
	// +optional
	// +kubebuilder:default=values.yaml
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`

	// targetPath puts the value of the key at one place in the values, always as a string and exactly as it is. The syntax
	// is that of "helm install --set": "cloud.password", "servers[0].token"; a backslash makes a dot part of a key:
	// "annotations.example\\.com/token".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([^.\[\]\\,=]|\\.)+(\[[0-9]{1,3}\])*(\.([^.\[\]\\,=]|\\.)+(\[[0-9]{1,3}\])*)*$`
	TargetPath string `json:"targetPath,omitempty"`

	// optional: if the object or key does not exist, HelmOp renders without it. Default: false.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// ClusterCounts count the Clusters that a HelmOp selects.
type ClusterCounts struct {
	// selected is the number of Clusters that clusterSelector selects, without Clusters under deletion.
	Selected int32 `json:"selected"`

	// upToDate is the number of selected Clusters whose release has the current HelmOp revision.
	UpToDate int32 `json:"upToDate"`

	// ready is the number of selected Clusters whose release is Ready with the spec that was assigned last.
	Ready int32 `json:"ready"`

	// failed is the number of selected Clusters whose release cannot be rendered, installed or upgraded.
	Failed int32 `json:"failed"`

	// waiting is the number of selected Clusters whose control plane is not initialized yet.
	Waiting int32 `json:"waiting"`

	// unreachable is the number of selected Clusters whose API server does not answer.
	Unreachable int32 `json:"unreachable"`

	// paused is the number of selected Clusters that are paused.
	Paused int32 `json:"paused"`

	// stalled is the number of failed Clusters whose release is not retried.
	Stalled int32 `json:"stalled"`

	// drifted is the number of selected Clusters in which objects differ from the release.
	Drifted int32 `json:"drifted"`

	// blocked is the number of selected Clusters whose release waits for a HelmOp in dependsOn, or for images, see
	// spec.preflight.
	Blocked int32 `json:"blocked"`

	// deferred is the number of selected Clusters in which a HelmOp revision, or a change of the Cluster, waits for
	// maintenance, see spec.maintenance. Corrections of drift and retries of failed releases are not counted.
	// +optional
	Deferred int32 `json:"deferred,omitempty"`

	// pinned is the number of selected Clusters whose release is Ready with another HelmOp revision than the current one,
	// because the annotation addons.cluster.x-k8s.io/pinned-revision pins it.
	// +optional
	Pinned int32 `json:"pinned,omitempty"`
}

// ClusterFailure is a failure in one Cluster.
type ClusterFailure struct {
	// cluster is the name of the Cluster, or namespace/name where it is of another namespace than the HelmOp.
	// +required
	// +kubebuilder:validation:MaxLength=317
	Cluster string `json:"cluster"`

	// reason is the reason of the failure, see the reasons of the conditions of HelmOpRelease.
	// +required
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`

	// message describes the failure and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// HelmOpStatus is the observed state of a HelmOp. Its size does not grow with the number of Clusters.
type HelmOpStatus struct {
	// observedGeneration is the generation of the spec that this status was computed for.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Resolved, RollingOut and Paused; with spec.source.verify, Verified; with references,
	// Movable; while deletions wait for a confirmation, DeletionsHeld; Stalled while nothing changes until a user does
	// something; and Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// shard is the shard whose manager reconciles the HelmOp; empty for the manager without --shard. A change of the label
	// addons.cluster.x-k8s.io/shard takes effect while the HelmOp is paused.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Shard *string `json:"shard,omitempty"`

	// artifact is the artifact that spec.source was resolved to. It is kept while the registry is unreachable.
	// +optional
	Artifact *ArtifactStatus `json:"artifact,omitempty"`

	// artifacts are the artifacts that the references in spec.overrides and spec.refsByKubernetesVersion were resolved
	// to.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=48
	Artifacts []ReferencedArtifact `json:"artifacts,omitempty"`

	// lastResolveRequest is the last handled value of the annotation addons.cluster.x-k8s.io/resolve-requested-at, or
	// its digest if it is longer than 64 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastResolveRequest string `json:"lastResolveRequest,omitempty"`

	// rollout is the progress of the current HelmOp revision.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// clusters counts the selected Clusters by their state.
	// +optional
	Clusters *ClusterCounts `json:"clusters,omitempty"`

	// deletions counts the releases that will be deleted because their Clusters are no longer selected.
	// +optional
	Deletions *DeletionStatus `json:"deletions,omitempty"`

	// failures are at most 10 of the Clusters with a failure.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Failures []ClusterFailure `json:"failures,omitempty"`
}

// HelmOp installs a chart from an OCI registry in the Clusters that clusterSelector selects.
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
	// +kubebuilder:validation:XValidation:rule="!has(self.managementCluster) || !(has(self.clusterNamespaces) || has(self.overrides) || has(self.refsByKubernetesVersion))",message="clusterNamespaces, overrides and refsByKubernetesVersion are about Clusters and cannot be set beside managementCluster"
	// +kubebuilder:validation:XValidation:rule="!has(self.managementCluster) || !(has(self.clusterCondition) || has(self.beforeClusterUpgrade) || has(self.beforeClusterDelete))",message="clusterCondition, beforeClusterUpgrade and beforeClusterDelete are about Clusters and cannot be set beside managementCluster"
	// +kubebuilder:validation:XValidation:rule="!has(self.managementCluster) || !has(self.impersonateServiceAccountName)",message="managementCluster has an impersonateServiceAccountName of its own"
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

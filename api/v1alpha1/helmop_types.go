// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// HelmOpSpec is what a HelmOp wants: which chart, with which values, in which clusters.
type HelmOpSpec struct {
	// clusterSelector chooses the Clusters, of the namespace of the HelmOp, that get the release. An empty
	// selector chooses all of them. A Cluster that is no longer chosen loses the release, by deletionPolicy.
	// Either it or managementCluster must be set.
	// +optional
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// managementCluster installs the release in the management cluster itself, and in no Cluster. The manager must permit that to the
	// namespace of the HelmOp, by its flag --management-cluster-namespaces. Templates see no Cluster then.
	// +optional
	ManagementCluster *ManagementCluster `json:"managementCluster,omitempty"`

	// suspend stops everything that HelmOp does for this object: it resolves nothing and installs, upgrades and
	// uninstalls nothing until it is false again. Default: false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// source is the chart.
	// +required
	Source ArtifactSource `json:"source"`

	// release names the Helm release. Without it, the release has the HelmOp's name, in the namespace "default".
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

	// valuesFrom are ConfigMaps and Secrets, in the namespace of the HelmOp, that hold values. A later one wins over an earlier
	// one. Their contents are not templates. An object may have the same name for all Clusters, or one name for each Cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	ValuesFrom []ValuesReference `json:"valuesFrom,omitempty"`

	// templateDelimiters are the delimiters of all templates: in release, values, valuesTemplate, the names in valuesFrom,
	// postRender and overrides. Curly is "{{ }}", Dollar is "$" followed by "{ }". Default: Curly.
	// +optional
	// +kubebuilder:default=Curly
	TemplateDelimiters TemplateDelimiters `json:"templateDelimiters,omitempty"`

	// postRender changes what the chart rendered before it is installed.
	// +optional
	PostRender *PostRender `json:"postRender,omitempty"`

	ReleaseOptions `json:",inline"`

	// storage tells where the records of the releases are kept. A change of it makes no new revision and moves nothing: it is about the records to
	// come. Without it, as the manager is told, and in Secrets of the workload clusters if it is told nothing.
	// +optional
	Storage *RecordStorage `json:"storage,omitempty"`

	// overrides are what is different for some of the Clusters. They have the fields of spec that shape a release. Overrides that
	// choose a Cluster are merged in their order: a later one wins over an earlier one, field by field.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Overrides []Override `json:"overrides,omitempty"`

	// refsByKubernetesVersion choose the artifact by the version of Kubernetes that the control plane of a Cluster runs; the first whose range
	// has it is used, instead of source.ref.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	RefsByKubernetesVersion []KubernetesVersionReference `json:"refsByKubernetesVersion,omitempty"`

	// rollout tells how what is new spreads over the Clusters. Without it, all are told at once.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// revisionHistoryLimit is how many HelmOpRevisions are kept beside those that are in use. Fewer are kept if all of them
	// together have more than 4 MiB. Default: 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// clusterNamespaces lets the selector choose Clusters of other namespaces, too. Without it, only those of the HelmOp's own
	// namespace can be chosen.
	// +optional
	ClusterNamespaces *ClusterNamespaces `json:"clusterNamespaces,omitempty"`

	ClusterOptions `json:",inline"`

	// deletionPolicy tells what happens to a release when its Cluster is no longer chosen, when the HelmOp is deleted
	// or when the name or the namespace of the release changes: Uninstall removes it, Orphan leaves it as it is.
	// A Cluster that is deleted itself needs neither: its releases are forgotten without a call, unless beforeClusterDelete says
	// otherwise. Default: Uninstall.
	// +optional
	// +kubebuilder:default=Uninstall
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// maxDeletions is how many releases, a number or a percentage of those there are, rounded down and at least 1, may be
	// deleted at once because their Clusters are no longer selected. If more are to be deleted, all of them wait until the
	// annotation addons.cluster.x-k8s.io/confirm-deletions confirms them. Deletions that follow each other within 10
	// minutes count together. Clusters that are gone or under deletion do not count, and neither does the deletion of the
	// HelmOp itself. With 0 every deletion waits, with 100% none does. With managementCluster it counts the objects that
	// an upgrade deletes; the deletion of a Cluster of Cluster API then waits in any case but with 100%. Default: the
	// larger of 25% and 3.
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

// ReleaseTemplate names the Helm release of each cluster.
type ReleaseTemplate struct {
	// name of the release, a template over the Cluster. Default: the name of the HelmOp. A change of what it yields
	// ends the old release by deletionPolicy and installs a new one.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name,omitempty"`

	// namespace of the release in the workload cluster, a template over the Cluster. Default: "default". A change of
	// what it yields ends the old release by deletionPolicy and installs a new one.
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

	// name of the object. It may be a template over the Cluster, as in values: "{{ .Cluster.metadata.name }}-cloud-config" is
	// another Secret for each Cluster. The object is always read in the namespace of the HelmOp, also for a Cluster of another
	// namespace. A change of an object with a fixed name makes a new HelmOp revision. A change of an object with a templated name
	// updates its Cluster at once, and no other. A missing object with a templated name fails its Cluster only.
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

	// targetPath puts the value of the key at one place in the values, always as a string and exactly as it is. The syntax is
	// that of "helm install --set": "cloud.password", "servers[0].token"; a backslash makes a dot part of a key:
	// "annotations.example\\.com/token".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([^.\[\]\\,=]|\\.)+(\[[0-9]{1,3}\])*(\.([^.\[\]\\,=]|\\.)+(\[[0-9]{1,3}\])*)*$`
	TargetPath string `json:"targetPath,omitempty"`

	// optional goes on without the values if the object or the key does not exist. Default: false.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// ClusterCounts count the Clusters that a HelmOp selects.
type ClusterCounts struct {
	// selected is the number of Clusters that the selector chooses, without those under deletion.
	Selected int32 `json:"selected"`

	// upToDate is the number of them whose release is what the HelmOp wants now.
	UpToDate int32 `json:"upToDate"`

	// ready is the number of them whose release is Ready: as it was wanted when the Cluster was last told.
	Ready int32 `json:"ready"`

	// failed is the number of them whose release cannot be rendered or installed as wanted.
	Failed int32 `json:"failed"`

	// waiting is the number of them whose control plane is not yet initialized.
	Waiting int32 `json:"waiting"`

	// unreachable is the number of them whose API server does not answer.
	Unreachable int32 `json:"unreachable"`

	// paused is the number of them that are paused.
	Paused int32 `json:"paused"`

	// stalled is the number of them, among failed, whose release is not tried again.
	Stalled int32 `json:"stalled"`

	// drifted is the number of them in which something differs from what the release installed.
	Drifted int32 `json:"drifted"`

	// blocked is the number of them whose release waits for a HelmOp that it depends on.
	Blocked int32 `json:"blocked"`
}

// ClusterFailure tells what is wrong in one Cluster.
type ClusterFailure struct {
	// cluster is the name of the Cluster, or namespace/name where it is of another namespace than the HelmOp.
	// +required
	// +kubebuilder:validation:MaxLength=317
	Cluster string `json:"cluster"`

	// reason is one word for what is wrong, see the reasons of the conditions of HelmOpRelease.
	// +required
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`

	// message tells what is wrong and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// HelmOpStatus is the observed state of a HelmOp. Its size does not grow with the number of Clusters.
type HelmOpStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Resolved, RolledOut, Paused and, with spec.source.verify, Verified and, with references, Movable and, while
	// deletions wait for a confirmation, DeletionsHeld.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// shard is the shard whose manager reconciles the HelmOp; empty for the manager without --shard. A change of the label
	// addons.cluster.x-k8s.io/shard takes effect while the HelmOp is suspended.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Shard *string `json:"shard,omitempty"`

	// artifact is what spec.source stands for. It stays while the registry cannot be asked.
	// +optional
	Artifact *ArtifactStatus `json:"artifact,omitempty"`

	// artifacts are what the references in spec.overrides and spec.refsByKubernetesVersion stand for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=48
	Artifacts []ReferencedArtifact `json:"artifacts,omitempty"`

	// lastResolveRequest is the value of the annotation addons.cluster.x-k8s.io/resolve-requested-at that was acted on
	// last, or a digest of it where it is longer than 64 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastResolveRequest string `json:"lastResolveRequest,omitempty"`

	// rollout tells how far what is wanted now has come.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// clusters counts the selected Clusters by their state.
	// +optional
	Clusters *ClusterCounts `json:"clusters,omitempty"`

	// deletions counts the releases that are to be deleted because their Clusters are no longer selected.
	// +optional
	Deletions *DeletionStatus `json:"deletions,omitempty"`

	// failures are at most 10 of the Clusters in which something is wrong.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Failures []ClusterFailure `json:"failures,omitempty"`
}

// HelmOp installs a chart from an OCI registry in the Clusters that its selector chooses.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=helmops,shortName=hop,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Every selected Cluster has the release as wanted"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.artifact.version`,description="Version of the chart that the source stands for"
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.clusters.selected`,description="Selected Clusters"
// +kubebuilder:printcolumn:name="Up-to-date",type=integer,JSONPath=`.status.clusters.upToDate`,description="Clusters with the wanted release"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.clusters.failed`,description="Clusters in which something is wrong"
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.rollout.phase`,description="What the rollout is about"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is wrong, and what to do"
// +kubebuilder:printcolumn:name="Revision",type=integer,priority=1,JSONPath=`.status.rollout.revision`,description="Number of the revision that is wanted"
// +kubebuilder:printcolumn:name="Wave",type=string,priority=1,JSONPath=`.status.rollout.wave`,description="Wave whose turn it is"
// +kubebuilder:printcolumn:name="Waiting-For",type=string,priority=1,JSONPath=`.status.rollout.waitingFor`,description="What the rollout waits for"
// +kubebuilder:printcolumn:name="Source",type=string,priority=1,JSONPath=`.spec.source.url`
type HelmOp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	// +kubebuilder:validation:XValidation:rule="has(self.clusterSelector) != has(self.managementCluster)",message="exactly one of clusterSelector and managementCluster must be set"
	// +kubebuilder:validation:XValidation:rule="!has(self.managementCluster) || !(has(self.clusterNamespaces) || has(self.overrides) || has(self.refsByKubernetesVersion))",message="clusterNamespaces, overrides and refsByKubernetesVersion are about Clusters and cannot be set beside managementCluster"
	// +kubebuilder:validation:XValidation:rule="!has(self.managementCluster) || !(has(self.clusterCondition) || has(self.beforeClusterUpgrade) || has(self.beforeClusterDelete))",message="clusterCondition, beforeClusterUpgrade and beforeClusterDelete are about Clusters and cannot be set beside managementCluster"
	// +kubebuilder:validation:XValidation:rule="!has(self.managementCluster) || !has(self.impersonateServiceAccountName)",message="managementCluster has an impersonateServiceAccountName of its own"
	Spec HelmOpSpec `json:"spec"`

	// status is what is.
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

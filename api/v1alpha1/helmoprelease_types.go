// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HelmOpReleaseSpec is the desired state of one release in one Cluster. Only the HelmOp writes it. It has the digest of
// the values instead of the values, because they may contain secrets; the values are rendered when they are needed.
type HelmOpReleaseSpec struct {
	// clusterRef names the Cluster.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterRef is immutable"
	ClusterRef ClusterReference `json:"clusterRef"`

	// release is the identity of the release in the workload cluster.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="release is immutable: another name or namespace is another release"
	Release ReleaseIdentity `json:"release"`

	// artifact is the chart.
	// +required
	Artifact ResolvedArtifact `json:"artifact"`

	// valuesDigest is the digest of the rendered values.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=71
	ValuesDigest string `json:"valuesDigest"`

	// postRenderDigest is the digest of the rendered postRender; empty if there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	PostRenderDigest string `json:"postRenderDigest,omitempty"`

	ReleaseOptions `json:",inline"`

	ClusterOptions `json:",inline"`

	// storage is where the records of the release are stored. It is used when the HelmOp no longer exists.
	// +optional
	Storage *RecordStorage `json:"storage,omitempty"`

	// rollout is the HelmOp revision of this release, and how the release got it.
	// +optional
	Rollout *ReleaseRollout `json:"rollout,omitempty"`

	// kubernetesVersion is the Kubernetes version for which the artifact was selected; set with beforeClusterUpgrade
	// only. Before an upgrade it is the version after the upgrade, or after the next of its steps.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// deletionPolicy is whether the release is uninstalled when this object is deleted.
	// +required
	DeletionPolicy DeletionPolicy `json:"deletionPolicy"`
}

// ReleaseIdentity is the name of a Helm release and its namespace in the workload cluster.
type ReleaseIdentity struct {
	// name of the release.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=53
	Name string `json:"name"`

	// namespace of the release.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
}

// ReleaseAction is an action that was performed on a release.
type ReleaseAction struct {
	// action is Install, Upgrade, Adopt, Rollback, Test, CorrectDrift or Uninstall.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Action string `json:"action"`

	// reason is why the action was performed.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// fromRevision is the Helm revision before the action; 0 is none.
	// +optional
	FromRevision int64 `json:"fromRevision,omitempty"`

	// revision is the Helm revision that the action created; 0 is none.
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// succeeded is true if the action succeeded.
	Succeeded bool `json:"succeeded"`

	// chartVersion is the version of the chart that the action installed.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ChartVersion string `json:"chartVersion,omitempty"`

	// artifactDigest is the digest of the chart that the action installed.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	ArtifactDigest string `json:"artifactDigest,omitempty"`

	// valuesDigest is the digest of the values that the action installed.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	ValuesDigest string `json:"valuesDigest,omitempty"`

	// time is when the action ended.
	// +optional
	Time metav1.Time `json:"time,omitempty,omitzero"`
}

// ReleaseObservation is the observed state of the Helm release in the workload cluster.
type ReleaseObservation struct {
	// revision is the number of the Helm revision.
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// status is the status of the Helm release, for example deployed or failed.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Status string `json:"status,omitempty"`

	// chart is the name of the chart.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Chart string `json:"chart,omitempty"`

	// version of the chart.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// appVersion of the chart.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	AppVersion string `json:"appVersion,omitempty"`

	// artifactDigest is the digest of the chart.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	ArtifactDigest string `json:"artifactDigest,omitempty"`

	// valuesDigest is the digest of the values.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	ValuesDigest string `json:"valuesDigest,omitempty"`

	// lastDeployed is when the release was last installed or upgraded.
	// +optional
	LastDeployed metav1.Time `json:"lastDeployed,omitempty,omitzero"`
}

// Inventory names objects of a release in the workload cluster.
type Inventory struct {
	// revision is the number of the Helm revision whose objects these are.
	Revision int64 `json:"revision"`

	// selection is a digest of the rules by which these objects were selected.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Selection string `json:"selection,omitempty"`

	// truncated is true if the release has more objects than are watched.
	// +optional
	Truncated bool `json:"truncated,omitempty"`

	// kinds group the objects.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Kinds []InventoryKind `json:"kinds,omitempty"`
}

// InventoryKind names the objects of one kind.
type InventoryKind struct {
	// apiVersion of the kind.
	// +required
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`

	// kind of the objects.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind"`

	// objects are written as namespace/name, or name if they have no namespace.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2000
	// +kubebuilder:validation:items:MaxLength=317
	Objects []string `json:"objects"`
}

// HealthStatus is the health record of a Helm revision. The condition Healthy reports the health.
type HealthStatus struct {
	// revision is the number of the Helm revision.
	Revision int64 `json:"revision"`

	// since is when the health timeout of the Helm revision began: when it was deployed or, if its deployment was not
	// observed, for example because the status was lost in a move, when it was first observed.
	// +optional
	Since metav1.Time `json:"since,omitempty,omitzero"`

	// deployed is true if the Helm revision was observed since its deployment. Only then does an unhealthy revision count
	// as a failure that remediation handles: another Helm revision may have been healthy before.
	// +optional
	Deployed bool `json:"deployed,omitempty"`

	// failed is true if the Helm revision was observed since its deployment and became unhealthy without having been
	// healthy.
	// +optional
	Failed bool `json:"failed,omitempty"`

	// missed is true if the Helm revision was observed since its deployment, but not for a long time before it was
	// healthy. It may have been healthy meanwhile, so there is no rollback from it and no rollback to it.
	// +optional
	Missed bool `json:"missed,omitempty"`

	// wasHealthy is true if the Helm revision has been healthy.
	// +optional
	WasHealthy bool `json:"wasHealthy,omitempty"`

	// lost is true if the Helm revision was healthy and is not any more.
	// +optional
	Lost bool `json:"lost,omitempty"`

	// progressingSince is since when a Helm revision that was healthy is in progress.
	// +optional
	ProgressingSince metav1.Time `json:"progressingSince,omitempty,omitzero"`
}

// TestResult is the result of one of the chart's tests.
type TestResult struct {
	// name of the test's object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// phase is Succeeded, Failed, Running or Unknown.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Phase string `json:"phase"`

	// startedAt is when it began.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitempty,omitzero"`

	// completedAt is when it ended.
	// +optional
	CompletedAt metav1.Time `json:"completedAt,omitempty,omitzero"`
}

// DriftStatus is the difference between the release and the objects in the cluster.
type DriftStatus struct {
	// lastCheckedAt is when all objects of the release were last compared.
	// +optional
	LastCheckedAt metav1.Time `json:"lastCheckedAt,omitempty,omitzero"`

	// fingerprint is a digest of the objects when nothing differed. With it, a restarted manager need not compare them
	// again.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint,omitempty"`

	// differing is the number of objects that differ.
	// +optional
	Differing int32 `json:"differing,omitempty"`

	// objects are at most 10 of those that differ.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Objects []DriftedObject `json:"objects,omitempty"`
}

// DriftedObject is an object that differs from what the release installed.
type DriftedObject struct {
	// apiVersion of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`

	// kind of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind"`

	// namespace of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`

	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// missing is true if the object does not exist.
	// +optional
	Missing bool `json:"missing,omitempty"`

	// paths are JSON pointers of at most 10 fields that differ. Their values are not reported, because they may be
	// secret.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=512
	Paths []string `json:"paths,omitempty"`

	// manager is the field manager that changed the object last.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Manager string `json:"manager,omitempty"`

	// heldUntil is when the object is corrected next; set while another client keeps reverting the corrections.
	// +optional
	HeldUntil metav1.Time `json:"heldUntil,omitempty,omitzero"`
}

// ReadyPeriod is a period during which a release was Ready.
type ReadyPeriod struct {
	// revision is the number of the HelmOp revision of the release in this period.
	// +required
	// +kubebuilder:validation:Minimum=0
	Revision int64 `json:"revision"`

	// since is when the release became Ready.
	// +required
	Since metav1.Time `json:"since"`

	// until is when the Cluster was found unreachable.
	// +required
	Until metav1.Time `json:"until"`
}

// ReleaseBookkeeping is what the manager stores to continue after a restart. Do not rely on its fields: they may change
// in any version.
type ReleaseBookkeeping struct {
	// health is the health record of a Helm revision. The condition Healthy reports the health.
	// +optional
	Health *HealthStatus `json:"health,omitempty"`

	// clusterUID is the UID of the Cluster that this status is about. A Cluster that is re-created has another UID.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID,omitempty"`

	// wasReady is the last period during which the release was Ready, while its Cluster is unreachable. Rollouts use it.
	// +optional
	WasReady *ReadyPeriod `json:"wasReady,omitempty"`

	// lastAttemptedDigest is the digest of the desired state that was attempted last.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastAttemptedDigest string `json:"lastAttemptedDigest,omitempty"`

	// lastAttemptedGeneration is the generation of the spec that was attempted last. Another generation resets the count
	// of failed attempts.
	// +optional
	LastAttemptedGeneration int64 `json:"lastAttemptedGeneration,omitempty"`

	// upgradeCheck identifies the check that the condition KubernetesUpgradeReady is about.
	// +optional
	UpgradeCheck *UpgradeCheck `json:"upgradeCheck,omitempty"`
}

// UpgradeCheck identifies a check of a release for an upgrade of Kubernetes.
type UpgradeCheck struct {
	// version is the version of the upgrade, as it was requested.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version"`

	// inputs is the digest of what the result depends on. It is empty while there is no result. Another digest causes
	// another check.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Inputs string `json:"inputs,omitempty"`

	// attempt is a check that has begun and has no result yet. If the manager stops during the check, the next manager
	// waits before it tries again.
	// +optional
	Attempt *UpgradeCheckAttempt `json:"attempt,omitempty"`
}

// UpgradeCheckAttempt is a check of a release that has begun.
type UpgradeCheckAttempt struct {
	// inputs is the digest of what the result will depend on.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Inputs string `json:"inputs"`

	// startedAt is when the check began.
	// +required
	StartedAt metav1.Time `json:"startedAt"`

	// count is the number of checks with the same inputs that have begun without a result.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int64 `json:"count"`
}

// HelmOpReleaseStatus is the observed state of a release in a Cluster.
type HelmOpReleaseStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, ClusterReachable, Released and Paused; with health, Healthy; with test, Tested; with
	// driftDetection, Drifted; Stalled while the release is not retried; Deleting; and KubernetesUpgradeReady while a
	// check for an upgrade of Kubernetes is requested.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// state compares the release with its desired state: Absent, InSync, OutOfSync, Failed, RolledBack, Pending,
	// Uninstalling, Uninstalled, Unmanaged, Foreign, Untested, Drifted or Unreachable.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	State string `json:"state,omitempty"`

	// release is the last observed state of the Helm release.
	// +optional
	Release *ReleaseObservation `json:"release,omitempty"`

	// inventory are the objects of the release that are watched. Objects of kinds without a health rule are listed
	// periodically instead, unless driftDetection watches them.
	// +optional
	Inventory *Inventory `json:"inventory,omitempty"`

	// internal is the bookkeeping of the manager.
	// +optional
	ReleaseBookkeeping `json:"internal,omitempty,omitzero"`

	// tests are the results of the chart's tests, at most 20.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Tests []TestResult `json:"tests,omitempty"`

	// drift is the difference between the release and the objects in the cluster.
	// +optional
	Drift *DriftStatus `json:"drift,omitempty"`

	// lastRetryRequest is the last handled value of the annotation addons.cluster.x-k8s.io/retry-requested-at, or its
	// digest if it is longer than 64 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastRetryRequest string `json:"lastRetryRequest,omitempty"`

	// history has the last actions, the newest first, at most 5.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	History []ReleaseAction `json:"history,omitempty"`

	// failures is the number of failed attempts since the last success or the last change of the desired state.
	// Attempts that changed nothing in the cluster, for example because it was unreachable, do not count.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures int32 `json:"failures,omitempty"`

	// lastAttemptedAt is when the last attempt ended.
	// +optional
	LastAttemptedAt metav1.Time `json:"lastAttemptedAt,omitempty,omitzero"`

	// nextTryAt is when a failed attempt is repeated. It is absent if no retry is scheduled: the release is in its
	// desired state, the retries are exhausted, or the release waits for something else. Attempts that changed nothing
	// in the cluster do not set it.
	// +optional
	NextTryAt metav1.Time `json:"nextTryAt,omitempty,omitzero"`

	// lastError is the message of the last failed attempt; empty after a success.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	LastError string `json:"lastError,omitempty"`
}

// HelmOpRelease is the release of a HelmOp in one Cluster.
//
// +kubebuilder:metadata:labels="visualizer.cluster.x-k8s.io="
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=helmopreleases,shortName=hopr,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`,description="Cluster of the release"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="The release is in its desired state"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the condition Ready"
// +kubebuilder:printcolumn:name="Release",type=string,JSONPath=`.spec.release.name`,description="Name of the Helm release"
// +kubebuilder:printcolumn:name="Helm-Revision",type=integer,JSONPath=`.status.release.revision`,description="Helm revision of the release"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.release.status`,description="Status of the Helm release"
// +kubebuilder:printcolumn:name="Chart",type=string,JSONPath=`.status.release.chart`,description="Name of the chart"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.release.version`,description="Version of the chart"
// +kubebuilder:printcolumn:name="Deployed",type=date,JSONPath=`.status.release.lastDeployed`,description="Time since the last installation or upgrade"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is wrong, and what to do"
// +kubebuilder:printcolumn:name="Cluster-Namespace",type=string,priority=1,JSONPath=`.spec.clusterRef.namespace`,description="Namespace of the Cluster, if it is not that of the HelmOpRelease"
// +kubebuilder:printcolumn:name="Namespace",type=string,priority=1,JSONPath=`.spec.release.namespace`,description="Namespace in the workload cluster"
// +kubebuilder:printcolumn:name="State",type=string,priority=1,JSONPath=`.status.state`,description="How the release compares with its desired state"
// +kubebuilder:printcolumn:name="Healthy",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`,description="The objects of the release are healthy"
// +kubebuilder:printcolumn:name="Drifted",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Drifted")].status`,description="Objects differ from the release"
// +kubebuilder:printcolumn:name="Next-Try",type=string,priority=1,JSONPath=`.status.nextTryAt`,description="When a failed attempt is repeated"
// +kubebuilder:printcolumn:name="App",type=string,priority=1,JSONPath=`.status.release.appVersion`,description="Version of the application"
type HelmOpRelease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the release.
	// +required
	Spec HelmOpReleaseSpec `json:"spec"`

	// status is the observed state of the release.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status HelmOpReleaseStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions of the HelmOpRelease.
func (r *HelmOpRelease) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions of the HelmOpRelease.
func (r *HelmOpRelease) SetConditions(conditions []metav1.Condition) {
	r.Status.Conditions = conditions
}

// HelmOpReleaseList is a list of HelmOpReleases.
//
// +kubebuilder:object:root=true
type HelmOpReleaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items of the list.
	Items []HelmOpRelease `json:"items"`
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HelmOpReleaseSpec is the desired state of one release in one Cluster. Only
// HelmOp writes it. It contains a digest of the values, not the values,
// because values may contain secrets. HelmOp renders the values again when it
// needs them.
type HelmOpReleaseSpec struct {
	// clusterRef names the Cluster of the release. It cannot be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterRef cannot be changed"
	ClusterRef ClusterReference `json:"clusterRef"`

	// release is the name and namespace of the release in the workload cluster. It
	// cannot be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="release cannot be changed: another name or namespace is another release"
	Release ReleaseIdentity `json:"release"`

	// artifact is the chart to install.
	// +required
	Artifact ResolvedArtifact `json:"artifact"`

	// valuesDigest is the digest of the rendered values.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=71
	ValuesDigest string `json:"valuesDigest"`

	// postRenderDigest is the digest of the rendered postRender. It is empty
	// without postRender.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	PostRenderDigest string `json:"postRenderDigest,omitempty"`

	ReleaseOptions `json:",inline"`

	ClusterOptions `json:",inline"`

	// storage sets where Helm's records of the release are stored. HelmOp needs it
	// here when the HelmOp no longer exists.
	// +optional
	Storage *RecordStorage `json:"storage,omitempty"`

	// rollout is the HelmOp revision of this release, and why the release has this
	// HelmOp revision.
	// +optional
	Rollout *ReleaseRollout `json:"rollout,omitempty"`

	// kubernetesVersion is the Kubernetes version for which HelmOp selected the
	// artifact. Before a Kubernetes upgrade, it is the version after the upgrade
	// or, in an upgrade over several minor versions, after the next step. It is
	// empty unless beforeClusterUpgrade is set.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// deletionPolicy sets what HelmOp does with the release when this object is
	// deleted: Uninstall or Orphan.
	// +required
	DeletionPolicy DeletionPolicy `json:"deletionPolicy"`
}

// ReleaseIdentity is the name of a Helm release and its namespace in the
// workload cluster.
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

// ReleaseAction is an action that HelmOp performed on a release.
type ReleaseAction struct {
	// action is Install, Upgrade, Adopt, Rollback, Test, CorrectDrift or
	// Uninstall.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Action string `json:"action"`

	// reason is the cause of the action.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// fromRevision is the number of the Helm revision before the action. It is 0
	// if there was no Helm revision.
	// +optional
	FromRevision int64 `json:"fromRevision,omitempty"`

	// revision is the number of the Helm revision that the action created. It is 0
	// if the action created no Helm revision.
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

	// time is the time when the action ended.
	// +optional
	Time metav1.Time `json:"time,omitempty,omitzero"`
}

// ReleaseObservation is the observed state of the Helm release in the workload
// cluster.
type ReleaseObservation struct {
	// revision is the number of the Helm revision, as "helm history" shows it.
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// status is the status of the Helm release, for example deployed, failed or
	// pending-upgrade.
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

	// lastDeployed is the time of the last installation or upgrade.
	// +optional
	LastDeployed metav1.Time `json:"lastDeployed,omitempty,omitzero"`
}

// Inventory lists objects of a release in the workload cluster.
type Inventory struct {
	// revision is the number of the Helm revision that contains these objects.
	Revision int64 `json:"revision"`

	// selection is the digest of the rules that selected these objects.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Selection string `json:"selection,omitempty"`

	// truncated is true if the release has more objects than HelmOp watches.
	// +optional
	Truncated bool `json:"truncated,omitempty"`

	// kinds lists the objects, grouped by kind.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Kinds []InventoryKind `json:"kinds,omitempty"`
}

// InventoryKind lists the objects of one kind.
type InventoryKind struct {
	// apiVersion of the kind.
	// +required
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`

	// kind of the objects.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind"`

	// objects are the names of the objects: <namespace>/<name>, or <name> for an
	// object without a namespace.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2000
	// +kubebuilder:validation:items:MaxLength=317
	Objects []string `json:"objects"`
}

// HealthStatus is what HelmOp stores about the health of a Helm revision. The
// condition Healthy reports the health.
type HealthStatus struct {
	// revision is the number of the Helm revision.
	Revision int64 `json:"revision"`

	// since is the time when the health timeout of the Helm revision began: the
	// time of its deployment or, if the manager did not observe the deployment,
	// the time of the first observation.
	// +optional
	Since metav1.Time `json:"since,omitempty,omitzero"`

	// deployed is true if the manager has observed the Helm revision since its
	// deployment. If it is false, an unhealthy Helm revision does not start
	// remediation, because the Helm revision may have been healthy before.
	// +optional
	Deployed bool `json:"deployed,omitempty"`

	// failed is true if the Helm revision became unhealthy and had never been
	// healthy before. It is set only if the manager has observed the Helm revision
	// since its deployment.
	// +optional
	Failed bool `json:"failed,omitempty"`

	// missed is true if the manager observed the deployment of the Helm revision,
	// but then not its health for a long time. The Helm revision may have been
	// healthy in this time. HelmOp rolls back neither from nor to this Helm
	// revision.
	// +optional
	Missed bool `json:"missed,omitempty"`

	// wasHealthy is true if the Helm revision has been healthy once.
	// +optional
	WasHealthy bool `json:"wasHealthy,omitempty"`

	// lost is true if the Helm revision was healthy and is now unhealthy.
	// +optional
	Lost bool `json:"lost,omitempty"`

	// progressingSince is the time when a healthy Helm revision began to be in
	// progress again.
	// +optional
	ProgressingSince metav1.Time `json:"progressingSince,omitempty,omitzero"`
}

// TestResult is the result of one test of the chart.
type TestResult struct {
	// name of the object that runs the test, usually a Pod.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// phase is Succeeded, Failed, Running or Unknown.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Phase string `json:"phase"`

	// startedAt is the time when the test began.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitempty,omitzero"`

	// completedAt is the time when the test ended.
	// +optional
	CompletedAt metav1.Time `json:"completedAt,omitempty,omitzero"`
}

// DriftStatus lists the objects in the cluster that differ from the release.
type DriftStatus struct {
	// lastCheckedAt is the time when HelmOp last compared all objects of the
	// release.
	// +optional
	LastCheckedAt metav1.Time `json:"lastCheckedAt,omitempty,omitzero"`

	// fingerprint is a digest of the objects at the last comparison without a
	// difference. With it, a restarted manager does not compare the same objects
	// again.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint,omitempty"`

	// differing is the number of objects that differ.
	// +optional
	Differing int32 `json:"differing,omitempty"`

	// objects lists at most 10 of the objects that differ.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Objects []DriftedObject `json:"objects,omitempty"`
}

// DriftedObject is an object that differs from the release.
type DriftedObject struct {
	// apiVersion of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`

	// kind of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind"`

	// namespace of the object. It is empty for an object without a namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`

	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// missing is true if the object does not exist in the cluster.
	// +optional
	Missing bool `json:"missing,omitempty"`

	// paths lists at most 10 fields of the object that differ, as JSON pointers.
	// Example: "/spec/replicas". HelmOp does not report the values of the fields,
	// because they may be secret.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=512
	Paths []string `json:"paths,omitempty"`

	// manager is the name of the field manager that changed the object last, for
	// example kubectl-edit.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Manager string `json:"manager,omitempty"`

	// heldUntil is the time of the next correction of the object. It is set while
	// another client reverts the corrections of HelmOp again and again.
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

	// until is the time when the manager first failed to reach the Cluster.
	// +required
	Until metav1.Time `json:"until"`
}

// ReleaseBookkeeping is the state that the manager needs after a restart. Do
// not use these fields: they may change in any version.
type ReleaseBookkeeping struct {
	// health is the health state of a Helm revision. The condition Healthy reports
	// the health.
	// +optional
	Health *HealthStatus `json:"health,omitempty"`

	// clusterUID is the UID of the Cluster of this status. A Cluster that is
	// re-created has another UID.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID,omitempty"`

	// wasReady is the last period during which the release was Ready. It is set
	// while the Cluster is unreachable. Rollouts use it.
	// +optional
	WasReady *ReadyPeriod `json:"wasReady,omitempty"`

	// lastAttemptedDigest is the digest of the desired state of the last attempt.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastAttemptedDigest string `json:"lastAttemptedDigest,omitempty"`

	// lastAttemptedGeneration is the metadata.generation of the HelmOpRelease at
	// the last attempt. If the generation changes, HelmOp sets the count of failed
	// attempts to 0.
	// +optional
	LastAttemptedGeneration int64 `json:"lastAttemptedGeneration,omitempty"`
}

// HelmOpReleaseStatus is the observed state of a release in a Cluster.
type HelmOpReleaseStatus struct {
	// observedGeneration is the metadata.generation of the HelmOpRelease that the
	// manager last reconciled. If it is lower than metadata.generation, the status
	// is outdated.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the conditions of the release.
	// - Always: Ready, ClusterReachable, Released and Paused.
	// - Unless health.mode is Disabled: Healthy.
	// - With test.mode Enabled: Tested.
	// - With driftDetection: Drifted.
	// - While HelmOp does not retry the release: Stalled.
	// - While the HelmOpRelease is under deletion: Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// state compares the Helm release with its desired state. It is one of:
	// Absent, InSync, OutOfSync, Failed, RolledBack, Pending, Uninstalling,
	// Uninstalled, Unmanaged, Foreign, Untested, Drifted or Unreachable.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	State string `json:"state,omitempty"`

	// release is the last observed state of the Helm release.
	// +optional
	Release *ReleaseObservation `json:"release,omitempty"`

	// inventory lists the objects of the release that HelmOp watches. HelmOp does
	// not watch objects of kinds without a health rule, unless driftDetection is
	// set: HelmOp lists them at intervals.
	// +optional
	Inventory *Inventory `json:"inventory,omitempty"`

	// internal is the state that the manager needs after a restart. Do not use its
	// fields: they may change in any version.
	// +optional
	ReleaseBookkeeping `json:"internal,omitempty,omitzero"`

	// tests are the results of at most 20 tests of the chart.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Tests []TestResult `json:"tests,omitempty"`

	// drift lists the objects in the cluster that differ from the release. It is
	// absent without driftDetection.
	// +optional
	Drift *DriftStatus `json:"drift,omitempty"`

	// lastRetryRequest is the last handled value of the annotation
	// addons.cluster.x-k8s.io/retry-requested-at. If the value is longer than 64
	// characters, lastRetryRequest is its digest.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastRetryRequest string `json:"lastRetryRequest,omitempty"`

	// history lists the last 5 actions, the newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	History []ReleaseAction `json:"history,omitempty"`

	// failures is the number of failed attempts since the last success or the last
	// change of the desired state. HelmOp counts only attempts that changed
	// something in the cluster.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures int32 `json:"failures,omitempty"`

	// lastAttemptedAt is the time when the last attempt ended.
	// +optional
	LastAttemptedAt metav1.Time `json:"lastAttemptedAt,omitempty,omitzero"`

	// nextTryAt is the time of the next retry after a failed attempt. It is absent
	// if no retry is scheduled: the release is in its desired state, the retries
	// are exhausted, or the release waits for something else. A failed attempt
	// that changed nothing in the cluster does not set nextTryAt.
	// +optional
	NextTryAt metav1.Time `json:"nextTryAt,omitempty,omitzero"`

	// lastError is the error message of the last failed attempt. It is empty after
	// a success.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	LastError string `json:"lastError,omitempty"`
}

// HelmOpRelease is the release of a HelmOp in one Cluster. HelmOp creates,
// changes and deletes it.
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

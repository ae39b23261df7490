// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HelmOpReleaseSpec is what a HelmOp wants of one release in one Cluster. The HelmOp writes it; nobody else should.
// It holds no values, only their digest: they may contain secrets and are rendered anew where they are needed.
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

	// storage tells where the records of the release are kept, for when its HelmOp is gone.
	// +optional
	Storage *RecordStorage `json:"storage,omitempty"`

	// rollout tells which revision of the HelmOp this is made from, and how it came to it.
	// +optional
	Rollout *ReleaseRollout `json:"rollout,omitempty"`

	// kubernetesVersion is the version of Kubernetes that the artifact was chosen for; with beforeClusterUpgrade only. Before
	// an upgrade it is the version to come.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// deletionPolicy tells whether the release is uninstalled when this object is deleted.
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

// ReleaseAction is something that was done to a release.
type ReleaseAction struct {
	// action is Install, Upgrade, Rollback, Test, CorrectDrift or Uninstall.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Action string `json:"action"`

	// reason is one word for why it was done.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// fromRevision is the Helm revision before; 0 is none.
	// +optional
	FromRevision int64 `json:"fromRevision,omitempty"`

	// revision is the Helm revision that it made; 0 is none.
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// succeeded tells whether it succeeded.
	Succeeded bool `json:"succeeded"`

	// chartVersion is the version of the chart that it installed.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ChartVersion string `json:"chartVersion,omitempty"`

	// artifactDigest is the digest of the chart that it installed.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	ArtifactDigest string `json:"artifactDigest,omitempty"`

	// valuesDigest is the digest of the values that it installed.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	ValuesDigest string `json:"valuesDigest,omitempty"`

	// time is when it ended.
	// +optional
	Time metav1.Time `json:"time,omitempty,omitzero"`
}

// ReleaseObservation is the release as the workload cluster says it is.
type ReleaseObservation struct {
	// revision is Helm's number of it.
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// status is Helm's word for it, for example deployed or failed.
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

	// lastDeployed is when it was last installed or upgraded.
	// +optional
	LastDeployed metav1.Time `json:"lastDeployed,omitempty,omitzero"`
}

// Inventory names objects of a release in the workload cluster.
type Inventory struct {
	// revision is Helm's number of the revision whose objects these are.
	Revision int64 `json:"revision"`

	// selection stands for what these objects were chosen by.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Selection string `json:"selection,omitempty"`

	// truncated tells that the release has more objects than are followed.
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

// HealthStatus is what is remembered of the health of a revision. The condition Healthy says what it is.
type HealthStatus struct {
	// revision is Helm's number of it.
	Revision int64 `json:"revision"`

	// since is from when on the time counts that the revision may take to become healthy: when it was deployed or, where its
	// deployment was not followed, for example because the status was lost in a move, when it was looked at first.
	// +optional
	Since metav1.Time `json:"since,omitempty,omitzero"`

	// deployed tells that the revision was followed from its deployment on. Only then is it a failure, which remediation may
	// answer, that it does not become healthy: of any other one nobody knows whether it worked before.
	// +optional
	Deployed bool `json:"deployed,omitempty"`

	// failed tells that the revision was found unhealthy before it ever was healthy, followed from its deployment on.
	// +optional
	Failed bool `json:"failed,omitempty"`

	// missed tells that it was followed from its deployment on, but not seen for long before it was healthy. It may have worked
	// meanwhile, which is no reason to roll back from it, and none to return to it.
	// +optional
	Missed bool `json:"missed,omitempty"`

	// wasHealthy tells whether it was healthy once.
	// +optional
	WasHealthy bool `json:"wasHealthy,omitempty"`

	// lost tells that it was healthy and ceased to be.
	// +optional
	Lost bool `json:"lost,omitempty"`

	// progressingSince is since when one that was healthy is in progress.
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

// DriftStatus is what differs from what the release installed.
type DriftStatus struct {
	// lastCheckedAt is when the whole release was last compared.
	// +optional
	LastCheckedAt metav1.Time `json:"lastCheckedAt,omitempty,omitzero"`

	// fingerprint stands for the objects as they were when nothing differed; it spares a restarted manager the comparison.
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

	// missing tells that the object is gone.
	// +optional
	Missing bool `json:"missing,omitempty"`

	// paths are JSON pointers of at most 10 fields that differ. What is in them is told nowhere: it may be secret.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=512
	Paths []string `json:"paths,omitempty"`

	// manager is the field manager that changed it last.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Manager string `json:"manager,omitempty"`

	// heldUntil is set while the object is not corrected because somebody changes it back again and again.
	// +optional
	HeldUntil metav1.Time `json:"heldUntil,omitempty,omitzero"`
}

// ReadyPeriod is a time during which a release was Ready.
type ReadyPeriod struct {
	// revision is the number of the revision of the HelmOp that it was Ready with.
	// +required
	// +kubebuilder:validation:Minimum=0
	Revision int64 `json:"revision"`

	// since is when it became Ready.
	// +required
	Since metav1.Time `json:"since"`

	// until is when it was seen not to answer.
	// +required
	Until metav1.Time `json:"until"`
}

// ReleaseBookkeeping is what the manager stores to continue after a restart. Do not rely on its fields: they may change in
// any version.
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

	// lastAttemptedGeneration is the generation of the spec that was attempted last. Another generation resets the count of
	// failed attempts.
	// +optional
	LastAttemptedGeneration int64 `json:"lastAttemptedGeneration,omitempty"`
}

// HelmOpReleaseStatus is the observed state of a release in a Cluster.
type HelmOpReleaseStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, ClusterReachable, Released and Paused; with health, Healthy; with test, Tested; with
	// driftDetection, Drifted; and Stalled while nothing is tried any more.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// state is one word for how the release compares with what is wanted: Absent, InSync, OutOfSync, Failed, RolledBack,
	// Pending, Uninstalling, Uninstalled, Unmanaged, Foreign, Untested, Drifted or Unreachable.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	State string `json:"state,omitempty"`

	// release is what the workload cluster said last.
	// +optional
	Release *ReleaseObservation `json:"release,omitempty"`

	// inventory are the objects of the release that are followed. Those whose health is just that they exist are listed from time to
	// time, unless driftDetection watches them.
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

	// drift is what differs from what the release installed.
	// +optional
	Drift *DriftStatus `json:"drift,omitempty"`

	// lastRetryRequest is the value of the annotation addons.cluster.x-k8s.io/retry-requested-at that was acted on last, or
	// a digest of it where it is longer than 64 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastRetryRequest string `json:"lastRetryRequest,omitempty"`

	// history is what was done last, the newest first, at most 5.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	History []ReleaseAction `json:"history,omitempty"`

	// failures is the number of failed tries since the last success or the last change of what is wanted. Tries that
	// changed nothing in the cluster, for example because it was unreachable, are not counted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures int32 `json:"failures,omitempty"`

	// lastAttemptedAt is when the last try ended.
	// +optional
	LastAttemptedAt metav1.Time `json:"lastAttemptedAt,omitempty,omitzero"`

	// nextTryAt is when a try that failed is repeated. It is absent when no try is due: the release is as it should be,
	// the retries are spent, or something else must happen first. Tries that changed nothing in the cluster do not set
	// it.
	// +optional
	NextTryAt metav1.Time `json:"nextTryAt,omitempty,omitzero"`

	// lastError is the message of the last failed try; empty after a success.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	LastError string `json:"lastError,omitempty"`
}

// HelmOpRelease is the release of a HelmOp in one Cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=helmopreleases,shortName=hopr,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterRef.name`,description="Cluster of the release"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="The release is as wanted"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Release",type=string,JSONPath=`.spec.release.name`,description="Name of the Helm release"
// +kubebuilder:printcolumn:name="Helm-Revision",type=integer,JSONPath=`.status.release.revision`,description="Helm revision of the release"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.release.status`,description="Helm's status of it"
// +kubebuilder:printcolumn:name="Chart",type=string,JSONPath=`.status.release.chart`,description="Name of the chart"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.release.version`,description="Version of the chart"
// +kubebuilder:printcolumn:name="Deployed",type=date,JSONPath=`.status.release.lastDeployed`,description="Time since the last installation or upgrade"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is wrong, and what to do"
// +kubebuilder:printcolumn:name="Cluster-Namespace",type=string,priority=1,JSONPath=`.spec.clusterRef.namespace`,description="Namespace of the Cluster, if it is not that of the HelmOpRelease"
// +kubebuilder:printcolumn:name="Namespace",type=string,priority=1,JSONPath=`.spec.release.namespace`,description="Namespace in the workload cluster"
// +kubebuilder:printcolumn:name="State",type=string,priority=1,JSONPath=`.status.state`,description="How the release compares with what is wanted"
// +kubebuilder:printcolumn:name="Healthy",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`,description="The objects of the release are healthy"
// +kubebuilder:printcolumn:name="Drifted",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Drifted")].status`,description="Something differs from what the release installed"
// +kubebuilder:printcolumn:name="Next-Try",type=string,priority=1,JSONPath=`.status.nextTryAt`,description="When a try that failed is repeated"
// +kubebuilder:printcolumn:name="App",type=string,priority=1,JSONPath=`.status.release.appVersion`,description="Version of the application"
type HelmOpRelease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec HelmOpReleaseSpec `json:"spec"`

	// status is what is.
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

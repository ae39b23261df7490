// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

	// fromRevision is the number of the Helm revision before the action. If there
	// was no Helm revision, fromRevision is 0.
	// +optional
	FromRevision int64 `json:"fromRevision,omitempty"`

	// revision is the number of the Helm revision that the action created. If the
	// action created no Helm revision, revision is 0.
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

	// artifactDigest is the digest of the installed chart.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	ArtifactDigest string `json:"artifactDigest,omitempty"`

	// valuesDigest is the digest of the installed values.
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

	// selection is "all" if HelmOp made this list from all objects of the release.
	// Earlier versions of HelmOp listed only some of the objects. HelmOp replaces
	// a list with another selection.
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

	// fingerprint is a digest of the objects, the Helm revision and the ignore
	// rules at the last comparison without a difference. If the digest is still
	// the same after a restart, the manager does not compare the objects again.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint,omitempty"`

	// differing is the number of objects that differ from the release.
	// +optional
	Differing int32 `json:"differing,omitempty"`

	// objects lists at most 10 of the objects that differ from the release.
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

	// namespace of the object. If the object has no namespace, this field is
	// empty.
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

	// heldUntil is the time until when HelmOp does not correct the object. HelmOp
	// sets it while another client reverts the corrections again and again.
	// +optional
	HeldUntil metav1.Time `json:"heldUntil,omitempty,omitzero"`
}

// HelmOpReleaseStatus is the observed state of a release in a Cluster.
type HelmOpReleaseStatus struct {
	// observedGeneration is the metadata.generation of the HelmOpRelease that the
	// manager last reconciled. If observedGeneration is lower than
	// metadata.generation, the status is outdated.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the conditions of the release.
	// - Always: Ready, Released and Paused.
	// - If HelmOp connects to the Cluster: ClusterReachable.
	// - Unless health.mode is Disabled: Healthy.
	// - With test.mode Enabled: Tested.
	// - With driftDetection: Drifted.
	// - While HelmOp does not retry the release: Stalled.
	// - While the HelmOpRelease is under deletion: Deleting.
	// - While a check for an upgrade of Kubernetes is requested:
	//   KubernetesUpgradeReady.
	// - While the Cluster has the mark of clusterctl move: ClusterBeingMoved.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// state compares Helm's newest record of the release with the desired state.
	// - Absent: Helm has no record of the release.
	// - InSync: the release has the desired state.
	// - OutOfSync: HelmOp installed another state than the desired state.
	// - Failed: the installation, the upgrade, the tests or the rollback failed.
	// - RolledBack: HelmOp rolled back a failed upgrade to the desired state.
	// - Untested: the release has the desired state, but its tests have not run.
	// - Drifted: objects in the cluster differ from the release.
	// - Pending: a Helm action is running or was interrupted.
	// - Uninstalling: an uninstallation is running, was interrupted or failed.
	// - Uninstalled: the release is uninstalled, and Helm keeps its records.
	// - Unmanaged: another program created the newest Helm revision.
	// - Foreign: the release has another owner.
	// - Unreachable: the API server does not answer, so the state is not known.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	State string `json:"state,omitempty"`

	// release is the last observed state of the Helm release.
	// +structType=atomic
	// +optional
	Release *ReleaseObservation `json:"release,omitempty"`

	// inventory names the objects of the release in the workload cluster. HelmOp
	// watches the objects of kinds with a health rule. If driftDetection is set,
	// HelmOp watches the objects of all kinds. Otherwise, HelmOp reads the objects
	// of kinds without a health rule at intervals.
	// +structType=atomic
	// +optional
	Inventory *Inventory `json:"inventory,omitempty"`

	// internal is the state that the manager needs after a restart. Do not use its
	// fields: they may change in any version.
	// +structType=atomic
	// +optional
	ReleaseBookkeeping `json:"internal,omitempty,omitzero"`

	// tests are the results of at most 20 tests of the chart.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Tests []TestResult `json:"tests,omitempty"`

	// drift lists the objects in the cluster that differ from the release. Without
	// driftDetection, drift is absent.
	// +structType=atomic
	// +optional
	Drift *DriftStatus `json:"drift,omitempty"`

	// lastRetryRequest is the value of the annotation
	// addons.cluster.x-k8s.io/retry-requested-at when HelmOp last acted on this
	// annotation. If the value is longer than 64 characters, lastRetryRequest is
	// the digest of the value.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastRetryRequest string `json:"lastRetryRequest,omitempty"`

	// history lists the last 5 actions, the newest first. If the last successful
	// action other than CorrectDrift is older, it replaces the oldest of them.
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

	// nextTryAt is the time of the next retry after a failed attempt. While another
	// process may be working on the release, nextTryAt is the time when HelmOp takes
	// over at the latest. nextTryAt is absent if no retry is scheduled: the release
	// is in its desired state, no retries are left, or the release waits for
	// something else. If an artifact cannot be pulled, nextTryAt is absent, too: all
	// releases with the artifact wait for the same pull.
	// +optional
	NextTryAt metav1.Time `json:"nextTryAt,omitempty,omitzero"`

	// lastError is the error message of the last failed attempt. After a success,
	// lastError is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	LastError string `json:"lastError,omitempty"`
}

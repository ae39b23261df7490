// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

const (
	// HelmOpFinalizer keeps a HelmOp until its releases are uninstalled or orphaned.
	HelmOpFinalizer = "addons.cluster.x-k8s.io/helmop"

	// HelmOpReleaseFinalizer keeps a HelmOpRelease until its release is uninstalled or orphaned.
	HelmOpReleaseFinalizer = "addons.cluster.x-k8s.io/helmoprelease"

	// ResolveRequestedAtAnnotation on a HelmOp requests a lookup of its source. HelmOp looks up the source whenever the
	// value changes. The value can be any text, usually a time.
	ResolveRequestedAtAnnotation = "addons.cluster.x-k8s.io/resolve-requested-at"

	// RetryRequestedAtAnnotation on a HelmOp, or on one of its HelmOpReleases, requests a retry of failed and stalled
	// releases. HelmOp retries whenever the value changes, and counts failed attempts from 0 again. The value can be any
	// text, usually a time.
	RetryRequestedAtAnnotation = "addons.cluster.x-k8s.io/retry-requested-at"

	// RolloutPromoteAnnotation on a HelmOp promotes a wave, so that the next wave begins. The value is "<HelmOp
	// revision>/<wave>", for example "7/canary". It applies only to this HelmOp revision, and also promotes all earlier
	// waves.
	RolloutPromoteAnnotation = "addons.cluster.x-k8s.io/rollout-promote"

	// RolloutContinueAnnotation on a HelmOp continues a rollout that maxFailures has paused. The value is the number of
	// the HelmOp revision, for example "7". The failures so far no longer count. To continue the rollout again, add a
	// slash and another text: "7/2".
	RolloutContinueAnnotation = "addons.cluster.x-k8s.io/rollout-continue"

	// RolloutAbortAnnotation on a HelmOp aborts the rollout of a HelmOp revision. The value is the number of the HelmOp
	// revision, for example "7". Every Cluster with this HelmOp revision returns to the last known good revision and stays
	// there until the spec changes.
	RolloutAbortAnnotation = "addons.cluster.x-k8s.io/rollout-abort"

	// RolloutApproveAnnotation on a HelmOp approves a digest, see spec.rollout.approval. The value is "<HelmOp
	// revision>/<digest>", for example "7/5e8d1f0a9b3c4d2e8f7061a2b3c4d5e6". Both parts are in status.rollout.approval. If
	// the digest is not the present digest, the annotation approves nothing.
	RolloutApproveAnnotation = "addons.cluster.x-k8s.io/rollout-approve"

	// RevisionStatusAnnotation on a HelmOpRevision has a copy of its status, as JSON. HelmOp restores the status from the
	// copy if a backup tool has removed the status.
	RevisionStatusAnnotation = "addons.cluster.x-k8s.io/revision-status"

	// PinnedRevisionAnnotation on a HelmOpRelease pins the release to a HelmOp revision. The value is the number of the
	// HelmOp revision, for example "6". The Cluster takes no part in rollouts until the annotation is removed. The HelmOp
	// revision must exist, and must have the same release name and namespace in the Cluster. If spec.rollout.approval is
	// Required, the rollout of the HelmOp revision must have been complete, or the HelmOp revision must be approved for
	// this release. Otherwise, the release keeps its HelmOp revision, and status.failures of the HelmOp has the cause.
	PinnedRevisionAnnotation = "addons.cluster.x-k8s.io/pinned-revision"

	// ConfirmDeletionsAnnotation on a HelmOp confirms waiting deletions, see spec.maxDeletions. The value is
	// status.deletions.confirmation or, for the objects of a release in the management cluster, the value in the condition
	// Ready of its HelmOpRelease. Another value confirms nothing. If the HelmOp of such a release does not exist, the
	// annotation is on the HelmOpRelease.
	ConfirmDeletionsAnnotation = "addons.cluster.x-k8s.io/confirm-deletions"

	// DeletionConfirmedAnnotation on a HelmOpRelease marks a release whose deletion a user has confirmed by
	// ConfirmDeletionsAnnotation. The value is the value of this confirmation. The HelmOp controller sets the
	// annotation, and removes it when the Cluster is selected again.
	DeletionConfirmedAnnotation = "addons.cluster.x-k8s.io/deletion-confirmed"

	// OrphanAnnotation with the value "true", on a HelmOpRelease, leaves the release installed when the HelmOpRelease is
	// deleted, with every deletionPolicy. A HelmOp that is deleted with the propagation policy Orphan sets the annotation.
	// The annotation also ends the wait for a Cluster that does not exist yet after a move or a restore.
	OrphanAnnotation = "addons.cluster.x-k8s.io/orphan"

	// DeletionAdmittedAnnotation with the UID of the owning HelmOp, on a HelmOpRelease under deletion, allows the
	// uninstallation of its release. A HelmOp under deletion sets the annotation within the limits of spec.rollout,
	// also if another client deleted the HelmOpRelease. Without limits, HelmOp does not need the annotation. If the
	// HelmOp does not exist, the release stays installed until a user sets the annotation.
	DeletionAdmittedAnnotation = "addons.cluster.x-k8s.io/deletion-admitted"

	// DeletionHoldAnnotation on a Cluster under deletion holds the deletion until releases are uninstalled, see
	// spec.beforeClusterDelete. The value is the start of the hold in RFC 3339, "over", or "paused" while the paused
	// annotation of a user pauses the Cluster. While HelmOp holds the deletion, HelmOp sets spec.paused of the Cluster.
	// With the Runtime Extension of HelmOp, Cluster API waits without the pause: the time is followed by "unpaused", and
	// the value is "stopped" while a user pauses the Cluster.
	DeletionHoldAnnotation = "addons.cluster.x-k8s.io/deletion-hold"

	// CheckUpgradeAnnotation on a Cluster requests a check of all its releases for an upgrade of Kubernetes. Its value is
	// the new version, for example v1.37. The condition KubernetesUpgradeReady of each HelmOpRelease has the result.
	CheckUpgradeAnnotation = "addons.cluster.x-k8s.io/check-kubernetes-upgrade"

	// UpgradeReleasedAnnotationPrefix begins the names of annotations on a Cluster. Each has the Kubernetes version
	// whose upgrade is no longer held, see spec.beforeClusterUpgrade. After a slash follows the name of the annotation
	// that held the upgrade.
	UpgradeReleasedAnnotationPrefix = "upgrade-released.addons.cluster.x-k8s.io"

	// UpgradeStepAnnotationPrefix begins the names of annotations on a Cluster, with which the Runtime Extension of HelmOp
	// holds the steps of an upgrade. The value is the Kubernetes version of a step and since when the step waits, or only
	// a version for which nothing waits any more. After a slash follows the name of the annotation that holds the whole
	// upgrade.
	UpgradeStepAnnotationPrefix = "upgrade-step.addons.cluster.x-k8s.io"

	// UpgradeWorkersAnnotationPrefix begins the names of the same annotations for the workers.
	UpgradeWorkersAnnotationPrefix = "upgrade-workers.addons.cluster.x-k8s.io"

	// ReplacedByRevisionAnnotation on a HelmOpRelease under deletion has the number of the HelmOp revision that gives the
	// release another name or namespace in the Cluster. HelmOp sets the annotation. If a HelmOpRelease without the
	// annotation is deleted while the HelmOp selects the Cluster, HelmOp creates the HelmOpRelease again and does not
	// change the release.
	ReplacedByRevisionAnnotation = "addons.cluster.x-k8s.io/replaced-by-revision"

	// ManagementClusterAnnotation on a HelmOpRelease identifies its management cluster: the value is the UID of the
	// namespace kube-system. Another UID means that the object was moved or restored from another management cluster. The
	// manager then takes over the records of the release in the workload cluster that have this other UID. During the
	// takeover, the value is the UID of this management cluster, followed by the former UIDs, separated by commas. After
	// that, the value is the UID of this management cluster only.
	ManagementClusterAnnotation = "addons.cluster.x-k8s.io/management-cluster"

	// FirstAssignedAnnotation on a HelmOpRelease is the time in RFC 3339 when HelmOp created the HelmOpRelease. Moves and
	// backups copy the annotation. If Helm's records of the release are older and name another HelmOpRelease, this
	// HelmOpRelease replaces a lost one. Its release then changes only within the limits of the rollout. HelmOp removes
	// the annotation when the rollout reaches the Cluster.
	FirstAssignedAnnotation = "addons.cluster.x-k8s.io/first-assigned-at"

	// InstalledOnceAnnotation with the value "true", on a HelmOpRelease with the reconcileStrategy InstallOnce, means that
	// the release was installed and Ready once. The manager writes the annotation. After that, the manager does not change
	// the release.
	InstalledOnceAnnotation = "addons.cluster.x-k8s.io/installed-once"

	// LostToAnnotation on a HelmOpRelease names the new owner of its release: another HelmOp, or the same HelmOp in
	// another management cluster, has taken over the release. The manager writes the annotation. While a HelmOpRelease
	// has the annotation, HelmOp does not take the release back. The manager removes the annotation when a user requests
	// a retry and the HelmOpRelease has takeOwnership, or when the release belongs to the HelmOpRelease again.
	LostToAnnotation = "addons.cluster.x-k8s.io/lost-to"

	// ReleaseNameAnnotationPrefix begins the names of annotations on a Cluster. After a slash follows the name of a
	// HelmOp, and the value is the name of its release in the Cluster. "kubectl helmop migrate" sets the annotation for
	// releases whose names another tool generated, and spec.release.name of the HelmOp reads it.
	ReleaseNameAnnotationPrefix = "release-name.addons.cluster.x-k8s.io"

	// MigratedClusterLabelPrefix begins the names of labels on a Cluster. After a slash follows the name of a HelmOp.
	// "kubectl helmop migrate" sets the label to "true" on Clusters that another tool chose by their names, and the HelmOp
	// selects the Clusters by the label.
	MigratedClusterLabelPrefix = "migrated.addons.cluster.x-k8s.io"

	// MigratedFromAnnotation on a HelmOp names the object of another tool that "kubectl helmop migrate" made the HelmOp
	// from: "<kind>/<namespace>/<name>".
	MigratedFromAnnotation = "addons.cluster.x-k8s.io/migrated-from"

	// MigrationAnnotation on an object of another tool has the step of its migration and the name of its HelmOp. The value
	// is "Paused calico" until HelmOp has adopted the releases, then "Detaching calico". With --undo, the value is
	// "Returning calico". A HelmOp that replaces a HelmOp of Fleet has the value "Installing calico" until its releases
	// are installed. The command "kubectl helmop migrate" sets the annotation.
	MigrationAnnotation = "addons.cluster.x-k8s.io/migration"

	// MigrationKeptAnnotation with the value "true" on a HelmOp of Fleet means that "kubectl helmop migrate", and not a
	// user, has set spec.keepResources of this HelmOp. With --undo, the command removes spec.keepResources and the
	// annotation.
	MigrationKeptAnnotation = "addons.cluster.x-k8s.io/migration-kept"

	// MigrationSourceAnnotation on a HelmOp that replaces a HelmOp of Fleet has the state of the HelmOp of Fleet at the
	// migration: "<generation>/<Clusters>". The parts are its metadata.generation and the number of Clusters with a
	// release. The command "kubectl helmop migrate" sets and checks the annotation.
	MigrationSourceAnnotation = "addons.cluster.x-k8s.io/migration-source"

	// DriftDetectionAnnotation with the value "Disabled" excludes an object from drift detection. A user sets the
	// annotation on the object in the workload cluster, or on the object in the chart.
	DriftDetectionAnnotation = "addons.cluster.x-k8s.io/drift-detection"

	// HelmOpNameLabel is set on a HelmOpRelease and names the HelmOp that it belongs to. A name of more than
	// 63 characters is shortened and ends with a hash.
	HelmOpNameLabel = "addons.cluster.x-k8s.io/helmop-name"

	// ShardLabel on a HelmOp and on a Cluster names their shard. The manager with this name in its flag --shard serves
	// them. The manager without the flag serves objects without the label. A HelmOp installs releases only in Clusters of
	// its shard. HelmOpReleases and HelmOpRevisions have the label of their HelmOp. While a HelmOp and a Cluster have
	// different shards, HelmOp does not change the release. So a user can change the labels in any order.
	ShardLabel = "addons.cluster.x-k8s.io/shard"
)

// SecretReference names a Secret in the same namespace as the object.
type SecretReference struct {
	// name of the Secret. The Secret must be in the same namespace as this object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// DeletionPolicy sets what happens to a release that HelmOp no longer manages.
// +kubebuilder:validation:Enum=Uninstall;Orphan
type DeletionPolicy string

const (
	// DeletionPolicyUninstall uninstalls the release.
	DeletionPolicyUninstall DeletionPolicy = "Uninstall"

	// DeletionPolicyOrphan leaves the release installed in the workload cluster.
	DeletionPolicyOrphan DeletionPolicy = "Orphan"
)

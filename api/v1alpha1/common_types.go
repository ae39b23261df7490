// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

const (
	// HelmOpFinalizer keeps a HelmOp until its releases are uninstalled or orphaned.
	HelmOpFinalizer = "addons.cluster.x-k8s.io/helmop"

	// HelmOpReleaseFinalizer keeps a HelmOpRelease until its release is uninstalled or orphaned.
	HelmOpReleaseFinalizer = "addons.cluster.x-k8s.io/helmoprelease"

	// ResolveRequestedAtAnnotation on a HelmOp asks to resolve its source now, whenever its value changes. Any value will
	// do, a time is customary.
	ResolveRequestedAtAnnotation = "addons.cluster.x-k8s.io/resolve-requested-at"

	// RetryRequestedAtAnnotation on a HelmOp, or on one of its HelmOpReleases, asks to try failed and stalled releases
	// again now, with a fresh budget, whenever its value changes. Any value will do, a time is customary.
	RetryRequestedAtAnnotation = "addons.cluster.x-k8s.io/retry-requested-at"

	// RolloutPromoteAnnotation on a HelmOp lets the wave after the one that it names begin: "<HelmOp revision>/<wave>",
	// for example "7/canary". It holds for this HelmOp revision only, and also for the waves before this wave.
	RolloutPromoteAnnotation = "addons.cluster.x-k8s.io/rollout-promote"

	// RolloutContinueAnnotation on a HelmOp lets a rollout go on that its failure budget has paused: the number of the
	// revision, for example "7". The failures so far are not counted any more. To continue once more, give it another
	// value that begins with the number and a slash: "7/2".
	RolloutContinueAnnotation = "addons.cluster.x-k8s.io/rollout-continue"

	// RolloutAbortAnnotation on a HelmOp ends the rollout of the HelmOp revision whose number it has, for example "7":
	// every Cluster that took it returns to the last good revision, and stays there until the spec changes.
	RolloutAbortAnnotation = "addons.cluster.x-k8s.io/rollout-abort"

	// RolloutApproveAnnotation on a HelmOp approves what waits for an approval, see spec.rollout.approval:
	// "<HelmOp revision>/<digest>", for example "7/5e8d1f0a9b3c4d2e8f7061a2b3c4d5e6". Both are in
	// status.rollout.approval. If the digest is not the present one, nothing is approved.
	RolloutApproveAnnotation = "addons.cluster.x-k8s.io/rollout-approve"

	// PinnedRevisionAnnotation on a HelmOpRelease pins the release to the HelmOp revision whose number it has, for example
	// "6". The Cluster leaves the rollouts of the HelmOp and stays with this HelmOp revision until the annotation is
	// removed. The HelmOp revision must still exist, and must have the same release name and namespace in the Cluster. If
	// spec.rollout.approval is Required, it must have been rolled out completely before or be approved for this release.
	// Otherwise, the release keeps the HelmOp revision that it has, and status.failures of the HelmOp has the cause.
	PinnedRevisionAnnotation = "addons.cluster.x-k8s.io/pinned-revision"

	// ConfirmDeletionsAnnotation on a HelmOp confirms deletions that wait for it, see spec.maxDeletions. Its value is that
	// of status.deletions.confirmation and, for the objects of a release in the management cluster, the value that the
	// condition Ready of its HelmOpRelease names. A value that is not, or no longer, the expected one confirms nothing.
	ConfirmDeletionsAnnotation = "addons.cluster.x-k8s.io/confirm-deletions"

	// OrphanAnnotation on a HelmOpRelease leaves the release in its cluster as it is when the HelmOpRelease is deleted,
	// whatever the deletionPolicy. The HelmOp sets it to "true" when it is deleted with the propagation policy Orphan.
	OrphanAnnotation = "addons.cluster.x-k8s.io/orphan"

	// DeletionAdmittedAnnotation on a HelmOpRelease that is being deleted means that its release may be uninstalled. A
	// HelmOp that is being deleted sets it to "true" within the limits of spec.rollout, also if another client deleted the
	// HelmOpRelease. Without limits it is not needed.
	DeletionAdmittedAnnotation = "addons.cluster.x-k8s.io/deletion-admitted"

	// DeletionHoldAnnotation on a Cluster that is being deleted means that its deletion waits until releases are
	// uninstalled, see spec.beforeClusterDelete. Its value is the time since when, in RFC 3339; "over"; or "paused"
	// while a user pauses the Cluster by the paused annotation. While the deletion waits, HelmOp has set spec.paused of
	// the Cluster.
	DeletionHoldAnnotation = "addons.cluster.x-k8s.io/deletion-hold"

	// CheckUpgradeAnnotation on a Cluster requests a check of all its releases for an upgrade of Kubernetes. Its value is
	// the new version, for example v1.37. The condition KubernetesUpgradeReady of each HelmOpRelease has the result.
	CheckUpgradeAnnotation = "addons.cluster.x-k8s.io/check-kubernetes-upgrade"

	// UpgradeReleasedAnnotationPrefix begins the names of annotations on a Cluster. Each has the Kubernetes version
	// whose upgrade is no longer held, see spec.beforeClusterUpgrade. After a slash follows the name of the annotation
	// that held the upgrade.
	UpgradeReleasedAnnotationPrefix = "upgrade-released.addons.cluster.x-k8s.io"

	// ReplacedByRevisionAnnotation on a HelmOpRelease under deletion has the number of the HelmOp revision in which the
	// release has another name or namespace in the Cluster. The HelmOp sets it. If a HelmOpRelease without it is
	// deleted while the HelmOp selects the Cluster, the HelmOp creates the HelmOpRelease again and does not touch the
	// release.
	ReplacedByRevisionAnnotation = "addons.cluster.x-k8s.io/replaced-by-revision"

	// ManagementClusterAnnotation on a HelmOpRelease has the UID of the namespace kube-system of the management cluster
	// whose manager serves it. Where it names another one, the object was moved or restored from there: the manager takes
	// over the records of the release in the workload cluster that name that one, and then writes its own.
	ManagementClusterAnnotation = "addons.cluster.x-k8s.io/management-cluster"

	// InstalledOnceAnnotation with the value "true", on a HelmOpRelease with the reconcileStrategy InstallOnce, means that
	// the release was installed and Ready once. The manager writes it, and then does nothing for the release any more.
	InstalledOnceAnnotation = "addons.cluster.x-k8s.io/installed-once"

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

	// MigrationAnnotation on an object of another tool has the step of its migration and the name of its HelmOp: "Paused
	// calico" until its releases are adopted, then "Detaching calico". With --undo it is "Returning calico". A HelmOp that
	// replaces one of Fleet has "Installing calico" until its releases are installed. The command "kubectl helmop migrate"
	// sets the annotation.
	MigrationAnnotation = "addons.cluster.x-k8s.io/migration"

	// MigrationKeptAnnotation with the value "true", on a HelmOp of Fleet, means that "kubectl helmop migrate" has set its
	// spec.keepResources. With --undo, the command removes both.
	MigrationKeptAnnotation = "addons.cluster.x-k8s.io/migration-kept"

	// MigrationSourceAnnotation on a HelmOp that replaces one of Fleet has what the HelmOp was made from:
	// "<generation>/<Clusters>" with the metadata.generation of Fleet's HelmOp during the migration, and the number of
	// Clusters with a release. The command "kubectl helmop migrate" sets and checks the annotation.
	MigrationSourceAnnotation = "addons.cluster.x-k8s.io/migration-source"

	// DriftDetectionAnnotation with the value "Disabled", on an object in a workload cluster or on the object in its
	// chart, leaves that object out of drift detection.
	DriftDetectionAnnotation = "addons.cluster.x-k8s.io/drift-detection"

	// HelmOpNameLabel is set on a HelmOpRelease and names the HelmOp that it belongs to. A name of more than
	// 63 characters is shortened and ends with a hash.
	HelmOpNameLabel = "addons.cluster.x-k8s.io/helmop-name"

	// ShardLabel on a HelmOp and on a Cluster names the shard that they are of. The manager that is started with --shard
	// and this name serves them; what has no such label is served by the manager without the flag. A HelmOp has releases
	// in Clusters of its own shard only. HelmOpReleases and HelmOpRevisions have the label of their HelmOp. A release
	// whose Cluster is of another shard than its HelmOp is left alone until both are of the same, so what is relabelled
	// first does not matter.
	ShardLabel = "addons.cluster.x-k8s.io/shard"
)

// SecretReference names a Secret in the namespace of the object that refers to it.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// DeletionPolicy is what happens to a release that HelmOp no longer manages.
// +kubebuilder:validation:Enum=Uninstall;Orphan
type DeletionPolicy string

const (
	// DeletionPolicyUninstall uninstalls the release.
	DeletionPolicyUninstall DeletionPolicy = "Uninstall"

	// DeletionPolicyOrphan leaves the release in the workload cluster as it is.
	DeletionPolicyOrphan DeletionPolicy = "Orphan"
)

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons of Events.
const (
	// RolloutStartedEvent: the rollout of a new HelmOp revision began.
	RolloutStartedEvent = "RolloutStarted"

	// WaveStartedEvent: a wave began.
	WaveStartedEvent = "WaveStarted"

	// RolloutCompletedEvent: all Clusters that can be updated are done.
	RolloutCompletedEvent = "RolloutCompleted"

	// RolloutPausedEvent: the failure budget of a rollout is spent.
	RolloutPausedEvent = "RolloutPaused"

	// RolloutContinuedEvent: a paused rollout continues.
	RolloutContinuedEvent = "RolloutContinued"

	// RolloutRolledBackEvent: the Clusters return to the last known good revision.
	RolloutRolledBackEvent = "RolloutRolledBack"

	// WaitingForApprovalEvent: a HelmOp revision, or changed releases, wait for an approval.
	WaitingForApprovalEvent = "WaitingForApproval"

	// RolloutApprovedEvent: what waited was approved.
	RolloutApprovedEvent = "RolloutApproved"

	// ApprovalRefusedEvent: the annotation rollout-approve has another digest than the present one.
	ApprovalRefusedEvent = "ApprovalRefused"

	// DeletionsHeldEvent: more deletions are due at once than spec.maxDeletions allows, so none begins.
	DeletionsHeldEvent = "DeletionsHeld"

	// DeletionsConfirmedEvent: the waiting deletions were confirmed.
	DeletionsConfirmedEvent = "DeletionsConfirmed"

	// ClusterUpgradeHeldEvent: a Kubernetes upgrade waits for a release.
	ClusterUpgradeHeldEvent = "ClusterUpgradeHeld"

	// ClusterUpgradeReleasedEvent: a Kubernetes upgrade is no longer held.
	ClusterUpgradeReleasedEvent = "ClusterUpgradeReleased"

	// KubernetesUpgradeBlockedEvent: a check of a release has found what must be done before an upgrade of Kubernetes.
	KubernetesUpgradeBlockedEvent = "KubernetesUpgradeBlocked"

	// ClusterDeletionHeldEvent: the deletion of a Cluster waits for the uninstallation of releases.
	ClusterDeletionHeldEvent = "ClusterDeletionHeld"

	// ClusterBeingMovedEvent: HelmOp begins no hold of a Cluster, because the Cluster has the annotation that clusterctl
	// move sets before it deletes an object.
	ClusterBeingMovedEvent = "ClusterBeingMoved"

	// ClusterDeletionReleasedEvent: the deletion of a Cluster is no longer held.
	ClusterDeletionReleasedEvent = "ClusterDeletionReleased"

	// InstalledEvent: a release was installed.
	InstalledEvent = "Installed"

	// AdoptedEvent: a release of another owner was adopted without a new Helm revision.
	AdoptedEvent = "Adopted"

	// UpgradedEvent: a release was upgraded.
	UpgradedEvent = "Upgraded"

	// ReturnedEvent: a release was rolled back, with Helm's own history, because the rollout of its HelmOp revision was
	// rolled back or aborted.
	ReturnedEvent = "Returned"

	// RolledBackEvent: a release was rolled back to the last known good Helm revision.
	RolledBackEvent = "RolledBack"

	// TestedEvent: the chart's tests ended.
	TestedEvent = "Tested"

	// DriftDetectedEvent: objects differ from the release.
	DriftDetectedEvent = "DriftDetected"

	// DriftCorrectedEvent: the differences were corrected.
	DriftCorrectedEvent = "DriftCorrected"

	// UninstalledEvent: a release was uninstalled.
	UninstalledEvent = "Uninstalled"

	// RecoveredEvent: a release that a crash had interrupted was continued.
	RecoveredEvent = "Recovered"

	// ObjectsMovedEvent: clusterctl move moved objects of a release to another management cluster, so the release is
	// paused.
	ObjectsMovedEvent = "ObjectsMoved"

	// RecordsLeftEvent: records of releases that are not needed any more could not be deleted.
	RecordsLeftEvent = "RecordsLeft"

	// OrphanedEvent: a release was left installed, by deletionPolicy or because its Cluster is deleted.
	OrphanedEvent = "Orphaned"

	// ArtifactResolvedEvent: the source was resolved to another artifact than before.
	ArtifactResolvedEvent = "ArtifactResolved"
)

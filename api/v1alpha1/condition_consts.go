// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Ready of a HelmOp is true when every selected Cluster that is not paused has the release as it is wanted now.
const (
	// ReadyCondition is the summary of a HelmOp or a HelmOpRelease.
	ReadyCondition = "Ready"

	// ReadyReason is the reason when all is as wanted.
	ReadyReason = "Ready"

	// NoClustersSelectedReason is the reason when the selector chooses no Cluster; Ready is true then.
	NoClustersSelectedReason = "NoClustersSelected"

	// ProgressingReason is the reason while releases are on their way.
	ProgressingReason = "Progressing"

	// ReleasesFailedReason is the reason when the release of a Cluster failed, see status.failures.
	ReleasesFailedReason = "ReleasesFailed"

	// WaitingForClustersReason is the reason while Clusters cannot be served yet: their control plane is not
	// initialized or their API server does not answer.
	WaitingForClustersReason = "WaitingForClusters"

	// DeletingReason is the reason while an object under deletion ends its releases.
	DeletingReason = "Deleting"

	// OtherShardReason is the reason of a release whose Cluster is of another shard than its HelmOp, and of a HelmOp with such
	// releases: they are left alone until both have the same label.
	OtherShardReason = "OtherShard"

	// ShardChangedReason is the reason of a HelmOp whose shard label was changed while it was not suspended.
	ShardChangedReason = "ShardChanged"

	// ShardNotServedReason is the reason, with status Unknown, of a HelmOp whose shard no manager serves.
	ShardNotServedReason = "ShardNotServed"
)

// Resolved of a HelmOp is true when status.artifact is what spec.source stands for.
const (
	// ResolvedCondition is the condition.
	ResolvedCondition = "Resolved"

	// ResolvingReason is the reason, with status Unknown, while a registry is asked for the first time.
	ResolvingReason = "Resolving"

	// ResolvedReason is the reason when the reference was resolved.
	ResolvedReason = "Resolved"

	// InvalidReferenceReason: the URL or the reference is malformed.
	InvalidReferenceReason = "InvalidReference"

	// ArtifactNotFoundReason: the repository, the tag or the digest does not exist.
	ArtifactNotFoundReason = "ArtifactNotFound"

	// NoMatchingTagReason: the repository has no tag in the range.
	NoMatchingTagReason = "NoMatchingTag"

	// UnsupportedArtifactReason: what the reference stands for is of no format that can be installed.
	UnsupportedArtifactReason = "UnsupportedArtifact"

	// RegistryAuthenticationFailedReason: the registry refuses the credentials.
	RegistryAuthenticationFailedReason = "RegistryAuthenticationFailed"

	// RegistryCertificateInvalidReason: the registry's certificate is not trusted.
	RegistryCertificateInvalidReason = "RegistryCertificateInvalid"

	// RegistryUnreachableReason: the registry does not answer.
	RegistryUnreachableReason = "RegistryUnreachable"

	// RegistryRateLimitedReason: the registry asks to be asked less often.
	RegistryRateLimitedReason = "RegistryRateLimited"

	// ArtifactInvalidReason: the content is corrupt, too large or does not match its digest, or the manifests in it cannot be
	// installed.
	ArtifactInvalidReason = "ArtifactInvalid"

	// ReferenceNotFoundReason: a Secret or ConfigMap that the spec names, or a key of it, does not exist.
	ReferenceNotFoundReason = "ReferenceNotFound"

	// DowngradeRefusedReason: a version range selects an older version than the current one, see spec.source.ref.allowDowngrade.
	DowngradeRefusedReason = "DowngradeRefused"

	// RegistryErrorReason: the registry failed in another way.
	RegistryErrorReason = "RegistryError"
)

// Verified of a HelmOp is true when what its source stands for is signed as spec.source.verify demands. A HelmOp without
// spec.source.verify does not have it.
const (
	// VerifiedCondition is the condition.
	VerifiedCondition = "Verified"

	// VerifiedReason is the reason when the artifact is signed as demanded.
	VerifiedReason = "Verified"

	// SignatureNotFoundReason: the artifact has no signature of the kind that is demanded.
	SignatureNotFoundReason = "SignatureNotFound"

	// SignatureUntrustedReason: the artifact has signatures, but none that meets what is demanded.
	SignatureUntrustedReason = "SignatureUntrusted"

	// InvalidVerificationPolicyReason: a key, certificate, identity or trust policy that spec.source.verify names is malformed.
	InvalidVerificationPolicyReason = "InvalidVerificationPolicy"

	// TrustRootUnavailableReason: the root of trust of the public Sigstore cannot be had.
	TrustRootUnavailableReason = "TrustRootUnavailable"

	// VerificationErrorReason: the signatures could not be checked.
	VerificationErrorReason = "VerificationError"
)

// RolledOut of a HelmOp is true when every selected Cluster that can be served was told of what is wanted now.
const (
	// RolledOutCondition is the condition.
	RolledOutCondition = "RolledOut"

	// RolledOutReason is the reason when it is true.
	RolledOutReason = "RolledOut"

	// RollingOutReason is the reason while it is not.
	RollingOutReason = "RollingOut"

	// RolloutPausedReason: the rollout is held, by spec.rollout.paused, by its failure budget or until a wave is promoted.
	RolloutPausedReason = "RolloutPaused"

	// RolloutRolledBackReason: the failure budget was spent, and the Clusters returned, or are on their way, to the last good revision.
	RolloutRolledBackReason = "RolledBack"

	// RolloutAbortedReason: somebody asked to end the rollout, and the Clusters returned, or are on their way, to the last good revision.
	RolloutAbortedReason = "RolloutAborted"

	// InvalidSelectorReason: a selector of Clusters, Namespaces or waves is malformed.
	InvalidSelectorReason = "InvalidSelector"
)

// Paused of a HelmOp or a HelmOpRelease is true when nothing is done for it.
const (
	// PausedCondition is the condition.
	PausedCondition = "Paused"

	// PausedReason is the reason when it is paused.
	PausedReason = "Paused"

	// BeingMovedReason is the reason when it bears the annotation by which clusterctl move marks what it is about to
	// delete.
	BeingMovedReason = "BeingMoved"
	// NotPausedReason is the reason when it is not.
	NotPausedReason = "NotPaused"
)

// ClusterReachable of a HelmOpRelease is true when the API server of the Cluster answers.
const (
	// ClusterReachableCondition is the condition.
	ClusterReachableCondition = "ClusterReachable"

	// ClusterReachableReason is the reason when it answers.
	ClusterReachableReason = "Connected"

	// ClusterUnreachableReason: it does not answer. The release goes on when it does.
	ClusterUnreachableReason = "ClusterUnreachable"

	// ClusterNotFoundReason: the Cluster is gone.
	ClusterNotFoundReason = "ClusterNotFound"

	// ClusterDeletingReason: the Cluster is under deletion; its releases are left alone.
	ClusterDeletingReason = "ClusterDeleting"

	// ControlPlaneNotInitializedReason: the control plane of the Cluster is not initialized yet.
	ControlPlaneNotInitializedReason = "ControlPlaneNotInitialized"
)

// Released of a HelmOpRelease is true when the release in the Cluster is what spec wants.
const (
	// ReleasedCondition is the condition.
	ReleasedCondition = "Released"

	// ReleasedReason is the reason when it is.
	ReleasedReason = "Released"

	// TemplateFailedReason: a template or values reference cannot be rendered for this Cluster.
	TemplateFailedReason = "TemplateFailed"

	// RecordFailedReason: the HelmOpRelease of a Cluster cannot be written, for example because of a quota.
	RecordFailedReason = "RecordFailed"

	// ObjectReadFailedReason: the control-plane or infrastructure object of the Cluster cannot be read, or it cannot be found out whether a
	// Cluster of another namespace may be accessed.
	ObjectReadFailedReason = "ObjectReadFailed"

	// ArtifactFetchFailedReason: the chart cannot be pulled from the registry.
	ArtifactFetchFailedReason = "ArtifactFetchFailed"

	// FetchingArtifactReason: the chart is being fetched from the registry, or parsed, or its kustomization is being built.
	FetchingArtifactReason = "FetchingArtifact"

	// ChartInvalidReason: the chart cannot be loaded, or the artifact is too large.
	ChartInvalidReason = "ChartInvalid"

	// ChartFailedReason: a template of the chart refuses the values, or the cluster, by fail or required.
	ChartFailedReason = "ChartFailed"

	// KindNotServedReason: the cluster does not serve the kind of an object of the release.
	KindNotServedReason = "KindNotServed"

	// RenderLimitExceededReason: to render the chart, or to build the kustomization, took more memory or time than it may, and was ended.
	// The message names the limit, and the template or the folder.
	RenderLimitExceededReason = "RenderLimitExceeded"

	// ObservationFailedReason: the release cannot be read from the cluster.
	ObservationFailedReason = "ObservationFailed"

	// InstallFailedReason: the installation failed.
	InstallFailedReason = "InstallFailed"

	// UpgradeFailedReason: the upgrade failed.
	UpgradeFailedReason = "UpgradeFailed"

	// UninstallFailedReason: the uninstallation failed.
	UninstallFailedReason = "UninstallFailed"

	// ReleaseConflictReason: the release, or an object of it, belongs to somebody else.
	ReleaseConflictReason = "ReleaseConflict"

	// ReleasePendingReason: somebody else may be at work on the release.
	ReleasePendingReason = "ReleasePending"

	// ValuesInvalidReason: the values do not meet the schema of the chart.
	ValuesInvalidReason = "ValuesInvalid"

	// ReleaseTooLargeReason: the release is too large to be recorded.
	ReleaseTooLargeReason = "ReleaseTooLarge"

	// RecordStorageFailedReason: the registry that keeps the records of the release does not answer, or refuses. What runs is left as it is.
	RecordStorageFailedReason = "RecordStorageFailed"

	// RecordDamagedReason: a part of a record of the release is missing, is not what was written, or cannot be read. What runs is left as it is.
	RecordDamagedReason = "RecordDamaged"

	// ClusterForbiddenReason: the kubeconfig of the Cluster does not permit what is needed.
	ClusterForbiddenReason = "ClusterForbidden"

	// ReinstallingReason: the name or namespace of the release changed; the old release ends first.
	ReinstallingReason = "Reinstalling"

	// WaitingForDependenciesReason: a HelmOp that the release depends on is not Ready in the Cluster.
	WaitingForDependenciesReason = "WaitingForDependencies"

	// DependencyCycleReason: HelmOps depend on each other in a circle.
	DependencyCycleReason = "DependencyCycle"

	// InvalidDependencyReason: an expression in dependsOn is malformed.
	InvalidDependencyReason = "InvalidDependency"

	// InvalidOverrideReason: overrides or refsByKubernetesVersion are malformed, or yield options that are not valid.
	InvalidOverrideReason = "InvalidOverride"

	// ClusterAccessDeniedReason: the ServiceAccount of clusterNamespaces may not get the kubeconfig of a Cluster of another namespace, or
	// the manager does not let HelmOps of the namespace into the management cluster.
	ClusterAccessDeniedReason = "ClusterAccessDenied"

	// UpdatingReason: the release is about to be changed.
	UpdatingReason = "Updating"
)

// Healthy of a HelmOpRelease is true while the objects of the release are what they are to be, as long as the release lives.
// With health.mode Disabled there is none.
const (
	// HealthyCondition is the condition.
	HealthyCondition = "Healthy"

	// HealthyReason is the reason when all objects are healthy, or were and are in progress for less than health.timeout.
	HealthyReason = "Healthy"

	// HealthProgressingReason is the reason, with status Unknown, while a new revision is not healthy yet.
	HealthProgressingReason = "Progressing"

	// HealthFailedReason: an object has failed for good.
	HealthFailedReason = "HealthCheckFailed"

	// ObjectsMissingReason: objects of the release were deleted. The message names them.
	ObjectsMissingReason = "ObjectsMissing"

	// HealthTimeoutReason: objects did not become healthy within health.timeout.
	HealthTimeoutReason = "HealthCheckTimeout"

	// HealthUnknownReason, with status Unknown: the objects cannot be watched.
	HealthUnknownReason = "HealthUnknown"

	// InvalidHealthCheckReason: an expression in health.checks is malformed.
	InvalidHealthCheckReason = "InvalidHealthCheck"
)

// Tested of a HelmOpRelease tells how the chart's tests ended. Without test.mode there is none.
const (
	// TestedCondition is the condition.
	TestedCondition = "Tested"

	// TestsSucceededReason is the reason when all tests succeeded.
	TestsSucceededReason = "TestsSucceeded"

	// TestsFailedReason: a test failed, see status.tests.
	TestsFailedReason = "TestsFailed"

	// TestsPendingReason, with status Unknown: the tests are yet to run.
	TestsPendingReason = "TestsPending"
)

// Drifted of a HelmOpRelease is true while something differs from what the release installed. Without driftDetection there
// is none.
const (
	// DriftedCondition is the condition.
	DriftedCondition = "Drifted"

	// NoDriftReason is the reason when nothing differs.
	NoDriftReason = "NoDrift"

	// DriftDetectedReason: something differs, see status.drift.
	DriftDetectedReason = "DriftDetected"

	// DriftContestedReason: somebody changes an object back again and again; it is corrected less and less often.
	DriftContestedReason = "DriftContested"

	// DriftCorrectionFailedReason: what differs cannot be put right.
	DriftCorrectionFailedReason = "DriftCorrectionFailed"

	// DriftCheckPendingReason, with status Unknown: there is a new revision, which the objects are yet to be compared with.
	DriftCheckPendingReason = "DriftCheckPending"

	// DriftCheckFailedReason, with status Unknown: the objects cannot be compared.
	DriftCheckFailedReason = "DriftCheckFailed"

	// InvalidDriftRuleReason: a rule in driftDetection.ignore is malformed.
	InvalidDriftRuleReason = "InvalidDriftRule"
)

// Stalled of a HelmOpRelease is true when nothing is tried any more until the spec changes or a retry is requested. Otherwise
// there is none.
const (
	// StalledCondition is the condition.
	StalledCondition = "Stalled"

	// RetriesExhaustedReason: the tries that remediation.retries allows are spent.
	RetriesExhaustedReason = "RetriesExhausted"

	// RolledBackReason: an upgrade failed, and the release returned to the last revision that worked. A reason of Released
	// and Ready.
	RolledBackReason = "RolledBack"

	// RollbackFailedReason: the return to the last revision that worked failed.
	RollbackFailedReason = "RollbackFailed"

	// PostRenderFailedReason: postRender cannot be applied to what the chart rendered.
	PostRenderFailedReason = "PostRenderFailed"

	// KubeconfigRefusedReason: the kubeconfig of the Cluster runs a program or names files, which is refused.
	KubeconfigRefusedReason = "KubeconfigRefused"
)

// Movable of a HelmOp is true when clusterctl move takes along all that it refers to. A HelmOp that refers to nothing does not have
// it.
const (
	// MovableCondition is the condition.
	MovableCondition = "Movable"

	// MovableReason is the reason when it is.
	MovableReason = "Movable"

	// ReferencesNotMovedReason: something that the HelmOp refers to would stay behind.
	ReferencesNotMovedReason = "ReferencesNotMoved"
)

// DeletionsHeldCondition of a HelmOp is true while deletions wait for a confirmation. Otherwise it is absent.
const (
	DeletionsHeldCondition = "DeletionsHeld"

	// ConfirmationRequiredReason: more would be deleted at once than spec.maxDeletions allows. A reason of Ready, too: of a HelmOp
	// for its releases, and of a HelmOpRelease of the management cluster for its objects.
	ConfirmationRequiredReason = "ConfirmationRequired"

	// OwnerNotFoundReason: the HelmOp of a HelmOpRelease under deletion does not exist. The release is uninstalled later, unless the HelmOp
	// is restored meanwhile. A reason of Ready.
	OwnerNotFoundReason = "OwnerNotFound"
)

// Reasons of the condition of a Cluster that spec.clusterCondition names. By them it is known whose a condition is.
const (
	// ReleasesReadyReason is the reason when it is true.
	ReleasesReadyReason = "ReleasesReady"

	// ReleasesNotReadyReason is the reason when it is false.
	ReleasesNotReadyReason = "ReleasesNotReady"
)

// Reasons of Events.
const (
	// RolloutStartedEvent: a new revision begins to spread.
	RolloutStartedEvent = "RolloutStarted"

	// WaveStartedEvent: the turn of a wave has come.
	WaveStartedEvent = "WaveStarted"

	// RolloutCompletedEvent: every Cluster that could be served is done.
	RolloutCompletedEvent = "RolloutCompleted"

	// RolloutPausedEvent: the failure budget of a rollout is spent.
	RolloutPausedEvent = "RolloutPaused"

	// RolloutContinuedEvent: a rollout goes on that was paused.
	RolloutContinuedEvent = "RolloutContinued"

	// RolloutRolledBackEvent: the Clusters return to the last good revision.
	RolloutRolledBackEvent = "RolloutRolledBack"

	// DeletionsHeldEvent: more releases would be deleted at once than spec.maxDeletions allows, so none is.
	DeletionsHeldEvent = "DeletionsHeld"

	// DeletionsConfirmedEvent: the deletions that waited for it were confirmed.
	DeletionsConfirmedEvent = "DeletionsConfirmed"

	// ClusterUpgradeHeldEvent: an upgrade of Kubernetes waits for a release.
	ClusterUpgradeHeldEvent = "ClusterUpgradeHeld"

	// ClusterUpgradeReleasedEvent: an upgrade of Kubernetes may go on.
	ClusterUpgradeReleasedEvent = "ClusterUpgradeReleased"

	// ClusterDeletionHeldEvent: the deletion of a Cluster waits for the uninstallation of releases.
	ClusterDeletionHeldEvent = "ClusterDeletionHeld"

	// ClusterDeletionReleasedEvent: the deletion of a Cluster may go on.
	ClusterDeletionReleasedEvent = "ClusterDeletionReleased"

	// InstalledEvent: a release was installed.
	InstalledEvent = "Installed"

	// UpgradedEvent: a release was upgraded.
	UpgradedEvent = "Upgraded"

	// ReturnedEvent: a release got back, by Helm's own history, what it had before a revision of its HelmOp was given up.
	ReturnedEvent = "Returned"

	// RolledBackEvent: a release returned to the last revision that worked.
	RolledBackEvent = "RolledBack"

	// TestedEvent: the chart's tests ended.
	TestedEvent = "Tested"

	// DriftDetectedEvent: something differs from what the release installed.
	DriftDetectedEvent = "DriftDetected"

	// DriftCorrectedEvent: what differed was put right.
	DriftCorrectedEvent = "DriftCorrected"

	// UninstalledEvent: a release was uninstalled.
	UninstalledEvent = "Uninstalled"

	// RecoveredEvent: a release that a crash had left half done was taken up again.
	RecoveredEvent = "Recovered"

	// ObjectsMovedEvent: clusterctl move took objects of a release to another management cluster, so the release is paused.
	ObjectsMovedEvent = "ObjectsMoved"

	// RecordsLeftEvent: records of releases that nobody needs any more could not be deleted.
	RecordsLeftEvent = "RecordsLeft"

	// OrphanedEvent: a release was left in place, by deletionPolicy or because its Cluster goes.
	OrphanedEvent = "Orphaned"

	// ArtifactResolvedEvent: the source stands for another artifact than before.
	ArtifactResolvedEvent = "ArtifactResolved"
)

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Ready of a HelmOp is true when all selected Clusters that are not paused have a healthy release with the current
// HelmOp revision. It is also true when no Cluster is selected.
const (
	// ReadyCondition is the summary of a HelmOp or a HelmOpRelease.
	ReadyCondition = "Ready"

	// ReadyReason is the reason when it is true.
	ReadyReason = "Ready"

	// NoClustersSelectedReason is the reason when the selector selects no Cluster; Ready is true then.
	NoClustersSelectedReason = "NoClustersSelected"

	// ProgressingReason is the reason while releases are being installed or updated.
	ProgressingReason = "Progressing"

	// ReleasesFailedReason is the reason when the release of a Cluster failed, see status.failures.
	ReleasesFailedReason = "ReleasesFailed"

	// PinRefusedReason is the reason in status.failures of a HelmOp when the annotation
	// addons.cluster.x-k8s.io/pinned-revision of a HelmOpRelease cannot be followed.
	PinRefusedReason = "PinRefused"

	// WaitingForClustersReason is the reason while Clusters are not available: their control plane is not initialized
	// or their API server does not answer, or they do not exist yet after a move or a restore.
	WaitingForClustersReason = "WaitingForClusters"

	// DeletingReason is the reason while an object under deletion uninstalls its releases.
	DeletingReason = "Deleting"

	// OtherShardReason is the reason of a release whose Cluster has another shard than its HelmOp, and of a HelmOp with
	// such releases. They are not changed until HelmOp and Cluster have the same shard label.
	OtherShardReason = "OtherShard"

	// ShardChangedReason is the reason of a HelmOp whose shard label was changed while it was not paused.
	ShardChangedReason = "ShardChanged"

	// ShardNotServedReason is the reason, with status Unknown, of a HelmOp whose shard no manager serves.
	ShardNotServedReason = "ShardNotServed"
)

// Deleting of a HelmOp or a HelmOpRelease is true while it is under deletion. Its reason and message say what the
// deletion waits for. Otherwise it is absent.
const (
	// DeletingCondition is the condition.
	DeletingCondition = "Deleting"
)

// Resolved of a HelmOp is true when spec.source is resolved to status.artifact.
const (
	// ResolvedCondition is the condition.
	ResolvedCondition = "Resolved"

	// ResolvingReason is the reason, with status Unknown, during the first request to a registry.
	ResolvingReason = "Resolving"

	// ResolvedReason is the reason when the reference was resolved.
	ResolvedReason = "Resolved"

	// InvalidReferenceReason: the URL or the reference is malformed.
	InvalidReferenceReason = "InvalidReference"

	// AddressRefusedReason: the registry, its proxy or a redirect has a local address, to which HelmOp does not connect.
	AddressRefusedReason = "AddressRefused"

	// ArtifactNotFoundReason: the repository, the tag or the digest does not exist.
	ArtifactNotFoundReason = "ArtifactNotFound"

	// NoMatchingTagReason: the repository has no tag in the range.
	NoMatchingTagReason = "NoMatchingTag"

	// UnsupportedArtifactReason: the artifact has no format that can be installed.
	UnsupportedArtifactReason = "UnsupportedArtifact"

	// RegistryAuthenticationFailedReason: the registry refuses the credentials.
	RegistryAuthenticationFailedReason = "RegistryAuthenticationFailed"

	// RegistryCertificateInvalidReason: the registry's certificate is not trusted.
	RegistryCertificateInvalidReason = "RegistryCertificateInvalid"

	// RegistryUnreachableReason: the registry does not answer.
	RegistryUnreachableReason = "RegistryUnreachable"

	// RegistryRateLimitedReason: the registry limits the rate of requests.
	RegistryRateLimitedReason = "RegistryRateLimited"

	// ArtifactInvalidReason: the content is too large, or the manifests in it cannot be installed. During a lookup, also:
	// the content is corrupt or does not match its digest.
	ArtifactInvalidReason = "ArtifactInvalid"

	// ReferenceNotFoundReason: a Secret or ConfigMap that the spec names, or a key of it, does not exist, or the manager
	// may not read it.
	ReferenceNotFoundReason = "ReferenceNotFound"

	// DowngradeRefusedReason: a version range selects an older version than the current one, see
	// spec.source.ref.allowDowngrade.
	DowngradeRefusedReason = "DowngradeRefused"

	// VersionMovedReason: the chart repository replaced the archive of the version that is in use, see
	// spec.source.ref.allowMovedVersion.
	VersionMovedReason = "VersionMoved"

	// RegistryErrorReason: the registry failed in another way.
	RegistryErrorReason = "RegistryError"
)

// Verified of a HelmOp is true when the artifact is signed as spec.source.verify requires. Without spec.source.verify
// it is absent.
const (
	// VerifiedCondition is the condition.
	VerifiedCondition = "Verified"

	// VerifiedReason is the reason when the signature is valid.
	VerifiedReason = "Verified"

	// SignatureNotFoundReason: the artifact has no signature of the required kind.
	SignatureNotFoundReason = "SignatureNotFound"

	// SignatureUntrustedReason: the artifact has signatures, but none that the policy trusts.
	SignatureUntrustedReason = "SignatureUntrusted"

	// InvalidVerificationPolicyReason: a key, certificate, identity or trust policy that spec.source.verify names is
	// malformed.
	InvalidVerificationPolicyReason = "InvalidVerificationPolicy"

	// TrustRootUnavailableReason: the root of trust of the public Sigstore cannot be downloaded.
	TrustRootUnavailableReason = "TrustRootUnavailable"

	// VerificationErrorReason: the signatures could not be checked.
	VerificationErrorReason = "VerificationError"
)

// RollingOut of a HelmOp is true while the current HelmOp revision is being assigned to Clusters. It is unknown while
// there is no HelmOp revision. It does not depend on the health of releases: see Ready.
const (
	// RollingOutCondition is the condition.
	RollingOutCondition = "RollingOut"

	// RollingOutReason is the reason when it is true and the rollout continues by itself.
	RollingOutReason = "RollingOut"

	// NotRollingOutReason is the reason when it is false.
	NotRollingOutReason = "NotRollingOut"

	// RolloutPausedReason: the rollout is paused, by spec.rollout.paused, by its failure budget or until a wave is
	// promoted.
	RolloutPausedReason = "RolloutPaused"

	// RolloutRolledBackReason: the failure budget was spent, and the Clusters return to the last known good revision.
	RolloutRolledBackReason = "RolledBack"

	// RolloutAbortedReason: a user aborted the rollout, and the Clusters return to the last known good revision.
	RolloutAbortedReason = "RolloutAborted"

	// WaitingForApprovalReason: spec.rollout.approval is Required, and something waits for an approval. Also a reason of
	// Ready and of Approved.
	WaitingForApprovalReason = "WaitingForApproval"

	// InvalidMaintenanceReason: a window in spec.maintenance, or an annotation of a Cluster with such limits, cannot be
	// read, so releases are not changed.
	InvalidMaintenanceReason = "InvalidMaintenance"

	// InvalidSelectorReason: a selector of Clusters, Namespaces or waves is malformed.
	InvalidSelectorReason = "InvalidSelector"
)

// Approved of a HelmOp is true when nothing waits for an approval. Unless spec.rollout.approval is Required, it is
// absent.
const (
	// ApprovedCondition is the condition.
	ApprovedCondition = "Approved"

	// ApprovedReason is the reason when it is true.
	ApprovedReason = "Approved"

	// ApprovalRefusedReason: the digest in the annotation rollout-approve is not the current digest of the changes that
	// wait, so these changes still wait for an approval. Also a reason of Ready and of RollingOut.
	ApprovalRefusedReason = "ApprovalRefused"
)

// Paused of a HelmOp or a HelmOpRelease is true when the object is not reconciled.
const (
	// PausedCondition is the condition.
	PausedCondition = "Paused"

	// PausedReason is the reason when the object is paused.
	PausedReason = "Paused"

	// BeingMovedReason is the reason when the object has the annotation that clusterctl move sets before it deletes an
	// object.
	BeingMovedReason = "BeingMoved"
	// NotPausedReason is the reason when the object is not paused.
	NotPausedReason = "NotPaused"
)

// ClusterBeingMoved of a HelmOp or a HelmOpRelease is true while one of its Clusters has the annotation that clusterctl
// move sets before it deletes an object. HelmOp then begins no hold of the Cluster, and does not change the conditions
// of the Cluster. Otherwise it is absent. The reason is BeingMovedReason. It does not influence Ready.
const (
	// ClusterBeingMovedCondition is the condition.
	ClusterBeingMovedCondition = "ClusterBeingMoved"
)

// ClusterReachable of a HelmOpRelease is true when the API server of the Cluster answers. It is absent if HelmOp does
// not connect to the Cluster, for example before its control plane is initialized. While the HelmOpRelease is paused or
// waits for its deletion, it has its last status.
const (
	// ClusterReachableCondition is the condition.
	ClusterReachableCondition = "ClusterReachable"

	// ClusterReachableReason is the reason when the API server answers.
	ClusterReachableReason = "Connected"

	// ClusterUnreachableReason: the API server does not answer. The release is reconciled again when the API server
	// answers.
	ClusterUnreachableReason = "ClusterUnreachable"

	// ClusterNotFoundReason: the Cluster does not exist.
	ClusterNotFoundReason = "ClusterNotFound"

	// ClusterDeletingReason: the Cluster is under deletion; its releases are not changed.
	ClusterDeletingReason = "ClusterDeleting"

	// ControlPlaneNotInitializedReason: the control plane of the Cluster is not initialized yet.
	ControlPlaneNotInitializedReason = "ControlPlaneNotInitialized"
)

// Released of a HelmOpRelease is true when the Helm release in the Cluster has the desired state.
const (
	// ReleasedCondition is the condition.
	ReleasedCondition = "Released"

	// ReleasedReason is the reason when the release has the desired state.
	ReleasedReason = "Released"

	// InstalledOnceReason: reconcileStrategy is InstallOnce, and the release was installed. HelmOp does not change it
	// after the installation. Also a reason of Ready.
	InstalledOnceReason = "InstalledOnce"

	// TemplateFailedReason: HelmOp cannot render a template, or the values of an object in valuesFrom, for this Cluster.
	TemplateFailedReason = "TemplateFailed"

	// RecordFailedReason: the HelmOpRelease of a Cluster cannot be written, for example because of a quota.
	RecordFailedReason = "RecordFailed"

	// ObjectReadFailedReason: an object of the management cluster cannot be read, for example the control-plane object of
	// the Cluster or a Secret in valuesFrom, or the access to a Cluster of another namespace cannot be checked.
	ObjectReadFailedReason = "ObjectReadFailed"

	// ArtifactFetchFailedReason: the chart cannot be pulled from the registry. For example, the download broke off, or
	// its content does not match the digest.
	ArtifactFetchFailedReason = "ArtifactFetchFailed"

	// FetchingArtifactReason: HelmOp pulls the artifact from the registry, parses the chart, or builds the kustomization
	// of the artifact.
	FetchingArtifactReason = "FetchingArtifact"

	// ChartInvalidReason: the chart cannot be loaded, or the artifact is too large.
	ChartInvalidReason = "ChartInvalid"

	// ChartFailedReason: a template of the chart refuses the values, or the cluster, by fail or required.
	ChartFailedReason = "ChartFailed"

	// KindNotServedReason: the cluster does not serve the kind of an object of the release.
	KindNotServedReason = "KindNotServed"

	// RenderLimitExceededReason: the rendering of the chart, or of the kustomization, needed more memory or time than
	// it may, and was stopped. The message names the limit, and the template or the folder.
	RenderLimitExceededReason = "RenderLimitExceeded"

	// ObservationFailedReason: the release cannot be read from the cluster.
	ObservationFailedReason = "ObservationFailed"

	// InstallFailedReason: the installation failed.
	InstallFailedReason = "InstallFailed"

	// UpgradeFailedReason: the upgrade failed.
	UpgradeFailedReason = "UpgradeFailed"

	// UninstallFailedReason: the uninstallation failed.
	UninstallFailedReason = "UninstallFailed"

	// ReleaseConflictReason: the release, or an object of it, has another owner.
	ReleaseConflictReason = "ReleaseConflict"

	// AdoptionPendingReason: the release has another owner, or was installed for a lost HelmOpRelease. It is changed when
	// the rollout reaches the Cluster.
	AdoptionPendingReason = "AdoptionPending"

	// AdoptionWouldChangeReason: install.adoption is WhenUnchanged, and the adoption of the release would change it.
	AdoptionWouldChangeReason = "AdoptionWouldChange"

	// ReleasePendingReason: another client may be changing the release.
	ReleasePendingReason = "ReleasePending"

	// ValuesInvalidReason: the values do not match the schema of the chart.
	ValuesInvalidReason = "ValuesInvalid"

	// ReleaseTooLargeReason: the release is too large to be recorded.
	ReleaseTooLargeReason = "ReleaseTooLarge"

	// RecordStorageFailedReason: the registry with the records of the release does not answer, or refuses. The release
	// is not changed.
	RecordStorageFailedReason = "RecordStorageFailed"

	// RecordDamagedReason: a part of a record of the release is missing, was changed, or cannot be read. The release is
	// not changed.
	RecordDamagedReason = "RecordDamaged"

	// ClusterForbiddenReason: the kubeconfig of the Cluster lacks a permission that HelmOp needs.
	ClusterForbiddenReason = "ClusterForbidden"

	// WaitingForMaintenanceReason: a change of the release waits for a maintenance window, the end of a freeze or the end
	// of a veto, see spec.maintenance. Also a reason of Ready and RollingOut of a HelmOp.
	WaitingForMaintenanceReason = "WaitingForMaintenance"

	// WaitingForDependenciesReason: a HelmOp that the release depends on is not Ready in the Cluster.
	WaitingForDependenciesReason = "WaitingForDependencies"

	// ImagesMissingReason: spec.preflight.images is Required, and a registry does not have an image of the release. The
	// release is not changed.
	ImagesMissingReason = "ImagesMissing"

	// ImagesUnknownReason: spec.preflight.images is Required, and an image of the release could not be looked up, or
	// the release has too many images. The release is not changed.
	ImagesUnknownReason = "ImagesUnknown"

	// DependencyCycleReason: HelmOps depend on each other in a cycle.
	DependencyCycleReason = "DependencyCycle"

	// InvalidDependencyReason: an expression in dependsOn is malformed.
	InvalidDependencyReason = "InvalidDependency"

	// InvalidOverrideReason: overrides or refsByKubernetesVersion are malformed, or their result is not valid.
	InvalidOverrideReason = "InvalidOverride"

	// ClusterAccessDeniedReason: the ServiceAccount of clusterNamespaces may not get the kubeconfig of a Cluster of
	// another namespace, or HelmOps of the namespace may not install in the management cluster.
	ClusterAccessDeniedReason = "ClusterAccessDenied"

	// UpdatingReason: the release will be changed.
	UpdatingReason = "Updating"
)

// Healthy of a HelmOpRelease is true while all objects of the release are healthy, as long as the release exists. With
// health.mode Disabled it is absent.
const (
	// HealthyCondition is the condition.
	HealthyCondition = "Healthy"

	// HealthyReason is the reason when all objects are healthy, or were healthy and have been in progress for less than
	// health.timeout.
	HealthyReason = "Healthy"

	// HealthProgressingReason is the reason, with status Unknown, while a new Helm revision is not healthy yet.
	HealthProgressingReason = "Progressing"

	// HealthFailedReason: an object has failed permanently.
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

// Tested of a HelmOpRelease is the result of the chart's tests. Without test.mode Enabled, and after an adoption that
// created no Helm revision, it is absent.
const (
	// TestedCondition is the condition.
	TestedCondition = "Tested"

	// TestsSucceededReason is the reason when all tests succeeded.
	TestsSucceededReason = "TestsSucceeded"

	// TestsFailedReason: a test failed, see status.tests.
	TestsFailedReason = "TestsFailed"

	// TestsPendingReason, with status Unknown: the tests have not run yet.
	TestsPendingReason = "TestsPending"
)

// Drifted of a HelmOpRelease is true while objects differ from the release. Without driftDetection it is absent.
const (
	// DriftedCondition is the condition.
	DriftedCondition = "Drifted"

	// NoDriftReason is the reason when no object differs.
	NoDriftReason = "NoDrift"

	// DriftDetectedReason: objects differ, see status.drift.
	DriftDetectedReason = "DriftDetected"

	// DriftContestedReason: another client keeps reverting the corrections of an object; it is corrected less and less
	// often.
	DriftContestedReason = "DriftContested"

	// DriftCorrectionFailedReason: the differences cannot be corrected.
	DriftCorrectionFailedReason = "DriftCorrectionFailed"

	// DriftCheckPendingReason, with status Unknown: the objects have not been compared with the new Helm revision yet.
	DriftCheckPendingReason = "DriftCheckPending"

	// DriftCheckFailedReason, with status Unknown: the objects cannot be compared, or cannot be watched.
	DriftCheckFailedReason = "DriftCheckFailed"

	// InvalidDriftRuleReason: a rule in driftDetection.ignore is malformed.
	InvalidDriftRuleReason = "InvalidDriftRule"
)

// Stalled of a HelmOpRelease is true when it is not retried until the spec changes or a retry is requested. Stalled of
// a HelmOp is true when nothing changes until a user does something; reason and message are those of Ready. Otherwise
// it is absent.
const (
	// StalledCondition is the condition.
	StalledCondition = "Stalled"

	// RetriesExhaustedReason: the retries that remediation.retries allows are used up.
	RetriesExhaustedReason = "RetriesExhausted"

	// RolledBackReason: an upgrade failed, and the release was rolled back to the last known good Helm revision. A
	// reason of Released and Ready.
	RolledBackReason = "RolledBack"

	// RollbackFailedReason: the rollback failed.
	RollbackFailedReason = "RollbackFailed"

	// PostRenderFailedReason: postRender cannot be applied to the rendered chart.
	PostRenderFailedReason = "PostRenderFailed"

	// KubeconfigRefusedReason: the kubeconfig of the Cluster runs a program, names files, or is too large, also with
	// expanded YAML aliases, which is not allowed.
	KubeconfigRefusedReason = "KubeconfigRefused"
)

// Movable of a HelmOp is true when clusterctl move moves all objects to which the HelmOp refers. Without references it
// is absent.
const (
	// MovableCondition is the condition.
	MovableCondition = "Movable"

	// MovableReason is the reason when all objects are moved.
	MovableReason = "Movable"

	// ReferencesNotMovedReason: clusterctl move would not move an object that the HelmOp refers to.
	ReferencesNotMovedReason = "ReferencesNotMoved"
)

// DeletionsHeldCondition of a HelmOp is true while deletions wait for a confirmation. Otherwise it is absent.
const (
	DeletionsHeldCondition = "DeletionsHeld"

	// ConfirmationRequiredReason: more deletions are due at once than spec.maxDeletions allows. Also a reason of Ready:
	// of a HelmOp for its releases, and of a HelmOpRelease of the management cluster for its objects.
	ConfirmationRequiredReason = "ConfirmationRequired"

	// OwnerNotFoundReason: a HelmOpRelease has no owner reference to a HelmOp, or it is under deletion and its HelmOp
	// does not exist. The release is not changed until the HelmOp is restored, or until a user decides. A reason of
	// Ready.
	OwnerNotFoundReason = "OwnerNotFound"
)

// KubernetesUpgradeReady of a HelmOpRelease is true when a check has found nothing that must be done before an upgrade
// of Kubernetes. It does not influence Ready. It is absent unless spec.beforeClusterUpgrade.preflight or the annotation
// addons.cluster.x-k8s.io/check-kubernetes-upgrade of the Cluster requests a check.
const (
	// KubernetesUpgradeReadyCondition is the condition.
	KubernetesUpgradeReadyCondition = "KubernetesUpgradeReady"

	// KubernetesUpgradeReadyReason is the reason when it is true.
	KubernetesUpgradeReadyReason = "KubernetesUpgradeReady"

	// APIRemovedReason: objects use an API that the new version does not serve.
	APIRemovedReason = "APIRemoved"

	// APIUnknownReason: objects use an API of Kubernetes that the manager does not know.
	APIUnknownReason = "APIUnknown"

	// APINotServedReason: the release is upgraded before Kubernetes, and the running version does not serve an API of
	// its chart.
	APINotServedReason = "APINotServed"

	// KubeVersionExcludedReason: the kubeVersion of the chart excludes the new version.
	KubeVersionExcludedReason = "KubeVersionExcluded"

	// RenderingFailsReason: the chart cannot be rendered for the new version.
	RenderingFailsReason = "RenderingFails"

	// UpgradeCheckPendingReason, with status Unknown: the check has not ended yet.
	UpgradeCheckPendingReason = "UpgradeCheckPending"

	// UpgradeCheckFailedReason, with status Unknown: the release cannot be checked.
	UpgradeCheckFailedReason = "UpgradeCheckFailed"

	// InvalidKubernetesVersionReason, with status Unknown: the annotation of the Cluster has no version, a version older
	// than the Cluster runs, or one that is more than ten minor versions newer.
	InvalidKubernetesVersionReason = "InvalidKubernetesVersion"
)

// These are the reasons of the condition of a Cluster in spec.clusterCondition, and of HelmOpKubernetesUpgradeReady.
// HelmOp recognizes its conditions by these reasons.
const (
	// ReleasesReadyReason is the reason when it is true.
	ReleasesReadyReason = "ReleasesReady"

	// ReleasesNotReadyReason is the reason when it is false.
	ReleasesNotReadyReason = "ReleasesNotReady"
	// ReleasesNotCheckedReason is the reason of HelmOpKubernetesUpgradeReady, with status Unknown, while releases are not
	// checked.
	ReleasesNotCheckedReason = "ReleasesNotChecked"

	// ClusterUpgradeReadyType is the type of the condition of a Cluster that has the results of the checks of its releases
	// for an upgrade of Kubernetes: see KubernetesUpgradeReadyCondition.
	ClusterUpgradeReadyType = "HelmOpKubernetesUpgradeReady"
)

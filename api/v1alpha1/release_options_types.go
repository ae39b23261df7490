// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ReleaseOptions are how a release is installed, upgraded, rolled back, tested, watched and uninstalled.
type ReleaseOptions struct {
	// reconcileStrategy is for how long HelmOp reconciles a release. Continuous keeps the release in its desired state.
	// InstallOnce installs the release in each Cluster once, until it is Ready, and then leaves it alone: no upgrade, no
	// drift detection, no health, no rollback. A Cluster that is re-created gets the release again. What a deletion does
	// is up to deletionPolicy. Default: Continuous.
	// +optional
	ReconcileStrategy ReconcileStrategy `json:"reconcileStrategy,omitempty"`

	// install are the options of the first installation in a cluster. Without it, the defaults of its fields apply.
	// +optional
	Install *InstallOptions `json:"install,omitempty"`

	// upgrade are the options of all later changes of a release. Without it, the defaults of its fields apply.
	// +optional
	Upgrade *UpgradeOptions `json:"upgrade,omitempty"`

	// rollback are the options of a rollback, see upgrade.remediation. Without it, the defaults of its fields apply. A
	// change of rollback alone does not upgrade releases.
	// +optional
	Rollback *RollbackOptions `json:"rollback,omitempty"`

	// uninstall are the options of an uninstallation. Without it, the defaults of its fields apply. They are read when
	// a release is uninstalled: a change of uninstall alone does not upgrade releases.
	// +optional
	Uninstall *UninstallOptions `json:"uninstall,omitempty"`

	// test runs the chart's tests after each installation and upgrade. Without it, they do not run.
	// +optional
	Test *TestOptions `json:"test,omitempty"`

	// health is when a release counts as healthy. Without it, the defaults of its fields apply.
	// +optional
	Health *HealthOptions `json:"health,omitempty"`

	// driftDetection compares the release with the objects in the cluster. Without it, nothing is compared.
	// +optional
	DriftDetection *DriftDetectionOptions `json:"driftDetection,omitempty"`

	// impersonateServiceAccountName is a ServiceAccount of the workload cluster, in the namespace of the release, that
	// HelmOp impersonates for all requests there. It must exist, and must have the right to read and write Secrets in
	// that namespace, where Helm stores its records. Default: the identity of the kubeconfig that Cluster API
	// generated. In a HelmOpRelease of the management cluster it is a ServiceAccount in the namespace of the
	// HelmOpRelease, see spec.managementCluster of HelmOp.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ImpersonateServiceAccountName string `json:"impersonateServiceAccountName,omitempty"`
}

// ReconcileStrategy is for how long a release is reconciled.
// +kubebuilder:validation:Enum=Continuous;InstallOnce
type ReconcileStrategy string

const (
	// ReconcileStrategyContinuous keeps a release in its desired state.
	ReconcileStrategyContinuous ReconcileStrategy = "Continuous"

	// ReconcileStrategyInstallOnce installs a release once and then leaves it alone.
	ReconcileStrategyInstallOnce ReconcileStrategy = "InstallOnce"
)

// CRDPolicy is what happens to the CustomResourceDefinitions in the crds folder of a chart.
// +kubebuilder:validation:Enum=Skip;Create;CreateReplace
type CRDPolicy string

const (
	// CRDPolicySkip leaves the folder out.
	CRDPolicySkip CRDPolicy = "Skip"

	// CRDPolicyCreate creates those that do not exist and leaves the others as they are.
	CRDPolicyCreate CRDPolicy = "Create"

	// CRDPolicyCreateReplace creates those that do not exist and replaces the others. None is ever deleted.
	CRDPolicyCreateReplace CRDPolicy = "CreateReplace"
)

// AdoptionPolicy is how a release of another owner is adopted.
// +kubebuilder:validation:Enum=Upgrade;WhenUnchanged
type AdoptionPolicy string

const (
	// AdoptionPolicyUpgrade upgrades a release that differs from the desired state.
	AdoptionPolicyUpgrade AdoptionPolicy = "Upgrade"

	// AdoptionPolicyWhenUnchanged leaves a release alone as long as it differs from the desired state.
	AdoptionPolicyWhenUnchanged AdoptionPolicy = "WhenUnchanged"
)

// ObjectMetadata are labels and annotations.
type ObjectMetadata struct {
	// labels to set.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`

	// annotations to set.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// InstallOptions are the options of an installation.
type InstallOptions struct {
	// timeout bounds the installation, its hooks included. It does not wait for pods to become ready. Default: 5m.
	// A change of timeout alone does not upgrade releases.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// createNamespace creates the namespace of the release if it does not exist. It is never deleted.
	// Default: true; false with impersonateServiceAccountName.
	// +optional
	CreateNamespace *bool `json:"createNamespace,omitempty"`

	// namespaceMetadata are labels and annotations for the namespace of the release, for example for pod security. Each
	// installation and upgrade sets them, also if another client created the namespace. Other labels and annotations
	// are not changed.
	// +optional
	NamespaceMetadata *ObjectMetadata `json:"namespaceMetadata,omitempty"`

	// disableHooks leaves out the chart's install hooks. Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// crds is what happens to the chart's crds folder, and to the CustomResourceDefinitions of an artifact that is not
	// a chart. Default: Create for Helm charts; CreateReplace for other artifacts if neither install.crds nor
	// upgrade.crds is set.
	// +optional
	CRDs CRDPolicy `json:"crds,omitempty"`

	// takeOwnership adopts an existing release of the same name, and existing objects of the chart, that have no owner
	// or another owner. Without it, they are not changed, and the release fails with the reason ReleaseConflict. The
	// waves and limits of rollout apply to the adoption of releases. Default: false.
	// +optional
	TakeOwnership *bool `json:"takeOwnership,omitempty"`

	// adoption is how takeOwnership adopts a release of another owner. If the chart, its values and the other options
	// would change nothing, the release is always adopted without a new Helm revision. If something would change,
	// Upgrade upgrades the release, and WhenUnchanged leaves it alone: the reason AdoptionWouldChange names what would
	// change, and the release is adopted when nothing differs any more. A change of adoption alone does not upgrade
	// releases. Default: Upgrade.
	// +optional
	Adoption AdoptionPolicy `json:"adoption,omitempty"`

	// disableOpenAPIValidation leaves out the validation of the rendered objects by Helm. Clusters since Kubernetes
	// 1.25 validate by themselves: there it changes nothing. Default: false.
	// +optional
	DisableOpenAPIValidation *bool `json:"disableOpenAPIValidation,omitempty"`

	// disableSchemaValidation leaves out the comparison of the values with the chart's values.schema.json. Default: false.
	// +optional
	DisableSchemaValidation *bool `json:"disableSchemaValidation,omitempty"`

	// remediation is what happens after a failed installation. Without it, the defaults of its fields apply. A change
	// of remediation alone does not upgrade releases.
	// +optional
	Remediation *InstallRemediation `json:"remediation,omitempty"`
}

// InstallRemediationStrategy is what happens to a failed installation before it is retried.
// +kubebuilder:validation:Enum=Retry;Uninstall
type InstallRemediationStrategy string

const (
	// InstallRemediationRetry keeps the objects that were installed; the next attempt completes them.
	InstallRemediationRetry InstallRemediationStrategy = "Retry"

	// InstallRemediationUninstall uninstalls the failed installation before it is retried. The result of the last
	// attempt is kept, so that it can be inspected.
	InstallRemediationUninstall InstallRemediationStrategy = "Uninstall"
)

// InstallRemediation is what happens after a failed installation.
type InstallRemediation struct {
	// retries is how often a failed installation is retried, after 10s, 20s and so on up to 10m, before the release is
	// Stalled. Only attempts that changed something in the cluster count. 0 is never, -1 is without limit. Default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=1000
	Retries *int32 `json:"retries,omitempty"`

	// strategy is what happens to a failed installation before it is retried: Retry or Uninstall. Default: Retry.
	// +optional
	Strategy InstallRemediationStrategy `json:"strategy,omitempty"`
}

// UpgradeRemediationStrategy is what happens to a failed upgrade before it is retried.
// +kubebuilder:validation:Enum=Retry;Rollback
type UpgradeRemediationStrategy string

const (
	// UpgradeRemediationRetry keeps the objects that were upgraded; the next attempt completes them.
	UpgradeRemediationRetry UpgradeRemediationStrategy = "Retry"

	// UpgradeRemediationRollback rolls back to the last known good Helm revision after each failed attempt, including
	// the last one.
	UpgradeRemediationRollback UpgradeRemediationStrategy = "Rollback"
)

// UpgradeRemediation is what happens after a failed upgrade. It never uninstalls a release.
type UpgradeRemediation struct {
	// retries is how often a failed upgrade is retried, after 10s, 20s and so on up to 10m, before the release is
	// Stalled. Only attempts that changed something in the cluster count. 0 is never, -1 is without limit. Default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=1000
	Retries *int32 `json:"retries,omitempty"`

	// strategy is what happens to a failed upgrade before it is retried: Retry or Rollback. With Rollback, an upgrade
	// that does not become healthy, or whose tests fail, has failed, too: Helm calls this atomic. Default: Retry.
	// +optional
	Strategy UpgradeRemediationStrategy `json:"strategy,omitempty"`
}

// ValuesPolicy is what happens to the values of the previous Helm revision.
// +kubebuilder:validation:Enum=Reset;Reuse;ResetThenReuse
type ValuesPolicy string

const (
	// ValuesPolicyReset uses the desired values only.
	ValuesPolicyReset ValuesPolicy = "Reset"

	// ValuesPolicyReuse merges the desired values over all values of the previous Helm revision, including the defaults
	// of its chart.
	ValuesPolicyReuse ValuesPolicy = "Reuse"

	// ValuesPolicyResetThenReuse merges the desired values over the user-supplied values of the previous Helm revision,
	// and these over the defaults of the new chart.
	ValuesPolicyResetThenReuse ValuesPolicy = "ResetThenReuse"
)

// UpgradeOptions are the options of an upgrade.
type UpgradeOptions struct {
	// timeout bounds the upgrade, its hooks included. It does not wait for pods to become ready. Default: 5m.
	// A change of timeout alone does not upgrade releases.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// disableHooks leaves out the chart's upgrade hooks. Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// force deletes and re-creates objects whose immutable fields change: use it with care. Only objects of these
	// built-in kinds are deleted: ConfigMap, Secret, Service, ReplicationController, DaemonSet, Deployment, ReplicaSet,
	// StatefulSet, Job, RuntimeClass, IngressClass, PodDisruptionBudget, ClusterRoleBinding, RoleBinding, PriorityClass
	// and StorageClass. Not deleted are a StatefulSet whose persistentVolumeClaimRetentionPolicy.whenDeleted is Delete
	// in the cluster, objects with the annotation helm.sh/resource-policy: keep, and objects of another release. If one
	// of these, or an object of another kind, must be re-created, the action fails. Default: false.
	// +optional
	Force *bool `json:"force,omitempty"`

	// cleanupOnFail deletes the objects that a failed upgrade created. Default: false.
	// +optional
	CleanupOnFail *bool `json:"cleanupOnFail,omitempty"`

	// maxHistory is the number of Helm revisions that are kept. 0 is no limit. With remediation by a rollback, the last
	// known good revision is kept in addition. Default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxHistory *int32 `json:"maxHistory,omitempty"`

	// valuesPolicy is what happens to the values of the previous Helm revision. With Reuse and ResetThenReuse the
	// result depends on the history of each cluster; they help to adopt a release that was installed by hand. Default:
	// Reset.
	// +optional
	ValuesPolicy ValuesPolicy `json:"valuesPolicy,omitempty"`

	// crds is what happens to the chart's crds folder, and to the CustomResourceDefinitions of an artifact that is not
	// a chart. Default: Create for Helm charts; CreateReplace for other artifacts if neither install.crds nor
	// upgrade.crds is set.
	// +optional
	CRDs CRDPolicy `json:"crds,omitempty"`

	// disableOpenAPIValidation leaves out the validation of the rendered objects by Helm. Clusters since Kubernetes
	// 1.25 validate by themselves: there it changes nothing. Default: false.
	// +optional
	DisableOpenAPIValidation *bool `json:"disableOpenAPIValidation,omitempty"`

	// disableSchemaValidation leaves out the comparison of the values with the chart's values.schema.json. Default: false.
	// +optional
	DisableSchemaValidation *bool `json:"disableSchemaValidation,omitempty"`

	// remediation is what happens after a failed upgrade. Without it, the defaults of its fields apply. A change of
	// remediation alone does not upgrade releases.
	// +optional
	Remediation *UpgradeRemediation `json:"remediation,omitempty"`
}

// RollbackOptions are the options of a rollback.
type RollbackOptions struct {
	// timeout bounds the rollback, its hooks included. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// disableHooks leaves out the chart's rollback hooks. Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// force deletes and re-creates objects whose immutable fields change: use it with care. Only objects of these
	// built-in kinds are deleted: ConfigMap, Secret, Service, ReplicationController, DaemonSet, Deployment, ReplicaSet,
	// StatefulSet, Job, RuntimeClass, IngressClass, PodDisruptionBudget, ClusterRoleBinding, RoleBinding, PriorityClass
	// and StorageClass. Not deleted are a StatefulSet whose persistentVolumeClaimRetentionPolicy.whenDeleted is Delete
	// in the cluster, objects with the annotation helm.sh/resource-policy: keep, and objects of another release. If one
	// of these, or an object of another kind, must be re-created, the action fails. Default: false.
	// +optional
	Force *bool `json:"force,omitempty"`

	// cleanupOnFail deletes the objects that a failed rollback created. Default: false.
	// +optional
	CleanupOnFail *bool `json:"cleanupOnFail,omitempty"`
}

// DeletionPropagation is what happens to the dependents of objects that are deleted.
// +kubebuilder:validation:Enum=Background;Foreground;Orphan
type DeletionPropagation string

const (
	// DeletionPropagationBackground deletes dependents afterwards.
	DeletionPropagationBackground DeletionPropagation = "Background"

	// DeletionPropagationForeground deletes dependents before.
	DeletionPropagationForeground DeletionPropagation = "Foreground"

	// DeletionPropagationOrphan leaves dependents in place.
	DeletionPropagationOrphan DeletionPropagation = "Orphan"
)

// UninstallOptions are the options of an uninstallation.
type UninstallOptions struct {
	// timeout bounds the uninstallation, its hooks included. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// disableHooks leaves out the chart's delete hooks. Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// keepHistory keeps the history of the release in the cluster, marked as uninstalled. Default: false.
	// +optional
	KeepHistory *bool `json:"keepHistory,omitempty"`

	// deletionPropagation is what happens to the dependents of the release's objects, for example the pods of a
	// Deployment. Default: Background.
	// +optional
	DeletionPropagation DeletionPropagation `json:"deletionPropagation,omitempty"`
}

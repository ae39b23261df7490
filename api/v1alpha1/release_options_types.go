// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ReleaseOptions tell how a release is installed, upgraded, rolled back, tested, watched and uninstalled.
type ReleaseOptions struct {
	// install are the options of the first installation in a cluster. Without it, the defaults of its fields apply.
	// +optional
	Install *InstallOptions `json:"install,omitempty"`

	// upgrade are the options of every later change of a release. Without it, the defaults of its fields apply.
	// +optional
	Upgrade *UpgradeOptions `json:"upgrade,omitempty"`

	// rollback are the options of the return to the last revision that worked, see upgrade.remediation. Without it, the
	// defaults of its fields apply. A change of them alone makes no new revision.
	// +optional
	Rollback *RollbackOptions `json:"rollback,omitempty"`

	// uninstall are the options of the removal of a release. Without it, the defaults of its fields apply.
	// They are read when a release is uninstalled: a change of them alone makes no new revision.
	// +optional
	Uninstall *UninstallOptions `json:"uninstall,omitempty"`

	// test runs the chart's tests after each installation and upgrade. Without it, they do not run.
	// +optional
	Test *TestOptions `json:"test,omitempty"`

	// health tells what a healthy release is. Without it, the defaults of its fields apply.
	// +optional
	Health *HealthOptions `json:"health,omitempty"`

	// driftDetection compares what the release installed with what is in the cluster. Without it, nothing is compared.
	// +optional
	DriftDetection *DriftDetectionOptions `json:"driftDetection,omitempty"`

	// impersonateServiceAccountName is a ServiceAccount of the workload cluster, in the namespace of the release, under whose rights
	// everything is done there. It must exist, and may read and write Secrets in that namespace, where Helm keeps its
	// records. Default: the rights of the kubeconfig that Cluster API generated. Of a HelmOpRelease in the management cluster it is a
	// ServiceAccount of the namespace of the HelmOpRelease, see spec.managementCluster of HelmOp.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ImpersonateServiceAccountName string `json:"impersonateServiceAccountName,omitempty"`
}

// CRDPolicy tells what happens to the chart's folder crds.
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
	// A change of it alone makes no new revision.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// createNamespace creates the namespace of the release if it does not exist. It is never deleted.
	// Default: true; false with impersonateServiceAccountName.
	// +optional
	CreateNamespace *bool `json:"createNamespace,omitempty"`

	// namespaceMetadata are labels and annotations for the namespace of the release, for example for pod security. They are
	// set with every installation and upgrade, whoever created the namespace; others on it are left alone.
	// +optional
	NamespaceMetadata *ObjectMetadata `json:"namespaceMetadata,omitempty"`

	// disableHooks leaves out the chart's install hooks. Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// crds tells what happens to the chart's folder crds, and to the CustomResourceDefinitions of an artifact that is no
	// chart. Default: Create for Helm charts; CreateReplace for other artifacts if neither install.crds nor upgrade.crds is
	// set.
	// +optional
	CRDs CRDPolicy `json:"crds,omitempty"`

	// takeOwnership adopts a release of the same name, or objects of the chart, that exist already and belong to
	// nobody or to somebody else. Without it they are left alone and reported as a conflict. Default: false.
	// +optional
	TakeOwnership *bool `json:"takeOwnership,omitempty"`

	// disableOpenAPIValidation leaves out the validation of the rendered objects by Helm. Clusters since Kubernetes
	// 1.25 validate by themselves: there it changes nothing. Default: false.
	// +optional
	DisableOpenAPIValidation *bool `json:"disableOpenAPIValidation,omitempty"`

	// disableSchemaValidation leaves out the comparison of the values with the chart's values.schema.json. Default: false.
	// +optional
	DisableSchemaValidation *bool `json:"disableSchemaValidation,omitempty"`

	// remediation tells what follows a failed installation. Without it, the defaults of its fields apply. A change of it
	// alone makes no new revision.
	// +optional
	Remediation *InstallRemediation `json:"remediation,omitempty"`
}

// InstallRemediationStrategy tells what happens to a failed installation before it is tried again.
// +kubebuilder:validation:Enum=Retry;Uninstall
type InstallRemediationStrategy string

const (
	// InstallRemediationRetry leaves what was installed in place; the next try completes it.
	InstallRemediationRetry InstallRemediationStrategy = "Retry"

	// InstallRemediationUninstall uninstalls what was installed before the next try. What the last try left stays, so that
	// it can be looked at.
	InstallRemediationUninstall InstallRemediationStrategy = "Uninstall"
)

// InstallRemediation tells what follows a failed installation.
type InstallRemediation struct {
	// retries is how often a failed installation is tried again, after 10s, 20s and so on up to 10m, before the release
	// is Stalled. Only tries that changed something in the cluster count. 0 is never, -1 is without end. Default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=1000
	Retries *int32 `json:"retries,omitempty"`

	// strategy tells what happens to a failed installation before it is tried again. Default: Retry.
	// +optional
	Strategy InstallRemediationStrategy `json:"strategy,omitempty"`
}

// UpgradeRemediationStrategy tells what happens to a failed upgrade before it is tried again.
// +kubebuilder:validation:Enum=Retry;Rollback
type UpgradeRemediationStrategy string

const (
	// UpgradeRemediationRetry leaves what was upgraded in place; the next try completes it.
	UpgradeRemediationRetry UpgradeRemediationStrategy = "Retry"

	// UpgradeRemediationRollback returns to the last revision that worked after each failed try, the last included.
	UpgradeRemediationRollback UpgradeRemediationStrategy = "Rollback"
)

// UpgradeRemediation tells what follows a failed upgrade. Nothing here ever uninstalls a release.
type UpgradeRemediation struct {
	// retries is how often a failed upgrade is tried again, after 10s, 20s and so on up to 10m, before the release is
	// Stalled. Only tries that changed something in the cluster count. 0 is never, -1 is without end. Default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=1000
	Retries *int32 `json:"retries,omitempty"`

	// strategy tells what happens to a failed upgrade before it is tried again. With Rollback, an upgrade that does not
	// become healthy, or whose tests fail, has failed, too: that is what Helm calls atomic. Default: Retry.
	// +optional
	Strategy UpgradeRemediationStrategy `json:"strategy,omitempty"`
}

// ValuesPolicy tells what happens to the values of the revision before.
// +kubebuilder:validation:Enum=Reset;Reuse;ResetThenReuse
type ValuesPolicy string

const (
	// ValuesPolicyReset uses the wanted values and nothing else.
	ValuesPolicyReset ValuesPolicy = "Reset"

	// ValuesPolicyReuse lays the wanted values over all values of the revision before, its chart's defaults included.
	ValuesPolicyReuse ValuesPolicy = "Reuse"

	// ValuesPolicyResetThenReuse lays the wanted values over those that were given to the revision before, and these over
	// the defaults of the new chart.
	ValuesPolicyResetThenReuse ValuesPolicy = "ResetThenReuse"
)

// UpgradeOptions are the options of an upgrade.
type UpgradeOptions struct {
	// timeout bounds the upgrade, its hooks included. It does not wait for pods to become ready. Default: 5m.
	// A change of it alone makes no new revision.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// disableHooks leaves out the chart's upgrade hooks. Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// force deletes objects whose immutable fields would have to change, and creates them anew: use it with care. Only objects
	// of these built-in kinds are deleted: ConfigMap, Secret, Service, ReplicationController, DaemonSet, Deployment,
	// ReplicaSet, StatefulSet, Job, RuntimeClass, IngressClass, PodDisruptionBudget, ClusterRoleBinding, RoleBinding,
	// PriorityClass and StorageClass. Not deleted are a StatefulSet whose persistentVolumeClaimRetentionPolicy.whenDeleted is
	// Delete in the cluster, objects with the annotation helm.sh/resource-policy: keep, and those of another release: where
	// such an object, or one of any other kind, would have to be made anew, the action fails. Default: false.
	// +optional
	Force *bool `json:"force,omitempty"`

	// cleanupOnFail deletes the objects that a failed upgrade created. Default: false.
	// +optional
	CleanupOnFail *bool `json:"cleanupOnFail,omitempty"`

	// maxHistory is the number of revisions of the release that are kept in the workload cluster. 0 is no limit.
	// With remediation by a rollback, the last revision that was healthy is kept beyond it. Default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxHistory *int32 `json:"maxHistory,omitempty"`

	// valuesPolicy tells what happens to the values of the revision before. Anything but Reset makes the outcome depend on
	// what a cluster had before; it helps to adopt a release that was made by hand. Default: Reset.
	// +optional
	ValuesPolicy ValuesPolicy `json:"valuesPolicy,omitempty"`

	// crds tells what happens to the chart's folder crds, and to the CustomResourceDefinitions of an artifact that is no
	// chart. Default: Create for Helm charts; CreateReplace for other artifacts if neither install.crds nor upgrade.crds is
	// set.
	// +optional
	CRDs CRDPolicy `json:"crds,omitempty"`

	// disableOpenAPIValidation leaves out the validation of the rendered objects by Helm. Clusters since Kubernetes
	// 1.25 validate by themselves: there it changes nothing. Default: false.
	// +optional
	DisableOpenAPIValidation *bool `json:"disableOpenAPIValidation,omitempty"`

	// disableSchemaValidation leaves out the comparison of the values with the chart's values.schema.json. Default: false.
	// +optional
	DisableSchemaValidation *bool `json:"disableSchemaValidation,omitempty"`

	// remediation tells what follows a failed upgrade. Without it, the defaults of its fields apply. A change of it alone
	// makes no new revision.
	// +optional
	Remediation *UpgradeRemediation `json:"remediation,omitempty"`
}

// RollbackOptions are the options of the return to an earlier revision.
type RollbackOptions struct {
	// timeout bounds the rollback, its hooks included. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// disableHooks leaves out the chart's rollback hooks. Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// force deletes objects whose immutable fields would have to change, and creates them anew: use it with care. Only objects
	// of these built-in kinds are deleted: ConfigMap, Secret, Service, ReplicationController, DaemonSet, Deployment,
	// ReplicaSet, StatefulSet, Job, RuntimeClass, IngressClass, PodDisruptionBudget, ClusterRoleBinding, RoleBinding,
	// PriorityClass and StorageClass. Not deleted are a StatefulSet whose persistentVolumeClaimRetentionPolicy.whenDeleted is
	// Delete in the cluster, objects with the annotation helm.sh/resource-policy: keep, and those of another release: where
	// such an object, or one of any other kind, would have to be made anew, the action fails. Default: false.
	// +optional
	Force *bool `json:"force,omitempty"`

	// cleanupOnFail deletes the objects that a failed rollback created. Default: false.
	// +optional
	CleanupOnFail *bool `json:"cleanupOnFail,omitempty"`
}

// DeletionPropagation tells what happens to the dependents of objects that are deleted.
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

	// deletionPropagation tells what happens to the dependents of the release's objects, for example the pods of a
	// Deployment. Default: Background.
	// +optional
	DeletionPropagation DeletionPropagation `json:"deletionPropagation,omitempty"`
}

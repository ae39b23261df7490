// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ReleaseOptions are the options for the installation, upgrade, rollback,
// tests, health and uninstallation of a release.
type ReleaseOptions struct {
	// reconcileStrategy sets whether HelmOp manages a release continuously, or
	// only until the release is installed. Default: Continuous.
	// - Continuous: HelmOp keeps the release in its desired state.
	// - InstallOnce: HelmOp installs the release once in each Cluster, until the
	//   release is Ready. After that, HelmOp does not upgrade, monitor, correct or
	//   roll back the release, and the release keeps its name and namespace. If a
	//   Cluster is re-created, HelmOp installs the release again. deletionPolicy
	//   applies as with Continuous.
	// +optional
	ReconcileStrategy ReconcileStrategy `json:"reconcileStrategy,omitempty"`

	// install contains the options of the first installation in a Cluster.
	// Default: the defaults of its fields.
	// +optional
	Install *InstallOptions `json:"install,omitempty"`

	// upgrade contains the options of all changes after the first installation.
	// Default: the defaults of its fields.
	// +optional
	Upgrade *UpgradeOptions `json:"upgrade,omitempty"`

	// rollback contains the options of a rollback, see upgrade.remediation. If you
	// change only rollback, HelmOp does not upgrade releases. Default: the
	// defaults of its fields.
	// +optional
	Rollback *RollbackOptions `json:"rollback,omitempty"`

	// uninstall contains the options of an uninstallation. HelmOp reads these
	// options when it uninstalls a release. If you change only uninstall, HelmOp
	// does not upgrade releases. Default: the defaults of its fields.
	// +optional
	Uninstall *UninstallOptions `json:"uninstall,omitempty"`

	// test runs the tests of the chart after each installation and upgrade.
	// Default: HelmOp does not run the tests.
	// +optional
	Test *TestOptions `json:"test,omitempty"`

	// health sets when a release is healthy. Default: the defaults of its fields.
	// +optional
	Health *HealthOptions `json:"health,omitempty"`

	// driftDetection sets how HelmOp compares the release with the objects in the
	// workload cluster. Default: HelmOp does not compare them.
	// +optional
	DriftDetection *DriftDetectionOptions `json:"driftDetection,omitempty"`

	// impersonateServiceAccountName is the name of a ServiceAccount in the
	// workload cluster, in the namespace of the release. HelmOp impersonates this
	// ServiceAccount for all requests to the workload cluster. The ServiceAccount
	// must exist. The ServiceAccount must have the right to read and write Secrets
	// in its namespace, because Helm stores its records in these Secrets. Default:
	// HelmOp uses the identity in the kubeconfig that Cluster API generates.
	//
	// In a HelmOpRelease for the management cluster, the ServiceAccount is in the
	// namespace of the HelmOpRelease, see spec.managementCluster of HelmOp.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ImpersonateServiceAccountName string `json:"impersonateServiceAccountName,omitempty"`
}

// ReconcileStrategy sets how long HelmOp manages a release.
// +kubebuilder:validation:Enum=Continuous;InstallOnce
type ReconcileStrategy string

const (
	// ReconcileStrategyContinuous keeps a release in its desired state.
	ReconcileStrategyContinuous ReconcileStrategy = "Continuous"

	// ReconcileStrategyInstallOnce installs a release once and does not change it afterwards.
	ReconcileStrategyInstallOnce ReconcileStrategy = "InstallOnce"
)

// CRDPolicy sets what HelmOp does with the CustomResourceDefinitions in the
// crds folder of a chart.
// +kubebuilder:validation:Enum=Skip;Create;CreateReplace
type CRDPolicy string

const (
	// CRDPolicySkip does not install CustomResourceDefinitions.
	CRDPolicySkip CRDPolicy = "Skip"

	// CRDPolicyCreate creates CustomResourceDefinitions that do not exist. It does not change existing ones.
	CRDPolicyCreate CRDPolicy = "Create"

	// CRDPolicyCreateReplace creates CustomResourceDefinitions that do not exist, and replaces existing ones. HelmOp
	// never deletes a CustomResourceDefinition of the crds folder.
	CRDPolicyCreateReplace CRDPolicy = "CreateReplace"
)

// AdoptionPolicy sets how HelmOp adopts a release of another owner.
// +kubebuilder:validation:Enum=Upgrade;WhenUnchanged
type AdoptionPolicy string

const (
	// AdoptionPolicyUpgrade upgrades a release that differs from the desired state.
	AdoptionPolicyUpgrade AdoptionPolicy = "Upgrade"

	// AdoptionPolicyWhenUnchanged does not change a release that differs from the desired state.
	AdoptionPolicyWhenUnchanged AdoptionPolicy = "WhenUnchanged"
)

// ObjectMetadata contains labels and annotations.
type ObjectMetadata struct {
	// labels are the labels to set.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are the annotations to set.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// InstallOptions are the options of an installation.
type InstallOptions struct {
	// timeout is the longest time for the installation, with its hooks. For the
	// time until Pods are ready, see health.timeout. If you change only timeout,
	// HelmOp does not upgrade releases. Example: 10m. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h, for example 5m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// createNamespace creates the namespace of the release if the namespace does
	// not exist. HelmOp never deletes the namespace. Default: true, or false if
	// impersonateServiceAccountName is set.
	// +optional
	CreateNamespace *bool `json:"createNamespace,omitempty"`

	// namespaceMetadata sets labels and annotations on the namespace of the
	// release, for example labels for Pod Security. HelmOp sets these labels and
	// annotations at each installation and upgrade, also if another client created
	// the namespace. HelmOp does not change other labels and annotations of the
	// namespace.
	// +optional
	NamespaceMetadata *ObjectMetadata `json:"namespaceMetadata,omitempty"`

	// disableHooks skips the install hooks of the chart. Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// crds sets what HelmOp does with CustomResourceDefinitions at the
	// installation: the CustomResourceDefinitions in the crds folder of a chart,
	// or all CustomResourceDefinitions of an artifact that is not a chart.
	// - Skip: HelmOp does not install them.
	// - Create: HelmOp creates missing CustomResourceDefinitions and does not
	//   change existing ones.
	// - CreateReplace: HelmOp creates missing CustomResourceDefinitions and
	//   replaces existing ones.
	//
	// Default: Create. For an artifact that is not a chart, the default is
	// CreateReplace if you set neither install.crds nor upgrade.crds.
	// +optional
	CRDs CRDPolicy `json:"crds,omitempty"`

	// takeOwnership allows HelmOp to adopt a release, or objects, that have
	// another owner or no owner. The existing release must have the same name.
	// Existing objects must have the same names as objects of the chart. With
	// false, HelmOp does not change the existing release and objects, and the new
	// release fails with the reason ReleaseConflict. The waves and limits of
	// spec.rollout apply to the adoption of releases. Default: false.
	// +optional
	TakeOwnership *bool `json:"takeOwnership,omitempty"`

	// adoption sets how takeOwnership adopts a release of another owner. If
	// nothing would change in the existing release, HelmOp always adopts it
	// without a new Helm revision. If something would change:
	// - Upgrade: HelmOp adopts and upgrades the release.
	// - WhenUnchanged: HelmOp does not change the release. The message of the
	//   reason AdoptionWouldChange lists the differences. HelmOp adopts the
	//   release when there are no differences any more.
	//
	// Default: Upgrade. If you change only adoption, HelmOp does not upgrade
	// releases.
	// +optional
	Adoption AdoptionPolicy `json:"adoption,omitempty"`

	// disableOpenAPIValidation skips Helm's validation of the rendered objects. It
	// has no effect in clusters with Kubernetes 1.25 or later, which validate the
	// objects themselves. Default: false.
	// +optional
	DisableOpenAPIValidation *bool `json:"disableOpenAPIValidation,omitempty"`

	// disableSchemaValidation skips the validation of the values with the
	// values.schema.json of the chart. Default: false.
	// +optional
	DisableSchemaValidation *bool `json:"disableSchemaValidation,omitempty"`

	// remediation sets what HelmOp does after a failed installation. If you change
	// only remediation, HelmOp does not upgrade releases. Default: the defaults of
	// its fields.
	// +optional
	Remediation *InstallRemediation `json:"remediation,omitempty"`
}

// InstallRemediationStrategy sets what HelmOp does after a failed
// installation, before it retries.
// +kubebuilder:validation:Enum=Retry;Uninstall
type InstallRemediationStrategy string

const (
	// InstallRemediationRetry keeps the installed objects. The next attempt installs the missing objects.
	InstallRemediationRetry InstallRemediationStrategy = "Retry"

	// InstallRemediationUninstall uninstalls the failed installation before the next attempt. After the last attempt,
	// HelmOp keeps the failed installation for inspection.
	InstallRemediationUninstall InstallRemediationStrategy = "Uninstall"
)

// InstallRemediation sets what HelmOp does after a failed installation.
type InstallRemediation struct {
	// retries is the number of retries after a failed installation. HelmOp waits
	// 10s before the first retry. For each further retry, HelmOp doubles the wait,
	// up to 10m. After the last retry, the release is Stalled. HelmOp counts only
	// attempts that changed something in the cluster. With 0, HelmOp does not
	// retry. With -1, HelmOp retries without a limit. Default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=1000
	Retries *int32 `json:"retries,omitempty"`

	// strategy sets what HelmOp does after a failed installation, before it
	// retries. Default: Retry.
	// - Retry: HelmOp keeps the installed objects. The next attempt installs the
	//   missing objects.
	// - Uninstall: HelmOp uninstalls the failed installation first. After the last
	//   attempt, HelmOp keeps the failed installation for inspection.
	// +optional
	Strategy InstallRemediationStrategy `json:"strategy,omitempty"`
}

// UpgradeRemediationStrategy sets what HelmOp does after a failed upgrade,
// before it retries.
// +kubebuilder:validation:Enum=Retry;Rollback
type UpgradeRemediationStrategy string

const (
	// UpgradeRemediationRetry keeps the upgraded objects. The next attempt upgrades the other objects.
	UpgradeRemediationRetry UpgradeRemediationStrategy = "Retry"

	// UpgradeRemediationRollback rolls back to the last known good Helm revision after each failed attempt, also after
	// the last attempt.
	UpgradeRemediationRollback UpgradeRemediationStrategy = "Rollback"
)

// UpgradeRemediation sets what HelmOp does after a failed upgrade. HelmOp
// never uninstalls a release because of a failed upgrade.
type UpgradeRemediation struct {
	// retries is the number of retries after a failed upgrade. HelmOp waits 10s
	// before the first retry. For each further retry, HelmOp doubles the wait, up
	// to 10m. After the last retry, the release is Stalled. HelmOp counts only
	// attempts that changed something in the cluster. With 0, HelmOp does not
	// retry. With -1, HelmOp retries without a limit. Default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=1000
	Retries *int32 `json:"retries,omitempty"`

	// strategy sets what HelmOp does after a failed upgrade, before it retries.
	// Default: Retry.
	// - Retry: HelmOp keeps the upgraded objects. The next attempt upgrades the
	//   other objects.
	// - Rollback: HelmOp rolls back to the last known good Helm revision after
	//   each failed attempt, as "helm upgrade --atomic" does. With Rollback, an
	//   upgrade also fails if the release does not become healthy or its tests
	//   fail.
	// +optional
	Strategy UpgradeRemediationStrategy `json:"strategy,omitempty"`
}

// ValuesPolicy sets what HelmOp does with the values of the previous Helm
// revision.
// +kubebuilder:validation:Enum=Reset;Reuse;ResetThenReuse
type ValuesPolicy string

const (
	// ValuesPolicyReset uses only the desired values.
	ValuesPolicyReset ValuesPolicy = "Reset"

	// ValuesPolicyReuse merges the desired values over all values of the previous Helm revision, also over the defaults
	// of its chart.
	ValuesPolicyReuse ValuesPolicy = "Reuse"

	// ValuesPolicyResetThenReuse merges the desired values over the user-supplied values of the previous Helm revision,
	// and the result over the defaults of the new chart.
	ValuesPolicyResetThenReuse ValuesPolicy = "ResetThenReuse"
)

// UpgradeOptions are the options of an upgrade.
type UpgradeOptions struct {
	// timeout is the longest time for the upgrade, with its hooks. For the time
	// until Pods are ready, see health.timeout. If you change only timeout, HelmOp
	// does not upgrade releases. Example: 10m. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h, for example 5m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// disableHooks skips the upgrade hooks of the chart. Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// force deletes and re-creates an object if the upgrade changes an immutable
	// field of the object. Use force with care: for a short time, the object does
	// not exist. Default: false.
	//
	// HelmOp deletes only objects of these kinds: ConfigMap, Secret, Service,
	// ReplicationController, DaemonSet, Deployment, ReplicaSet, StatefulSet, Job,
	// RuntimeClass, IngressClass, PodDisruptionBudget, ClusterRoleBinding,
	// RoleBinding, PriorityClass and StorageClass.
	//
	// HelmOp never deletes:
	// - a StatefulSet that has persistentVolumeClaimRetentionPolicy.whenDeleted:
	//   Delete in the cluster.
	// - an object with the annotation helm.sh/resource-policy: keep.
	// - an object of another release.
	//
	// If the upgrade must re-create an object that HelmOp does not delete, the
	// upgrade fails.
	// +optional
	Force *bool `json:"force,omitempty"`

	// cleanupOnFail deletes the objects that a failed upgrade created. Default:
	// false.
	// +optional
	CleanupOnFail *bool `json:"cleanupOnFail,omitempty"`

	// maxHistory is the number of Helm revisions that HelmOp keeps. With 0, HelmOp
	// keeps all Helm revisions. With the remediation strategy Rollback, HelmOp
	// also keeps the last known good Helm revision. Default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxHistory *int32 `json:"maxHistory,omitempty"`

	// valuesPolicy sets what HelmOp does with the values of the previous Helm
	// revision. Default: Reset.
	// - Reset: HelmOp uses only the desired values.
	// - Reuse: HelmOp merges the desired values over all values of the previous
	//   Helm revision. These include the defaults of the previous chart.
	// - ResetThenReuse: HelmOp merges the desired values over the user-supplied
	//   values of the previous Helm revision. HelmOp merges the result over the
	//   defaults of the new chart.
	//
	// Use Reuse or ResetThenReuse to adopt a release that was installed by hand.
	// With them, the values depend on the history of the release in each Cluster.
	// +optional
	ValuesPolicy ValuesPolicy `json:"valuesPolicy,omitempty"`

	// crds sets what HelmOp does with CustomResourceDefinitions at each upgrade:
	// the CustomResourceDefinitions in the crds folder of a chart, or all
	// CustomResourceDefinitions of an artifact that is not a chart.
	// - Skip: HelmOp does not install them.
	// - Create: HelmOp creates missing CustomResourceDefinitions and does not
	//   change existing ones.
	// - CreateReplace: HelmOp creates missing CustomResourceDefinitions and
	//   replaces existing ones.
	//
	// Default: Create. For an artifact that is not a chart, the default is
	// CreateReplace if you set neither install.crds nor upgrade.crds.
	// +optional
	CRDs CRDPolicy `json:"crds,omitempty"`

	// disableOpenAPIValidation skips Helm's validation of the rendered objects. It
	// has no effect in clusters with Kubernetes 1.25 or later, which validate the
	// objects themselves. Default: false.
	// +optional
	DisableOpenAPIValidation *bool `json:"disableOpenAPIValidation,omitempty"`

	// disableSchemaValidation skips the validation of the values with the
	// values.schema.json of the chart. Default: false.
	// +optional
	DisableSchemaValidation *bool `json:"disableSchemaValidation,omitempty"`

	// remediation sets what HelmOp does after a failed upgrade. If you change only
	// remediation, HelmOp does not upgrade releases. Default: the defaults of its
	// fields.
	// +optional
	Remediation *UpgradeRemediation `json:"remediation,omitempty"`
}

// RollbackOptions are the options of a rollback.
type RollbackOptions struct {
	// timeout is the longest time for the rollback, with its hooks. Example: 10m.
	// Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h, for example 5m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// disableHooks skips the rollback hooks of the chart. Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// force deletes and re-creates an object if the rollback changes an immutable
	// field of the object. The kinds, exceptions and risks are the same as for
	// upgrade.force. Default: false.
	// +optional
	Force *bool `json:"force,omitempty"`

	// cleanupOnFail deletes the objects that a failed rollback created. Default:
	// false.
	// +optional
	CleanupOnFail *bool `json:"cleanupOnFail,omitempty"`
}

// DeletionPropagation sets what happens to the dependents of deleted objects.
// +kubebuilder:validation:Enum=Background;Foreground;Orphan
type DeletionPropagation string

const (
	// DeletionPropagationBackground deletes the dependents after the object.
	DeletionPropagationBackground DeletionPropagation = "Background"

	// DeletionPropagationForeground deletes the dependents before the object.
	DeletionPropagationForeground DeletionPropagation = "Foreground"

	// DeletionPropagationOrphan does not delete the dependents.
	DeletionPropagationOrphan DeletionPropagation = "Orphan"
)

// UninstallOptions are the options of an uninstallation.
type UninstallOptions struct {
	// timeout is the longest time for the uninstallation, with its hooks. Example:
	// 10m. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h, for example 5m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// disableHooks skips the delete hooks of the chart. Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// keepHistory keeps Helm's records of the release after the uninstallation,
	// with the status uninstalled. Default: false.
	// +optional
	KeepHistory *bool `json:"keepHistory,omitempty"`

	// deletionPropagation sets what happens to the dependents of the deleted
	// objects, for example to the Pods of a Deployment. Default: Background.
	// - Background: the dependents are deleted after the object.
	// - Foreground: the dependents are deleted before the object.
	// - Orphan: the dependents stay.
	// +optional
	DeletionPropagation DeletionPropagation `json:"deletionPropagation,omitempty"`
}

/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// HelmOpFinalizer lets a HelmOp end its releases before it goes.
	HelmOpFinalizer = "addons.cluster.x-k8s.io/helmop"

	// HelmOpReleaseFinalizer lets a HelmOpRelease uninstall its release before it goes.
	HelmOpReleaseFinalizer = "addons.cluster.x-k8s.io/helmoprelease"

	// ResolveRequestedAtAnnotation on a HelmOp asks to resolve its source now, whenever its value changes. Any value will
	// do, a time is customary.
	ResolveRequestedAtAnnotation = "addons.cluster.x-k8s.io/resolve-requested-at"

	// RetryRequestedAtAnnotation on a HelmOp, or on one of its HelmOpReleases, asks to try failed and stalled releases again
	// now, with a fresh budget, whenever its value changes. Any value will do, a time is customary.
	RetryRequestedAtAnnotation = "addons.cluster.x-k8s.io/retry-requested-at"

	// DriftDetectionAnnotation with the value "Disabled", on an object in a workload cluster or on the object in its chart,
	// leaves that object out of drift detection.
	DriftDetectionAnnotation = "addons.cluster.x-k8s.io/drift-detection"

	// HelmOpNameLabel is set on a HelmOpRelease and names the HelmOp that it belongs to. A name of more than
	// 63 characters is shortened and ends with a hash.
	HelmOpNameLabel = "addons.cluster.x-k8s.io/helmop-name"
)

// SecretReference names a Secret in the namespace of the object that refers to it.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// DeletionPolicy tells what happens to a release that HelmOp no longer wants.
// +kubebuilder:validation:Enum=Uninstall;Orphan
type DeletionPolicy string

const (
	// DeletionPolicyUninstall uninstalls the release.
	DeletionPolicyUninstall DeletionPolicy = "Uninstall"

	// DeletionPolicyOrphan leaves the release in the workload cluster as it is.
	DeletionPolicyOrphan DeletionPolicy = "Orphan"
)

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

	// serviceAccountName is a ServiceAccount of the workload cluster, in the namespace of the release, under whose rights
	// everything is done there. It must exist, and may read and write Secrets in that namespace, where Helm keeps its
	// records. Default: the rights of the kubeconfig that Cluster API generated.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
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
	// Default: true; false with serviceAccountName.
	// +optional
	CreateNamespace *bool `json:"createNamespace,omitempty"`

	// namespaceMetadata are labels and annotations for the namespace of the release, for example for pod security. They are
	// set with every installation and upgrade, whoever created the namespace; others on it are left alone.
	// +optional
	NamespaceMetadata *ObjectMetadata `json:"namespaceMetadata,omitempty"`

	// disableHooks leaves out the chart's install hooks. Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// crds tells what happens to the chart's folder crds. Default: Create.
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
	// Default: 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxHistory *int32 `json:"maxHistory,omitempty"`

	// valuesPolicy tells what happens to the values of the revision before. Anything but Reset makes the outcome depend on
	// what a cluster had before; it helps to adopt a release that was made by hand. Default: Reset.
	// +optional
	ValuesPolicy ValuesPolicy `json:"valuesPolicy,omitempty"`

	// crds tells what happens to the chart's folder crds. Default: Create.
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

// TestOptions are the options of the chart's tests, as of "helm test".
type TestOptions struct {
	// enabled runs the tests. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// timeout bounds all tests together. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// ignoreFailures lets a release whose tests fail be Ready, and remediates nothing. Default: false.
	// +optional
	IgnoreFailures *bool `json:"ignoreFailures,omitempty"`

	// filters choose the tests. Without any, all run.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Filters []TestFilter `json:"filters,omitempty"`
}

// TestFilter chooses a test, or leaves one out.
type TestFilter struct {
	// name of the test's object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// exclude leaves the test out. Default: false.
	// +optional
	Exclude bool `json:"exclude,omitempty"`
}

// HealthMode tells whether the health of a release is followed.
// +kubebuilder:validation:Enum=Enabled;Disabled
type HealthMode string

const (
	// HealthModeEnabled follows the health of a release as long as it lives; Ready needs it.
	HealthModeEnabled HealthMode = "Enabled"

	// HealthModeDisabled does not; a release is Ready as soon as it is installed.
	HealthModeDisabled HealthMode = "Disabled"
)

// HealthOptions tell what a healthy release is: one whose objects all exist and have become what they are to be, by the
// rules of kstatus for the kinds of Kubernetes and for those that have the usual conditions, and by checks for others.
type HealthOptions struct {
	// mode tells whether the health of a release is followed. Default: Enabled.
	// +optional
	Mode HealthMode `json:"mode,omitempty"`

	// timeout is how long a release may take to become healthy, after each installation and upgrade, and how long one that
	// was healthy may be in progress, for example because nodes come and go, before it counts as unhealthy. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('24h')",message="timeout must be more than 0s and at most 24h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// failFast calls a release unhealthy as soon as an object has failed for good, for example a Job, without waiting for
	// the timeout. Default: true.
	// +optional
	FailFast *bool `json:"failFast,omitempty"`

	// checks tell what healthy means for kinds for which the usual rules do not hold.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Checks []HealthCheck `json:"checks,omitempty"`
}

// HealthCheck tells by CEL expressions what healthy means for a kind. Each sees the object as self, for example
// "has(self.status) && self.status.phase == 'Running'". They are tried in the order inProgress, failed, current; the
// first that is true counts, and none is in progress.
type HealthCheck struct {
	// apiVersion of the kind, for example operator.example.com/v1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`

	// kind of the objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// inProgress is true while an object is on its way.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	InProgress string `json:"inProgress,omitempty"`

	// failed is true if an object has failed for good.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Failed string `json:"failed,omitempty"`

	// current is true if an object is healthy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Current string `json:"current"`
}

// DriftMode tells what happens when what is in a cluster differs from what the release installed.
// +kubebuilder:validation:Enum=Disabled;Warn;Correct
type DriftMode string

const (
	// DriftModeDisabled compares nothing.
	DriftModeDisabled DriftMode = "Disabled"

	// DriftModeWarn says what differs.
	DriftModeWarn DriftMode = "Warn"

	// DriftModeCorrect says what differs and puts it right.
	DriftModeCorrect DriftMode = "Correct"
)

// DriftDetectionOptions tell how a release is compared with what is in the cluster. What a chart does not set is nobody's
// drift: a field that others add is left alone.
type DriftDetectionOptions struct {
	// mode tells what happens when something differs. Default: Disabled.
	// +optional
	Mode DriftMode `json:"mode,omitempty"`

	// interval is how often the whole release is compared, as a safety net: changes are noticed when they happen.
	// Default: 1h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="interval must be at least 1m and at most 168h"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// ignore leaves fields, or whole objects, out of the comparison.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Ignore []DriftIgnoreRule `json:"ignore,omitempty"`
}

// DriftIgnoreRule leaves fields of objects out of the comparison.
type DriftIgnoreRule struct {
	// paths are JSON pointers (RFC 6901) of fields, for example /spec/replicas. The empty string is the whole object.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	Paths []string `json:"paths"`

	// target chooses the objects. Without it, the rule is for all.
	// +optional
	Target *ObjectSelector `json:"target,omitempty"`
}

// ObjectSelector chooses objects of a release. What is not set chooses all; what is set must all match.
type ObjectSelector struct {
	// group is a regular expression for the whole API group; the core group is empty and cannot be asked for.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`

	// version is a regular expression for the whole version.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Version string `json:"version,omitempty"`

	// kind is a regular expression for the whole kind.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind,omitempty"`

	// name is a regular expression for the whole name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// namespace is a regular expression for the whole namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`

	// labelSelector is a label selector, as of kubectl.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LabelSelector string `json:"labelSelector,omitempty"`

	// annotationSelector is the same for annotations.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	AnnotationSelector string `json:"annotationSelector,omitempty"`
}

// PostRender changes what the chart rendered before it is installed; hooks and the folder crds are not changed. Every
// string in it is a template over the Cluster, as in values.
type PostRender struct {
	// patches are applied in their order, as those of kustomize. One that matches no object is an error.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Patches []Patch `json:"patches,omitempty"`

	// images replace names, tags and digests of the images of containers and initContainers, as those of kustomize. One that
	// no object has is no error.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Images []ImageOverride `json:"images,omitempty"`

	// commonMetadata are labels and annotations for all objects. Selectors are not changed.
	// +optional
	CommonMetadata *ObjectMetadata `json:"commonMetadata,omitempty"`
}

// Patch changes objects.
type Patch struct {
	// patch is a strategic merge patch or a JSON patch (RFC 6902), as YAML or JSON.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Patch string `json:"patch"`

	// target chooses the objects. Without it, the patch must name its object, by apiVersion, kind and metadata.name.
	// +optional
	Target *ObjectSelector `json:"target,omitempty"`
}

// ImageOverride replaces parts of an image's reference.
type ImageOverride struct {
	// name is the image as the chart names it, without tag and digest.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`

	// newName replaces the name.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	NewName string `json:"newName,omitempty"`

	// newTag replaces the tag.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	NewTag string `json:"newTag,omitempty"`

	// digest replaces tag and digest.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Digest string `json:"digest,omitempty"`
}

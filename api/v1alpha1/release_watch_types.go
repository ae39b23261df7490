// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TestMode is whether the chart's tests run.
// +kubebuilder:validation:Enum=Enabled;Disabled
type TestMode string

const (
	// TestModeEnabled runs the tests after each installation and upgrade; Ready needs their success.
	TestModeEnabled TestMode = "Enabled"

	// TestModeDisabled runs no tests.
	TestModeDisabled TestMode = "Disabled"
)

// TestOptions are the options of the chart's tests, as of "helm test".
type TestOptions struct {
	// mode is Enabled to run the tests after each installation and upgrade: when the release is healthy, after the health
	// timeout, or at once with health.mode Disabled. Default: Disabled.
	// +optional
	Mode TestMode `json:"mode,omitempty"`

	// timeout bounds all tests together. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// ignoreFailures: failed tests neither make the release not Ready nor start remediation. Default: false.
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

// HealthMode is whether the health of a release is monitored.
// +kubebuilder:validation:Enum=Enabled;Disabled
type HealthMode string

const (
	// HealthModeEnabled monitors the health of a release as long as it exists; Ready needs it.
	HealthModeEnabled HealthMode = "Enabled"

	// HealthModeDisabled does not monitor it; a release is Ready as soon as it is installed.
	HealthModeDisabled HealthMode = "Disabled"
)

// HealthOptions are when a release counts as healthy: all its objects exist and are current by the rules of kstatus,
// for the kinds of Kubernetes and for kinds with the usual conditions, or by checks, for other kinds.
type HealthOptions struct {
	// mode is Enabled to monitor the health of a release. Default: Enabled.
	// +optional
	Mode HealthMode `json:"mode,omitempty"`

	// timeout is how long a release may take to become healthy after each installation and upgrade. It is also how long
	// a healthy release may be in progress, for example while nodes are replaced, before it counts as unhealthy.
	// Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('24h')",message="timeout must be more than 0s and at most 24h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// failFast reports a release as unhealthy as soon as an object has failed permanently, for example a Job, without
	// waiting for the timeout. Default: true.
	// +optional
	FailFast *bool `json:"failFast,omitempty"`

	// checks are the health rules of kinds for which the usual rules do not apply.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Checks []HealthCheck `json:"checks,omitempty"`
}

// HealthCheck is the health rule of a kind, as CEL expressions. In each, self is the object, for example
// "has(self.status) && self.status.phase == 'Running'". They are evaluated in the order inProgress, failed, current;
// the first that is true decides. If none is true, the object is in progress.
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

	// inProgress is true while the object is changing.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	InProgress string `json:"inProgress,omitempty"`

	// failed is true if the object has failed permanently.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Failed string `json:"failed,omitempty"`

	// current is true if the object is healthy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Current string `json:"current"`
}

// DriftMode is what happens when objects in a cluster differ from the release.
// +kubebuilder:validation:Enum=Disabled;Warn;Correct
type DriftMode string

const (
	// DriftModeDisabled compares nothing.
	DriftModeDisabled DriftMode = "Disabled"

	// DriftModeWarn reports the differences.
	DriftModeWarn DriftMode = "Warn"

	// DriftModeCorrect reports the differences and corrects them.
	DriftModeCorrect DriftMode = "Correct"
)

// DriftDetectionOptions are how a release is compared with the objects in the cluster. Fields that the chart does not
// set are not compared.
type DriftDetectionOptions struct {
	// mode is what happens when objects differ: Disabled, Warn or Correct. Default: Disabled.
	// +optional
	Mode DriftMode `json:"mode,omitempty"`

	// interval is how often all objects of the release are compared, as a safety net: changes are noticed by watches.
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

	// kind is a regular expression that must match the whole kind of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind,omitempty"`

	// name is a regular expression that must match the whole name of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// namespace is a regular expression that must match the whole namespace of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`

	// labelSelector selects objects by labels, in the syntax of kubectl, for example "app=web,tier!=cache".
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LabelSelector string `json:"labelSelector,omitempty"`

	// annotationSelector selects objects by annotations, in the syntax of labelSelector.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	AnnotationSelector string `json:"annotationSelector,omitempty"`
}

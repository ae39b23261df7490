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

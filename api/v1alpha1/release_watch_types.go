// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// TestMode sets whether HelmOp runs the tests of the chart.
// +kubebuilder:validation:Enum=Enabled;Disabled
type TestMode string

const (
	// TestModeEnabled runs the tests after each installation and upgrade. The release is Ready only if they succeed.
	TestModeEnabled TestMode = "Enabled"

	// TestModeDisabled runs no tests.
	TestModeDisabled TestMode = "Disabled"
)

// TestOptions are the options for the tests of the chart, which "helm test"
// also runs.
type TestOptions struct {
	// mode sets whether HelmOp runs the tests. Default: Disabled.
	// - Enabled: HelmOp runs the tests after each installation and upgrade. HelmOp
	//   first waits until the release is healthy, or until health.timeout has
	//   passed. With health.mode Disabled, HelmOp does not wait.
	// - Disabled: HelmOp does not run the tests.
	// +optional
	Mode TestMode `json:"mode,omitempty"`

	// timeout is the longest time for all tests of the chart together. Example:
	// 10m. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h, for example 5m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// ignoreFailures sets that failed tests have no effect: the release can be
	// Ready, and HelmOp does not start remediation. Default: false.
	// +optional
	IgnoreFailures *bool `json:"ignoreFailures,omitempty"`

	// filters select the tests to run. If a filter without exclude is in the list,
	// HelmOp runs only the tests that such filters name. Otherwise HelmOp runs all
	// tests except those with exclude. Default: HelmOp runs all tests.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Filters []TestFilter `json:"filters,omitempty"`
}

// TestFilter selects or excludes one test by its name.
type TestFilter struct {
	// name of the object that runs the test, usually a Pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// exclude is true if HelmOp must not run the test. Default: false.
	// +optional
	Exclude bool `json:"exclude,omitempty"`
}

// HealthMode sets whether HelmOp monitors the health of a release.
// +kubebuilder:validation:Enum=Enabled;Disabled
type HealthMode string

const (
	// HealthModeEnabled monitors the health of a release while the release exists. The release is Ready only if it is
	// healthy.
	HealthModeEnabled HealthMode = "Enabled"

	// HealthModeDisabled does not monitor the health. A release is Ready as soon as it is installed.
	HealthModeDisabled HealthMode = "Disabled"
)

// HealthOptions set when a release is healthy. A release is healthy if all its
// objects exist and are healthy. HelmOp uses the rules of kstatus for the
// kinds of Kubernetes and for kinds with the usual conditions. For other
// kinds, add rules in checks.
type HealthOptions struct {
	// mode sets whether HelmOp monitors the health of a release. Default: Enabled.
	// - Enabled: the release is Ready only if it is healthy.
	// - Disabled: the release is Ready as soon as it is installed.
	// +optional
	Mode HealthMode `json:"mode,omitempty"`

	// timeout is the longest time until a release is healthy after an installation
	// or upgrade. A healthy release may be in progress again for the same time,
	// for example while nodes are replaced. After this time, the release is
	// unhealthy. Example: 10m. Default: 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('24h')",message="timeout must be more than 0s and at most 24h, for example 5m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// failFast reports a release as unhealthy as soon as an object has failed
	// permanently, for example a failed Job. With false, HelmOp waits until
	// timeout. Default: true.
	// +optional
	FailFast *bool `json:"failFast,omitempty"`

	// checks are health rules for kinds that the rules of kstatus do not cover.
	// Default: no additional rules.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Checks []HealthCheck `json:"checks,omitempty"`
}

// HealthCheck is the health rule for one kind. The rule has up to three CEL
// expressions. In each expression, "self" is the object. HelmOp evaluates the
// expressions in this order: inProgress, failed, current. The first expression
// that is true sets the result. If no expression is true, the object is in
// progress.
type HealthCheck struct {
	// apiVersion of the objects, for example operator.example.com/v1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`

	// kind of the objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// inProgress is a CEL expression that is true while the object is changing.
	// Example: "has(self.status) && self.status.phase == 'Pending'".
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	InProgress string `json:"inProgress,omitempty"`

	// failed is a CEL expression that is true if the object has failed
	// permanently. Example: "has(self.status) && self.status.phase == 'Failed'".
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Failed string `json:"failed,omitempty"`

	// current is a CEL expression that is true if the object is healthy. Example:
	// "has(self.status) && self.status.phase == 'Running'".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Current string `json:"current"`
}

// DriftMode sets what HelmOp does when objects in a cluster differ from the
// release.
// +kubebuilder:validation:Enum=Disabled;Warn;Correct
type DriftMode string

const (
	// DriftModeDisabled does not compare objects.
	DriftModeDisabled DriftMode = "Disabled"

	// DriftModeWarn reports the differences.
	DriftModeWarn DriftMode = "Warn"

	// DriftModeCorrect reports the differences and corrects them.
	DriftModeCorrect DriftMode = "Correct"
)

// DriftDetectionOptions set how HelmOp compares a release with the objects in
// the cluster. HelmOp compares only fields that the chart sets.
type DriftDetectionOptions struct {
	// mode sets what HelmOp does when objects differ from the release. Default:
	// Disabled.
	// - Disabled: HelmOp does not compare objects.
	// - Warn: HelmOp reports the differences.
	// - Correct: HelmOp reports and corrects the differences.
	// +optional
	Mode DriftMode `json:"mode,omitempty"`

	// interval is the time between two comparisons of all objects of the release.
	// HelmOp also watches the objects. When an object changes, HelmOp compares
	// this object at once. Example: 30m. Default: 1h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="interval must be at least 1m and at most 168h, for example 1h"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// ignore lists fields, or whole objects, that HelmOp does not compare with the
	// release.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Ignore []DriftIgnoreRule `json:"ignore,omitempty"`
}

// DriftIgnoreRule excludes fields of objects from the comparison.
type DriftIgnoreRule struct {
	// paths are the fields to exclude, as JSON pointers (RFC 6901). Example:
	// "/spec/replicas". The empty string excludes the whole object.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	Paths []string `json:"paths"`

	// target selects the objects of the rule. Default: all objects of the release.
	// +optional
	Target *ObjectSelector `json:"target,omitempty"`
}

// ObjectSelector selects objects of a release. An object must match all fields
// that are set. Without any field, the selector selects all objects.
type ObjectSelector struct {
	// group is a regular expression that must match the whole API group of the
	// object. Example: "apps". The core group cannot be selected, because its name
	// is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`

	// version is a regular expression that must match the whole API version of the
	// object, without the group. Example: "v1".
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Version string `json:"version,omitempty"`

	// kind is a regular expression that must match the whole kind of the object.
	// Example: "Deployment|StatefulSet".
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind,omitempty"`

	// name is a regular expression that must match the whole name of the object.
	// Example: "cilium-.*".
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// namespace is a regular expression that must match the whole namespace of the
	// object. Example: "kube-system".
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`

	// labelSelector selects objects by their labels, in the syntax of "kubectl get
	// --selector". Example: "app=web,tier!=cache".
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LabelSelector string `json:"labelSelector,omitempty"`

	// annotationSelector selects objects by their annotations, in the same syntax
	// as labelSelector.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	AnnotationSelector string `json:"annotationSelector,omitempty"`
}

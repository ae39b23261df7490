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

// ReleaseOptions tell how Helm installs, upgrades and uninstalls a release.
type ReleaseOptions struct {
	// install are the options of the first installation in a cluster. Without it, the defaults of its fields apply.
	// +optional
	Install *InstallOptions `json:"install,omitempty"`

	// upgrade are the options of every later change of a release. Without it, the defaults of its fields apply.
	// +optional
	Upgrade *UpgradeOptions `json:"upgrade,omitempty"`

	// uninstall are the options of the removal of a release. Without it, the defaults of its fields apply.
	// They are read when a release is uninstalled: a change of them alone makes no new revision.
	// +optional
	Uninstall *UninstallOptions `json:"uninstall,omitempty"`
}

// InstallOptions are the options of an installation.
type InstallOptions struct {
	// timeout bounds the installation, its hooks included. It does not wait for pods to become ready. Default: 5m.
	// A change of it alone makes no new revision.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('1h')",message="timeout must be more than 0s and at most 1h"
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// createNamespace creates the namespace of the release if it does not exist. It is never deleted. Default: true.
	// +optional
	CreateNamespace *bool `json:"createNamespace,omitempty"`

	// disableHooks leaves out the chart's install hooks. Default: false.
	// +optional
	DisableHooks *bool `json:"disableHooks,omitempty"`

	// skipCRDs leaves out the chart's crds folder. Helm installs what is in it with the first installation only.
	// Default: false.
	// +optional
	SkipCRDs *bool `json:"skipCRDs,omitempty"`

	// takeOwnership adopts a release of the same name, or objects of the chart, that exist already and belong to
	// nobody or to somebody else. Without it they are left alone and reported as a conflict. Default: false.
	// +optional
	TakeOwnership *bool `json:"takeOwnership,omitempty"`

	// disableOpenAPIValidation leaves out the validation of the rendered objects by Helm. Clusters since Kubernetes
	// 1.25 validate by themselves: there it changes nothing. Default: false.
	// +optional
	DisableOpenAPIValidation *bool `json:"disableOpenAPIValidation,omitempty"`
}

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

	// force replaces objects that cannot be patched. Objects are deleted and created anew: use it with care.
	// Default: false.
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

	// disableOpenAPIValidation leaves out the validation of the rendered objects by Helm. Clusters since Kubernetes
	// 1.25 validate by themselves: there it changes nothing. Default: false.
	// +optional
	DisableOpenAPIValidation *bool `json:"disableOpenAPIValidation,omitempty"`
}

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
}

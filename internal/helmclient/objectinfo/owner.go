// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectinfo

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kblabels "k8s.io/apimachinery/pkg/labels"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// ReleaseName identifies a release within a cluster. The zero value is for actions without a release.
type ReleaseName struct{ Name, Namespace string }

// String returns the release as namespace/name.
func (r ReleaseName) String() string { return r.Namespace + "/" + r.Name }

// Owns reports whether annotations name this release.
func (r ReleaseName) Owns(annotations map[string]string) bool {
	return r.Name != "" && annotations[inventory.HelmReleaseName] == r.Name &&
		annotations[inventory.HelmReleaseNamespace] == r.Namespace
}

// Other returns the other release that annotations name; empty if they name this release or none.
func (r ReleaseName) Other(annotations map[string]string) string {
	name := cmp.Or(annotations[inventory.HelmReleaseName], r.Name)
	namespace := cmp.Or(annotations[inventory.HelmReleaseNamespace], r.Namespace)
	if r.Name == "" || name == r.Name && namespace == r.Namespace {
		return ""
	}
	return namespace + "/" + name
}

// Mark sets the labels and annotations with which Helm marks the objects of this release.
func (r ReleaseName) Mark(object metav1.Object) {
	object.SetLabels(kblabels.Merge(object.GetLabels(),
		kblabels.Set{inventory.ManagedByLabel: inventory.ManagedByHelm}))
	object.SetAnnotations(kblabels.Merge(object.GetAnnotations(),
		kblabels.Set{inventory.HelmReleaseName: r.Name, inventory.HelmReleaseNamespace: r.Namespace}))
}

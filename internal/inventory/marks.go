// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Helm sets this label and these annotations on the objects of a release.
const (
	// ManagedByLabel is a label of Kubernetes. Helm sets it to ManagedByHelm.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedByHelm  = "Helm"
	// HelmReleaseName and HelmReleaseNamespace are annotations that name the release.
	HelmReleaseName      = "meta.helm.sh/release-name"
	HelmReleaseNamespace = "meta.helm.sh/release-namespace"
	// helmResourcePolicy is an annotation that says whether Helm deletes the object.
	helmResourcePolicy = "helm.sh/resource-policy"
	keepPolicy         = "keep"
)

// DeletedWith returns the Helm release with which an object will be deleted, as namespace/name. It reads the
// annotations of the object. It is empty if the annotations name no release, or if a resource policy protects the
// object.
func DeletedWith(obj metav1.Object) string {
	annotations := obj.GetAnnotations()
	name, namespace := annotations[HelmReleaseName], annotations[HelmReleaseNamespace]
	if name == "" || namespace == "" || IsKept(annotations) {
		return ""
	}
	return namespace + "/" + name
}

// IsKept reports whether the annotations of an object have the keep policy, so that Helm does not delete the object. As
// in Helm's uninstallation, case and spaces around the policy do not matter.
func IsKept(annotations map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(annotations[helmResourcePolicy]), keepPolicy)
}

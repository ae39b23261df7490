// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import "k8s.io/apimachinery/pkg/runtime/schema"

// kindsWithoutHealth are the kinds whose objects are healthy if they exist: no controller reports progress in their
// status.
var kindsWithoutHealth = map[schema.GroupKind]struct{}{
	{Kind: "ConfigMap"}:      {},
	{Kind: "Endpoints"}:      {},
	{Kind: "Event"}:          {},
	{Kind: "LimitRange"}:     {},
	{Kind: "Namespace"}:      {},
	{Kind: "PodTemplate"}:    {},
	{Kind: "ResourceQuota"}:  {},
	{Kind: "Secret"}:         {},
	{Kind: "ServiceAccount"}: {},

	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}:          {},
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicyBinding"}:   {},
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:     {},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:        {},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: {},
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:   {},
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:                 {},
	{Group: "apps", Kind: "ControllerRevision"}:                                       {},
	{Group: "batch", Kind: "CronJob"}:                                                 {},
	{Group: "coordination.k8s.io", Kind: "Lease"}:                                     {},
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:                                {},
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"}:                       {},
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"}:       {},
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                                {},
	{Group: "networking.k8s.io", Kind: "IPAddress"}:                                   {},
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:                               {},
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:                                      {},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                         {},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:                  {},
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:                                {},
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:                         {},
	{Group: "resource.k8s.io", Kind: "DeviceClass"}:                                   {},
	{Group: "resource.k8s.io", Kind: "ResourceClaimTemplate"}:                         {},
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                               {},
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:                                      {},
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                                   {},
	{Group: "storage.k8s.io", Kind: "VolumeAttributesClass"}:                          {},
}

// HasHealth reports whether an existing object of a kind can be unhealthy. It is false for data and rules, such as
// ConfigMaps and RBAC. It is true for kinds with a controller, and for all unknown kinds. The version does not matter.
func HasHealth(gvk schema.GroupVersionKind) bool {
	_, found := kindsWithoutHealth[gvk.GroupKind()]
	return !found
}

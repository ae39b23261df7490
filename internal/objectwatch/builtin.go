// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtIn has the built-in kinds that all supported versions of Kubernetes serve. HelmOp watches them without
// discovery: after a start of the manager, discovery would need three requests and one more connection to each cluster.
// If a cluster does not serve such a resource, discovery decides, as for any other resource that is not served.
var builtIn = builtInKinds()

func builtInKinds() map[schema.GroupVersionKind]resource {
	kinds := map[schema.GroupVersionKind]resource{}
	for version, names := range map[schema.GroupVersion]struct{ namespaced, global string }{
		{Version: "v1"}: {
			namespaced: "ConfigMap Endpoints LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController " +
				"ResourceQuota Secret Service ServiceAccount",
			global: "Namespace PersistentVolume",
		},
		{Group: "apps", Version: "v1"}:                      {namespaced: "DaemonSet Deployment ReplicaSet StatefulSet"},
		{Group: "autoscaling", Version: "v2"}:               {namespaced: "HorizontalPodAutoscaler"},
		{Group: "batch", Version: "v1"}:                     {namespaced: "CronJob Job"},
		{Group: "networking.k8s.io", Version: "v1"}:         {namespaced: "Ingress NetworkPolicy", global: "IngressClass"},
		{Group: "policy", Version: "v1"}:                    {namespaced: "PodDisruptionBudget"},
		{Group: "rbac.authorization.k8s.io", Version: "v1"}: {"Role RoleBinding", "ClusterRole ClusterRoleBinding"},
		{Group: "storage.k8s.io", Version: "v1"}:            {global: "CSIDriver StorageClass"},
		{Group: "scheduling.k8s.io", Version: "v1"}:         {global: "PriorityClass"},
		{Group: "apiextensions.k8s.io", Version: "v1"}:      {global: "CustomResourceDefinition"},
		{Group: "apiregistration.k8s.io", Version: "v1"}:    {global: "APIService"},
		{Group: "admissionregistration.k8s.io", Version: "v1"}: {
			global: "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
		},
	} {
		for names, namespaced := range map[string]bool{names.namespaced: true, names.global: false} {
			for kind := range strings.FieldsSeq(names) {
				kinds[version.WithKind(kind)] = resource{
					GroupVersionResource: version.WithResource(plural(kind)), namespaced: namespaced,
				}
			}
		}
	}
	return kinds
}

// plural returns the resource of a built-in kind.
func plural(kind string) string {
	switch name := strings.ToLower(kind); {
	case kind == "Endpoints":
		return name
	case strings.HasSuffix(name, "s"):
		return name + "es"
	case strings.HasSuffix(name, "y"):
		return strings.TrimSuffix(name, "y") + "ies"
	default:
		return name + "s"
	}
}

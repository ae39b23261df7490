// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"slices"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/leftovers"
)

// rollbackBaselines returns the objects that a rollback compares target with. Helm compares with the objects of the
// newest revision, in original, and does not search for other objects that exist. For such an object, it would use the
// object in the cluster as the baseline, and so remove all fields that target does not have, for example the replicas
// that an autoscaler has set. So rollbackBaselines adds a baseline without fields for each object that original does
// not have.
func rollbackBaselines(original, target kube.ResourceList) kube.ResourceList {
	baselines := slices.Clone(original)
	for _, info := range target.Difference(original) {
		baseline, empty := *info, &unstructured.Unstructured{Object: map[string]any{}}
		empty.SetGroupVersionKind(info.Mapping.GroupVersionKind)
		baseline.Object = empty
		baselines.Append(&baseline)
	}
	return baselines
}

// refuseOthers returns an error if the action would take over an object of another release without a check by Helm. In
// an upgrade, Helm checks all objects that are not in original. In a rollback, it checks none. If original is a failed
// revision, for example an earlier try of a rollback, the object may belong to another release although original has
// it. So refuseOthers also checks the objects that an earlier revision does not have.
func (k *Client) refuseOthers(left leftovers.Objects, original, target kube.ResourceList) error {
	if !k.RefusesOthers || !k.Restores && !left.HasBaseline {
		return nil
	}
	return k.refuseUnowned(target.Filter(func(info *resource.Info) bool {
		return k.Restores && !original.Contains(info) || left.Lacks(info)
	}), true)
}

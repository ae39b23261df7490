// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"slices"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

// rollbackBaselines returns the objects that a rollback compares target with. Helm compares with the objects of the
// newest revision, in original, and does not search for other objects that exist. For such an object, it would use the
// object in the cluster as the baseline, and so remove all fields that target does not have, for example the replicas
// that an autoscaler has set. So rollbackBaselines adds a baseline without fields for each object that original does
// not have.
//
// If the rollback must not take over objects, rollbackBaselines returns an error if such an object belongs to another
// release. The newest revision may be an earlier try of this rollback, so it also checks the objects that another
// revision after the target does not have.
func (k *Client) rollbackBaselines(left leftObjects, original, target kube.ResourceList) (kube.ResourceList, error) {
	if k.RefusesOthers {
		isNew := func(info *resource.Info) bool {
			return !original.Contains(info) || slices.ContainsFunc(left.revisions, func(revision leftRevision) bool {
				return !revision.objects.Contains(info)
			})
		}
		if err := k.refuseUnowned(target.Filter(isNew), true); err != nil {
			return nil, err
		}
	}
	baselines := slices.Clone(original)
	for _, info := range target.Difference(original) {
		baseline, empty := *info, &unstructured.Unstructured{Object: map[string]any{}}
		empty.SetGroupVersionKind(info.Mapping.GroupVersionKind)
		baseline.Object = empty
		baselines.Append(&baseline)
	}
	return baselines, nil
}

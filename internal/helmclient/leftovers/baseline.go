// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
)

// Differs reports whether one of the revisions may have set fields of an object, see [Objects.Baselines].
func (o Objects) Differs(owner objectinfo.ReleaseName, info, known *resource.Info) bool {
	return slices.ContainsFunc(o.revisions, func(revision revision) bool {
		return revision.differs(owner, info, known)
	})
}

// Baselines returns the objects that an update of info is compared with, one for each revision that may have set fields
// of the object, newest first. An update from such a baseline removes the fields that only the revision has set. known
// is the object that Helm itself compares with; nil if there is none. live is the content of the object in the cluster.
func (o Objects) Baselines(owner objectinfo.ReleaseName, info, known *resource.Info,
	live map[string]any,
) []*resource.Info {
	var baselines []*resource.Info
	for _, revision := range o.revisions {
		if revision.differs(owner, info, known) {
			baselines = append(baselines, revision.appliedTo(info, live))
		}
	}
	return baselines
}

// differs reports whether a revision may have set fields of an object of the next manifest that Helm does not compare.
// known is the object that Helm compares with; nil if there is none.
func (r revision) differs(owner objectinfo.ReleaseName, info, known *resource.Info) bool {
	failed := r.objects.Get(info)
	if failed == nil || known != nil && reflect.DeepEqual(failed.Object, known.Object) {
		return false
	}
	marked, ok := failed.Object.DeepCopyObject().(*unstructured.Unstructured)
	if !ok {
		return false
	}
	owner.Mark(marked)
	return !reflect.DeepEqual(marked, info.Object)
}

// appliedTo returns the object of a revision as the baseline of an update to info. live is the content of the object in
// the cluster. The baseline lacks fields that the update would remove although the revision did not set them, or
// although another client has changed them since then: an autoscaler may have set the replicas.
func (r revision) appliedTo(info *resource.Info, live map[string]any) *resource.Info {
	baseline := *r.objects.Get(info)
	failed, ok := baseline.Object.DeepCopyObject().(*unstructured.Unstructured)
	target, isSame := info.Object.(*unstructured.Unstructured)
	if ok && isSame {
		dropUnapplied(failed.Object, target.Object, live, false)
		baseline.Object = failed
	}
	return &baseline
}

// dropUnapplied removes the fields from failed that are not in target, and that have another value in live. It compares
// items of lists that have the same name, for example containers. With areAmounts, the fields are quantities.
func dropUnapplied(failed, target, live map[string]any, areAmounts bool) {
	for field, value := range failed {
		wanted, isWanted := target[field]
		if !isWanted {
			isApplied := objectinfo.ContainsField(field, value, live[field]) ||
				areAmounts && objectinfo.SameAmount(value, live[field])
			if !isApplied {
				delete(failed, field)
			}
			continue
		}
		fields, isMap := value.(map[string]any)
		wantedFields, areWanted := wanted.(map[string]any)
		if isMap && areWanted {
			liveFields, _ := live[field].(map[string]any)
			dropUnapplied(fields, wantedFields, liveFields, objectinfo.HasQuantities(field))
		}
		wantedItems, liveItems := itemsByName(wanted), itemsByName(live[field])
		for name, fields := range itemsByName(value) {
			if wantedItems[name] != nil {
				dropUnapplied(fields, wantedItems[name], liveItems[name], false)
			}
		}
	}
}

// itemsByName returns the items of a list that have a name.
func itemsByName(list any) map[string]map[string]any {
	items, _ := list.([]any)
	named := map[string]map[string]any{}
	for _, item := range items {
		fields, _ := item.(map[string]any)
		if name, _ := fields["name"].(string); name != "" {
			named[name] = fields
		}
	}
	return named
}

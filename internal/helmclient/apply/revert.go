// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"reflect"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
)

// revertFields removes the fields that failed revisions have set from the objects of target, and restores the values
// that they have changed. Helm compares an upgrade only with the deployed revision. So fields would stay that only a
// failed revision has, and in custom resources all values that are the same in the deployed revision and in target.
// Without such an object, revertFields sends no request.
func (k *Client) revertFields(left leftObjects, original, target kube.ResourceList) error {
	var errs []error
	for _, revision := range left.revisions {
		for _, isAdopted := range []bool{false, true} {
			update := k.Client.Update
			if isAdopted {
				// Helm compares with the object of target itself. So only the object in the cluster shows what changes.
				update = k.Client.UpdateThreeWayMerge
			}
			var before, after kube.ResourceList
			for _, info := range target {
				// If known is nil, the object did not exist a moment ago.
				known := original.Get(info)
				if known == nil || (known == info) != isAdopted || !revision.differs(k.Owner, info, known) {
					continue
				}
				live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
				if apierrors.IsNotFound(err) {
					continue
				}
				if err != nil {
					return fmt.Errorf("reading %s: %w", refOf(info), err)
				}
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
				if err != nil {
					return err
				}
				before.Append(revision.appliedTo(info, content))
				after.Append(info)
			}
			if len(after) == 0 {
				continue
			}
			_, err := k.updateAll(before, copyInfos(after), func(original, target kube.ResourceList) (*kube.Result, error) {
				return update(original, target, false)
			})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// differs reports whether a revision may have set fields of an object of the next manifest that Helm does not compare.
// known is the object that Helm compares with; nil if there is none.
func (l leftRevision) differs(owner ReleaseName, info, known *resource.Info) bool {
	failed := l.objects.Get(info)
	if failed == nil || known != nil && reflect.DeepEqual(failed.Object, known.Object) {
		return false
	}
	marked, ok := failed.Object.DeepCopyObject().(*unstructured.Unstructured)
	if !ok {
		return false
	}
	owner.mark(marked)
	return !reflect.DeepEqual(marked, info.Object)
}

// appliedTo returns the object of a revision as the baseline of an update to info. live is the content of the object in
// the cluster. The baseline lacks fields that the update would remove although the revision did not set them, or
// although another client has changed them since then: an autoscaler may have set the replicas.
func (l leftRevision) appliedTo(info *resource.Info, live map[string]any) *resource.Info {
	baseline := *l.objects.Get(info)
	failed, ok := baseline.Object.DeepCopyObject().(*unstructured.Unstructured)
	target, isSame := info.Object.(*unstructured.Unstructured)
	if ok && isSame {
		dropUnapplied(failed.Object, target.Object, live)
		baseline.Object = failed
	}
	return &baseline
}

// dropUnapplied removes the fields from failed that are not in target, and that have another value in live.
func dropUnapplied(failed, target, live map[string]any) {
	for field, value := range failed {
		wanted, isWanted := target[field]
		if !isWanted {
			if !contains(value, live[field]) {
				delete(failed, field)
			}
			continue
		}
		fields, isMap := value.(map[string]any)
		wantedFields, areWanted := wanted.(map[string]any)
		if isMap && areWanted {
			liveFields, _ := live[field].(map[string]any)
			dropUnapplied(fields, wantedFields, liveFields)
		}
	}
}

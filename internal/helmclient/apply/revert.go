// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
)

// revertFields removes the fields that failed revisions have set from the objects of target, and restores the values
// that they have changed. Helm compares an upgrade only with the deployed revision. So fields would stay that only a
// failed revision has, and in custom resources all values that are the same in the deployed revision and in target.
// Without such an object, revertFields sends no request. If the content of a failed revision itself prevents the
// revert, for example because a patch cannot be computed from it, the object is only updated as usual.
func (k *Client) revertFields(left leftObjects, original, target kube.ResourceList) error {
	var errs []error
	for _, info := range target {
		known := original.Get(info)
		// If known is nil, the object did not exist a moment ago.
		if known == nil || !left.differs(k.Owner, info, known) {
			continue
		}
		live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", objectinfo.RefOf(info), err)
		}
		reverts, err := k.revertsOf(left, info, known, live)
		if err != nil {
			return err
		}
		for _, revert := range reverts {
			_, err := k.updateAll(kube.ResourceList{revert.baseline}, objectinfo.Copies(kube.ResourceList{info}),
				func(original, target kube.ResourceList) (*kube.Result, error) {
					return revert.update(original, target, false)
				})
			if cannotRevert(err) {
				k.Log("not reverting the changes of a failed Helm revision in %s: %v", objectinfo.RefOf(info), err)
				continue
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// contentErrors matches the errors that the content of a failed revision causes: no patch can be computed from it, or
// the API server or a policy refuses the patch. Helm converts errors to text.
var contentErrors = regexp.MustCompile(errComparison.Error() + `|failed to create patch| is invalid: |` +
	helmerr.Denial)

// unread is a part of Helm's error for a patch that it cannot compute because it cannot read the object.
const unread = "unable to get data for current object"

// cannotRevert reports whether the content of a failed revision prevents its revert. With another error, for example
// because a webhook does not answer, a later action must try again: after a success, no action reverts the revision.
func cannotRevert(err error) bool {
	return err != nil && contentErrors.MatchString(err.Error()) && !strings.Contains(err.Error(), unread)
}

// revert is an update that reverts the changes of a failed revision in an object.
type revert struct {
	baseline *resource.Info
	update   func(original, target kube.ResourceList, force bool) (*kube.Result, error)
}

// revertsOf returns the updates that revert the changes of failed revisions in an object. known is the object that Helm
// compares with; it is nil or info itself if Helm adopts the object. live is the object in the cluster.
func (k *Client) revertsOf(left leftObjects, info, known *resource.Info, live runtime.Object) ([]revert, error) {
	object, err := meta.Accessor(live)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return nil, err
	}
	update := k.Client.Update
	isAdopted := known == nil || known == info
	if isAdopted && !left.hasMade(info, objectinfo.StateOf(meta.AsPartialObjectMetadata(object))) {
		// For a custom resource that a failed revision took over, Helm compared the object of this revision with itself.
		// So only the object in the cluster shows what changes.
		update = k.Client.UpdateThreeWayMerge
	}
	var found []revert
	for _, revision := range left.revisions {
		if revision.differs(k.Owner, info, known) {
			found = append(found, revert{revision.appliedTo(info, content), update})
		}
	}
	return found, nil
}

// differs reports whether one of the revisions may have set fields of an object, see [leftRevision].
func (l leftObjects) differs(owner objectinfo.ReleaseName, info, known *resource.Info) bool {
	return slices.ContainsFunc(l.revisions, func(revision leftRevision) bool {
		return revision.differs(owner, info, known)
	})
}

// differs reports whether a revision may have set fields of an object of the next manifest that Helm does not compare.
// known is the object that Helm compares with; nil if there is none.
func (l leftRevision) differs(owner objectinfo.ReleaseName, info, known *resource.Info) bool {
	failed := l.objects.Get(info)
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
func (l leftRevision) appliedTo(info *resource.Info, live map[string]any) *resource.Info {
	baseline := *l.objects.Get(info)
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

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/leftovers"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
)

// revertFields removes the fields that failed revisions have set from the objects of target, and restores the values
// that they have changed. Helm compares an upgrade only with the deployed revision. So fields would stay that only a
// failed revision has, and in custom resources all values that are the same in the deployed revision and in target.
// Without such an object, revertFields sends no request. If the content of a failed revision itself prevents the
// revert, for example because a patch cannot be computed from it, the object is only updated as usual.
func (k *Client) revertFields(left leftovers.Objects, original, target kube.ResourceList) error {
	var errs []error
	for _, info := range target {
		known := original.Get(info)
		// If known is nil, the object did not exist a moment ago.
		if known == nil || !left.Differs(k.Owner, info, known) {
			continue
		}
		live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", objectinfo.RefOf(info), err)
		}
		reverts, err := k.RevertsOf(left, info, known, live)
		if err != nil {
			return err
		}
		for _, revert := range reverts {
			_, err := k.updateAll(kube.ResourceList{revert.Baseline}, objectinfo.Copies(kube.ResourceList{info}),
				func(original, target kube.ResourceList) (*kube.Result, error) {
					return revert.Update(original, target, false)
				})
			if CannotRevert(err) {
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

// CannotRevert reports whether the content of a failed revision prevents its revert. With another error, for example
// because a webhook does not answer, a later action must try again: after a success, no action reverts the revision.
func CannotRevert(err error) bool {
	return err != nil && contentErrors.MatchString(err.Error()) && !strings.Contains(err.Error(), unread)
}

// Revert is an update that reverts the changes of a failed revision in an object.
type Revert struct {
	Baseline *resource.Info
	Update   func(original, target kube.ResourceList, force bool) (*kube.Result, error)
}

// RevertsOf returns the updates that revert the changes of failed revisions in an object. known is the object that Helm
// compares with; it is nil or info itself if Helm adopts the object. live is the object in the cluster.
func (k *Client) RevertsOf(left leftovers.Objects, info, known *resource.Info,
	live runtime.Object,
) ([]Revert, error) {
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
	if isAdopted && !left.HasMade(info, objectinfo.StateOf(meta.AsPartialObjectMetadata(object))) {
		// For a custom resource that a failed revision took over, Helm compared the object of this revision with itself.
		// So only the object in the cluster shows what changes.
		update = k.Client.UpdateThreeWayMerge
	}
	var found []Revert
	for _, baseline := range left.Baselines(k.Owner, info, known, content) {
		found = append(found, Revert{Baseline: baseline, Update: update})
	}
	return found, nil
}

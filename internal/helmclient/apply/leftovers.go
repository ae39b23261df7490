// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/kube"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/leftovers"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// TakeLeftovers builds the objects of Leftovers. It does this once per action.
func (k *Client) TakeLeftovers() (leftovers.Objects, error) {
	behind := k.Leftovers
	k.Leftovers = nil
	return leftovers.Build(behind, k.Build)
}

// Undesired returns the objects that an update deletes: the objects of original that are not in target, and the objects
// that failed revisions left behind. If original failed, it may only have taken over objects, so they stay.
func (k *Client) Undesired(left leftovers.Objects, original, target kube.ResourceList) (kube.ResourceList, error) {
	var undesired kube.ResourceList
	for _, info := range original.Difference(target) {
		if objectinfo.IsKeptByManifest(info) || k.InCRDFolder(objectinfo.RefOf(info)) {
			continue
		}
		if left.HasBaseline {
			observed, err := objectinfo.Read(k.Ctx, info)
			if err := helmerr.IgnoreNotFound(err); err != nil {
				return nil, uncheckedError(info, err)
			}
			if err == nil && !left.HasMade(info, observed) {
				k.Log("not deleting %s %q: a failed Helm revision only took it over", info.Mapping.GroupVersionKind.Kind,
					info.Name)
				continue
			}
		}
		undesired.Append(info)
	}
	behind, err := k.leftBehind(left, append(slices.Clone(target), original...))
	return append(undesired, behind...), err
}

// InCRDFolder reports whether an object is a CustomResourceDefinition that the chart may have in its folders crds. If a
// chart moves it there from its templates, it is no longer in the manifest, but its deletion would delete all its
// objects.
func (k *Client) InCRDFolder(ref inventory.Ref) bool {
	return ref.Group == apiextensions.GroupName && ref.Kind == "CustomResourceDefinition" && k.KeepsCRD != nil &&
		k.KeepsCRD(ref.Name)
}

// uncheckedError returns the error for an object whose owner could not be read.
func uncheckedError(info *resource.Info, err error) error {
	return fmt.Errorf("checking %s %q, which is no longer desired: %w", info.Mapping.GroupVersionKind.Kind, info.Name, err)
}

// leftBehind returns the existing objects of failed revisions that belong to the release and are not in known. It
// excludes an object if it has the keep policy in the cluster, or in the newest revision that contains the object.
func (k *Client) leftBehind(left leftovers.Objects, known kube.ResourceList) (kube.ResourceList, error) {
	var found kube.ResourceList
	for _, info := range left.Except(known) {
		if k.InCRDFolder(objectinfo.RefOf(info)) {
			continue
		}
		observed, err := k.mayDelete(info)
		if err != nil {
			return nil, uncheckedError(info, err)
		}
		isLeft := observed != nil && left.HasMade(info, observed)
		if isLeft {
			found.Append(info)
		}
	}
	return found, nil
}

// leftBehindBy does the same as leftBehind for the objects of Leftovers.
func (k *Client) leftBehindBy(known kube.ResourceList) (kube.ResourceList, error) {
	left, err := k.TakeLeftovers()
	if err != nil {
		return nil, err
	}
	return k.leftBehind(left, known)
}

// mayDelete returns the state of an object if it exists, belongs to the release and does not have the keep policy;
// otherwise nil. The revision may have failed before it created the object, and another user may have created an object
// of the same name.
func (k *Client) mayDelete(info *resource.Info) (*objectinfo.State, error) {
	if objectinfo.IsKeptByManifest(info) {
		return nil, nil
	}
	observed, err := objectinfo.Read(k.Ctx, info)
	if err != nil {
		return nil, helmerr.IgnoreNotFound(err)
	}
	if !k.Owner.Owns(observed.Annotations) || inventory.IsKept(observed.Annotations) {
		return nil, nil
	}
	return observed, nil
}

// HasSurvivors reports whether an installation that failed before it created an object of its manifest, for example
// because a hook failed, would take over an object of the release. Such an object survived an earlier installation. The
// namespace that this action has created does not count. The result is also true if this cannot be determined. After
// the installation has created or applied objects, the result is false: Found was called if there are such objects.
func (k *Client) HasSurvivors() bool {
	for _, info := range k.planned {
		if k.isMade != nil && k.isMade(info) {
			continue
		}
		if survives, err := k.mayDelete(info); survives != nil || err != nil {
			return true
		}
	}
	return false
}

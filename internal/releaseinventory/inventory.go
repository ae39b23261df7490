// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releaseinventory

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const (
	// MaxObjects is the largest number of objects of a release that are watched. The status contains their names, with
	// about 40 bytes each.
	MaxObjects = 2000
	// maxKinds is the largest number of kinds of these objects, as in the CustomResourceDefinition.
	maxKinds = 500
	// MaxText is the limit, in bytes, of the API version, the kind and the name of an object in the status.
	MaxText = 253
)

// IsOf reports whether the inventory in the status is complete and belongs to a Helm revision.
func IsOf(release *addonsv1.HelmOpRelease, revision int) bool {
	current := release.Status.Inventory
	return current != nil && current.Revision == int64(revision) && current.Selection == wholeSelection
}

// wholeSelection marks an inventory with all objects of a release. Earlier versions of HelmOp included only objects
// that have a health of their own.
const wholeSelection = "all"

// checkedKinds returns the kinds for which a release has health checks, in the form "<apiVersion> <kind>".
func checkedKinds(spec *addonsv1.HelmOpReleaseSpec) map[string]bool {
	kinds := map[string]bool{}
	if spec.Health != nil {
		for _, check := range spec.Health.Checks {
			kinds[check.APIVersion+" "+check.Kind] = true
		}
	}
	return kinds
}

// Of returns the objects of a Helm revision in the form of the status. If there are too many, objects that have a
// health of their own take precedence.
func Of(spec *addonsv1.HelmOpReleaseSpec, refs []inventory.Ref, revision int) *addonsv1.Inventory {
	result := &addonsv1.Inventory{Revision: int64(revision), Selection: wholeSelection}
	refs = slices.Clone(refs)
	inventory.Sort(refs)
	refs = slices.Compact(refs)
	// API servers refuse such objects, but a damaged record may contain them.
	if fit := slices.DeleteFunc(refs, isTooLong); len(fit) < len(refs) {
		refs, result.Truncated = fit, true
	}
	if len(refs) > MaxObjects {
		checked := checkedKinds(spec)
		slices.SortStableFunc(refs, func(a, b inventory.Ref) int { return healthRank(checked, a) - healthRank(checked, b) })
		refs, result.Truncated = refs[:MaxObjects], true
	}
	kinds := map[schema.GroupVersionKind]int{}
	for _, ref := range refs {
		i, ok := kinds[ref.GroupVersionKind()]
		if !ok && len(result.Kinds) == maxKinds {
			result.Truncated = true
			break
		}
		if !ok {
			i = len(result.Kinds)
			kinds[ref.GroupVersionKind()] = i
			result.Kinds = append(result.Kinds, addonsv1.InventoryKind{APIVersion: ref.APIVersion(), Kind: ref.Kind})
		}
		result.Kinds[i].Objects = append(result.Kinds[i].Objects, strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/"))
	}
	return result
}

// isTooLong reports whether the name or the kind of an object is too long for the status.
func isTooLong(ref inventory.Ref) bool {
	return max(len(ref.APIVersion()), len(ref.Kind), len(ref.Name)) > MaxText ||
		len(ref.Namespace) > validation.DNS1123LabelMaxLength
}

// healthRank returns a sort key. It is lower for objects that have a health of their own.
func healthRank(checked map[string]bool, ref inventory.Ref) int {
	if hasHealth(checked, ref) {
		return 0
	}
	return 1
}

// hasHealth reports whether an existing object can be unhealthy. checked are the kinds for which the release has health
// checks.
func hasHealth(checked map[string]bool, ref inventory.Ref) bool {
	return inventory.HasHealth(ref.GroupVersionKind()) || checked[ref.APIVersion()+" "+ref.Kind]
}

// Refs returns references to the objects of an inventory. It leaves out objects whose API version is not valid.
func Refs(objects *addonsv1.Inventory) []inventory.Ref {
	if objects == nil {
		return nil
	}
	var refs []inventory.Ref
	for _, kind := range objects.Kinds {
		gv, err := schema.ParseGroupVersion(kind.APIVersion)
		if err != nil {
			continue
		}
		for _, object := range kind.Objects {
			namespace, name, ok := strings.Cut(object, "/")
			if !ok {
				namespace, name = "", object
			}
			refs = append(refs, inventory.Ref{Group: gv.Group, Version: gv.Version, Kind: kind.Kind, Namespace: namespace,
				Name: name})
		}
	}
	return refs
}

// HealthRefs returns the objects in the inventory that have a health of their own.
func HealthRefs(release *addonsv1.HelmOpRelease) []inventory.Ref {
	var refs []inventory.Ref
	checked := checkedKinds(&release.Spec)
	for _, ref := range Refs(release.Status.Inventory) {
		if hasHealth(checked, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// OtherRefs returns the objects in the inventory that have no health of their own.
func OtherRefs(release *addonsv1.HelmOpRelease) []inventory.Ref {
	checked := checkedKinds(&release.Spec)
	return slices.DeleteFunc(Refs(release.Status.Inventory), func(ref inventory.Ref) bool {
		return hasHealth(checked, ref)
	})
}

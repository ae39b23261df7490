// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"slices"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// MaxBytes is how many bytes the revisions of a HelmOp have together that are kept beside those in use.
const MaxBytes = 4 << 20

// smallFields is what the other fields of a revision take, its metadata and status included. It is an estimate.
const smallFields = 4 << 10

// Bytes is about how much a revision takes in the API server. Fields that another revision holds do not count.
func Bytes(spec *addonsv1.HelmOpRevisionSpec) int {
	size := smallFields
	for _, p := range parts {
		if *p.from(&spec.ContentFrom) == 0 {
			size += p.size(&spec.HelmOp)
		}
	}
	return size
}

// Surplus returns the revisions that are to be deleted: the oldest, as long as there are more than a number of them, or
// all together have more bytes than maxBytes. Those in use, and those that hold fields of others that stay, are neither
// counted nor deleted; their bytes count. The oldest come first.
func Surplus(revisions []*addonsv1.HelmOpRevision, inUse map[int64]bool,
	keep, maxBytes int,
) []*addonsv1.HelmOpRevision {
	kept, size := slices.Clone(revisions), 0
	for _, revision := range kept {
		size += Bytes(&revision.Spec)
	}
	var surplus []*addonsv1.HelmOpRevision
	for {
		needed := neededOf(kept, inUse)
		free := 0
		for _, revision := range kept {
			if !needed[revision.Spec.Number] {
				free++
			}
		}
		if free == 0 || free <= keep && size <= maxBytes {
			return surplus
		}
		oldest := slices.IndexFunc(kept, func(r *addonsv1.HelmOpRevision) bool { return !needed[r.Spec.Number] })
		size -= Bytes(&kept[oldest].Spec)
		surplus = append(surplus, kept[oldest])
		kept = slices.Delete(kept, oldest, oldest+1)
	}
}

// neededOf are the revisions in use, and those that hold fields of others.
func neededOf(revisions []*addonsv1.HelmOpRevision, inUse map[int64]bool) map[int64]bool {
	needed := make(map[int64]bool, len(revisions))
	for _, revision := range revisions {
		if inUse[revision.Spec.Number] {
			needed[revision.Spec.Number] = true
		}
		for _, holder := range Holders(&revision.Spec) {
			needed[holder] = true
		}
	}
	return needed
}

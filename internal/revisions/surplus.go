// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"slices"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// MaxBytes is the limit of the total size of the revisions of a HelmOp, in bytes. Revisions in use are kept even beyond
// it.
const MaxBytes = 4 << 20

// smallFields is the estimated size, in bytes, of all other fields of a revision, including its metadata and status.
const smallFields = 4 << 10

// Bytes estimates the size of a revision in the API server. It does not count fields that another revision stores.
func Bytes(spec *addonsv1.HelmOpRevisionSpec) int {
	size := smallFields
	for _, p := range parts {
		if *p.from(&spec.ContentFrom) == 0 {
			size += p.size(&spec.HelmOp)
		}
	}
	return size
}

// Surplus returns the revisions that must be deleted, the oldest first. It returns the oldest revisions, until at most
// keep revisions with at most maxBytes bytes are left. It does not return revisions in use, and revisions that store
// fields for remaining revisions. They do not count for keep, but their bytes count for maxBytes.
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

// neededOf returns the numbers of the revisions that are in use or store fields for other revisions.
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

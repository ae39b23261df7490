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

// metadataBytes is the estimated size of the metadata of a revision, in bytes.
const metadataBytes = 2 << 10

// Bytes returns the size of a revision in the API server. It does not count fields that another revision stores. It
// counts all other fields, because most of them have no limit of their own, for example the selectors of overrides.
func Bytes(revision *addonsv1.HelmOpRevision) int {
	stored := revision.Spec
	for _, p := range parts {
		if *p.from(&stored.ContentFrom) != 0 {
			p.copy(&stored.HelmOp, &addonsv1.HelmOpSpec{})
		}
	}
	return metadataBytes + sizeOf(&stored) + sizeOf(&revision.Status)
}

// Surplus returns the revisions that must be deleted, the oldest first. It returns the oldest revisions, until at most
// keep revisions with at most maxBytes bytes are left. It does not return revisions in use, and revisions that store
// fields for remaining revisions. They do not count for keep, but their bytes count for maxBytes.
func Surplus(revisions []*addonsv1.HelmOpRevision, inUse map[int64]bool,
	keep, maxBytes int,
) []*addonsv1.HelmOpRevision {
	kept, size := slices.Clone(revisions), 0
	sizes := make(map[*addonsv1.HelmOpRevision]int, len(kept))
	for _, revision := range kept {
		sizes[revision] = Bytes(revision)
		size += sizes[revision]
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
		size -= sizes[kept[oldest]]
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

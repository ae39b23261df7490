// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"
	"sync"

	"helm.sh/helm/v3/pkg/release"
)

// Recorded holds the manifests of records that were read. It is safe for concurrent use.
type Recorded struct {
	mu sync.Mutex
	// revisions holds the revisions of each manifest.
	revisions map[string][]int
	// except is a revision whose manifest will be applied again; zero if there is none.
	except int
}

// Add adds the manifest of a record.
func (r *Recorded) Add(rls *release.Release) {
	if rls.Manifest == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revisions == nil {
		r.revisions = map[string][]int{}
	}
	if !slices.Contains(r.revisions[rls.Manifest], rls.Version) {
		r.revisions[rls.Manifest] = append(r.revisions[rls.Manifest], rls.Version)
	}
}

// Has reports whether a manifest was recorded and will not be applied again.
func (r *Recorded) Has(manifest string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	revisions := r.revisions[manifest]
	return len(revisions) > 0 && !slices.Contains(revisions, r.except)
}

// ApplyAgain notes that a rollback will apply the manifest of a revision again.
func (r *Recorded) ApplyAgain(revision int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.except = revision
}

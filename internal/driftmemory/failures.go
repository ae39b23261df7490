// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package driftmemory

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// Retry is when a comparison or correction that failed is tried again; the wait doubles up to maxDriftRetry. Once the
	// object changed, it is Retry again.
	Retry         = time.Minute
	maxDriftRetry = time.Hour

	// maxFailureCause bounds what is remembered of a failure: there may be one for each object.
	maxFailureCause = 512
)

// failures are the objects of a release with which something failed, and when that is tried again. The zero Ref stands
// for all of them: nothing could be compared at all.
type failures map[inventory.Ref]failure

// failure is what is known of the last tries with an object.
type failure struct {
	cause string
	at    time.Time
	// count is the number of tries that failed.
	count int
	// fingerprint is the object's at that time.
	fingerprint uint64
}

// Add remembers one more failure.
func (f failures) Add(ref inventory.Ref, fingerprint uint64, cause error, now time.Time) {
	text := truncate.Text(cause.Error(), maxFailureCause)
	f[ref] = failure{cause: text, at: now, count: f[ref].count + 1, fingerprint: fingerprint}
}

// wait is how long an object is still left alone; 0 if it is not.
func (f failures) wait(ref inventory.Ref, fingerprint uint64, now time.Time) time.Duration {
	known, ok := f[ref]
	if !ok {
		return 0
	}
	wait := backoff.Exponential(Retry, maxDriftRetry, known.count-1)
	if known.fingerprint != fingerprint {
		wait = Retry
	}
	return max(0, known.at.Add(wait).Sub(now))
}

// String tells a few of the causes.
func (f failures) String() string {
	refs := make([]inventory.Ref, 0, len(f))
	for ref := range f {
		refs = append(refs, ref)
	}
	inventory.Sort(refs)
	causes := make([]string, 0, apiutil.MaxNamedObjects)
	for _, ref := range refs[:min(len(refs), apiutil.MaxNamedObjects)] {
		if cause := f[ref].cause; !slices.Contains(causes, cause) {
			causes = append(causes, cause)
		}
	}
	list := strings.Join(causes, "; ")
	if more := len(refs) - apiutil.MaxNamedObjects; more > 0 {
		list += fmt.Sprintf("; and %d more objects", more)
	}
	return list
}

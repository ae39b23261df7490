// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package driftmemory

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// Retry is the delay before the next try after a failed comparison or correction. The delay doubles with each failure,
	// up to maxDriftRetry. After the object changed, the delay is Retry again. maxRetryOfAll is the longest delay if no
	// object could be compared: until then, no drift of the release is found.
	Retry         = time.Minute
	maxDriftRetry = time.Hour
	maxRetryOfAll = 5 * time.Minute

	// maxFailureCause is the limit, in bytes, of the error of one failure. Each object may have a failure.
	maxFailureCause = 512
)

// failures holds the failed comparisons or corrections of a release, by object. The zero Ref means that no object could
// be compared, because the manifest or the cluster could not be read.
type failures map[inventory.Ref]failure

// failure is the result of the last tries for an object.
type failure struct {
	cause string
	at    time.Time
	// count is the number of failed tries in a row; 0 if the manager was busy at the last try.
	count int
	// fingerprint is the fingerprint of the object at the last try.
	fingerprint uint64
}

// Add adds a failure of an object. If the manager is busy, the next try is due after requeue.BusyRetry.
func (f failures) Add(ref inventory.Ref, fingerprint uint64, cause error, now time.Time) {
	count := f[ref].count + 1
	if errors.Is(cause, helmerr.ErrBusy) {
		count = 0
	}
	text := truncate.Text(cause.Error(), maxFailureCause)
	f[ref] = failure{cause: text, at: now, count: count, fingerprint: fingerprint}
}

// wait returns the time until the next try for an object; 0 if the try is due or there was no failure.
func (f failures) wait(ref inventory.Ref, fingerprint uint64, now time.Time) time.Duration {
	last, ok := f[ref]
	if !ok {
		return 0
	}
	wait := backoff.Exponential(Retry, maxDriftRetry, last.count-1)
	switch {
	case last.count == 0:
		wait = requeue.BusyRetry
	case ref == (inventory.Ref{}):
		wait = min(wait, maxRetryOfAll)
	case last.fingerprint != fingerprint:
		wait = Retry
	}
	return max(0, last.at.Add(wait).Sub(now))
}

// String returns the errors of the first apiutil.MaxNamedObjects objects, each error once, and the number of the other
// objects.
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
		list += "; and " + plural.Count(more, "more object", "more objects")
	}
	return list
}

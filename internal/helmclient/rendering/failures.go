// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

const (
	// failureKept is how long the failure of a task is the result of the same task. A template may read the time or a
	// random number, so a later attempt can succeed.
	failureKept = time.Minute
	// maxFailures bounds the size of all kept failures, in bytes.
	maxFailures = 4 << 20
)

// failures keep the failures of tasks, so that the retries of a failing release run no task. They are safe for
// concurrent use.
type failures struct {
	kept *bytelru.Cache[failureKey, keptFailure]
	now  func() time.Time
}

// failureKey is a digest of all that a task depends on, except for lookups, the time and random numbers.
type failureKey [sha256.Size]byte

type keptFailure struct {
	*failure
	until time.Time
}

func newFailures() *failures {
	return &failures{kept: bytelru.New[failureKey, keptFailure](maxFailures), now: time.Now}
}

// failureKeyOf returns the key of a task. Tenants share no failures.
func failureKeyOf(work *sandbox.Request) failureKey {
	shared := ""
	if work.Shared != nil {
		shared = work.Shared.Key
	}
	digest := sha256.New()
	for _, part := range [][]byte{[]byte(work.Task), []byte(work.Tenant), []byte(shared), work.Input} {
		digest.Write(binary.AppendVarint(nil, int64(len(part))))
		digest.Write(part)
	}
	return failureKey(digest.Sum(nil))
}

// get returns the kept failure of a task; nil if there is none.
func (f *failures) get(key failureKey) *failure {
	known, ok := f.kept.Get(key)
	if ok && !f.now().Before(known.until) {
		f.kept.Remove(key)
		return nil
	}
	return known.failure
}

// keep keeps the failure of a task.
func (f *failures) keep(key failureKey, failed *failure) {
	f.kept.Put(key, keptFailure{failure: failed, until: f.now().Add(failureKept)}, int64(len(failed.Text)))
}

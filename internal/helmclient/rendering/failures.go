// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

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

// failures keep the failures of tasks, so that the retries of a failing release run no task. They also keep that values
// are valid, because charts check their values before their templates fail. Without space for another failure, the
// tenant with the most bytes loses its oldest failures. They are safe for concurrent use.
type failures struct {
	now func() time.Time

	mu      sync.Mutex
	tenants map[string]*tenantFailures
	bytes   int
}

// tenantFailures are the failures of one tenant.
type tenantFailures struct {
	// kept has the failures in the order in which they were added, which is also the order in which they expire.
	kept  *lru.LRU[failureKey, keptFailure]
	bytes int
}

// failureKey is a digest of all that a task depends on, except for lookups, the time and random numbers.
type failureKey [sha256.Size]byte

type keptFailure struct {
	// failure is nil if the values are valid.
	failure *failure
	until   time.Time
}

// bytes is about the memory that a failure needs.
func (f keptFailure) bytes() int {
	if f.failure == nil {
		return bytelru.Overhead
	}
	return len(f.failure.Text) + bytelru.Overhead
}

func newFailures() *failures {
	return &failures{now: time.Now, tenants: map[string]*tenantFailures{}}
}

// failureKeyOf returns the key of a task.
func failureKeyOf(work *sandbox.Request) failureKey {
	shared := ""
	if work.Shared != nil {
		shared = work.Shared.Key
	}
	digest := sha256.New()
	for _, part := range [][]byte{[]byte(work.Task), []byte(shared), work.Input} {
		digest.Write(binary.AppendVarint(nil, int64(len(part))))
		digest.Write(part)
	}
	return failureKey(digest.Sum(nil))
}

// get returns the kept failure of a task of a tenant. ok is false if there is none.
func (f *failures) get(tenant string, key failureKey) (failed *failure, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removeExpired()
	own := f.tenants[tenant]
	if own == nil {
		return nil, false
	}
	// Peek does not change the order.
	known, ok := own.kept.Peek(key)
	return known.failure, ok
}

// keep keeps the failure of a task of a tenant; nil if the task found that values are valid.
func (f *failures) keep(tenant string, key failureKey, failed *failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removeExpired()
	own := f.tenants[tenant]
	if own == nil {
		own = &tenantFailures{}
		// NewLRU fails only if the size is not positive.
		own.kept, _ = lru.NewLRU(math.MaxInt, func(_ failureKey, removed keptFailure) {
			own.bytes -= removed.bytes()
			f.bytes -= removed.bytes()
		})
		f.tenants[tenant] = own
	}
	own.kept.Remove(key)
	added := keptFailure{failure: failed, until: f.now().Add(failureKept)}
	own.kept.Add(key, added)
	own.bytes += added.bytes()
	f.bytes += added.bytes()
	for f.bytes > maxFailures {
		f.largest().kept.RemoveOldest()
	}
}

// removeExpired removes the failures that are too old, and the tenants without failures. Texts may quote values, so
// they do not stay in memory for much longer than they are used.
func (f *failures) removeExpired() {
	now := f.now()
	for tenant, own := range f.tenants {
		for {
			_, oldest, ok := own.kept.GetOldest()
			if !ok || now.Before(oldest.until) {
				break
			}
			own.kept.RemoveOldest()
		}
		if own.kept.Len() == 0 {
			delete(f.tenants, tenant)
		}
	}
}

// largest returns the tenant with the most bytes. There must be a tenant.
func (f *failures) largest() *tenantFailures {
	var most *tenantFailures
	for _, own := range f.tenants {
		if most == nil || own.bytes > most.bytes {
			most = own
		}
	}
	return most
}

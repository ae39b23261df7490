// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// usualOutcome returns the outcome for a Cluster, without references.
func usualOutcome(i int) (outcomeKey, outcome) {
	cluster := types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
	return outcomeKey{helmOp: "h", cluster: cluster, program: "p"}, outcome{
		Release:      addonsv1.ReleaseIdentity{Name: "metrics-server", Namespace: "kube-system"},
		ValuesDigest: strings.Repeat("d", 2*sha256.Size),
	}
}

// wantSum checks that the size of a cache is the size of its outcomes.
func (c *outcomes) wantSum(t *testing.T) {
	t.Helper()
	total := int64(0)
	for key, known := range c.kept {
		total += key.size() + known.size()
	}
	if c.bytes != total || total > c.limit {
		t.Errorf("%d bytes are counted, there are %d, and %d is the limit", c.bytes, total, c.limit)
	}
}

// TestCacheThatIsTooSmallHasHits checks that passes over all Clusters, always in the same order, find most outcomes in
// a cache for four fifths of them. A cache that drops the least recently used outcome would have none.
func TestCacheThatIsTooSmallHasHits(t *testing.T) {
	t.Parallel()
	const clusters, passes = 2000, 8
	key, usual := usualOutcome(0)
	c := newOutcomes((key.size() + usual.size()) * clusters * 4 / 5)
	hits := 0
	for pass := range passes {
		for i := range clusters {
			key, rendered := usualOutcome(i)
			switch {
			case c.get(key) == nil:
				c.put(key, [sha256.Size]byte{}, rendered)
			case pass > 0:
				hits++
			}
		}
	}
	if lookups := clusters * (passes - 1); hits < lookups/2 {
		t.Errorf("%d of %d lookups were hits", hits, lookups)
	}
	c.wantSum(t)
}

// TestNewOutcomesReplaceOld checks that the outcomes of a new HelmOp revision replace those of old revisions after
// several passes, in a cache with room for a revision and a half.
func TestNewOutcomesReplaceOld(t *testing.T) {
	t.Parallel()
	const clusters, revisions = 1000, 5
	key, usual := usualOutcome(0)
	c := newOutcomes((key.size() + usual.size()) * clusters * 3 / 2)
	for revision := range revisions {
		misses := 0
		for range 20 {
			misses = 0
			for i := range clusters {
				key, rendered := usualOutcome(i)
				key.program = fmt.Sprint(revision)
				if c.get(key) == nil {
					misses++
					c.put(key, [sha256.Size]byte{}, rendered)
				}
			}
		}
		if misses > clusters/100 {
			t.Errorf("revision %d has %d misses at the end", revision, misses)
		}
	}
	c.wantSum(t)
}

// TestOutcomesArePut checks replacements, an outcome that is larger than the limit, and concurrent use.
func TestOutcomesArePut(t *testing.T) {
	t.Parallel()
	key, usual := usualOutcome(0)
	c := newOutcomes(3 * (key.size() + usual.size()))
	c.put(key, [sha256.Size]byte{1}, usual)
	c.put(key, [sha256.Size]byte{2}, usual)
	if known := c.get(key); known == nil || known.version[0] != 2 || len(c.kept) != 1 {
		t.Errorf("got %+v of %d outcomes", known, len(c.kept))
	}
	c.wantSum(t)
	large := usual
	large.ValuesDigest = strings.Repeat("d", 2000)
	c.put(key, [sha256.Size]byte{3}, large)
	if c.get(key) != nil || c.bytes != 0 {
		t.Errorf("%d bytes of an outcome that is too large are kept", c.bytes)
	}
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 200 {
				key, rendered := usualOutcome((i + worker) % 7)
				if known := c.get(key); known != nil && known.version[0] != byte(len(key.cluster)) {
					t.Errorf("got version %v", known.version)
				}
				c.put(key, [sha256.Size]byte{byte(len(key.cluster))}, rendered)
			}
		})
	}
	group.Wait()
	c.wantSum(t)
	if len(c.kept) != 3 {
		t.Errorf("%d outcomes are kept, want 3", len(c.kept))
	}
}

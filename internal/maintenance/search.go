// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"crypto/sha256"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// maxSteps limits the search for a time that all limits permit. Each step skips a closed window or a freeze.
	maxSteps = 1000

	// unknownFor is how long HelmOp does not repeat a search that found no time.
	unknownFor = time.Hour
)

// found is the result of a search.
type found struct {
	// from and until are the start and the end of the time in which the result is valid.
	from, until time.Time

	// opens is the next time that all limits permit; zero if none was found.
	opens time.Time
}

// searches caches the results of searches, by the digests of the keys of the rules. A search over windows that never
// overlap takes milliseconds, and a pass over a HelmOp needs the result for each Cluster.
var searches, _ = lru.New[[sha256.Size]byte, found](1 << 12) // fails only if the size is not positive

// opening returns the next time that all limits permit; zero if none was found. The limits permit no change from now
// until the time until.
func (l Limits) opening(now, until time.Time) time.Time {
	keys := make([]string, 0, len(l.rules))
	for _, r := range l.rules {
		keys = append(keys, r.key)
	}
	key := sha256.Sum256([]byte(strings.Join(keys, "\n")))
	if known, ok := searches.Get(key); ok && !now.Before(known.from) && now.Before(known.until) {
		return known.opens
	}
	result := found{from: now, until: now.Add(unknownFor)}
	for range maxSteps {
		next := l.blocker(until)
		if next == nil {
			result.opens, result.until = until, until
			break
		}
		if until = next.until; until.IsZero() {
			break
		}
	}
	searches.Add(key, result)
	return result.opens
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeextension

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxClusters is the largest number of Clusters with clocks.
	maxClusters = 4096

	// unaskedLimit is the time after which a clock expires if no call has used it. Cluster API asks again after
	// retryAfterSeconds as long as it waits.
	unaskedLimit = time.Minute
)

// wait identifies a wait of a Cluster for a HelmOp or a release. about contains everything that distinguishes this wait
// from others, such as the version.
type wait struct{ about, who string }

// clock holds when a wait began, and when Cluster API last asked about it.
type clock struct{ since, asked time.Time }

// clocks hold when the waits of Clusters began, for waits that no annotation records. So there is a limit also for a
// wait that the controller of Clusters cannot record, for example because it cannot write the Cluster.
type clocks struct {
	mu       sync.Mutex
	clusters *lru.LRU[types.UID, map[wait]clock]
}

func newClocks() *clocks {
	// NewLRU fails only if the size is not positive.
	clusters, _ := lru.NewLRU[types.UID, map[wait]clock](maxClusters, nil)
	return &clocks{clusters: clusters}
}

// rest returns the remaining time of a wait. If the clock of the wait does not run yet, it starts now.
func (c *clocks) rest(cluster types.UID, key wait, timeout time.Duration, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	running, found := c.clusters.Get(cluster)
	if !found {
		running = map[wait]clock{}
		c.clusters.Add(cluster, running)
	}
	for one, known := range running {
		if now.Sub(known.asked) > unaskedLimit {
			delete(running, one)
		}
	}
	known, found := running[key]
	if !found {
		known.since = now
	}
	known.asked = now
	running[key] = known
	return timeout - now.Sub(known.since)
}

// stop stops the clocks of a wait that is recorded or over. If about is empty, it stops all waits of the Cluster.
func (c *clocks) stop(cluster types.UID, about, who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	running, _ := c.clusters.Peek(cluster)
	for key := range running {
		if about == "" || key == (wait{about, who}) {
			delete(running, key)
		}
	}
	if len(running) == 0 {
		c.clusters.Remove(cluster)
	}
}

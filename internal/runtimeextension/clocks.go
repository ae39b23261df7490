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
	// maxClusters bounds the Clusters with clocks.
	maxClusters = 4096

	// unaskedLimit is the time after which a clock expires that no call has read. Cluster API asks again after
	// retryAfterSeconds as long as it waits.
	unaskedLimit = time.Minute
)

// wait identifies a wait of a Cluster for a HelmOp or a release. about has all that makes it another wait, such as the
// version.
type wait struct{ about, who string }

// clock has since when a wait lasts, and when Cluster API asked about it last.
type clock struct{ since, asked time.Time }

// clocks have since when Clusters wait although no annotation says so. They bound a wait that the controller of
// Clusters cannot record, for example because it cannot write the Cluster.
type clocks struct {
	mu       sync.Mutex
	clusters *lru.LRU[types.UID, map[wait]clock]
}

func newClocks() *clocks {
	// It fails only if the size is not positive.
	clusters, _ := lru.NewLRU[types.UID, map[wait]clock](maxClusters, nil)
	return &clocks{clusters: clusters}
}

// rest returns the rest of a wait, whose clock starts now if it does not run.
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

// stop stops the clocks of a wait that is recorded or over. An empty about is each wait of the Cluster.
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

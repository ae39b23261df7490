// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordreads

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

const (
	// clusterKept is how long the list of all records of a Cluster counts. The time is short, because the list also
	// shows that the API server responds: an action in a Cluster that does not respond occupies a slot until its
	// timeout.
	clusterKept = 30 * time.Second

	// unlistedKept is how long ObserveNew does not try again to list all records of a Cluster if the last list failed or
	// was incomplete.
	unlistedKept = 2 * time.Minute
)

// clusterRead is the last list of all records of a Cluster. Reads drop it when it does not count any more.
type clusterRead struct {
	// began is when the list began.
	began time.Time
	// ended is true after the list.
	ended bool
	// namespaces has the namespaces with records; nil if the records could not be listed.
	namespaces map[string]bool
}

// isRunning reports whether the list has not ended. A list that never ends must not block the next one for long.
func (c *clusterRead) isRunning() bool {
	return c != nil && !c.ended && time.Since(c.began) < ObserveTimeout
}

// ObserveNew does the same as Observe for a release in a new Cluster. It reads the records by readAll, which also
// returns the namespaces of the Cluster that have records of any release; nil if they are not known. For some time, the
// result shows which other releases have no records, see [Reads.NoRecords]. During this time, and for a longer time
// after a list without a result, ObserveNew reads the records by read. Until readAll ends, ObserveNew begins no other
// read in the Cluster: the other releases are enqueued at its end, and then they may need no read.
func (s *Reads) ObserveNew(ctx context.Context, release ctrl.Request, cluster client.ObjectKey, key string,
	read func(context.Context) (model.Observation, error),
	readAll func(context.Context) (model.Observation, map[string]bool, error),
) (observation model.Observation, err error, done bool) {
	if s.isClusterKnown(cluster) {
		return s.Observe(ctx, release, cluster, key, read)
	}
	var own *clusterRead
	begin := func(cluster client.ObjectKey, release ctrl.Request, key string, isUnresponsive bool) (ok bool) {
		own, ok = s.beginAll(cluster, release, key, isUnresponsive)
		return ok
	}
	return s.observe(ctx, release, cluster, key, begin, func(ctx context.Context) (model.Observation, error) {
		var namespaces map[string]bool
		defer func() { s.endAll(cluster, own, namespaces) }()
		observation, found, err := readAll(ctx)
		if err == nil {
			namespaces = found
		}
		return observation, err
	})
}

// NoRecords returns a result without records for a release in a namespace of a Cluster, if the namespace had no records
// a moment ago, and nothing shows that the API server of the Cluster does not respond; otherwise nil. An installation
// may be based on the result: it checks that there are no records. So the result is from the time of the call.
func (s *Reads) NoRecords(cluster client.ObjectKey, namespace string) *Result {
	state := s.links.State(cluster)
	if state.Unresponsive || state.Failures > 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.clusters[cluster]
	if last == nil || last.namespaces == nil || last.namespaces[namespace] {
		return nil
	}
	return &Result{Observation: model.Observation{ReadAt: time.Now(), Assumed: true}, forAction: true}
}

func (s *Reads) isClusterKnown(cluster client.ObjectKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.clusters[cluster]
	return last != nil && last.ended
}

// beginAll reports whether a read of all records may begin. If not, the release is enqueued when a read of the Cluster
// ends.
func (s *Reads) beginAll(cluster client.ObjectKey, release ctrl.Request, key string, isUnresponsive bool,
) (own *clusterRead, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clusters[cluster].isRunning() {
		s.waitLocked(cluster, release, key)
		return nil, false
	}
	if !s.beginLocked(cluster, release, key, isUnresponsive) {
		return nil, false
	}
	own = &clusterRead{began: time.Now()}
	s.clusters[cluster] = own
	return own, true
}

// endAll stores the result of a read of all records, and drops it when it does not count any more. After a call of
// Forget, the result has no effect.
func (s *Reads) endAll(cluster client.ObjectKey, own *clusterRead, namespaces map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clusters[cluster] != own {
		return
	}
	own.ended, own.namespaces = true, namespaces
	kept := clusterKept
	if namespaces == nil {
		kept = unlistedKept
	}
	time.AfterFunc(time.Until(own.began.Add(kept)), func() { s.drop(cluster, own) })
}

func (s *Reads) drop(cluster client.ObjectKey, own *clusterRead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clusters[cluster] == own {
		delete(s.clusters, cluster)
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordreads

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

const (
	// ObserveTimeout is the timeout of one read.
	ObserveTimeout = 10 * time.Second

	// resultKept is the maximum age of a result that is used.
	resultKept = 30 * time.Second

	// maxReadsWhenUnresponsive is the maximum number of concurrent reads of an unresponsive cluster. It equals the
	// number of action slots of a cluster, because the cluster may only be slow.
	maxReadsWhenUnresponsive = slots.DefaultPerCluster
)

// Links decide which Clusters are unresponsive. The package reports the results of reads to them.
type Links interface {
	State(cluster client.ObjectKey) clusterlink.State
	ReadAnswered(cluster client.ObjectKey)
	ReadTimedOut(cluster client.ObjectKey, began time.Time)
	ForgetReads(cluster client.ObjectKey)
}

// Reads are the reads of Helm's records in all clusters. They are safe for concurrent use.
type Reads struct {
	tasks *async.Tasks[model.Observation]
	links Links

	mu sync.Mutex
	// inFlight has the number of running reads of each Cluster. waiting has the releases that wait for the end of such
	// a read, with the keys of their own reads.
	inFlight map[client.ObjectKey]int
	waiting  map[client.ObjectKey]map[ctrl.Request]string
	// shared has the running reads of whole namespaces.
	shared map[string]struct{}
	// clusters has the last list of all records of each Cluster, see ObserveNew.
	clusters map[client.ObjectKey]*clusterRead
}

// New returns Reads for a number of workers. Each worker may wait for a cluster.
func New(workers int, links Links) *Reads {
	// Reads are small, and each Cluster has a limit. With a common limit, hundreds of unresponsive Clusters would delay
	// the others.
	tasks := async.NewUnboundedTasks[model.Observation](workers)
	tasks.Kept, tasks.Waker.Begun = resultKept, true
	return &Reads{
		tasks: tasks, links: links,
		inFlight: map[client.ObjectKey]int{}, waiting: map[client.ObjectKey]map[ctrl.Request]string{},
		shared: map[string]struct{}{}, clusters: map[client.ObjectKey]*clusterRead{},
	}
}

// Source returns the source of the releases whose reads have ended. Callers add it to their controller.
func (s *Reads) Source() source.Source { return s.tasks.Waker.Source() }

// Count returns the number of running reads plus the number of unused results.
func (s *Reads) Count() float64 { return float64(s.tasks.Len()) }

// IsUnderWay reports whether a read runs, or has ended and its release has not used the result yet.
func (s *Reads) IsUnderWay(key string) bool { return s.tasks.IsUnderWay(key) }

// Observe reads the records of a release in a cluster. If done is false, the read has not ended. The release is then
// requeued when the read ends. The error wraps helmerr.ErrUnreachable if the cluster did not respond.
func (s *Reads) Observe(ctx context.Context, release ctrl.Request, cluster client.ObjectKey, key string,
	read func(context.Context) (model.Observation, error),
) (observation model.Observation, err error, done bool) {
	return s.observe(ctx, release, cluster, key, s.begin, read)
}

// observe does the same as Observe. begin reports whether the read may begin.
func (s *Reads) observe(ctx context.Context, release ctrl.Request, cluster client.ObjectKey, key string,
	begin func(cluster client.ObjectKey, release ctrl.Request, key string, isUnresponsive bool) bool,
	read func(context.Context) (model.Observation, error),
) (observation model.Observation, err error, done bool) {
	began, grace := time.Now(), async.Grace
	isUnresponsive := s.links.State(cluster).Unresponsive
	if isUnresponsive {
		grace = 0
	}
	isRefused := false
	observation, err, done = s.tasks.RunIf(ctx, grace, key, release, func() bool {
		isRefused = !begin(cluster, release, key, isUnresponsive)
		return !isRefused
	}, s.bounded(cluster, read))
	if !done && !isRefused && grace > 0 {
		s.timedOut(cluster, began)
	}
	return observation, err, done
}

// bounded returns a read of a cluster with a timeout. The read reports its end.
func (s *Reads) bounded(cluster client.ObjectKey, read func(context.Context) (model.Observation, error),
) func(context.Context) (model.Observation, error) {
	return func(ctx context.Context) (model.Observation, error) {
		ctx, cancel := context.WithTimeout(ctx, ObserveTimeout)
		defer cancel()
		hasAnswer, began := true, time.Now()
		defer func() { s.end(cluster, hasAnswer) }()
		observation, err := read(ctx)
		observation.ReadAt = began
		hasAnswer = !errors.Is(err, helmerr.ErrUnreachable) && !errors.Is(err, helmerr.ErrUnauthorized)
		return observation, err
	}
}

// begin reports whether a read for a release may begin, and counts the read. So the read must then run. If it may not
// begin, the release is enqueued again when another read of the cluster ends.
func (s *Reads) begin(cluster client.ObjectKey, release ctrl.Request, key string, isUnresponsive bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beginLocked(cluster, release, key, isUnresponsive)
}

func (s *Reads) beginLocked(cluster client.ObjectKey, release ctrl.Request, key string, isUnresponsive bool) bool {
	if !isUnresponsive || s.inFlight[cluster] < maxReadsWhenUnresponsive {
		s.inFlight[cluster]++
		return true
	}
	s.waitLocked(cluster, release, key)
	return false
}

// waitLocked makes a release wait for the end of a read of the cluster.
func (s *Reads) waitLocked(cluster client.ObjectKey, release ctrl.Request, key string) {
	if s.waiting[cluster] == nil {
		s.waiting[cluster] = map[ctrl.Request]string{}
	}
	s.waiting[cluster][release] = key
}

// errNoAnswer is the result of a release that waited for the read of another release. The error of that read cannot be
// used, because it names the other release.
var errNoAnswer = &helmerr.Error{Kind: helmerr.ErrUnreachable,
	Message: "the API server did not respond to requests for other releases"}

// end records the end of a read of a cluster, and wakes the releases that waited for this end. If there was no answer,
// these releases get errNoAnswer and do not start reads of their own.
func (s *Reads) end(cluster client.ObjectKey, hasAnswer bool) {
	for release, key := range s.recordEnd(cluster, hasAnswer) {
		if hasAnswer {
			s.tasks.Waker.Wake(release)
		} else {
			s.tasks.Deliver(key, release, model.Observation{}, errNoAnswer)
		}
	}
}

func (s *Reads) recordEnd(cluster client.ObjectKey, hasAnswer bool) (waited map[ctrl.Request]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waited = s.waiting[cluster]
	delete(s.waiting, cluster)
	if s.inFlight[cluster] == 0 {
		return waited // Forget was called during the read. Releases may have waited for a shared read since then.
	}
	if s.inFlight[cluster]--; s.inFlight[cluster] == 0 {
		delete(s.inFlight, cluster)
	}
	if hasAnswer {
		s.links.ReadAnswered(cluster)
	} else {
		s.links.ReadTimedOut(cluster, time.Now())
	}
	return waited
}

// timedOut reports a slow read to the Links: a worker waited for the read without an answer, or could not wait because
// too many other workers do.
func (s *Reads) timedOut(cluster client.ObjectKey, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[cluster] > 0 {
		s.links.ReadTimedOut(cluster, began)
	}
}

// Forget drops the state of a cluster and requeues the releases that wait for it.
func (s *Reads) Forget(cluster client.ObjectKey) {
	s.mu.Lock()
	waiting := s.waiting[cluster]
	delete(s.waiting, cluster)
	delete(s.inFlight, cluster)
	delete(s.clusters, cluster)
	s.links.ForgetReads(cluster)
	s.mu.Unlock()
	for release := range waiting {
		s.tasks.Waker.Wake(release)
	}
}

// KeyOf returns the key of a read. Reads with the same key run once.
func KeyOf(release *addonsv1.HelmOpRelease, target model.Target, desired model.Desired) string {
	return strings.Join([]string{target.Key, release.Status.ClusterUID, target.Impersonate, desired.Namespace,
		desired.Name, string(release.UID)}, "\n")
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordreads

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

const (
	// ObserveTimeout is the timeout of one read.
	ObserveTimeout = 10 * time.Second

	// resultKept is the maximum age of a result that is used.
	resultKept = 30 * time.Second

	// firstReadKept is how long a second pass may use the result of a release's first read. With thousands of releases,
	// the second pass is late.
	firstReadKept = time.Minute

	// maxReadsWhenUnresponsive is the maximum number of concurrent reads of an unresponsive cluster. It equals the
	// number of action slots of a cluster, because the cluster may only be slow.
	maxReadsWhenUnresponsive = slots.DefaultPerCluster
)

// Reads are the reads of Helm's records in all clusters. They are safe for concurrent use.
type Reads struct {
	tasks *async.Tasks[model.Observation]

	mu sync.Mutex
	// unresponsive has the clusters that did not respond in time. responses has the number of finished reads of each
	// cluster.
	unresponsive sets.Set[string]
	responses    map[string]uint64

	// inFlight has the number of running reads of each cluster. waiting has the releases that wait for the end of such
	// a read. withoutResponse has the releases whose wait ended without a response, with the time of this end. Such a
	// release does not start another read.
	inFlight        map[string]int
	waiting         map[string]sets.Set[ctrl.Request]
	withoutResponse map[ctrl.Request]time.Time

	// firstReads has the results of the first reads of releases; nil after their use. A manager that starts reconciles
	// each release twice: once before its watches have the objects, and once after.
	firstReads map[ctrl.Request]*firstRead
}

// firstRead is the result of a release's first read, with the key of the read.
type firstRead struct {
	model.Observation
	key string
	at  time.Time
}

// New returns Reads for a number of workers. Each worker may wait for a cluster.
func New(workers int) *Reads {
	// Reads are small, and each Cluster has a limit. With a common limit, hundreds of unresponsive Clusters would delay
	// the others.
	tasks := async.NewUnboundedTasks[model.Observation](workers)
	tasks.Kept = resultKept
	return &Reads{
		tasks: tasks, unresponsive: sets.Set[string]{}, responses: map[string]uint64{},
		firstReads: map[ctrl.Request]*firstRead{},
		inFlight:   map[string]int{}, waiting: map[string]sets.Set[ctrl.Request]{},
		withoutResponse: map[ctrl.Request]time.Time{},
	}
}

// Source returns the source of the releases whose reads have ended. Callers add it to their controller.
func (s *Reads) Source() source.Source { return s.tasks.Waker.Source() }

// Count returns the number of running reads plus the number of unused results.
func (s *Reads) Count() float64 { return float64(s.tasks.Len()) }

// Observe reads the records of a release in a cluster. If done is false, the read has not ended, and the release is
// requeued at its end. The error wraps helmerr.ErrUnreachable if the cluster did not respond.
func (s *Reads) Observe(ctx context.Context, release ctrl.Request, cluster, key string,
	read func(context.Context) (model.Observation, error),
) (observation model.Observation, err error, done bool) {
	if !s.tasks.IsUnderWay(key) {
		if err, waits := s.begin(cluster, release); err != nil || waits {
			return observation, err, !waits
		}
	}
	began := s.tasks.Now()
	grace, responses := s.grace(cluster)
	observation, err, done = s.tasks.RunWithin(ctx, grace, key, release,
		func(ctx context.Context) (model.Observation, error) {
			ctx, cancel := context.WithTimeout(ctx, ObserveTimeout)
			defer cancel()
			hasResponse := true
			defer func() { s.ended(cluster, hasResponse) }()
			observation, err := read(ctx)
			hasResponse = !errors.Is(err, helmerr.ErrUnreachable) && !errors.Is(err, helmerr.ErrUnauthorized)
			return observation, err
		})
	switch {
	case !done:
		s.timedOut(cluster, responses)
	case err == nil:
		s.keepFirst(release, key, observation, began)
	}
	return observation, err, done
}

// ended records the end of a read of a cluster, and wakes the releases that waited for it.
func (s *Reads) ended(cluster string, hasResponse bool) {
	for release := range s.recordEnd(cluster, hasResponse) {
		s.tasks.Waker.Wake(release)
	}
}

func (s *Reads) recordEnd(cluster string, hasResponse bool) (waited sets.Set[ctrl.Request]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[cluster] == 0 {
		return nil // Forget was called during the read.
	}
	if s.inFlight[cluster]--; s.inFlight[cluster] == 0 {
		delete(s.inFlight, cluster)
	}
	s.responses[cluster]++
	s.setResponsive(cluster, hasResponse)
	waited = s.waiting[cluster]
	delete(s.waiting, cluster)
	if !hasResponse {
		for release := range waited {
			s.withoutResponse[release] = s.tasks.Now()
		}
	}
	return waited
}

// errNoResponse is the result of a release that waited for the read of another release. The error of that read cannot
// be used, because it names the other release.
var errNoResponse = &helmerr.Error{Kind: helmerr.ErrUnreachable,
	Message: "the API server did not respond to requests for other releases"}

// begin registers a read for a release, or reports that the read must wait. A release that must wait is enqueued again
// at the end of a read of the cluster. If that read has no response, the error is the result of the waiting release.
func (s *Reads) begin(cluster string, release ctrl.Request) (err error, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.withoutResponse[release]
	delete(s.withoutResponse, release)
	// An older result does not count. For example, a release that was paused starts another read.
	if ok && s.tasks.Now().Sub(at) <= resultKept {
		return errNoResponse, false
	}
	if !s.unresponsive.Has(cluster) || s.inFlight[cluster] < maxReadsWhenUnresponsive {
		s.inFlight[cluster]++
		return nil, false
	}
	if s.waiting[cluster] == nil {
		s.waiting[cluster] = sets.Set[ctrl.Request]{}
	}
	s.waiting[cluster].Insert(release)
	return nil, true
}

// timedOut records that a worker waited for a cluster without a response. responses is the number that grace returned.
// If a read has ended since, timedOut does nothing.
func (s *Reads) timedOut(cluster string, responses uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[cluster] > 0 && s.responses[cluster] == responses {
		s.setResponsive(cluster, false)
	}
}

// setResponsive records whether a cluster responds in time. The caller holds mu.
func (s *Reads) setResponsive(cluster string, responsive bool) {
	if responsive {
		s.unresponsive.Delete(cluster)
	} else {
		s.unresponsive.Insert(cluster)
	}
	monitoring.ClustersUnresponsive.Set(float64(s.unresponsive.Len()))
}

// Forget drops the state of a cluster and requeues the releases that wait for it.
func (s *Reads) Forget(cluster string) {
	s.mu.Lock()
	waiting := s.waiting[cluster]
	delete(s.waiting, cluster)
	delete(s.responses, cluster)
	delete(s.inFlight, cluster)
	s.setResponsive(cluster, true)
	s.mu.Unlock()
	for release := range waiting {
		s.tasks.Waker.Wake(release)
	}
}

// grace returns how long a worker waits for a cluster, and the number of finished reads of the cluster.
func (s *Reads) grace(cluster string) (grace time.Duration, responses uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unresponsive.Has(cluster) {
		return 0, s.responses[cluster]
	}
	return async.Grace, s.responses[cluster]
}

func (s *Reads) keepFirst(release ctrl.Request, key string, observation model.Observation, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.firstReads[release]; !ok {
		s.firstReads[release] = &firstRead{Observation: observation, key: key, at: at}
	}
}

// TakeFirst returns the result of a release's first read, and drops it. The result must be younger than firstReadKept.
// [MayUseCached] reports whether a decision may use it.
func (s *Reads) TakeFirst(release ctrl.Request, key string) (model.Observation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.firstReads[release]
	if first == nil {
		return model.Observation{}, false
	}
	s.firstReads[release] = nil
	return first.Observation, first.key == key && s.tasks.Now().Sub(first.at) < firstReadKept
}

// Outdate drops the result of a release's first read, because the records will change.
func (s *Reads) Outdate(release ctrl.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.firstReads[release] = nil
}

// Drop drops the state of a release.
func (s *Reads) Drop(release ctrl.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.firstReads, release)
	delete(s.withoutResponse, release)
}

// KeyOf returns the key of a read. Reads with the same key run once.
func KeyOf(release *addonsv1.HelmOpRelease, target model.Target, desired model.Desired) string {
	return strings.Join([]string{target.Key, release.Status.ClusterUID, target.Impersonate, desired.Namespace,
		desired.Name, string(release.UID)}, "\n")
}

// MayUseCached reports whether a decision may use the result of an earlier read. Only the decision to do nothing may
// use it, and only without drift correction. A waiting release needs the current state to end its wait. The correction
// of drift needs the currently deployed revision.
func MayUseCached(decision decide.Decision, policy model.Policy) bool {
	return decision.Action == model.ActionNone && !policy.CorrectDrift
}

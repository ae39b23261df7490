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

	// resultKept is the maximum age of the result of a read when it is used.
	resultKept = 30 * time.Second

	// firstReadKept is how long the result of the first read of a release may be used in a second pass. With thousands of
	// releases, the second pass is late.
	firstReadKept = time.Minute

	// maxReadsWhenUnresponsive is the maximum number of concurrent reads of an unresponsive cluster. It is the number of
	// slots for actions in a cluster, because the cluster may only be slow.
	maxReadsWhenUnresponsive = slots.DefaultPerCluster
)

// Reads are the reads of Helm's records in all clusters. They are safe for concurrent use.
type Reads struct {
	tasks *async.Tasks[model.Observation]
	now   func() time.Time

	mu sync.Mutex
	// unresponsive are the clusters that did not respond promptly, and responses is the number of finished reads of each
	// cluster.
	unresponsive sets.Set[string]
	responses    map[string]uint64

	// inFlight is the number of running reads of a cluster. waiting are the releases that wait for the end of one of them.
	// withoutResponse is when a read ended without a response, for releases that waited: they do not start another read.
	inFlight        map[string]int
	waiting         map[string]sets.Set[ctrl.Request]
	withoutResponse map[ctrl.Request]time.Time

	// firstReads are the results of the first reads of releases; nil after their use. A manager that starts reconciles
	// each release twice: first without its watches, and again when the watches have the objects.
	firstReads map[ctrl.Request]*firstRead
}

// firstRead is the result of the first read of a release, by the key of the read.
type firstRead struct {
	model.Observation
	key string
	at  time.Time
}

// New returns Reads for a number of workers. Each of them may wait for a cluster.
func New(workers int) *Reads {
	// Reads are small, and limited for each Cluster. With a common limit, hundreds of unresponsive Clusters would delay
	// the others.
	tasks := async.NewUnboundedTasks[model.Observation](workers)
	tasks.Kept = resultKept
	return &Reads{
		tasks: tasks, now: time.Now, unresponsive: sets.Set[string]{}, responses: map[string]uint64{},
		firstReads: map[ctrl.Request]*firstRead{},
		inFlight:   map[string]int{}, waiting: map[string]sets.Set[ctrl.Request]{},
		withoutResponse: map[ctrl.Request]time.Time{},
	}
}

// Source returns a source that enqueues the releases whose reads have ended.
func (s *Reads) Source() source.Source { return s.tasks.Waker.Source() }

// Count returns the number of reads that are in flight or whose result was not used yet.
func (s *Reads) Count() float64 { return float64(s.tasks.Len()) }

// Observe reads the records of a release in a cluster. If done is false, the read has not ended, and the release is
// requeued when it does. The error wraps helmerr.ErrUnreachable if the cluster did not respond.
func (s *Reads) Observe(ctx context.Context, release ctrl.Request, cluster, key string,
	read func(context.Context) (model.Observation, error),
) (observation model.Observation, err error, done bool) {
	if !s.tasks.IsUnderWay(key) {
		if err, waits := s.begin(cluster, release); err != nil || waits {
			return observation, err, !waits
		}
	}
	began := s.now()
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

// ended records that a read of a cluster ended, and wakes the releases that waited for it.
func (s *Reads) ended(cluster string, hasResponse bool) {
	for release := range s.recordEnd(cluster, hasResponse) {
		s.tasks.Waker.Wake(release)
	}
}

func (s *Reads) recordEnd(cluster string, hasResponse bool) (waited sets.Set[ctrl.Request]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[cluster] == 0 {
		return nil // Forget was called meanwhile.
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
			s.withoutResponse[release] = s.now()
		}
	}
	return waited
}

// errNoResponse is the result for a release that waited for a read of another release. The error of that read names the
// other release.
var errNoResponse = &helmerr.Error{Kind: helmerr.ErrUnreachable,
	Message: "the API server did not respond to requests for other releases"}

// begin reports whether a read for a release must wait. If it must, the release is enqueued again when a read of the
// cluster ends. The error is the result for a release that waited, if the other read had no response.
func (s *Reads) begin(cluster string, release ctrl.Request) (err error, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.withoutResponse[release]
	delete(s.withoutResponse, release)
	// A release that was not reconciled at once, for example because it was paused, starts another read.
	if ok && s.now().Sub(at) <= resultKept {
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

// timedOut records that a worker waited without a response from a cluster. It does nothing if a read has ended since
// grace returned this number of responses.
func (s *Reads) timedOut(cluster string, responses uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[cluster] > 0 && s.responses[cluster] == responses {
		s.setResponsive(cluster, false)
	}
}

// setResponsive records whether a cluster responds promptly. The caller holds mu.
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

// grace returns how long a worker waits for a cluster, and how many reads of the cluster have ended.
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

// TakeFirst returns, once, the result of the first read of a release if it is younger than firstReadKept.
// [MayUseCached] reports whether a decision may use it.
func (s *Reads) TakeFirst(release ctrl.Request, key string) (model.Observation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.firstReads[release]
	if first == nil {
		return model.Observation{}, false
	}
	s.firstReads[release] = nil
	return first.Observation, first.key == key && s.now().Sub(first.at) < firstReadKept
}

// Outdate drops the result of the first read of a release, because the records are about to change.
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

// KeyOf returns the key of a read. Releases with the same key share one read.
func KeyOf(release *addonsv1.HelmOpRelease, target model.Target, desired model.Desired) string {
	return strings.Join([]string{target.Key, release.Status.ClusterUID, target.Impersonate, desired.Namespace,
		desired.Name, string(release.UID)}, "\n")
}

// MayUseCached reports whether a decision may use the result of an earlier read. Only the decision to do nothing may
// use it. A waiting release needs the current state to end its wait, and drift is corrected to the currently deployed
// revision.
func MayUseCached(decision decide.Decision, policy model.Policy) bool {
	return decision.Action == model.ActionNone && !policy.CorrectDrift
}

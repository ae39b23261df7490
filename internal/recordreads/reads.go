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
	// ObserveTimeout bounds one read.
	ObserveTimeout = 10 * time.Second

	// resultKept is how old the result of a read may be when it is used.
	resultKept = 30 * time.Second

	// firstReadKept is how long the result of the first read of a release can serve a second pass. With thousands of
	// releases the second pass comes late.
	firstReadKept = time.Minute

	// maxReadsWhenUnresponsive is the maximum number of concurrent reads of an unresponsive cluster. It is the number of
	// slots for actions in a cluster, because the cluster may only be slow.
	maxReadsWhenUnresponsive = slots.DefaultPerCluster
)

// Reads are the reads of Helm's records in all clusters. They are safe for concurrent use.
type Reads struct {
	tasks *async.Tasks[model.Observation]

	mu sync.Mutex
	// unresponsive are the clusters that did not answer promptly, and answers is how many reads of each cluster ended.
	unresponsive sets.Set[string]
	answers      map[string]uint64

	// inFlight is the number of running reads of a cluster. waiting are the releases that wait for the end of one of them.
	// unanswered is when a read ended without a response, for releases that waited: they need no read of their own.
	inFlight   map[string]int
	waiting    map[string]sets.Set[ctrl.Request]
	unanswered map[ctrl.Request]time.Time

	// firstReads are the results of the first reads of releases, nil after their use. A manager that starts reconciles
	// each release twice: at first, and when its watches have the objects.
	firstReads map[ctrl.Request]*firstRead
}

// firstRead is the result of the first read of a release, by the key of the read.
type firstRead struct {
	model.Observation
	key string
	at  time.Time
}

// New returns the reads for a number of workers, each of which may wait for a cluster.
func New(workers int) *Reads {
	// Reads are small and bounded for each Cluster. With one bound for all, hundreds of unresponsive Clusters would delay
	// the others.
	tasks := async.NewUnboundedTasks[model.Observation](workers)
	tasks.Kept = resultKept
	return &Reads{
		tasks: tasks, unresponsive: sets.Set[string]{}, answers: map[string]uint64{},
		firstReads: map[ctrl.Request]*firstRead{},
		inFlight:   map[string]int{}, waiting: map[string]sets.Set[ctrl.Request]{}, unanswered: map[ctrl.Request]time.Time{},
	}
}

// Source enqueues the releases whose reads have ended.
func (s *Reads) Source() source.Source { return s.tasks.Waker.Source() }

// Count is how many reads are in flight, or have a result that is not used yet.
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
	began := s.tasks.Now()
	grace, answers := s.grace(cluster)
	observation, err, done = s.tasks.RunWithin(ctx, grace, key, release,
		func(ctx context.Context) (model.Observation, error) {
			ctx, cancel := context.WithTimeout(ctx, ObserveTimeout)
			defer cancel()
			hasAnswer := true
			defer func() { s.ended(cluster, hasAnswer) }()
			observation, err := read(ctx)
			hasAnswer = !errors.Is(err, helmerr.ErrUnreachable) && !errors.Is(err, helmerr.ErrUnauthorized)
			return observation, err
		})
	switch {
	case !done:
		s.gaveUp(cluster, answers)
	case err == nil:
		s.rememberFirst(release, key, observation, began)
	}
	return observation, err, done
}

// ended notes that a read of a cluster ended, and wakes the releases that waited for that.
func (s *Reads) ended(cluster string, hasAnswer bool) {
	for release := range s.noteEnd(cluster, hasAnswer) {
		s.tasks.Waker.Wake(release)
	}
}

func (s *Reads) noteEnd(cluster string, hasAnswer bool) (waited sets.Set[ctrl.Request]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[cluster] == 0 {
		return nil // The cluster was forgotten meanwhile.
	}
	if s.inFlight[cluster]--; s.inFlight[cluster] == 0 {
		delete(s.inFlight, cluster)
	}
	s.answers[cluster]++
	s.setResponsive(cluster, hasAnswer)
	waited = s.waiting[cluster]
	delete(s.waiting, cluster)
	if !hasAnswer {
		for release := range waited {
			s.unanswered[release] = s.tasks.Now()
		}
	}
	return waited
}

// errNoAnswer is the result for a release that waited for the read of another one. The error of that read names the
// other release.
var errNoAnswer = &helmerr.Error{Kind: helmerr.ErrUnreachable,
	Message: "the API server did not respond to requests for other releases"}

// begin reports whether a read for a release may begin. If it has to wait, the release is enqueued again when a read
// of the cluster ends. The error is the result for a release that waited, if that read had no answer.
func (s *Reads) begin(cluster string, release ctrl.Request) (err error, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.unanswered[release]
	delete(s.unanswered, release)
	// A release that could not come back at once, because it was suspended for example, begins a read of its own.
	if ok && s.tasks.Now().Sub(at) <= resultKept {
		return errNoAnswer, false
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

// gaveUp notes that a worker waited without a response from a cluster, unless a response came since grace returned this
// number of responses.
func (s *Reads) gaveUp(cluster string, answers uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[cluster] > 0 && s.answers[cluster] == answers {
		s.setResponsive(cluster, false)
	}
}

// setResponsive notes whether a cluster answers promptly. The caller holds mu.
func (s *Reads) setResponsive(cluster string, responsive bool) {
	if responsive {
		s.unresponsive.Delete(cluster)
	} else {
		s.unresponsive.Insert(cluster)
	}
	monitoring.ClustersInDoubt.Set(float64(s.unresponsive.Len()))
}

// Forget drops the state of a cluster and requeues the releases that wait for it.
func (s *Reads) Forget(cluster string) {
	s.mu.Lock()
	waiting := s.waiting[cluster]
	delete(s.waiting, cluster)
	delete(s.answers, cluster)
	delete(s.inFlight, cluster)
	s.setResponsive(cluster, true)
	s.mu.Unlock()
	for release := range waiting {
		s.tasks.Waker.Wake(release)
	}
}

// grace is how long a worker waits for a cluster, and how many reads of the cluster have ended.
func (s *Reads) grace(cluster string) (grace time.Duration, answers uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unresponsive.Has(cluster) {
		return 0, s.answers[cluster]
	}
	return async.Grace, s.answers[cluster]
}

func (s *Reads) rememberFirst(release ctrl.Request, key string, observation model.Observation, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.firstReads[release]; !ok {
		s.firstReads[release] = &firstRead{Observation: observation, key: key, at: at}
	}
}

// TakeFirst returns, once, the result of the first read of a release if it is younger than a minute. [MemorySuffices]
// reports whether a decision may use it.
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

// Outdate drops the result of the first read of a release: it is about to be wrong.
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
	delete(s.unanswered, release)
}

// KeyOf is the key of a read: releases with the same key share one.
func KeyOf(release *addonsv1.HelmOpRelease, target model.Target, desired model.Desired) string {
	return strings.Join([]string{target.Key, release.Status.ClusterUID, target.Impersonate, desired.Namespace,
		desired.Name, string(release.UID)}, "\n")
}

// MemorySuffices reports whether a decision may use the result of an earlier read. Only the decision to do nothing may:
// a waiting release must learn whether the wait is over, and drift is corrected to the currently deployed revision.
func MemorySuffices(decision decide.Decision, policy model.Policy) bool {
	return decision.Action == model.ActionNone && !policy.CorrectDrift
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordreads

import (
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

const (
	// ObserveTimeout bounds the one read of a pass over an unchanged release.
	ObserveTimeout = 10 * time.Second

	// Kept is how old what was read of a release may be when it is used.
	Kept = 30 * time.Second

	// FirstSightKept is for how long what the first pass over a release has read serves the second one as well. Among thousands of releases
	// the second one comes late.
	FirstSightKept = time.Minute

	// ReadsInDoubt is how many reads of a cluster that did not answer promptly are under way at the same time: as many as it has slots
	// for actions, for it may just be slow.
	ReadsInDoubt = slots.DefaultPerCluster
)

// Reads read what clusters say of their releases. A cluster that is well answers in milliseconds, and the worker waits. One that
// does not is left to itself: its releases come back when it has answered or its time is over, and until one of them was answered
// no worker waits for that cluster at all, and a few reads at a time are enough. It is safe for concurrent use.
type Reads struct {
	Running *async.Tasks[model.Observation]

	mu sync.Mutex
	// Doubtful are the clusters that did not answer promptly when they were asked last, and answers how many reads of a cluster ended.
	Doubtful sets.Set[string]
	Answers  map[string]uint64

	// Reading is how many reads of a cluster are under way, waiting are the releases that wait for how one of them ends, and verdicts tell
	// when it ended without an answer, for those that waited: they need not ask it again.
	Reading  map[string]int
	Waiting  map[string]sets.Set[ctrl.Request]
	Verdicts map[ctrl.Request]time.Time

	// Firsts are what was read of releases when they were met first, and nil from then on. A manager that starts passes over each release
	// twice: when it meets it, and when it sees its objects.
	Firsts map[ctrl.Request]*firstSight
}

// firstSight is what was read of a release, by the task's key.
type firstSight struct {
	model.Observation
	key string
	at  time.Time
}

// New are those of a number of workers, each of which may wait for a cluster.
func New(workers int) *Reads {
	// Reads are small and bounded for each Cluster: with a bound for all, hundreds of Clusters that hang would hold up those that answer.
	running := async.NewUnboundedTasks[model.Observation](workers)
	running.Kept = Kept
	return &Reads{
		Running: running, Doubtful: sets.Set[string]{}, Answers: map[string]uint64{}, Firsts: map[ctrl.Request]*firstSight{},
		Reading: map[string]int{}, Waiting: map[string]sets.Set[ctrl.Request]{}, Verdicts: map[ctrl.Request]time.Time{},
	}
}

// Count is how many reads are under way, or done and not made use of.
func (s *Reads) Count() float64 {
	return float64(s.Running.Len())
}

// Answered notes that a read of a cluster ended, and whether it had its answer. Those who wait for that come back.
func (s *Reads) Answered(cluster string, isDoubtful bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Reading[cluster] == 0 {
		return // It was forgotten meanwhile.
	}
	if s.Reading[cluster]--; s.Reading[cluster] == 0 {
		delete(s.Reading, cluster)
	}
	s.Answers[cluster]++
	s.doubt(cluster, isDoubtful)
	for release := range s.Waiting[cluster] {
		if isDoubtful {
			s.Verdicts[release] = s.Running.Now()
		}
		s.Running.Waker.Wake(release)
	}
	delete(s.Waiting, cluster)
}

// errNoAnswer is the outcome for a release that waited for the read of another one. What that came to names the other one.
var errNoAnswer = &helmerr.Error{Kind: helmerr.ErrUnreachable, Message: "the API server does not answer when other releases are looked at"}

// Begin tells whether a cluster may be read for a release, which is noted until answered, or whether it has to wait until one of the reads
// of a cluster in doubt has ended. When it comes back, err tells that there was no answer.
func (s *Reads) Begin(cluster string, release ctrl.Request) (err error, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.Verdicts[release]
	delete(s.Verdicts, release)
	// Whoever could not come back at once, being suspended for example, asks anew.
	if ok && s.Running.Now().Sub(at) <= Kept {
		return errNoAnswer, false
	}
	if !s.Doubtful.Has(cluster) || s.Reading[cluster] < ReadsInDoubt {
		s.Reading[cluster]++
		return nil, false
	}
	if s.Waiting[cluster] == nil {
		s.Waiting[cluster] = sets.Set[ctrl.Request]{}
	}
	s.Waiting[cluster].Insert(release)
	return nil, true
}

// Hangs notes that a cluster let a worker wait in vain, unless an answer has come since grace told of so many.
func (s *Reads) Hangs(cluster string, answers uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Reading[cluster] > 0 && s.Answers[cluster] == answers {
		s.doubt(cluster, true)
	}
}

// doubt notes whether a cluster answers promptly. The caller holds mu.
func (s *Reads) doubt(cluster string, isDoubtful bool) {
	if isDoubtful {
		s.Doubtful.Insert(cluster)
	} else {
		s.Doubtful.Delete(cluster)
	}
	monitoring.ClustersInDoubt.Set(float64(s.Doubtful.Len()))
}

// Forget forgets a cluster.
func (s *Reads) Forget(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.Answers, cluster)
	delete(s.Reading, cluster)
	for release := range s.Waiting[cluster] {
		s.Running.Waker.Wake(release)
	}
	delete(s.Waiting, cluster)
	s.doubt(cluster, false)
}

// Grace is how long a worker waits for a cluster, and how many answers have come from it.
func (s *Reads) Grace(cluster string) (grace time.Duration, answers uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Doubtful.Has(cluster) {
		return 0, s.Answers[cluster]
	}
	return async.Grace, s.Answers[cluster]
}

// Meet notes what was read of a release that was not met before.
func (s *Reads) Meet(release ctrl.Request, key string, observation model.Observation, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.Firsts[release]; !ok {
		s.Firsts[release] = &firstSight{Observation: observation, key: key, at: at}
	}
}

// Again returns, once, what was read of a release when it was met a moment ago.
func (s *Reads) Again(release ctrl.Request, key string, now time.Time) (model.Observation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.Firsts[release]
	if first == nil {
		return model.Observation{}, false
	}
	s.Firsts[release] = nil
	return first.Observation, first.key == key && now.Sub(first.at) < FirstSightKept
}

// Outdate says that what was read of a release is about to be wrong.
func (s *Reads) Outdate(release ctrl.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Firsts[release] = nil
}

// Part forgets a release.
func (s *Reads) Part(release ctrl.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.Firsts, release)
	delete(s.Verdicts, release)
}

// KeyOf is different for whatever makes it another read: the objects of a release are one at a time.
func KeyOf(release *addonsv1.HelmOpRelease, target model.Target, desired model.Desired) string {
	return strings.Join([]string{target.Key, release.Status.ClusterUID, target.Impersonate, desired.Namespace, desired.Name, string(release.UID)}, "\n")
}

// MemorySuffices tells whether a pass may go by what is remembered of a release: it is good for seeing that there is nothing to do, and for
// nothing else. Waiting counts on what is waited for, and drift is corrected to the revision that is there.
func MemorySuffices(decision decide.Decision, policy model.Policy) bool {
	return decision.Action == model.ActionNone && !policy.CorrectDrift
}

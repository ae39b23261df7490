/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

const (
	// observeTimeout bounds the one read of a pass over an unchanged release.
	observeTimeout = 10 * time.Second

	// sightingKept is how old what was read of a release may be when it is used.
	sightingKept = 30 * time.Second

	// firstSightKept is for how long what the first pass over a release has read serves the second one as well. Among thousands of releases
	// the second one comes late.
	firstSightKept = time.Minute

	// readsInDoubt is how many reads of a cluster that did not answer promptly are under way at the same time: as many as it has slots
	// for actions, for it may just be slow.
	readsInDoubt = slots.DefaultPerCluster
)

// sightings read what clusters say of their releases. A cluster that is well answers in milliseconds, and the worker waits. One that
// does not is left to itself: its releases come back when it has answered or its time is over, and until one of them was answered
// no worker waits for that cluster at all, and a few reads at a time are enough. It is safe for concurrent use.
type sightings struct {
	running *errands[model.Observation]

	mu sync.Mutex
	// doubtful are the clusters that did not answer promptly when they were asked last, and answers how many reads of a cluster ended.
	doubtful sets.Set[string]
	answers  map[string]uint64

	// reading is how many reads of a cluster are under way, waiting are the releases that wait for how one of them ends, and verdicts tell
	// when it ended without an answer, for those that waited: they need not ask it again.
	reading  map[string]int
	waiting  map[string]sets.Set[ctrl.Request]
	verdicts map[ctrl.Request]time.Time

	// firsts are what was read of releases when they were met first, and nil from then on. A manager that starts passes over each release
	// twice: when it meets it, and when it sees its objects.
	firsts map[ctrl.Request]*firstSight
}

// firstSight is what was read of a release, by the errand's key.
type firstSight struct {
	model.Observation
	key string
	at  time.Time
}

// newSightings are those of a number of workers, each of which may wait for a cluster.
func newSightings(workers int) *sightings {
	// Reads are small and bounded for each Cluster: with a bound for all, hundreds of Clusters that hang would hold up those that answer.
	running := newUnboundedErrands[model.Observation](workers)
	running.kept = sightingKept
	return &sightings{
		running: running, doubtful: sets.Set[string]{}, answers: map[string]uint64{}, firsts: map[ctrl.Request]*firstSight{},
		reading: map[string]int{}, waiting: map[string]sets.Set[ctrl.Request]{}, verdicts: map[ctrl.Request]time.Time{},
	}
}

// count is how many reads are under way, or done and not made use of.
func (s *sightings) count() float64 {
	s.running.mu.Lock()
	defer s.running.mu.Unlock()
	return float64(len(s.running.running))
}

// answered notes that a read of a cluster ended, and whether it had its answer. Those who wait for that come back.
func (s *sightings) answered(cluster string, isDoubtful bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading[cluster] == 0 {
		return // It was forgotten meanwhile.
	}
	if s.reading[cluster]--; s.reading[cluster] == 0 {
		delete(s.reading, cluster)
	}
	s.answers[cluster]++
	s.doubt(cluster, isDoubtful)
	for release := range s.waiting[cluster] {
		if isDoubtful {
			s.verdicts[release] = s.running.now()
		}
		s.running.waker.wake(release)
	}
	delete(s.waiting, cluster)
}

// errNoAnswer is the outcome for a release that waited for the read of another one. What that came to names the other one.
var errNoAnswer = &helmerr.Error{Kind: helmerr.ErrUnreachable, Message: "the API server does not answer when other releases are looked at"}

// begin tells whether a cluster may be read for a release, which is noted until answered, or whether it has to wait until one of the reads
// of a cluster in doubt has ended. When it comes back, err tells that there was no answer.
func (s *sightings) begin(cluster string, release ctrl.Request) (err error, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.verdicts[release]
	delete(s.verdicts, release)
	// Whoever could not come back at once, being suspended for example, asks anew.
	if ok && s.running.now().Sub(at) <= sightingKept {
		return errNoAnswer, false
	}
	if !s.doubtful.Has(cluster) || s.reading[cluster] < readsInDoubt {
		s.reading[cluster]++
		return nil, false
	}
	if s.waiting[cluster] == nil {
		s.waiting[cluster] = sets.Set[ctrl.Request]{}
	}
	s.waiting[cluster].Insert(release)
	return nil, true
}

// hangs notes that a cluster let a worker wait in vain, unless an answer has come since grace told of so many.
func (s *sightings) hangs(cluster string, answers uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading[cluster] > 0 && s.answers[cluster] == answers {
		s.doubt(cluster, true)
	}
}

// doubt notes whether a cluster answers promptly. The caller holds mu.
func (s *sightings) doubt(cluster string, isDoubtful bool) {
	if isDoubtful {
		s.doubtful.Insert(cluster)
	} else {
		s.doubtful.Delete(cluster)
	}
	clustersInDoubt.Set(float64(s.doubtful.Len()))
}

// forget forgets a cluster.
func (s *sightings) forget(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.answers, cluster)
	delete(s.reading, cluster)
	for release := range s.waiting[cluster] {
		s.running.waker.wake(release)
	}
	delete(s.waiting, cluster)
	s.doubt(cluster, false)
}

// grace is how long a worker waits for a cluster, and how many answers have come from it.
func (s *sightings) grace(cluster string) (grace time.Duration, answers uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doubtful.Has(cluster) {
		return 0, s.answers[cluster]
	}
	return errandGrace, s.answers[cluster]
}

// meet notes what was read of a release that was not met before.
func (s *sightings) meet(release ctrl.Request, key string, observation model.Observation, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.firsts[release]; !ok {
		s.firsts[release] = &firstSight{Observation: observation, key: key, at: at}
	}
}

// again returns, once, what was read of a release when it was met a moment ago.
func (s *sightings) again(release ctrl.Request, key string, now time.Time) (model.Observation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.firsts[release]
	if first == nil {
		return model.Observation{}, false
	}
	s.firsts[release] = nil
	return first.Observation, first.key == key && now.Sub(first.at) < firstSightKept
}

// outdate says that what was read of a release is about to be wrong.
func (s *sightings) outdate(release ctrl.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.firsts[release] = nil
}

// part forgets a release.
func (s *sightings) part(release ctrl.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.firsts, release)
	delete(s.verdicts, release)
}

// sightingKey is different for whatever makes it another read: the objects of a release are one at a time.
func sightingKey(release *addonsv1.HelmOpRelease, target model.Target, desired model.Desired) string {
	return strings.Join([]string{target.Key, release.Status.ClusterUID, target.Impersonate, desired.Namespace, desired.Name, string(release.UID)}, "\n")
}

// memorySuffices tells whether a pass may go by what is remembered of a release: it is good for seeing that there is nothing to do, and for
// nothing else. Waiting counts on what is waited for, and drift is corrected to the revision that is there.
func memorySuffices(decision decide.Decision, policy model.Policy) bool {
	return decision.Action == model.ActionNone && !policy.CorrectDrift
}

// remembered is what was read of a release as it was met, if that was a moment ago. See memorySuffices for what it is good for.
func (r *releaseReconciler) remembered(p *releasePass) (model.Observation, bool) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p.release)}
	return r.sightings.again(request, sightingKey(p.release, p.target, p.desired), r.now())
}

// observe reads what the cluster says of a release. If ok is false, it has not answered yet: the release is looked at again when it
// has, and keeps its place in line meanwhile.
func (r *releaseReconciler) observe(ctx context.Context, release *addonsv1.HelmOpRelease, target model.Target, desired model.Desired) (
	observation model.Observation, err error, ok bool,
) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)}
	key := sightingKey(release, target, desired)
	if !r.sightings.running.isUnderWay(key) {
		err, waits := r.sightings.begin(target.Key, request)
		if waits {
			// Slow clusters would lose their turns otherwise, again and again.
			r.slots.Keep(request.NamespacedName)
		}
		if err != nil || waits {
			return observation, err, !waits
		}
	}
	began := r.now()
	grace, answers := r.sightings.grace(target.Key)
	observation, err, ok = r.sightings.running.runWithin(ctx, grace, key, request,
		func(ctx context.Context) (model.Observation, error) {
			ctx, cancel := context.WithTimeout(ctx, observeTimeout)
			defer cancel()
			isDoubtful := false
			defer func() { r.sightings.answered(target.Key, isDoubtful) }()
			observation, err := r.engine.Observe(ctx, target, desired.Namespace, desired.Name)
			isDoubtful = reasonFor(err, engineErrors, "") == addonsv1.ClusterUnreachableReason
			return observation, err
		})
	switch {
	case !ok:
		r.sightings.hangs(target.Key, answers)
		r.slots.Keep(request.NamespacedName)
	case err == nil:
		r.sightings.meet(request, key, observation, began)
	}
	return observation, err, ok
}

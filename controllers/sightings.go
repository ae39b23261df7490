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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
)

const (
	// observeTimeout bounds the one read of a pass over an unchanged release.
	observeTimeout = 10 * time.Second

	// sightingKept is how old what was read of a release may be when it is used.
	sightingKept = 30 * time.Second
)

// sightings read what clusters say of their releases. A cluster that is well answers in milliseconds, and the worker waits. One that
// does not is left to itself: its releases come back when it has answered or its time is over, and until one of them was answered
// no worker waits for that cluster at all. It is safe for concurrent use.
type sightings struct {
	running *errands[helmclient.Observation]

	mu sync.Mutex
	// doubtful are the clusters that did not answer promptly when they were asked last.
	doubtful sets.Set[string]
}

// newSightings are those of a number of workers, each of which may wait for a cluster.
func newSightings(workers int) *sightings {
	running := newErrands[helmclient.Observation](workers)
	running.patience, running.kept = workers, sightingKept
	return &sightings{running: running, doubtful: sets.Set[string]{}}
}

// count is how many reads are under way, or done and not made use of.
func (s *sightings) count() float64 {
	s.running.mu.Lock()
	defer s.running.mu.Unlock()
	return float64(len(s.running.running))
}

// doubt notes whether a cluster answers promptly.
func (s *sightings) doubt(cluster string, isDoubtful bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isDoubtful {
		s.doubtful.Insert(cluster)
	} else {
		s.doubtful.Delete(cluster)
	}
	clustersInDoubt.Set(float64(s.doubtful.Len()))
}

// forget forgets a cluster.
func (s *sightings) forget(cluster string) { s.doubt(cluster, false) }

// grace is how long a worker waits for a cluster.
func (s *sightings) grace(cluster string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doubtful.Has(cluster) {
		return 0
	}
	return errandGrace
}

// observe reads what the cluster says of a release. If ok is false, it has not answered yet: the release is looked at again when it
// has, and keeps its place in line meanwhile.
func (r *releaseReconciler) observe(ctx context.Context, release *addonsv1.HelmOpRelease, target helmclient.Target, desired helmclient.Desired) (
	observation helmclient.Observation, err error, ok bool,
) {
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)}
	// Whatever makes it another read makes it another errand: the objects of a release are one at a time.
	key := strings.Join([]string{target.Key, release.Status.ClusterUID, target.Impersonate, desired.Namespace, desired.Name, string(release.UID)}, "\n")
	observation, err, ok = r.sightings.running.runWithin(ctx, r.sightings.grace(target.Key), key, request,
		func(ctx context.Context) (helmclient.Observation, error) {
			ctx, cancel := context.WithTimeout(ctx, observeTimeout)
			defer cancel()
			observation, err := r.engine.Observe(ctx, target, desired.Namespace, desired.Name)
			r.sightings.doubt(target.Key, reasonFor(err, engineErrors, "") == addonsv1.ClusterUnreachableReason)
			return observation, err
		})
	if !ok {
		r.sightings.doubt(target.Key, true)
		r.slots.keep(request)
	}
	return observation, err, ok
}

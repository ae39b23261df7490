// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// These are the priorities of releases, the highest first. Within a priority, the queue is in the order of requests.
const (

	// PriorityOfFresh is for releases that were first installed less than FreshFor ago and are not known to be ready: the
	// next charts of their Clusters wait for them. A pass over such a release is cheap, and few releases are installed
	// within FreshFor.
	PriorityOfFresh = 30

	// PriorityOfFirst is for releases that are not installed yet: their Clusters wait for them.
	PriorityOfFirst = 20

	// PriorityOfWork is for releases that differ from their desired state.
	PriorityOfWork = 0

	// PriorityOfFailure is for releases that failed. They come after others, which may succeed.
	PriorityOfFailure = -10

	// PriorityOfRest is for releases that are known to be in their desired state, and for releases in unreachable
	// Clusters. A manager that has just started checks all of them. Releases of this priority that have begun, and whose
	// read has ended, have async.PriorityOfBegun.
	PriorityOfRest = -90
)

// FreshFor is how long a release has the priority PriorityOfFresh after its first installation. A release that is not
// ready by then may never become ready.
const FreshFor = 2 * time.Minute

// IsFirst reports whether a release is not installed yet and is not under deletion.
func IsFirst(release *addonsv1.HelmOpRelease) bool {
	return release.DeletionTimestamp.IsZero() && release.Status.Release == nil
}

// isFresh reports whether a release was first installed less than FreshFor ago. The time comes from the Cluster, whose
// clock may be wrong. If the clock is far ahead, the release is not fresh at all: otherwise it would stay fresh for too
// long.
func isFresh(release *addonsv1.HelmOpRelease, now time.Time) bool {
	observed := release.Status.Release
	return observed != nil && observed.Revision == 1 && now.Sub(observed.LastDeployed.Time).Abs() < FreshFor
}

// PriorityOf returns the priority of a pass over a release. answers is true if the API server of its Cluster responded
// to the last probe. This matters because the API server of a new Cluster often responds only after the release was
// reported as unreachable.
func PriorityOf(release *addonsv1.HelmOpRelease, answers bool, now time.Time) int {
	switch {
	case conditions.IsFalse(release, addonsv1.ClusterReachableCondition) && (!answers || !IsFirst(release)):
		return PriorityOfRest
	case release.Status.Failures > 0:
		return PriorityOfFailure
	case IsFirst(release):
		return PriorityOfFirst
	case !release.DeletionTimestamp.IsZero():
		return PriorityOfWork
	case !apiutil.IsReadyNow(release) && isFresh(release, now):
		return PriorityOfFresh
	case !apiutil.IsReadyNow(release):
		return PriorityOfWork
	default:
		return PriorityOfRest
	}
}

// stateQueue is a queue in which the state of an object may determine its priority, whatever caused the request.
type stateQueue struct {
	priorityqueue.PriorityQueue[ctrl.Request]

	// priorityOf returns the priority of an object. given is the priority in the request; nil if the request has none.
	priorityOf func(object ctrl.Request, given *int) int
}

// Constructor makes the queue of a controller.
type Constructor = func(name string, limiter workqueue.TypedRateLimiter[ctrl.Request],
) workqueue.TypedRateLimitingInterface[ctrl.Request]

func newPriorityQueue(name string, limiter workqueue.TypedRateLimiter[ctrl.Request],
) priorityqueue.PriorityQueue[ctrl.Request] {
	return priorityqueue.New(name, func(o *priorityqueue.Opts[ctrl.Request]) { o.RateLimiter = limiter })
}

// Add implements workqueue.TypedInterface.
func (q *stateQueue) Add(object ctrl.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, object) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *stateQueue) AddAfter(object ctrl.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, object)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *stateQueue) AddRateLimited(object ctrl.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, object)
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *stateQueue) AddWithOpts(opts priorityqueue.AddOpts, objects ...ctrl.Request) {
	given := opts.Priority
	for _, object := range objects {
		opts.Priority = new(q.priorityOf(object, given))
		q.PriorityQueue.AddWithOpts(opts, object)
	}
}

// ClusterAnswers reports whether the API server of a Cluster responded to the last probe.
type ClusterAnswers func(cluster client.ObjectKey) bool

// AnswersOf returns a ClusterAnswers that uses the state of the links. The management cluster is not probed: while it
// does not respond, the manager cannot do anything.
func AnswersOf(clusters clusterview.Clusters) ClusterAnswers {
	return func(cluster client.ObjectKey) bool {
		if cluster == clusterlink.Management {
			return true
		}
		state := clusters.State(cluster)
		return !state.LastAnswer.IsZero() && state.Failures == 0
	}
}

// New returns a constructor of queues of releases. reader reads the releases from a cache. At the start of the manager,
// thousands of releases are enqueued when their links are created, and a new Cluster must not wait for them. A release
// with a granted slot is first, whatever caused the request.
func New(reader client.Reader, answers ClusterAnswers, hasSlot func(client.ObjectKey) bool) Constructor {
	priorityOf := func(request ctrl.Request, given *int) int {
		// At the start, all listed objects have a low priority. Unfinished releases among them are as urgent as others. So
		// this priority, and that of begun work, are only lower bounds.
		least := ptr.Deref(given, handler.LowPriority)
		if least != handler.LowPriority && least != async.PriorityOfBegun {
			return least
		}
		if hasSlot(request.NamespacedName) {
			return async.PriorityOfSlot
		}
		release := &addonsv1.HelmOpRelease{}
		if reader.Get(context.Background(), request.NamespacedName, release, client.UnsafeDisableDeepCopy) != nil {
			return PriorityOfWork // The object is deleted, or not in the cache yet.
		}
		return max(least, PriorityOf(release, answers(apiutil.ClusterKey(release)), time.Now()))
	}
	return func(name string,
		limiter workqueue.TypedRateLimiter[ctrl.Request]) workqueue.TypedRateLimitingInterface[ctrl.Request] {
		return &stateQueue{PriorityQueue: newPriorityQueue(name, limiter), priorityOf: priorityOf}
	}
}

// Spread returns a delay with a jitter that depends on the release, so that the releases of a whole fleet do not
// continue at the same time.
func Spread(delay time.Duration, release *addonsv1.HelmOpRelease) time.Duration {
	return time.Duration(float64(delay) * (1 - requeue.Jitter/2 + requeue.Jitter*apiutil.Jitter(release)))
}

// WithinResync returns the delay until the next reconciliation of a HelmOp or a release: delay, but at most the resync
// period. The period differs by at most a tenth between objects, so that they are not all reconciled at the same time.
// A period of 0 means that there is no resync.
func WithinResync(delay, period time.Duration, object client.Object) time.Duration {
	isGone := !object.GetDeletionTimestamp().IsZero() && len(object.GetFinalizers()) == 0
	if period <= 0 || isGone {
		return delay
	}
	period = time.Duration(float64(period) * (0.9 + 0.2*apiutil.Jitter(object)))
	if delay <= 0 || delay > period {
		return period
	}
	return delay
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
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

// What is worked on first. Within a priority, who came first is first.
const (

	// PriorityOfFresh is for those that were installed a moment ago, and are not ready as far as is known: the next charts
	// of their Clusters wait for them. A look costs little, and there are no more of them than are installed in FreshFor.
	PriorityOfFresh = 30

	// PriorityOfFirst is for releases that are not there yet: their Clusters wait for them.
	PriorityOfFirst = 20

	// PriorityOfWork is for releases of which something else is wanted than they are.
	PriorityOfWork = 0

	// PriorityOfFailure is for those that failed: others may succeed.
	PriorityOfFailure = -10

	// PriorityOfRest is for those that are as they are wanted as far as is known, and for those that cannot be reached. A
	// manager that has just started looks at all of them.
	PriorityOfRest = -90
)

// FreshFor is for how long after its first installation a release is looked at before those that are not there yet. One
// that is not ready by then may never be.
const FreshFor = 2 * time.Minute

// IsFirst tells whether a release is not there yet, and is to be.
func IsFirst(release *addonsv1.HelmOpRelease) bool {
	return release.DeletionTimestamp.IsZero() && release.Status.Release == nil
}

// isFresh tells whether a release was installed, for the first time, a moment ago. It is its Cluster that tells the
// time, which may be wrong: one that is far ahead makes nothing fresh for ever.
func isFresh(release *addonsv1.HelmOpRelease, now time.Time) bool {
	observed := release.Status.Release
	return observed != nil && observed.Revision == 1 && now.Sub(observed.LastDeployed.Time).Abs() < FreshFor
}

// PriorityOf is how urgent a pass over a release is. answers tells whether the API server of its Cluster has answered
// when it was asked last: that of a new Cluster often begins to after the release was reported as unreachable.
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

// judgedQueue is a queue that decides by the state of an object how urgent it is, whatever brings it there.
type judgedQueue struct {
	priorityqueue.PriorityQueue[ctrl.Request]

	// judge returns the priority of an object; given is that with which it comes, nil for none.
	judge func(object ctrl.Request, given *int) int
}

func newJudgedQueue(name string, limiter workqueue.TypedRateLimiter[ctrl.Request],
	judge func(ctrl.Request, *int) int,
) *judgedQueue {
	return &judgedQueue{judge: judge, PriorityQueue: priorityqueue.New(name,
		func(o *priorityqueue.Opts[ctrl.Request]) { o.RateLimiter = limiter })}
}

// Add implements workqueue.TypedInterface.
func (q *judgedQueue) Add(object ctrl.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, object) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *judgedQueue) AddAfter(object ctrl.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, object)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *judgedQueue) AddRateLimited(object ctrl.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, object)
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *judgedQueue) AddWithOpts(opts priorityqueue.AddOpts, objects ...ctrl.Request) {
	given := opts.Priority
	for _, object := range objects {
		opts.Priority = new(q.judge(object, given))
		q.PriorityQueue.AddWithOpts(opts, object)
	}
}

// ClusterAnswers tells whether the API server of a Cluster has answered when it was asked last.
type ClusterAnswers func(cluster client.ObjectKey) bool

// AnswersOf is ClusterAnswers by the ways to the clusters. The management cluster is not probed: it answers, or nothing
// happens at all.
func AnswersOf(clusters clusterview.Clusters) ClusterAnswers {
	return func(cluster client.ObjectKey) bool {
		if cluster == clusterlink.Management {
			return true
		}
		state := clusters.State(cluster)
		return !state.LastAnswer.IsZero() && state.Failures == 0
	}
}

// New makes queues of releases, which are read from a cache: at the start of the manager thousands are looked at since
// their connections have come, and a new Cluster must not wait for them. A release with a slot is first, whatever
// brings it back.
func New(reader client.Reader, answers ClusterAnswers,
	hasSlot func(client.ObjectKey) bool,
) func(string, workqueue.TypedRateLimiter[ctrl.Request]) workqueue.TypedRateLimitingInterface[ctrl.Request] {
	judge := func(request ctrl.Request, given *int) int {
		// The low priority of what is listed at the start counts for nothing: what is found unfinished then is as urgent as
		// ever.
		if given != nil && *given != handler.LowPriority {
			return *given
		}
		if hasSlot(request.NamespacedName) {
			return async.PriorityOfTurn
		}
		release := &addonsv1.HelmOpRelease{}
		if reader.Get(context.Background(), request.NamespacedName, release, client.UnsafeDisableDeepCopy) != nil {
			return PriorityOfWork // It is gone, or about to be known.
		}
		return PriorityOf(release, answers(apiutil.ClusterKey(release)), time.Now())
	}
	return func(name string,
		limiter workqueue.TypedRateLimiter[ctrl.Request]) workqueue.TypedRateLimitingInterface[ctrl.Request] {
		return newJudgedQueue(name, limiter, judge)
	}
}

// Spread is a delay that differs from release to release: what a whole fleet waits for must not bring all of it back at
// once.
func Spread(delay time.Duration, release *addonsv1.HelmOpRelease) time.Duration {
	return time.Duration(float64(delay) * (1 - requeue.Jitter/2 + requeue.Jitter*apiutil.Jitter(release)))
}

// WithinResync is when a HelmOp or a release is looked at again: after delay, and no later than each is. Each has a
// period of its own, a tenth shorter or longer at most, so that they are not looked at all at once. 0 is never.
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

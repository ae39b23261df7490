// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"maps"
	"reflect"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// A pass over a HelmOp takes longer with more Clusters. So the events of a HelmOp with many Clusters are collected
// longer, except the events that a user waits for.
const (
	// SettleDelay is how long events of other objects are collected before their HelmOp is reconciled. Otherwise, a
	// thousand Clusters that are created together would cause a thousand passes over a thousand Clusters.
	SettleDelay = 250 * time.Millisecond

	// changePace is how long events after which a pass may change releases are collected for each Cluster of the HelmOp,
	// and maxChangeDelay is the limit.
	changePace, maxChangeDelay = 2 * time.Millisecond, 4 * time.Second

	// countPace and maxCountDelay are the same for events of releases that only change numbers in the status of the
	// HelmOp. With a short limit, the number of these passes would grow with the number of Clusters, too.
	countPace, maxCountDelay = 5 * time.Millisecond, 30 * time.Second

	// unreadyPace is how long the events of releases that became Ready are collected for each release that becomes Ready
	// later, see unreadyReleases. So the status of the HelmOp shows the last Ready release after SettleDelay.
	unreadyPace = 40 * time.Millisecond
)

// Delayed returns a handler that enqueues the requests for an object after SettleDelay. For an update, it enqueues the
// requests for the old and the new state.
func Delayed(toRequests handler.MapFunc) handler.Funcs { return delayed(toRequests, settleDelay) }

func delayed(toRequests handler.MapFunc, delay delayFunc) handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requestQueue) {
			enqueue(ctx, q, toRequests, delay, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requestQueue) {
			if !isResync(e) {
				enqueue(ctx, q, toRequests, delay, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requestQueue) {
			enqueue(ctx, q, toRequests, delay, e.Object)
		},
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q requestQueue) {
			enqueue(ctx, q, toRequests, delay, e.Object)
		},
	}
}

// requestQueue is the queue of a controller.
type requestQueue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// delayFunc returns how long the events of an object are collected before a request.
type delayFunc func(context.Context, ctrl.Request) time.Duration

func settleDelay(context.Context, ctrl.Request) time.Duration { return SettleDelay }

// isResync reports whether an event is part of the periodic resync of all objects, see queue.WithinResync.
func isResync(e event.UpdateEvent) bool {
	return e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion()
}

// enqueue enqueues each request for the objects once.
func enqueue(ctx context.Context, q requestQueue, toRequests handler.MapFunc, delay delayFunc,
	objects ...client.Object,
) {
	requests := map[ctrl.Request]struct{}{}
	for _, obj := range objects {
		for _, request := range toRequests(ctx, obj) {
			requests[request] = struct{}{}
		}
	}
	for request := range requests {
		q.AddAfter(request, delay(ctx, request))
	}
}

// soonPasses is the number of passes in a row for which a Pace does not wait. A new Cluster has about as many events.
const soonPasses = 5

// Pace limits how often the events of Clusters and references cause passes over HelmOps. A user waits for these passes,
// so they take place after SettleDelay. But when a whole fleet is created, each of them is a pass over all Clusters. So
// after soonPasses in a row, the time between them is [ChangeDelay]. A Pace is safe for concurrent use.
type Pace struct {
	reader client.Reader

	mu sync.Mutex
	// helmOps has only HelmOps with so many Clusters that their ChangeDelay is longer than SettleDelay.
	helmOps map[ctrl.Request]*pacedPasses
}

// pacedPasses are the passes over a HelmOp that a Pace has requested. The last of them is due at a time.
type pacedPasses struct {
	budget *rate.Limiter
	due    time.Time
}

// NewPace returns a Pace with a reader of HelmOps.
func NewPace(reader client.Reader) *Pace {
	return &Pace{reader: reader, helmOps: map[ctrl.Request]*pacedPasses{}}
}

// Delayed returns a handler that enqueues the HelmOps of an object at this pace, see [Delayed].
func (p *Pace) Delayed(toHelmOps handler.MapFunc) handler.Funcs { return delayed(toHelmOps, p.delay) }

// delay returns how long an event of a HelmOp is collected. If the last pass is not due yet, the event needs no other.
func (p *Pace) delay(ctx context.Context, helmOp ctrl.Request) time.Duration {
	interval := ChangeDelay(ctx, p.reader, helmOp)
	p.mu.Lock()
	defer p.mu.Unlock()
	if interval <= SettleDelay {
		delete(p.helmOps, helmOp)
		return SettleDelay
	}
	passes := p.helmOps[helmOp]
	now := time.Now()
	if passes == nil {
		// After this time, the passes before the last one no longer count. The HelmOp may be deleted.
		maps.DeleteFunc(p.helmOps, func(_ ctrl.Request, other *pacedPasses) bool {
			return now.Sub(other.due) > soonPasses*maxChangeDelay
		})
		passes = &pacedPasses{budget: rate.NewLimiter(0, soonPasses)}
		p.helmOps[helmOp] = passes
	}
	if wait := passes.due.Sub(now); wait > 0 {
		return wait
	}
	passes.budget.SetLimitAt(now, rate.Every(interval))
	wait := max(SettleDelay, passes.budget.ReserveN(now, 1).DelayFrom(now))
	passes.due = now.Add(wait)
	return wait
}

// ClusterEvents returns a handler for Clusters and the objects to which Clusters refer. It enqueues the HelmOps of a
// Cluster at a pace. If only the status of the object changed, the HelmOps are enqueued later: Cluster API
// changes conditions and the numbers of machines several times per second in a large fleet. A template may read them,
// so these events need a pass, too. The same holds for the objects of a kind that is watched later than the start: a
// busy manager takes seconds to replay a whole fleet.
func ClusterEvents(pace *Pace, toHelmOps handler.MapFunc) handler.EventHandler {
	events, later := pace.Delayed(toHelmOps), changeDelay(pace.reader)
	created, updated := events.CreateFunc, events.UpdateFunc
	events.CreateFunc = func(ctx context.Context, e event.CreateEvent, q requestQueue) {
		if e.IsInInitialList {
			enqueue(ctx, q, toHelmOps, later, e.Object)
			return
		}
		created(ctx, e, q)
	}
	events.UpdateFunc = func(ctx context.Context, e event.UpdateEvent, q requestQueue) {
		switch {
		case isResync(e):
		case isStatusOnly(e.ObjectOld, e.ObjectNew) && !isAwaitedStatus(e.ObjectOld, e.ObjectNew):
			// The labels have not changed, so the old state has the same HelmOps.
			enqueue(ctx, q, toHelmOps, later, e.ObjectNew)
		default:
			updated(ctx, e, q)
		}
	}
	return events
}

// isStatusOnly reports whether an update changed only the status of an object.
func isStatusOnly(before, after client.Object) bool {
	return before.GetUID() == after.GetUID() && !isSpecChanged(before, after)
}

// awaitedFields are the fields in the status of Clusters and control planes after which HelmOp installs a release, or
// changes it for an upgrade of Kubernetes.
var awaitedFields = [][]string{
	{"status", "initialization"}, {"status", "version"}, {"status", "versions"}, {"status", "controlPlane", "upgradePlan"},
}

// isAwaitedStatus reports whether an update changed one of awaitedFields, or Cluster API has processed a new topology.
// During an upgrade of Kubernetes, HelmOp waits for the new topology before it changes releases.
func isAwaitedStatus(before, after client.Object) bool {
	was, wasOK := before.(*unstructured.Unstructured)
	is, isOK := after.(*unstructured.Unstructured)
	if !wasOK || !isOK {
		return true
	}
	for _, field := range awaitedFields {
		a, _, _ := unstructured.NestedFieldNoCopy(was.Object, field...)
		b, _, _ := unstructured.NestedFieldNoCopy(is.Object, field...)
		if !reflect.DeepEqual(a, b) {
			return true
		}
	}
	return observedTopology(was) != observedTopology(is)
}

// observedTopology returns the generation of a Cluster whose topology Cluster API has processed. It is 0 if it is not
// known, or the object is no Cluster.
func observedTopology(obj *unstructured.Unstructured) int64 {
	all, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	list, _ := all.([]any)
	for _, item := range list {
		condition, _ := item.(map[string]any)
		if condition["type"] == clusterv1.ClusterTopologyReconciledCondition {
			generation, _ := condition["observedGeneration"].(int64)
			return generation
		}
	}
	return 0
}

// ChangeDelay returns how long events after which a pass over a HelmOp may change releases are collected.
func ChangeDelay(ctx context.Context, reader client.Reader, helmOp ctrl.Request) time.Duration {
	selected, _ := progressOf(ctx, reader, helmOp)
	return collectFor(selected, changePace, maxChangeDelay)
}

// MessageDelay returns how long events after which a pass over a HelmOp only changes its status are collected.
func MessageDelay(ctx context.Context, reader client.Reader, helmOp ctrl.Request) time.Duration {
	selected, _ := progressOf(ctx, reader, helmOp)
	return collectFor(selected, countPace, maxCountDelay)
}

func changeDelay(reader client.Reader) delayFunc {
	return func(ctx context.Context, helmOp ctrl.Request) time.Duration { return ChangeDelay(ctx, reader, helmOp) }
}

// collectFor returns pace for each of a number of objects, at least SettleDelay and at most limit.
func collectFor(number int, pace, limit time.Duration) time.Duration {
	return min(max(SettleDelay, time.Duration(number)*pace), limit)
}

// progressOf returns how many Clusters a HelmOp selects, and whether it has assigned its revision to all of them, by
// the status of its last pass.
func progressOf(ctx context.Context, reader client.Reader, request ctrl.Request) (selected int, isAssigned bool) {
	helmOp := &addonsv1.HelmOp{}
	err := reader.Get(ctx, request.NamespacedName, helmOp, client.UnsafeDisableDeepCopy)
	if err != nil || helmOp.Status.Clusters == nil {
		return 0, false
	}
	rollout := helmOp.Status.Rollout
	return int(helmOp.Status.Clusters.Selected), rollout != nil && rollout.Updated >= helmOp.Status.Clusters.Selected
}

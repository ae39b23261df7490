// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// passQueue is a queue for one HelmOp with a clock that the test moves. Like the queue of a controller, it keeps only
// the earliest request.
type passQueue struct {
	requestQueue
	now, due time.Duration
	passes   int
}

func (q *passQueue) AddAfter(_ ctrl.Request, after time.Duration) {
	if at := q.now + after; q.due == 0 || at < q.due {
		q.due = at
	}
}

// until moves the clock, and makes the pass if it is due by then.
func (q *passQueue) until(now time.Duration) {
	if q.due != 0 && q.due <= now {
		q.passes, q.due = q.passes+1, 0
	}
	q.now = now
}

// fleetReader reads a HelmOp with a status, and lists nothing.
type fleetReader struct {
	client.Reader
	status addonsv1.HelmOpStatus
}

func (r *fleetReader) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	helmOp := obj.(*addonsv1.HelmOp)
	helmOp.Namespace, helmOp.Name, helmOp.Status = key.Namespace, key.Name, r.status
	return nil
}

func (r *fleetReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return nil
}

// fleetOf returns a reader of a HelmOp that selects a number of Clusters and has assigned its revision to some of them.
func fleetOf(selected, updated int32) *fleetReader {
	return &fleetReader{status: addonsv1.HelmOpStatus{Clusters: &addonsv1.ClusterCounts{Selected: selected},
		Rollout: &addonsv1.RolloutStatus{Updated: updated}}}
}

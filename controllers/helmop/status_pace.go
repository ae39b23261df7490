// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

const (
	// countPace is how long, for each Cluster of a HelmOp, a status is held back that only counts on: a thousand releases that turn
	// ready are to be some tens of writes, and ten of them are to be seen at once.
	countPace = 10 * time.Millisecond

	// maxCountPace bounds it.
	maxCountPace = 15 * time.Second
)

// statusPace remembers when the status of each HelmOp was written last, and what it was. It is safe for concurrent use.
type statusPace struct {
	mu      sync.Mutex
	written map[types.NamespacedName]writtenStatus
}

type writtenStatus struct {
	uid    types.UID
	at     time.Time
	digest string
}

// NewStatusPace remembers no status.
func NewStatusPace() *statusPace {
	return &statusPace{written: map[types.NamespacedName]writtenStatus{}}
}

// note notes what was written.
func (p *statusPace) note(helmOp *addonsv1.HelmOp, now time.Time) {
	digest, err := apiutil.DigestOf(helmOp.Status)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written[client.ObjectKeyFromObject(helmOp)] = writtenStatus{uid: helmOp.UID, at: now, digest: digest}
}

// isStale tells whether a cache does not show the status that was written last. What is written is the difference to what was read: one
// that is made from an older status leaves out what the newer one changed, and no event would follow.
func (p *statusPace) isStale(helmOp *addonsv1.HelmOp, now time.Time) bool {
	p.mu.Lock()
	known, ok := p.written[client.ObjectKeyFromObject(helmOp)]
	p.mu.Unlock()
	if !ok || known.uid != helmOp.UID || now.Sub(known.at) > requeue.StaleLimit {
		return false
	}
	digest, err := apiutil.DigestOf(helmOp.Status)
	return err == nil && digest != known.digest
}

// hold takes a status back that says nothing new but numbers, if one was written a moment ago, and returns how long it is to be held
// back.
func (p *statusPace) hold(before, after *addonsv1.HelmOp, now time.Time) time.Duration {
	if equality.Semantic.DeepEqual(before, after) {
		return 0
	}
	if !countsOn(before, after) {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pace := min(time.Duration(after.Status.Clusters.Selected)*countPace, maxCountPace)
	wait := p.written[client.ObjectKeyFromObject(after)].at.Add(pace).Sub(now)
	if wait <= 0 {
		return 0
	}
	after.Status = before.Status
	return wait
}

func (p *statusPace) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.written, key)
}

// countsOn tells whether nothing but numbers, and texts with numbers in them, is different.
func countsOn(before, after *addonsv1.HelmOp) bool {
	if before.Status.Clusters == nil || after.Status.Clusters == nil {
		return false
	}
	same := after.DeepCopy()
	same.Status.Clusters, same.Status.Failures = before.Status.Clusters, before.Status.Failures
	if was, is := before.Status.Rollout, same.Status.Rollout; was != nil && is != nil {
		is.Updated, is.Done, is.InFlight, is.Failed, is.WaitingFor = was.Updated, was.Done, was.InFlight, was.Failed, was.WaitingFor
	}
	for i := range same.Status.Conditions {
		is := &same.Status.Conditions[i]
		if was := conditions.Get(before, is.Type); was != nil && was.Status == is.Status && was.Reason == is.Reason {
			is.Message = was.Message
		}
	}
	return equality.Semantic.DeepEqual(before, same)
}

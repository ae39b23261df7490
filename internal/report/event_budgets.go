// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

const (
	// EventBurst and eventInterval limit the Events of a HelmOp about its releases, for each reason: EventBurst Events at
	// once, and one more in each interval. A thousand Events do not help a user more, they hide other Events, and they are
	// a fifth of the writes of an installation to the API server.
	EventBurst    = 25
	eventInterval = time.Minute

	// maxEventBudgets is the largest number of budgets in memory. There is one for each HelmOp and reason, with about 150
	// bytes each.
	maxEventBudgets = 1 << 12
)

// EventBudgets limit the Events of HelmOps about their releases. They do not limit the Events of the releases
// themselves. Nil budgets do not limit any Event. EventBudgets are safe for concurrent use.
type EventBudgets struct {
	limiters *lru.Cache[eventSubject, *rate.Limiter]
	now      func() time.Time
}

type eventSubject struct {
	helmOp types.UID
	reason string
}

// NewEventBudgets returns full budgets.
func NewEventBudgets(now func() time.Time) *EventBudgets {
	limiters, _ := lru.New[eventSubject, *rate.Limiter](maxEventBudgets) // fails only if the size is not positive
	return &EventBudgets{limiters: limiters, now: now}
}

// Take reports whether a HelmOp may have an Event for a reason now, and counts the Event against the budget.
func (b *EventBudgets) Take(helmOp *addonsv1.HelmOp, reason string) bool {
	return b.TakeFor(helmOp.UID, reason)
}

// TakeFor does the same as Take for any object, by its UID.
func (b *EventBudgets) TakeFor(uid types.UID, reason string) bool {
	if b == nil {
		return true
	}
	subject := eventSubject{uid, reason}
	limiter, ok := b.limiters.Get(subject)
	if !ok {
		limiter = rate.NewLimiter(rate.Every(eventInterval), EventBurst)
		if known, ok, _ := b.limiters.PeekOrAdd(subject, limiter); ok {
			limiter = known
		}
	}
	return limiter.AllowN(b.now(), 1)
}

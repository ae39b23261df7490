// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package actionmemory

import (
	"context"
	"sync"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// lateTimeout is how long an action that has changed something waits for more memory, in all.
const lateTimeout = time.Minute

// errMore means that an action needs more memory than is free. It must end and begin again, see [Budget.Do].
var errMore = helmerr.New(helmerr.ErrTimeout, "other large releases use the manager's memory for actions")

// Lease is the memory that one action holds. A nil Lease has no bound. It is safe for concurrent use.
type Lease struct {
	budget *Budget
	owner  Owner

	// held is guarded by the mutex of the budget.
	held int64

	mu sync.Mutex
	// records is the memory for the records of the release.
	records int64
	texts   texts
	// atLeast is the number of bytes that await reserved. The lease keeps them until Settle.
	atLeast int64
	// wanted is the largest number of bytes that was not free.
	wanted int64
	// isCommitted means that the action has changed something, so it cannot begin again. late is the time until which
	// it may wait; zero before its first wait.
	isCommitted bool
	late        time.Time
	// isForced means that the action may need more than the whole budget, see [Lease.Force].
	isForced bool
}

// Held returns the number of bytes that the Lease holds.
func (l *Lease) Held() int64 {
	if l == nil {
		return 0
	}
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	return l.held
}

// await waits until a number of bytes is free, for an action that begins. The Lease must be new. The error is
// [helmerr.ErrTimeout] if the deadline of ctx passes first.
func (l *Lease) await(ctx context.Context, bytes int64) error {
	if l == nil || bytes <= 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.budget.await(ctx, l, bytes); err != nil {
		return err
	}
	l.atLeast = bytes
	return nil
}

// beginsAgain returns how many bytes the action needs so far, if some were not free and it has changed nothing.
// Otherwise it returns 0.
func (l *Lease) beginsAgain() int64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCommitted {
		return 0
	}
	return l.wanted
}

// Commit notes that the action is about to change something. From then on, it does not begin again. If it needs more
// memory, it waits up to a minute, and then continues without this memory: an action that has begun must not fail
// because of other releases.
func (l *Lease) Commit() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCommitted = true
}

// Force permits an action to need more than the whole budget. It then waits until it is the only one. Uninstallations
// need this: the release exists, whatever its size.
func (l *Lease) Force() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isForced = true
}

// Records reserves memory for reading or writing a record.
func (l *Lease) Records(bytes int64) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.records
	l.records = max(l.records, bytes)
	err := l.update()
	if err != nil {
		l.records = before
	}
	return err
}

// RestRecords gives memory for records back, except for a number of bytes.
func (l *Lease) RestRecords(bytes int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = min(l.records, bytes)
	l.shrink()
}

// shrink is update after the needs of the action became smaller. Less memory is always free.
func (l *Lease) shrink() { _ = l.update() }

// update changes the held bytes to what the action needs. It never waits, unless the action has changed something.
// After an error, the caller undoes its change.
func (l *Lease) update() error {
	b, bytes := l.budget, max(l.records+l.texts.size(), l.atLeast)
	switch {
	case l.isForced || l.isCommitted:
		bytes = min(bytes, b.total)
	case bytes > b.total:
		return b.tooLarge(bytes)
	}
	b.mu.Lock()
	isFree := b.resize(l, bytes)
	b.mu.Unlock()
	switch {
	case isFree:
		return nil
	case !l.isCommitted:
		l.wanted = max(l.wanted, bytes)
		return errMore
	}
	if l.late.IsZero() {
		l.late = time.Now().Add(lateTimeout)
	}
	ctx, cancel := context.WithDeadline(context.Background(), l.late)
	defer cancel()
	// Without the memory, the action continues: see Commit.
	_ = b.await(ctx, l, bytes)
	return nil
}

// Release gives all memory back. The Lease is empty afterwards. It is harmless to call it again.
func (l *Lease) Release() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records, l.atLeast, l.texts = 0, 0, texts{}
	l.shrink()
}

// Waits are the waits of an action.
type Waits struct {
	// Context ends the waits. It may end earlier than the action itself.
	Context context.Context
	// Begin is called before each wait; nil if there is nothing to do.
	Begin func()
}

// Do calls use with a Lease, and releases the Lease. If use fails because it needs more memory than is free, Do waits
// until what it needed so far is free, and calls use again. use must keep nothing large when it fails. With a nil
// Budget, the Lease is nil. If a wait ends early, use has changed nothing in the end.
func (b *Budget) Do(waits Waits, owner Owner, use func(*Lease) error) error {
	for need := int64(0); ; {
		lease := b.Lease(owner)
		wanted, err := lease.try(waits.Context, need, use)
		if err == nil || wanted <= need {
			return err
		}
		need = wanted
		if waits.Begin != nil {
			waits.Begin()
		}
	}
}

// try calls use once. It releases the Lease also after a panic.
func (l *Lease) try(ctx context.Context, need int64, use func(*Lease) error) (wanted int64, err error) {
	defer l.Release()
	if err := l.await(ctx, need); err != nil {
		return 0, err
	}
	if need > 0 && ctx.Err() != nil {
		return 0, l.budget.ended(ctx, need)
	}
	err = use(l)
	return l.beginsAgain(), err
}

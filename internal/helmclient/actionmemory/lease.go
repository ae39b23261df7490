// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package actionmemory

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// lateTimeout is how long an action that has changed something waits for more memory, in all.
const lateTimeout = time.Minute

// waitTimeout is how long an action that has changed nothing waits for memory. Then it ends, and its caller tries it
// again later: an action that waits would keep others of the cluster waiting for slots and workers.
const waitTimeout = 15 * time.Second

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
	// wanted is the number of bytes that were not free, and shortage is the error. From then on, the lease grows only
	// after Commit, which returns the error: Helm ignores some errors, and would continue with an incomplete history.
	wanted   int64
	shortage error
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
// [helmerr.ErrBusy] if the deadline of ctx passes first.
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

// lacked returns the shortage that ended an action which has changed nothing, and how many bytes it needs so far. The
// number is 0 if the action needs more than the whole budget. The error is nil if there was no shortage.
func (l *Lease) lacked() (bytes int64, shortage error) {
	if l == nil {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wanted, l.shortage
}

// Commit notes that the action is about to change something. From then on, it does not begin again. If it needs more
// memory, it waits up to a minute, and then continues without this memory: an action that has begun must not fail
// because of other releases. The error is the first shortage of memory, if there was one. The action must then end, and
// change nothing.
func (l *Lease) Commit() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCommitted {
		return nil
	}
	l.isCommitted = l.shortage == nil
	return l.shortage
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
		l.shortage = cmp.Or(l.shortage, b.tooLarge(bytes))
	}
	if l.shortage != nil && bytes > l.Held() {
		return l.shortage
	}
	shortage := b.grow(l, bytes)
	switch {
	case shortage == nil:
		return nil
	case !l.isCommitted:
		l.wanted, l.shortage = bytes, shortage
		return shortage
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

// Do calls use with a Lease, and releases the Lease. If use needs more memory than is free, Do waits until what it
// needed so far is free, and calls use again. use must keep nothing large when it fails. With a nil Budget, the Lease
// is nil. The error is [helmerr.ErrBusy] if the memory is not free within 15 seconds. If a wait ends early, use has
// changed nothing in the end.
func (b *Budget) Do(waits Waits, owner Owner, use func(*Lease) error) error {
	for need := int64(0); ; {
		wanted, err := b.Lease(owner).try(waits.Context, need, use)
		if wanted <= need {
			return err
		}
		need = wanted
		if waits.Begin != nil {
			waits.Begin()
		}
	}
}

// try calls use once, after it has waited for the bytes that a former try needed. It releases the Lease also after a
// panic. wanted is 0 unless the next try must wait for more.
func (l *Lease) try(ctx context.Context, need int64, use func(*Lease) error) (wanted int64, err error) {
	defer l.Release()
	if need > 0 {
		waiting, cancel := context.WithTimeout(ctx, waitTimeout)
		defer cancel()
		if err := l.await(waiting, need); err != nil {
			return 0, err
		}
		if ctx.Err() != nil {
			return 0, l.budget.late(ctx, l, need)
		}
	}
	err = use(l)
	// Helm may have ignored the shortage.
	if bytes, shortage := l.lacked(); shortage != nil {
		return bytes, shortage
	}
	return 0, err
}

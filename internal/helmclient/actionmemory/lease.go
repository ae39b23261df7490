// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package actionmemory

import (
	"context"
	"sync"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// lateTimeout is how long an action that has changed something waits for more memory.
const lateTimeout = time.Minute

// errMore means that an action needs more memory than is free. It must end and begin again, see [Budget.Do].
var errMore = helmerr.New(helmerr.ErrTimeout, "other large releases use the manager's memory for actions")

// part is what memory is used for.
type part int

const (
	// records are the records of the release. rendered is the rendered chart with its objects. objects are the other
	// manifests and CRDs, with their objects. parsing is for the parse of the largest text that is not parsed yet.
	records part = iota
	rendered
	objects
	parsing
	parts
)

// Lease is the memory that one action holds. A nil Lease has no bound. It is safe for concurrent use.
type Lease struct {
	budget *Budget
	owner  Owner

	// held is guarded by the mutex of the budget.
	held int64

	mu    sync.Mutex
	parts [parts]int64
	// atLeast is the number of bytes that await reserved. The lease keeps them until Settle.
	atLeast int64
	wanted  int64
	// isCommitted means that the action has changed something, so it cannot begin again.
	isCommitted bool
	manifests   manifests
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
// [helmerr.ErrTimeout] if ctx ends first.
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

// beginsAgain returns how many bytes the action needs in all, if some were not free and it has changed nothing.
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

// Commit notes that the action is about to change something. From then on, it waits a short time if it needs more
// memory: another action that holds memory may wait, too.
func (l *Lease) Commit() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCommitted = true
}

// Records reserves memory for reading or writing a record.
func (l *Lease) Records(bytes int64) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.set(records, max(l.parts[records], bytes))
}

// RestRecords gives memory for records back, except for a number of bytes.
func (l *Lease) RestRecords(bytes int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Less memory is always free.
	_ = l.set(records, min(l.parts[records], bytes))
}

// set changes the bytes of one part. It never waits, unless the action has changed something.
func (l *Lease) set(which part, bytes int64) error {
	before := l.parts[which]
	l.parts[which] = bytes
	total := int64(0)
	for _, one := range l.parts {
		total += one
	}
	err := l.resize(max(total, l.atLeast))
	if err != nil {
		l.parts[which] = before
	}
	return err
}

func (l *Lease) resize(bytes int64) error {
	b := l.budget
	if err := b.tooLarge(bytes); err != nil {
		return err
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
	ctx, cancel := context.WithTimeout(context.Background(), lateTimeout)
	defer cancel()
	return b.await(ctx, l, bytes)
}

// Release gives all memory back. The Lease is empty afterwards. It is harmless to call it again.
func (l *Lease) Release() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts, l.atLeast, l.manifests = [parts]int64{}, 0, manifests{}
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	l.budget.resize(l, 0)
}

// Do calls use with a Lease, and releases the Lease. If use fails because it needs more memory than is free, Do waits
// until the memory is free and calls use again. ctx limits the waits. With a nil Budget, the Lease is nil.
func (b *Budget) Do(ctx context.Context, owner Owner, use func(*Lease) error) error {
	for need := int64(0); ; {
		lease := b.Lease(owner)
		wanted, err := lease.try(ctx, need, use)
		if err == nil || wanted <= need {
			return err
		}
		need = wanted
	}
}

// try calls use once. It releases the Lease also after a panic.
func (l *Lease) try(ctx context.Context, need int64, use func(*Lease) error) (wanted int64, err error) {
	defer l.Release()
	if err := l.await(ctx, need); err != nil {
		return 0, err
	}
	err = use(l)
	return l.beginsAgain(), err
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bytebudget

import (
	"context"
	"io"
)

const (
	// firstStep is how many bytes of text an answer of unknown size acquires first, when it exceeds Free. Only this first
	// request may wait.
	firstStep = 1 << 20
	// decodedPerSecond is the estimated rate at which an answer's memory is decoded, used and freed,
	// in bytes per second.
	decodedPerSecond = 64 << 20
)

// Intake is the share of one incoming answer. It is for one goroutine at a time.
type Intake struct {
	budget *Budget
	owner  Owner
	// size is the size of the answer in bytes, -1 if it is unknown.
	size  int64
	meter *Meter
	// allowed is how many bytes of the answer may be read with the current lease.
	allowed int64
	lease   *Lease
}

// NewIntake returns an Intake for an answer of a form and a size in bytes, -1 if the size is unknown.
func NewIntake(budget *Budget, owner Owner, form Form, size int64) *Intake {
	return &Intake{budget: budget, owner: owner, size: size, meter: NewMeter(form), allowed: Free}
}

// Room returns how many bytes the caller may read now, at least one. The first [Free] bytes need no lease. After them,
// one call of Room acquires a lease, and waits for it at most until the context ends. The other calls do not wait. The
// error wraps [ErrExhausted] or [ErrTooLarge].
func (i *Intake) Room(ctx context.Context) (int64, error) {
	if i.meter.Bytes() < i.allowed {
		return i.allowed - i.meter.Bytes(), nil
	}
	if i.lease == nil {
		return i.begin(ctx)
	}
	read := i.meter.Bytes()
	more := min(read, (i.budget.Share()-i.meter.Cost(0))/perByte)
	if more <= 0 {
		return 0, ErrTooLarge
	}
	if err := i.lease.Grow(i.meter.Cost(more)); err != nil {
		return 0, err
	}
	i.allowed = read + more
	return more, nil
}

// begin acquires the first lease.
func (i *Intake) begin(ctx context.Context) (int64, error) {
	read, size := i.meter.Bytes(), i.size
	if size < 0 {
		size = firstStep
	}
	size = max(size, read)
	cost := i.meter.Cost(size - read)
	if cost > i.budget.Share() && i.size >= 0 {
		return 0, ErrTooLarge
	}
	lease, err := i.budget.Acquire(ctx, i.owner, cost)
	if err != nil {
		return 0, err
	}
	// Allow one more byte than expected, so that the reader reaches the end.
	i.lease, i.allowed = lease, size+1
	return i.allowed - read, nil
}

// Took counts the bytes that were read. The error wraps [ErrExhausted] or [ErrTooLarge] if the
// decoded answer would exceed the free memory.
func (i *Intake) Took(data []byte) error {
	i.meter.Add(data)
	if i.lease == nil {
		return nil
	}
	return i.lease.Grow(i.meter.Cost(0))
}

// Release returns the share immediately. Call it when no part of the answer is in memory any more.
func (i *Intake) Release() { i.lease.Release() }

// ReleaseSoon returns the share after the estimated time to decode the answer.
func (i *Intake) ReleaseSoon() {
	i.lease.ReleaseSoon()
}

// Reader reads an answer within the share of an owner. It acquires memory before it reads. It is
// for one goroutine at a time.
type Reader struct {
	ctx    context.Context
	from   io.Reader
	intake *Intake
}

// NewReader returns a Reader of an answer. The context bounds the wait for the share. Errors wrap [ErrExhausted] or
// [ErrTooLarge], or are the errors of reading the answer.
func NewReader(ctx context.Context, from io.Reader, intake *Intake) *Reader {
	return &Reader{ctx: ctx, from: from, intake: intake}
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if r.intake.budget == nil {
		return r.from.Read(p)
	}
	room, err := r.intake.Room(r.ctx)
	if err != nil {
		return 0, err
	}
	n, err := r.from.Read(p[:min(int64(len(p)), room)])
	if err := r.intake.Took(p[:n]); err != nil {
		return 0, err
	}
	return n, err
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bytebudget

import (
	"context"
	"io"
	"time"
)

const (
	// firstStep is what an answer of unknown size asks for once it is no longer small, in bytes of its text. Up to there
	// it may wait.
	firstStep = 1 << 20
	// decodedPerSecond is how much of what an answer takes in memory is decoded, used and given up in a second, in bytes.
	decodedPerSecond = 64 << 20
)

// Intake is the share of one answer that comes in. It is for one goroutine at a time.
type Intake struct {
	budget *Budget
	owner  Owner
	// size is that of the answer, -1 if that is not known.
	size  int64
	meter *Meter
	// allowed is how many bytes may be read of the answer, with what the lease holds.
	allowed int64
	lease   *Lease
}

// NewIntake returns an Intake for an answer of a media type and a size in bytes, -1 if that is not known.
func NewIntake(budget *Budget, owner Owner, mediaType string, size int64) *Intake {
	return &Intake{budget: budget, owner: owner, size: size, meter: NewMeter(mediaType), allowed: Free}
}

// Room returns how many bytes may be read now, at least one. It waits for a share, until the context ends, when more
// than [Free] bytes have come and the answer holds nothing yet; later it never waits. The error wraps [ErrExhausted] or
// [ErrTooLarge].
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

// begin takes the first share.
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
	// One byte more than there should be, for the end to show.
	i.lease, i.allowed = lease, size+1
	return i.allowed - read, nil
}

// Took takes note of what was read. The error wraps [ErrExhausted] or [ErrTooLarge] if it would take more once it is
// decoded than there is.
func (i *Intake) Took(data []byte) error {
	i.meter.Add(data)
	if i.lease == nil {
		return nil
	}
	return i.lease.Grow(i.meter.Cost(0))
}

// Release gives back the share when nothing of the answer is left.
func (i *Intake) Release() { i.lease.Release() }

// ReleaseSoon gives back the share after the time that it takes to decode the answer.
func (i *Intake) ReleaseSoon() {
	i.lease.ReleaseAfter(time.Duration(i.meter.Cost(0)) * time.Second / decodedPerSecond)
}

// Reader reads an answer within the share of an owner: it takes what it needs before it reads. It is for one goroutine
// at a time.
type Reader struct {
	ctx    context.Context
	from   io.Reader
	intake *Intake
}

// NewReader returns a Reader of an answer. The context bounds how long it waits for its share. Its errors wrap
// [ErrExhausted] and [ErrTooLarge], or are those of the answer.
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

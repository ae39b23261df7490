// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"

	"golang.org/x/sync/semaphore"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

const (
	// MaxPayloadMemory is the default bound of the estimated memory for payloads of all actions together, in bytes. In
	// addition, one action at a time may exceed the bound for its largest payload.
	MaxPayloadMemory = 384 << 20
	// payloadCopies is the approximate number of copies of a payload in memory while an action reads or writes it:
	// packed, unpacked and encrypted, of the old and the new record.
	payloadCopies = 6
	// keptShare is the part of these copies that an action keeps until its end: the unpacked records.
	keptShare = 3
	// textCopies is the number of copies of a release's texts in memory while an action packs them.
	textCopies = 2
	// readCopies is the number of copies of a release's text in memory after an action has read it.
	readCopies = 3
	// smallPayload is the size, in bytes, up to which payloads are not counted.
	smallPayload = 256 << 10
)

// PayloadMemory bounds the memory for payloads of all actions. One tenant gets at most a half.
//
// The size of a payload is known only when an action is about to read or write the payload. The action may already hold
// memory for another payload. If two actions held memory and waited for more, there would be a deadlock. So an action
// that holds memory and finds no more room takes the growth. So does an action whose payload is larger than the share
// of its tenant. Only one action has the growth at a time. An action with the growth never waits for other actions. It
// gives the growth back when the payload is read or written, so other actions do not wait for its hooks.
//
// The bytes of the growth are a part of another budget: the budget for responses. The leases of that budget end without
// memory for payloads. So an action may wait for the bytes of the growth. The growth uses at most the share of one
// tenant, so that responses can be read in the meantime. A payload that needs more is refused.
type PayloadMemory struct {
	Room   *bytebudget.Budget
	growth *semaphore.Weighted
	// extra is the budget for the bytes of the growth; nil if there is no bound.
	extra *bytebudget.Budget
}

// growthOwner is the owner of the growth in the other budget. No namespace has this name.
var growthOwner = bytebudget.Owner{Tenant: "/large records"}

// NewPayloadMemory returns a PayloadMemory of a size in bytes, with all memory free. The growth has no bound.
func NewPayloadMemory(size int64) *PayloadMemory { return NewBoundedPayloadMemory(size, nil) }

// NewBoundedPayloadMemory is like NewPayloadMemory, with a budget for the bytes of the growth.
func NewBoundedPayloadMemory(size int64, extra *bytebudget.Budget) *PayloadMemory {
	return &PayloadMemory{Room: bytebudget.New(size), growth: semaphore.NewWeighted(1), extra: extra}
}

// check returns an error of the kind [helmerr.ErrTooLarge] if a payload needs more memory than one action can get.
func (m *PayloadMemory) check(weight int64) error {
	if m.extra == nil || weight <= m.extra.Most(growthOwner) {
		return nil
	}
	return helmerr.New(helmerr.ErrTooLarge, "Helm's record of the release needs about %d MiB of memory, and the manager "+
		"has %d MiB for one record: raise the memory limit of the manager, or remove files from the chart",
		weight>>20, m.extra.Most(growthOwner)>>20)
}

// heldMemory is the part of the memory that an action holds.
type heldMemory struct {
	// lease is nil if the action holds nothing.
	lease *bytebudget.Lease
	// most is the estimated memory for the largest payload of the action, in bytes.
	most int64
	// grown means that the action holds the growth. extra has the bytes of the growth.
	grown bool
	extra *bytebudget.Lease
}

// grow waits for the growth and for its bytes. If the action has the growth already, grow first gives the bytes back:
// no action waits for bytes of a budget while it holds bytes of this budget.
func (h *heldMemory) grow(ctx context.Context, memory *PayloadMemory, bytes int64) error {
	if !h.grown {
		if err := memory.growth.Acquire(ctx, 1); err != nil {
			return err
		}
		h.grown = true
	}
	h.extra.Release()
	var err error
	h.extra, err = memory.extra.Acquire(ctx, growthOwner, bytes)
	return err
}

// shrink gives the growth back.
func (h *heldMemory) shrink(memory *PayloadMemory) {
	if !h.grown {
		return
	}
	h.extra.Release()
	h.grown, h.extra = false, nil
	memory.growth.Release(1)
}

// Hold waits until there is memory for payloads of a size, in bytes. The error is [helmerr.ErrTimeout] if the action
// times out first, and [helmerr.ErrTooLarge] if there can never be so much memory.
func (s *Store) Hold(size int) error {
	weight := int64(size) * payloadCopies
	owner, memory := bytebudget.Owner{Tenant: s.tenant}, s.split.memory
	s.mu.Lock()
	held := s.split.held
	s.mu.Unlock()
	isEnough := weight <= held.lease.Held()+held.extra.Held() || held.grown && memory.extra == nil
	if size <= smallPayload || isEnough {
		return nil
	}
	err := memory.check(weight)
	if err != nil {
		return err
	}
	within := min(weight, memory.Room.Most(owner))
	isRoom := !held.grown
	if held.lease == nil {
		held.lease, err = memory.Room.Acquire(s.ctx, owner, within)
	} else if isRoom {
		isRoom = held.lease.Grow(within) == nil
	}
	if err == nil && (!isRoom || within < weight) {
		err = held.grow(s.ctx, memory, weight-held.lease.Held())
	}
	held.most = max(held.most, weight)
	s.mu.Lock()
	s.split.held = held
	s.mu.Unlock()
	if err != nil {
		return helmerr.New(helmerr.ErrTimeout, "other releases with large records used all memory for records")
	}
	return nil
}

// rest returns the memory that the action does not need until it reads or writes the next payload.
func (s *Store) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := &s.split.held
	if held.lease == nil {
		return
	}
	held.lease.Shrink(held.most / keptShare)
	held.shrink(s.split.memory)
}

// holdText waits until there is memory for the text of a record that is read. size is the size of the text in bytes.
func (s *Store) holdText(size int) error { return s.Hold(size * readCopies / payloadCopies) }

// Pack waits until there is memory to pack a release, and packs it.
func (s *Store) Pack(rls *release.Release) ([]byte, error) {
	texts := len(rls.Manifest)
	for _, hook := range rls.Hooks {
		if hook != nil {
			texts += len(hook.Manifest)
		}
	}
	size := texts * textCopies / payloadCopies
	if rls.Chart != nil {
		piece, err := s.codec.Piece(rls.Chart)
		if err != nil {
			return nil, err
		}
		size += len(piece.Packed)
	}
	if err := s.Hold(size); err != nil {
		return nil, err
	}
	return s.codec.pack(rls)
}

// Release releases the memory that Hold reserved.
func (s *Store) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.split.held
	s.split.held = heldMemory{}
	clear(s.split.contents)
	held.lease.Release()
	held.shrink(s.split.memory)
}

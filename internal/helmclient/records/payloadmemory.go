// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"golang.org/x/sync/semaphore"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

const (
	// MaxPayloadMemory bounds the estimated memory for payloads of all actions together, in bytes. In addition, one
	// action at a time may exceed the bound for its largest payload.
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
// of its tenant. Only one action has the growth at a time. An action with the growth never waits for memory again. It
// gives the growth back when the payload is read or written, so other actions do not wait for its hooks.
type PayloadMemory struct {
	Room   *bytebudget.Budget
	growth *semaphore.Weighted
}

// NewPayloadMemory returns a PayloadMemory of a size in bytes, with all memory free.
func NewPayloadMemory(size int64) *PayloadMemory {
	return &PayloadMemory{Room: bytebudget.New(size), growth: semaphore.NewWeighted(1)}
}

// heldMemory is the part of the memory that an action holds.
type heldMemory struct {
	// lease is nil if the action holds nothing.
	lease *bytebudget.Lease
	// most is the estimated memory for the largest payload of the action, in bytes.
	most int64
	// grown means that the action holds the growth.
	grown bool
}

// Hold waits until there is memory for payloads of a size, in bytes. The error is [helmerr.ErrTimeout] if the action
// times out first.
func (s *Store) Hold(size int) error {
	weight := int64(size) * payloadCopies
	owner, memory := bytebudget.Owner{Tenant: s.tenant}, s.split.memory
	s.mu.Lock()
	held := s.split.held
	s.mu.Unlock()
	if size <= smallPayload || weight <= held.lease.Held() || held.grown {
		return nil
	}
	var err error
	within := min(weight, memory.Room.Most(owner))
	isRoom := true
	if held.lease == nil {
		held.lease, err = memory.Room.Acquire(s.ctx, owner, within)
	} else {
		isRoom = held.lease.Grow(within) == nil
	}
	if err == nil && (!isRoom || within < weight) {
		err = memory.growth.Acquire(s.ctx, 1)
		held.grown = err == nil
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
	if held.grown {
		held.grown = false
		s.split.memory.growth.Release(1)
	}
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
	if held.grown {
		s.split.memory.growth.Release(1)
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"golang.org/x/sync/semaphore"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

const (
	// MaxPayloadMemory bounds the estimated memory for payloads of all actions together, in bytes. With the largest
	// payloads, few actions run at the same time. In addition, one action at a time may exceed the bound for its largest
	// payload.
	MaxPayloadMemory = 384 << 20
	// payloadCopies is the approximate number of copies of a payload in the memory of an action: packed, unpacked and
	// encrypted, of the old and the new record.
	payloadCopies = 6
	// textCopies is the number of copies of a release's texts in memory while an action packs them.
	textCopies = 2
	// readCopies is the number of copies of a release's text in memory after an action has read it.
	readCopies = 3
	// smallPayload is the size, in bytes, up to which payloads are not counted.
	smallPayload = 256 << 10
)

// PayloadMemory bounds the memory for payloads of all actions.
//
// The size of a payload is known only when an action is about to read or write the payload. The action may already hold
// memory for another payload. If two actions held memory and waited for more, there would be a deadlock. So an action
// that holds memory and finds no more room takes the growth. Only one action has the growth at a time. An action with
// the growth never waits again. So it ends, and the next action gets the growth.
type PayloadMemory struct{ Room, growth *semaphore.Weighted }

// NewPayloadMemory returns a PayloadMemory with all memory free.
func NewPayloadMemory() *PayloadMemory {
	return &PayloadMemory{Room: semaphore.NewWeighted(MaxPayloadMemory), growth: semaphore.NewWeighted(1)}
}

// Hold waits until there is memory for payloads of a size, in bytes. The error is [helmerr.ErrTimeout] if the action
// times out first.
func (s *Store) Hold(size int) error {
	weight := min(int64(size)*payloadCopies, MaxPayloadMemory)
	s.mu.Lock()
	held, grown := s.split.held, s.split.grown
	s.mu.Unlock()
	memory := s.split.memory
	var err error
	switch {
	case size <= smallPayload, weight <= held, grown:
		return nil
	case held == 0:
		err = memory.Room.Acquire(s.ctx, weight)
	case !memory.Room.TryAcquire(weight - held):
		err, weight, grown = memory.growth.Acquire(s.ctx, 1), held, true
	}
	if err != nil {
		return helmerr.New(helmerr.ErrTimeout, "other releases with large records used all memory for records")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.split.held, s.split.grown = weight, grown
	return nil
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
	held, grown := s.split.held, s.split.grown
	s.split.held, s.split.grown = 0, false
	clear(s.split.contents)
	s.mu.Unlock()
	if held > 0 {
		s.split.memory.Room.Release(held)
	}
	if grown {
		s.split.memory.growth.Release(1)
	}
}

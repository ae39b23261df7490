// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"golang.org/x/sync/semaphore"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

const (
	// MaxPayloadMemory bounds, by a guess, the memory for payloads of all actions together, in bytes: with the largest of
	// them, few actions run at a time. Beyond it, one action may take as much as the largest of its payloads needs.
	MaxPayloadMemory = 384 << 20
	// payloadCopies is about how often an action has a payload in memory: packed and unpacked, encrypted, the old one and
	// the new one.
	payloadCopies = 6
	// textCopies is how often it has the texts of a release in memory while it packs them.
	textCopies = 2
	// readCopies is how often it has the text of a release in memory once it has read it.
	readCopies = 3
	// smallPayload is the size up to which payloads are not counted.
	smallPayload = 256 << 10
)

// PayloadMemory is the memory for payloads of all actions. An action learns the size of a payload when it is about to
// read or to write it, and may hold memory for another payload by then. Two actions that hold memory and wait for more
// would deadlock. An action that holds memory and finds no room for more therefore takes the growth, which one action
// has at a time. It then waits for nothing any more, so every action that waits for the growth gets it.
type PayloadMemory struct{ Room, growth *semaphore.Weighted }

// NewPayloadMemory returns a memory that is all free.
func NewPayloadMemory() *PayloadMemory {
	return &PayloadMemory{Room: semaphore.NewWeighted(MaxPayloadMemory), growth: semaphore.NewWeighted(1)}
}

// Hold waits until there is memory for payloads of the size, in bytes. The error is [helmerr.ErrTimeout] if the
// action's time ends before.
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

// holdText is Hold for the text of a record that is read.
func (s *Store) holdText(size int) error { return s.Hold(size * readCopies / payloadCopies) }

// Pack packs a release, once there is memory for that.
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

// Release gives back the memory that Hold took.
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

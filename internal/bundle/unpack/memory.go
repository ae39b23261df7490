// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"errors"
	"fmt"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
)

const (
	// smallContent is the unpacked size, in bytes, up to which an artifact needs no more memory than for its packed bytes.
	// Nearly all artifacts are smaller. The number of artifacts that are read at the same time is limited.
	smallContent = 1 << 20
	// smallParse is the memory for parses, in bytes, up to which an artifact needs no reservation. The texts of usual
	// charts need less: 10,000 values need 4 MB.
	smallParse = 4 << 20
)

// Memory reserves the memory of one artifact before the memory is used: 100 KiB of packed zeros unpack to 100 MiB, and
// a text of 1 MB with many small maps takes 120 MiB while it is parsed.
//
// A reservation never waits: two artifacts that hold memory and wait for more could wait for each other. If the memory
// is used up, the error is [bytebudget.ErrExhausted]: the caller releases the lease and reads the artifact again later.
// One tenant has at most half of the memory, so an artifact of another tenant does not fail because of this tenant
// alone. An artifact that needs more than the share of its owner can never be read. Its error is [ErrTooLarge].
//
// A nil Memory reserves nothing. Use a Memory in one goroutine at a time.
type Memory struct {
	lease *bytebudget.Lease
	// packed is the packed size of the artifact in bytes. least is what the lease held before the first reservation.
	packed, least int64
	// files is the size of all unpacked files. kept is the size of parsed content that stays in memory.
	files, kept int64
}

// NewMemory returns a Memory that grows a lease. packed is the packed size of the artifact, in bytes. The caller
// releases the lease when the artifact is read.
func NewMemory(lease *bytebudget.Lease, packed int64) *Memory {
	return &Memory{lease: lease, packed: packed, least: lease.Held()}
}

// unpack reserves memory for the files of the artifact. files is the size of all files so far and of the next file, in
// bytes.
func (m *Memory) unpack(files int64) error {
	if m == nil {
		return nil
	}
	m.files = files
	return m.reserve(files, m.kept)
}

// Parse reserves memory for a parse. cost is in bytes, see [Weight.ParseCost]. The memory stays reserved for the next
// parses of the artifact, until the next call of copies: if each parse gave the memory back, each of them could fail.
func (m *Memory) Parse(cost int64) error {
	if m == nil {
		return nil
	}
	return m.reserve(m.files, m.kept+cost)
}

// Keep counts parsed content of n bytes that stays in memory after its parse. The next reservations include it. A
// negative n is the size of content that was dropped.
func (m *Memory) Keep(n int64) {
	if m != nil {
		m.kept += n
	}
}

// copies reserves memory for a number of copies of all files. It gives back what only parses need: the copies are
// needed while another process works, and this may take minutes.
func (m *Memory) copies(copies int64) error {
	if m == nil {
		return nil
	}
	files := (1 + copies) * m.files
	m.lease.Shrink(max(m.least, m.need(files, m.kept)))
	return m.reserve(files, m.kept)
}

// need returns how much memory the artifact needs with files and parsed content of some bytes.
func (m *Memory) need(files, parsed int64) int64 {
	if parsed <= smallParse {
		parsed = 0
	}
	if parsed == 0 && files <= smallContent {
		return 0
	}
	return m.packed + files + parsed
}

func (m *Memory) reserve(files, parsed int64) error {
	need := m.need(files, parsed)
	switch err := m.lease.Grow(need); {
	case errors.Is(err, bytebudget.ErrTooLarge):
		return fmt.Errorf("%w: it needs %d MiB of memory while it is unpacked and parsed, and the manager has less for one "+
			"registry: make it smaller, or raise the memory limit of the manager", ErrTooLarge, mebibytes(need))
	case err != nil:
		return fmt.Errorf("%w: the artifact needs %d MiB of memory while it is unpacked and parsed, so it is read again "+
			"later", err, mebibytes(need))
	}
	return nil
}

// mebibytes returns a number of bytes in MiB, rounded up.
func mebibytes(n int64) int64 { return (n + 1<<20 - 1) >> 20 }

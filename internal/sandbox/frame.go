// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Parent and child exchange frames over two pipes. A frame consists of one byte with its kind, four bytes with the
// length of the content, and the content.
const (
	// frameShared has a slot, and shared data for the task of the next request.
	frameShared byte = iota + 1
	// frameRequest has a slot, the length of the name of a task, the name, and the input.
	frameRequest
	// frameAnswer has a byte, which is 1 for an error, and the answer or the text of the error.
	frameAnswer
	// frameNote has a text that says what the work is doing.
	frameNote
	// frameQuestion has a question. The child waits for frameAnswer.
	frameQuestion
	// frameResult has a byte, which is 1 if the child exits now, and the output.
	frameResult
	// frameFailure has the same byte as frameResult, and the text of an error.
	frameFailure
	// frameLimit has the limit that makes the child exit.
	frameLimit
)

const (
	frameHeader = 5
	// slots is the number of shared data sets that a child keeps.
	slots = 4
	// smallFrame is the size, in bytes, up to which no memory is reserved for a frame.
	smallFrame = 64 << 10
	// noSlot is the slot of requests without shared data.
	noSlot = slots
	// maxInput is the maximum size of a frame that a child accepts: 1 GiB.
	maxInput = 1 << 30
)

// errFrameSize means that a frame is larger than allowed.
type errFrameSize struct{ size, limit int64 }

func (e errFrameSize) Error() string {
	return fmt.Sprintf("a frame of %d bytes; the limit is %d", e.size, e.limit)
}

// writeFrame writes a frame. Its content are the concatenated parts.
func writeFrame(to io.Writer, kind byte, parts ...[]byte) error {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	if size > maxInput {
		return errFrameSize{size: int64(size), limit: maxInput}
	}
	header := binary.BigEndian.AppendUint32([]byte{kind}, uint32(size)) //nolint:gosec // It is at most maxInput.
	if size > 0 && size <= 4096 {
		for _, part := range parts {
			header = append(header, part...)
		}
		parts = nil
	}
	if _, err := to.Write(header); err != nil {
		return err
	}
	for _, part := range parts {
		if len(part) == 0 {
			continue
		}
		if _, err := to.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// readFrame reads a frame of at most limit bytes. It calls reserve with the size before it allocates memory for the
// content, and returns the error of reserve. reserve may be nil.
func readFrame(from io.Reader, limit int64, reserve func(size int64) error) (kind byte, content []byte, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return 0, nil, err
	}
	size := int64(binary.BigEndian.Uint32(header[1:]))
	if size > limit {
		return 0, nil, errFrameSize{size: size, limit: limit}
	}
	if reserve != nil {
		if err := reserve(size); err != nil {
			return 0, nil, err
		}
	}
	content = make([]byte, size)
	_, err = io.ReadFull(from, content)
	return header[0], content, err
}

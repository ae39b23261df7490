// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
)

const (
	// maxFrameBytes bounds the size of one event. etcd accepts objects of up to 1.5 MiB, which are somewhat larger as
	// JSON.
	maxFrameBytes = 16 << 20
	// smallBytes is the size of an event, in bytes, up to which any number of events may be received at the same time.
	// Nearly all events are smaller. maxLarge bounds the number of larger events of one cluster. Up to [bytebudget.Free],
	// these take no share of the memory, and have a buffer of twice their size.
	smallBytes, maxLarge = 8 << 10, 32
	// maxKeptBytes bounds the size of the buffers that are kept for later events: a small event may get such a buffer.
	maxKeptBytes = 2 * smallBytes
	// lengthBytes is the size of the length prefix of an event in binary form.
	lengthBytes = 4
	// waitBytes is the size of the piece in which the beginning of an event is received: each stream has it all the time.
	// chunkBytes is the size of the pieces in which the rest of an event is received.
	waitBytes, chunkBytes = 64, 512
)

var errFrameTooLarge = fmt.Errorf("a watch event is larger than %d MiB", maxFrameBytes>>20)

var (
	errFrameTooDense = errors.New("a watch event would take more memory than one cluster may use")
	errFrameNoMemory = errors.New("no memory is free for a watch event: too many large events are being read")
)

// frames splits the body of a watch into events: concatenated JSON texts, or binary events with a length prefix. It
// holds almost nothing between two events, because most streams rarely have events.
type frames struct {
	body io.Reader
	// memory is the budget for large events.
	memory eventMemory
	// share is the memory for the event that is being received; nil for a small event.
	share *bytebudget.Intake
	// isLarge is true if the event that is being received has a slot of memory.large.
	isLarge bool
	// timeout ends the stream if the event is not received in time; nil if no rest of an event is awaited.
	timeout *time.Timer
	// waiting receives the beginning of an event. chunk receives the rest; nil if there is no rest and nothing unread.
	waiting [waitBytes]byte
	chunk   *[chunkBytes]byte
	// unread is the part of the last piece that belongs to later events.
	unread []byte
}

// eventMemory is the memory budget for large events. The zero value has no bound.
type eventMemory struct {
	ctx    context.Context
	budget *bytebudget.Budget
	owner  bytebudget.Owner
	// large has a slot for each event of the cluster that is not small; nil if there is no limit.
	large chan struct{}
	// maxWait is how long an event waits for its memory. abandon ends the stream if an event is not complete within twice
	// this time after its first byte, because other events may wait for the memory. A small event also keeps a buffer.
	maxWait time.Duration
	abandon func()
}

// frameBuffers are buffers for events that are being received, and frameChunks are buffers for their pieces.
var (
	frameBuffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}
	frameChunks  = sync.Pool{New: func() any { return &[chunkBytes]byte{} }}
)

// next waits for the next event and passes it to take, which must not keep it. The error is io.EOF if the body ended
// between two events.
func (f *frames) next(take func([]byte) error) error {
	// White space between JSON events is skipped. A binary event begins with its length, which never begins like white
	// space: such an event would be larger than the limit.
	if err := f.wait(); err != nil {
		return err
	}
	buffer := frameBuffers.Get().(*bytes.Buffer)
	defer func() {
		f.end()
		if buffer.Cap() <= maxKeptBytes {
			buffer.Reset()
			frameBuffers.Put(buffer)
		}
	}()
	if f.unread[0] == '{' {
		return f.text(buffer, take)
	}
	return f.binary(buffer, take)
}

// wait waits until a part of the next event has been read. It reads nothing if the last read went beyond its event.
func (f *frames) wait() error {
	for !f.arrived() {
		if err := f.read(f.waiting[:]); err != nil {
			return err
		}
	}
	return nil
}

// arrived reports whether a part of the next event has been read already. If not, the stream keeps no chunk.
func (f *frames) arrived() bool {
	if f.unread = trimSpace(f.unread); len(f.unread) > 0 {
		return true
	}
	if f.chunk != nil {
		frameChunks.Put(f.chunk)
		f.chunk, f.unread = nil, nil
	}
	return false
}

// end releases the memory and the slot of an event.
func (f *frames) end() {
	if f.share != nil {
		f.share.Release()
		f.share = nil
	}
	if f.isLarge {
		f.isLarge = false
		<-f.memory.large
	}
	f.stopTimeout()
}

// stopTimeout ends the wait for the rest of an event.
func (f *frames) stopTimeout() {
	if f.timeout != nil {
		f.timeout.Stop()
		f.timeout = nil
	}
}

func trimSpace(data []byte) []byte { return bytes.TrimLeft(data, " \t\r\n") }

// read waits for more bytes, and reads them into a piece. All earlier bytes must have been consumed: read overwrites
// them.
func (f *frames) read(piece []byte) error {
	n, err := f.body.Read(piece)
	f.unread = piece[:n]
	if n > 0 {
		return nil
	}
	return err
}

// more waits for more bytes of an event that has begun. The end of the body is an error here.
func (f *frames) more() error {
	if f.timeout == nil && f.memory.abandon != nil {
		f.timeout = time.AfterFunc(2*f.memory.maxWait, f.memory.abandon)
	}
	if f.chunk == nil {
		f.chunk = frameChunks.Get().(*[chunkBytes]byte)
	}
	err := f.read(f.chunk[:])
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// consume moves bytes to a buffer. size is the size of the event; -1 if it is unknown.
func (f *frames) consume(buffer *bytes.Buffer, n, size int) error {
	if buffer.Len()+n > maxFrameBytes {
		return errFrameTooLarge
	}
	if f.memory.large != nil && !f.isLarge && buffer.Len()+n > smallBytes {
		if err := f.takeSlot(); err != nil {
			return err
		}
	}
	if f.memory.budget != nil && buffer.Len()+n > bytebudget.Free {
		if err := f.takeShare(buffer, n, size); err != nil {
			return err
		}
	}
	buffer.Write(f.unread[:n])
	f.unread = f.unread[n:]
	return nil
}

// takeSlot waits for the slot of an event that is not small, before more of the event is read. It waits only for a part
// of maxWait: all slots may belong to events whose rest waits behind unread data of this event, on the same connection.
func (f *frames) takeSlot() error {
	ctx, cancel := context.WithTimeout(f.memory.ctx, f.memory.maxWait/6)
	defer cancel()
	select {
	case f.memory.large <- struct{}{}:
		f.isLarge = true
		return nil
	case <-ctx.Done():
		return errFrameNoMemory
	}
}

// takeShare reserves memory for an event that is not small, before more of the event is read. The memory is held until
// the event is decoded.
func (f *frames) takeShare(buffer *bytes.Buffer, n, size int) error {
	ctx, cancel := context.WithTimeout(f.memory.ctx, f.memory.maxWait)
	defer cancel()
	var err error
	if f.share == nil {
		form := bytebudget.JSON
		if buffer.Bytes()[0] != '{' {
			form = bytebudget.Protobuf
		}
		f.share = bytebudget.NewIntake(f.memory.budget, f.memory.owner, form, int64(size))
		// The length prefix is not part of the message.
		err = f.share.Took(bytes.TrimPrefix(buffer.Bytes(), lengthOf(size)))
	}
	if err == nil {
		_, err = f.share.Room(ctx)
	}
	if err == nil {
		err = f.share.Took(f.unread[:n])
	}
	switch {
	case errors.Is(err, bytebudget.ErrTooLarge):
		return errFrameTooDense
	case errors.Is(err, bytebudget.ErrExhausted):
		return errFrameNoMemory
	}
	return err
}

// lengthOf returns the length prefix of a binary event, nil for a JSON event.
func lengthOf(size int) []byte {
	if size < 0 {
		return nil
	}
	return binary.BigEndian.AppendUint32(nil, uint32(size))
}

// text reads one JSON object.
func (f *frames) text(buffer *bytes.Buffer, take func([]byte) error) error {
	var object jsonObject
	for {
		n := object.scan(f.unread)
		if err := f.consume(buffer, n, -1); err != nil {
			return err
		}
		if object.ended {
			f.stopTimeout() // take may wait, and the server is not the cause
			return take(buffer.Bytes())
		}
		if err := f.more(); err != nil {
			return err
		}
	}
}

// binary reads one event with its length prefix.
func (f *frames) binary(buffer *bytes.Buffer, take func([]byte) error) error {
	followers := lengthBytes
	for {
		if err := f.consume(buffer, min(followers-buffer.Len(), len(f.unread)), followers-lengthBytes); err != nil {
			return err
		}
		switch {
		case buffer.Len() < followers:
			if err := f.more(); err != nil {
				return err
			}
		case followers > lengthBytes || binary.BigEndian.Uint32(buffer.Bytes()) == 0:
			f.stopTimeout()
			return take(buffer.Bytes()[lengthBytes:])
		default:
			length := binary.BigEndian.Uint32(buffer.Bytes())
			if length > maxFrameBytes-lengthBytes {
				return errFrameTooLarge
			}
			followers += int(length)
		}
	}
}

// jsonObject finds the end of a JSON object. The decoder checks later whether the object is valid.
type jsonObject struct {
	depth           int
	quoted, escaped bool
	ended           bool
}

// scan returns the number of bytes that belong to the object.
func (o *jsonObject) scan(data []byte) int {
	for i, c := range data {
		switch {
		case o.escaped:
			o.escaped = false
		case o.quoted:
			o.escaped, o.quoted = c == '\\', c != '"'
		case c == '"':
			o.quoted = true
		case c == '{':
			o.depth++
		case c == '}':
			if o.depth--; o.depth == 0 {
				o.ended = true
				return i + 1
			}
		}
	}
	return len(data)
}

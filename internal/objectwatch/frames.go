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
	// maxFrameBytes bounds one event. etcd takes objects of 1.5 MiB, which are somewhat larger as JSON.
	maxFrameBytes = 16 << 20
	// maxKeptBytes bounds the buffers that are kept for events to come.
	maxKeptBytes = 64 << 10
	// lengthBytes is the size of the length in front of an event in binary form.
	lengthBytes = 4
)

var errFrameTooLarge = fmt.Errorf("a watch event is larger than %d MiB", maxFrameBytes>>20)

var (
	errFrameTooDense = errors.New("a watch event would take more memory than one cluster may use")
	errFrameNoMemory = errors.New("no memory is free for a watch event: too many large events are being read")
)

// frames splits the body of a watch into events: concatenated JSON texts, or binary events with a length prefix. It
// holds almost nothing between two events, because most streams are silent most of the time.
type frames struct {
	body io.Reader
	// memory is what large events take their share of.
	memory eventMemory
	// share is that of the event that is coming in, nil for a small one.
	share *bytebudget.Intake
	// hurry abandons the stream if that event does not come in.
	hurry *time.Timer
	// chunk is the last read piece, and unread its part that belongs to later events.
	chunk  [512]byte
	unread []byte
}

// eventMemory is what large events take their share of. The zero value is no bound.
type eventMemory struct {
	ctx    context.Context
	budget *bytebudget.Budget
	owner  bytebudget.Owner
	// patience is how long an event waits for its memory. abandon ends the stream if an event is not complete after twice
	// that time, because others may wait for the memory.
	patience time.Duration
	abandon  func()
}

// frameBuffers are for events that have begun to come.
var frameBuffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}

// next waits for the next event and gives it to a function, which must not keep it. The error is io.EOF if the body
// ended between two events.
func (f *frames) next(take func([]byte) error) error {
	// A length never begins like white space: the event would be too large.
	for f.unread = trimSpace(f.unread); len(f.unread) == 0; f.unread = trimSpace(f.unread) {
		if err := f.read(); err != nil {
			return err
		}
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

// end releases the memory of an event.
func (f *frames) end() {
	if f.share != nil {
		f.share.Release()
		f.share = nil
	}
	if f.hurry != nil {
		f.hurry.Stop()
		f.hurry = nil
	}
}

func trimSpace(data []byte) []byte { return bytes.TrimLeft(data, " \t\r\n") }

// read waits for more.
func (f *frames) read() error {
	n, err := f.body.Read(f.chunk[:])
	f.unread = f.chunk[:n]
	if n > 0 {
		return nil
	}
	return err
}

// more waits for more of an event that has begun.
func (f *frames) more() error {
	err := f.read()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// consume moves bytes to a buffer. size is that of the event, -1 if it is not known.
func (f *frames) consume(buffer *bytes.Buffer, n, size int) error {
	if buffer.Len()+n > maxFrameBytes {
		return errFrameTooLarge
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

// takeShare reserves memory for an event that exceeds the small size, before more of it is read and while it is
// decoded.
func (f *frames) takeShare(buffer *bytes.Buffer, n, size int) error {
	ctx, cancel := context.WithTimeout(f.memory.ctx, f.memory.patience)
	defer cancel()
	var err error
	if f.share == nil {
		mediaType := "json"
		if buffer.Bytes()[0] != '{' {
			mediaType = "protobuf"
		}
		f.share = bytebudget.NewIntake(f.memory.budget, f.memory.owner, mediaType, int64(size))
		// The length in front is no part of the message.
		err = f.share.Took(bytes.TrimPrefix(buffer.Bytes(), lengthOf(size)))
		f.hurry = time.AfterFunc(2*f.memory.patience, f.memory.abandon)
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
			return take(buffer.Bytes())
		}
		if err := f.more(); err != nil {
			return err
		}
	}
}

// binary reads one event with its length in front.
func (f *frames) binary(buffer *bytes.Buffer, take func([]byte) error) error {
	wanted := lengthBytes
	for {
		if err := f.consume(buffer, min(wanted-buffer.Len(), len(f.unread)), wanted-lengthBytes); err != nil {
			return err
		}
		switch {
		case buffer.Len() < wanted:
			if err := f.more(); err != nil {
				return err
			}
		case wanted > lengthBytes || binary.BigEndian.Uint32(buffer.Bytes()) == 0:
			return take(buffer.Bytes()[lengthBytes:])
		default:
			length := binary.BigEndian.Uint32(buffer.Bytes())
			if length > maxFrameBytes-lengthBytes {
				return errFrameTooLarge
			}
			wanted += int(length)
		}
	}
}

// jsonObject finds the end of a JSON object. Whether it is one, the decoder sees.
type jsonObject struct {
	depth           int
	quoted, escaped bool
	ended           bool
}

// scan returns how many of the bytes belong to the object.
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

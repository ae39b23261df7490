// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bytebudget

import (
	"strings"
)

const (
	// perByte is what one byte of an answer takes: as it came, in a buffer that grows, and in what was decoded of it.
	perByte = 3
	// perValue is what one value of a JSON text takes beside its text, perObject what an object does: a map with its first
	// entries.
	perValue, perObject = 32, 340
	// perItem is what an object of a list in binary form takes, and perField a text or a message in it.
	perItem, perField = 700, 160
	// itemDepth is where the objects of a list are: in an envelope.
	itemDepth = 1
	// maxDepth bounds how deep messages are counted. Objects of Kubernetes repeat messages at depth five at most:
	// envelope, list, object, metadata, entry.
	maxDepth = 8
)

// Meter estimates what an answer takes once it is decoded. A megabyte of tiny values takes a hundred.
type Meter struct {
	bytes int64
	// scan counts what is in the bytes, nil if that is not known.
	scan scanner
}

// scanner estimates what values take, beside their bytes.
type scanner interface {
	scan(data []byte)
	cost() int64
}

// NewMeter returns a Meter for an answer of a media type, such as that of the header Content-Type.
func NewMeter(mediaType string) *Meter {
	switch {
	case strings.Contains(mediaType, "protobuf"):
		return &Meter{scan: &fields{}}
	case strings.Contains(mediaType, "json"):
		return &Meter{scan: &values{}}
	}
	return &Meter{}
}

// Add counts bytes that came in.
func (m *Meter) Add(data []byte) {
	m.bytes += int64(len(data))
	if m.scan != nil {
		m.scan.scan(data)
	}
}

// Bytes is how many were added.
func (m *Meter) Bytes() int64 { return m.bytes }

// Cost is what the answer takes, in bytes, if so many more come without any value in them.
func (m *Meter) Cost(more int64) int64 {
	cost := perByte * (m.bytes + more)
	if m.scan != nil {
		cost += m.scan.cost()
	}
	return cost
}

// values counts those of a JSON text.
type values struct {
	quoted, escaped bool
	values, objects int64
}

func (v *values) cost() int64 { return perValue*v.values + perObject*v.objects }

func (v *values) scan(data []byte) {
	for _, c := range data {
		switch {
		case v.escaped:
			v.escaped = false
		case v.quoted:
			v.escaped, v.quoted = c == '\\', c != '"'
		case c == '"':
			v.quoted = true
		case c == '{':
			v.objects++
		case c == ',', c == '[':
			v.values++
		}
	}
}

// fields counts those of a protobuf message and the messages in it. It does not know which fields are messages: it
// takes each for one until it finds what cannot be, and from there on for a text.
type fields struct {
	at int64
	// skipTo is up to where nothing is looked at.
	skipTo int64
	// ends are where the messages end that are open, the outermost first. The whole has no end.
	ends  []int64
	state fieldState
	// number is the one that is being read, shift how many bits of it there are.
	number uint64
	shift  uint
	// bytes is the estimate so far.
	bytes int64
	// opaque says that the whole is no message.
	opaque bool
}

// fieldState is what comes next in a message.
type fieldState uint8

const (
	fieldTag fieldState = iota
	fieldVarint
	fieldLength
)

const (
	wireVarint = iota
	wire64
	wireBytes
	wireBegin
	wireEnd
	wire32
)

func (f *fields) cost() int64 { return f.bytes }

func (f *fields) scan(data []byte) {
	for len(data) > 0 && !f.opaque {
		if skip := min(f.skipTo-f.at, int64(len(data))); skip > 0 {
			f.at += skip
			data = data[skip:]
			continue
		}
		f.leave()
		f.byte(data[0])
		data = data[1:]
	}
}

// leave closes the messages that end here, and what is cut off by the end with them.
func (f *fields) leave() {
	for len(f.ends) > 0 && f.ends[len(f.ends)-1] <= f.at {
		f.ends = f.ends[:len(f.ends)-1]
		f.number, f.shift, f.state = 0, 0, fieldTag
	}
}

// byte takes in a byte of a number.
func (f *fields) byte(c byte) {
	f.at++
	if f.shift > 63 {
		f.giveUp()
		return
	}
	f.number |= uint64(c&0x7f) << f.shift
	f.shift += 7
	if c&0x80 != 0 {
		return
	}
	number, state := f.number, f.state
	f.number, f.shift, f.state = 0, 0, fieldTag
	switch state {
	case fieldTag:
		f.tag(number)
	case fieldLength:
		f.open(number)
	case fieldVarint:
	}
}

func (f *fields) tag(tag uint64) {
	if tag == 0 { // in the four bytes that begin an object in binary form
		return
	}
	switch tag & 7 {
	case wireVarint:
		f.state = fieldVarint
	case wireBytes:
		f.state = fieldLength
	case wire64:
		f.skip(8)
	case wire32:
		f.skip(4)
	case wireBegin, wireEnd: // what is between them are fields
	default:
		f.giveUp()
	}
}

// skip passes over a number of a fixed size, within its message.
func (f *fields) skip(n int64) {
	f.skipTo = f.at + n
	if len(f.ends) > 0 {
		f.skipTo = min(f.skipTo, f.ends[len(f.ends)-1])
	}
}

// open begins what may be a message.
func (f *fields) open(length uint64) {
	end := f.at + int64(min(length, 1<<40))
	if len(f.ends) > 0 && end > f.ends[len(f.ends)-1] {
		f.giveUp()
		return
	}
	if len(f.ends) <= itemDepth {
		f.bytes += perItem
	} else {
		f.bytes += perField
	}
	if len(f.ends) == maxDepth {
		f.skipTo = end
		return
	}
	f.ends = append(f.ends, end)
}

// giveUp takes the innermost message for a text.
func (f *fields) giveUp() {
	f.number, f.shift, f.state = 0, 0, fieldTag
	if len(f.ends) == 0 {
		f.opaque = true
		return
	}
	f.skipTo = max(f.at, f.ends[len(f.ends)-1])
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bytebudget

const (
	// perByte is the memory for one byte of an answer: the byte itself, its part of a growing buffer,
	// and its decoded form.
	perByte = 3
	// perValue is the memory for a JSON value in addition to its text. perObject is the memory for a
	// JSON object: a map with its first entries.
	perValue, perObject = 32, 340
	// perItem is the memory for an object of a binary list. perField is the memory for a text or a message in the object.
	perItem, perField = 700, 160
	// itemDepth is the nesting depth of the objects of a list: the list is in an envelope.
	itemDepth = 1
	// maxDepth is the greatest nesting depth at which messages are counted. Kubernetes objects repeat messages at depth
	// five at most: envelope, list, object, metadata, entry.
	maxDepth = 8
)

// Meter estimates the memory of an answer after decoding. A megabyte of tiny values may need a hundred megabytes of
// memory.
type Meter struct {
	bytes int64
	// scan counts the values in the bytes; nil for text.
	scan scanner
}

// scanner estimates the memory of values in addition to their bytes.
type scanner interface {
	scan(data []byte)
	cost() int64
}

// Form is the form of an answer. The caller must know how the answer will be decoded: the sender chooses the header
// Content-Type.
type Form uint8

const (
	// Text is an answer that is not decoded.
	Text Form = iota
	// JSON is an answer that is decoded as JSON.
	JSON
	// Protobuf is an answer that is decoded as a protobuf message.
	Protobuf
)

// NewMeter returns a Meter for an answer of a form.
func NewMeter(form Form) *Meter {
	switch form {
	case Protobuf:
		return &Meter{scan: &fields{}}
	case JSON:
		return &Meter{scan: &values{}}
	case Text:
	}
	return &Meter{}
}

// Add counts received bytes.
func (m *Meter) Add(data []byte) {
	m.bytes += int64(len(data))
	if m.scan != nil {
		m.scan.scan(data)
	}
}

// Bytes returns the number of counted bytes.
func (m *Meter) Bytes() int64 { return m.bytes }

// Cost returns the estimated memory of the answer in bytes, if another number of bytes without values follows.
func (m *Meter) Cost(more int64) int64 {
	cost := perByte * (m.bytes + more)
	if m.scan != nil {
		cost += m.scan.cost()
	}
	return cost
}

// values counts the values of a JSON text.
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

// fields counts the fields of a protobuf message and of its nested messages. It has no schema. It treats each
// length-delimited field as a message until it finds bytes that cannot be part of a message. It treats the rest as
// text.
type fields struct {
	at int64
	// skipTo is the offset up to which bytes are skipped.
	skipTo int64
	// ends are the offsets at which the open messages end, the outermost first. The whole answer has
	// no end.
	ends  []int64
	state fieldState
	// number is the varint that is being read. shift is the number of its bits so far.
	number uint64
	shift  uint
	// bytes is the estimate so far.
	bytes int64
	// opaque is set if the whole answer is not a message.
	opaque bool
}

// fieldState is the expected next part of a message.
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

// leave closes the messages that end at the current offset. A varint that continues past the end is cut off.
func (f *fields) leave() {
	for len(f.ends) > 0 && f.ends[len(f.ends)-1] <= f.at {
		f.ends = f.ends[:len(f.ends)-1]
		f.number, f.shift, f.state = 0, 0, fieldTag
	}
}

// byte adds a byte to the varint.
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
	if tag == 0 { // part of the four bytes at the start of a binary object
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
	case wireBegin, wireEnd: // the fields between them are counted as usual
	default:
		f.giveUp()
	}
}

// skip skips a value of fixed size, at most to the end of its message.
func (f *fields) skip(n int64) {
	f.skipTo = f.at + n
	if len(f.ends) > 0 {
		f.skipTo = min(f.skipTo, f.ends[len(f.ends)-1])
	}
}

// open starts a length-delimited field, which may be a message.
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

// giveUp treats the innermost message as text.
func (f *fields) giveUp() {
	f.number, f.shift, f.state = 0, 0, fieldTag
	if len(f.ends) == 0 {
		f.opaque = true
		return
	}
	f.skipTo = max(f.at, f.ends[len(f.ends)-1])
}

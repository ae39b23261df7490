// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jsonvalues counts the values in JSON texts before they are decoded. A limit on bytes is not enough: decoded,
// "{}," needs forty times as much memory as the text. The package decodes nothing: callers refuse texts with too many
// values.
package jsonvalues

// Counter counts the values of a JSON text approximately: each comma and each opening bracket is one value. It does not
// store the text. Callers pass the text in parts.
type Counter struct {
	// Count is the number of values so far.
	Count           int
	quoted, escaped bool
}

// Add counts the values in the next part of the text.
func (c *Counter) Add(text []byte) {
	for _, b := range text {
		switch {
		case c.escaped:
			c.escaped = false
		case c.quoted:
			c.escaped, c.quoted = b == '\\', b != '"'
		case b == '"':
			c.quoted = true
		case b == ',', b == '{', b == '[':
			c.Count++
		}
	}
}

// Count returns the number of values in a whole text.
func Count(text []byte) int {
	var c Counter
	c.Add(text)
	return c.Count
}

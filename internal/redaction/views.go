// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package redaction

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// unit is a byte of a view and its position in the text.
type unit struct {
	value    byte
	from, to int
}

// units is a view of a text, for example the text without its escapes.
type units []unit

func unitsOf(text string) units {
	out := make(units, len(text))
	for i := range len(text) {
		out[i] = unit{text[i], i, i + 1}
	}
	return out
}

func (u units) bytes() []byte {
	out := make([]byte, len(u))
	for i := range u {
		out[i] = u[i].value
	}
	return out
}

// isInserted reports whether a character may be inserted into a secret: white space, quotes and backslashes.
func isInserted(c byte) bool { return c <= ' ' || c == 0x7f || strings.IndexByte("\"'`\\", c) >= 0 }

// bareText returns the text of bare. It takes less memory than bare.
func bareText(text string) string {
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		if !isInserted(text[i]) {
			out = append(out, text[i])
		}
	}
	return string(out)
}

// bare removes the characters that may be inserted into a secret.
func bare(u units) units {
	out := make(units, 0, len(u))
	for _, one := range u {
		if !isInserted(one.value) {
			out = append(out, one)
		}
	}
	return out
}

// joined removes white space and quotes.
func joined(u units) units {
	out := make(units, 0, len(u))
	for _, one := range u {
		if one.value > ' ' && one.value != '"' && one.value != '\'' {
			out = append(out, one)
		}
	}
	return out
}

// standard replaces the two characters of the URL alphabet of base64 with those of the standard alphabet.
func standard(u units) units {
	for i := range u {
		switch u[i].value {
		case '-':
			u[i].value = '+'
		case '_':
			u[i].value = '/'
		}
	}
	return u
}

// unescape replaces the escapes of JSON, YAML and Go with their characters.
func unescape(u units) units {
	out := make(units, 0, len(u))
	for i := 0; i < len(u); {
		if u[i].value != '\\' || i+1 == len(u) {
			out = append(out, u[i])
			i++
			continue
		}
		text, length := escaped(u[i:])
		for _, c := range []byte(text) {
			out = append(out, unit{c, u[i].from, u[i+length-1].to})
		}
		i += length
	}
	return out
}

// escaped returns the characters of an escape, and the length of the escape in the view.
func escaped(u units) (string, int) {
	switch c := u[1].value; c {
	case 'a', 'b', 'f', 'n', 'r', 't', 'v', 'e', 'N', '_', 'L', 'P':
		return " ", 2
	case 'x':
		if n, ok := number(u, 2, 2, 16); ok {
			return string([]byte{byte(n)}), 4
		}
	case 'U':
		if n, ok := number(u, 2, 8, 16); ok {
			return string(rune(n)), 10
		}
	case 'u':
		if n, ok := number(u, 2, 4, 16); ok {
			return pair(u, rune(n))
		}
	case '0', '1', '2', '3':
		if n, ok := number(u, 1, 3, 8); ok {
			return string([]byte{byte(n)}), 4
		}
	}
	return string([]byte{u[1].value}), 2
}

// pair returns a character that JSON encodes as one escape or as two escapes.
func pair(u units, first rune) (string, int) {
	if utf16.IsSurrogate(first) && len(u) >= 12 && u[6].value == '\\' && u[7].value == 'u' {
		if second, ok := number(u, 8, 4, 16); ok {
			if r := utf16.DecodeRune(first, rune(second)); r != utf8.RuneError {
				return string(r), 12
			}
		}
	}
	return string(first), 6
}

// number parses digits.
func number(u units, at, digits, base int) (uint64, bool) {
	if len(u) < at+digits {
		return 0, false
	}
	n, err := strconv.ParseUint(string(u[at:at+digits].bytes()), base, 32)
	return n, err == nil
}

// unescapeURL replaces the escapes of URLs with their characters.
func unescapeURL(u units) units {
	out := make(units, 0, len(u))
	for i := 0; i < len(u); i++ {
		if u[i].value == '%' {
			if n, ok := number(u, i+1, 2, 16); ok {
				out = append(out, unit{byte(n), u[i].from, u[i+2].to})
				i += 2
				continue
			}
		}
		out = append(out, u[i])
	}
	return out
}

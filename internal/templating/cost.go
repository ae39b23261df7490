// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"cmp"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// measure returns the cost of v: its size in bytes plus a charge for each value. It stops at maxValueBytes. If the
// nesting of v is too deep, the result is higher than maxValueBytes.
func measure(v any) int {
	m := meter{}
	m.add(v, 0)
	return m.total
}

type meter struct{ total int }

func (m *meter) add(v any, depth int) {
	m.total += costNode
	if depth > maxDepth {
		m.total = math.MaxInt / 2
	}
	if m.total > maxValueBytes {
		return
	}
	switch t := v.(type) {
	case nil, bool, int, int64, float64:
	case string:
		m.total += len(t)
	case []any:
		for _, e := range t {
			if m.add(e, depth+1); m.total > maxValueBytes {
				return
			}
		}
	case map[string]any:
		for k, e := range t {
			m.total += len(k)
			if m.add(e, depth+1); m.total > maxValueBytes {
				return
			}
		}
	default:
		m.reflected(reflect.ValueOf(v), depth)
	}
}

func (m *meter) reflected(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		m.total += v.Len()
	case reflect.Slice, reflect.Array:
		for i := 0; i < v.Len() && m.total <= maxValueBytes; i++ {
			m.add(v.Index(i).Interface(), depth+1)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next() && m.total <= maxValueBytes; {
			m.add(it.Key().Interface(), depth+1)
			m.add(it.Value().Interface(), depth+1)
		}
	}
}

// The functions below return an upper limit for the work of one call, before the call. Arguments of the wrong type
// count as zero, because the call refuses them.

// textAt returns the text in argument i, counted from the end if i is negative.
func textAt(args []any, i int) string {
	if i < 0 {
		i += len(args)
	}
	if i < 0 || i >= len(args) {
		return ""
	}
	v := reflect.ValueOf(args[i])
	if v.Kind() != reflect.String {
		return ""
	}
	return v.String()
}

func intAt(args []any, i int) int {
	if i >= len(args) {
		return 0
	}
	n, err := convert(args[i], reflect.TypeFor[int]())
	if err != nil {
		return 0
	}
	return int(n.Int())
}

// times multiplies without overflow.
func times(a, b int) int {
	a, b = max(a, 0), max(b, 0)
	if a > 0 && b > math.MaxInt/2/a {
		return math.MaxInt / 2
	}
	return a * b
}

// decimals is the cost of functions with arbitrary precision. Each argument can have 300 digits.
func decimals(args []any) int { return times(len(args)+1, 4000) }

// versions is the cost of functions that parse versions with regular expressions.
func versions(args []any) int {
	size := 0
	for _, a := range args {
		size += times(measure(a), 16)
	}
	return size
}

// yamlWork is the cost of functions that read or write YAML. It is several times the cost of a copy.
func yamlWork(args []any) int {
	if len(args) == 0 {
		return 0
	}
	return times(measure(args[0]), 4)
}

// square limits functions that compare all elements with each other.
func square(args []any) int {
	n := 0
	for _, a := range args {
		n += measure(a) / costNode
	}
	return times(n, n)
}

func repeated(args []any) int { return times(intAt(args, 0), len(textAt(args, -1))) }

func replaced(args []any) int {
	old, with, text := textAt(args, 0), textAt(args, 1), textAt(args, 2)
	return times(strings.Count(text, old), len(with)) + len(text)
}

func joined(args []any) int {
	if len(args) < 2 {
		return 0
	}
	return times(measure(args[1])/costNode, len(textAt(args, 0))) + measure(args[1])
}

// pieces limits the functions that split text. Each part becomes a value. splitn has the largest number of parts as its
// second argument; a negative number means no limit.
func pieces(args []any) int {
	text := textAt(args, -1)
	n := strings.Count(text, textAt(args, 0)) + 1
	if most := intAt(args, 1); len(args) > 2 && most >= 0 {
		n = min(n, most)
	}
	return times(n, costNode) + len(text)
}

func counted(args []any) int { return times(abs(intAt(args, 0)), costNode) }

// stepped limits the functions until and seq by the largest distance between two arguments.
func stepped(args []any) int {
	low, high := 0, 0
	for i := range args {
		low, high = min(low, intAt(args, i)), max(high, intAt(args, i))
	}
	return times(abs(high)/2+abs(low)/2+1, 2*costNode)
}

func wrapped(args []any) int {
	return times(len(textAt(args, -1))+1, len(textAt(args, -2))+2)
}

func indentedSize(args []any) int {
	text := textAt(args, 1)
	return times(strings.Count(text, "\n")+1, intAt(args, 0)) + len(text)
}

// formatVerb matches a verb of package fmt after its "%". The groups are the flags, the width, the precision and the
// verb. An argument index, such as [1], may be before each of them. "*" does not match: its width would be an argument.
var formatVerb = regexp.MustCompile(
	`^([-+# 0]*)(?:\[\d+\])?(\d*)(?:\.(?:\[\d+\])?(\d*))?(?:\[\d+\])?([a-oq-zA-Z%])`)

// isFormat reports whether all verbs of a format are known to formatted. The verb p prints an address, which differs
// each time.
func isFormat(format string) bool {
	for {
		_, rest, found := strings.Cut(format, "%")
		if !found {
			return true
		}
		match := formatVerb.FindString(rest)
		if match == "" {
			return false
		}
		format = rest[len(match):]
	}
}

// formatted limits the result of printf. Each argument is printed once, or by each verb if the format has an argument
// index. A width or precision applies to each part of a list or map. printf refuses a format with other verbs, see
// isFormat.
func formatted(args []any) int {
	// A number of a value has up to 310 digits. A byte of a string has up to five characters in hexadecimal, and six are
	// more than any other form has.
	const number, escaped = 512, 6
	format, all, largest, most := textAt(args, 0), 0, 0, 1
	for _, a := range args[min(1, len(args)):] {
		all, largest, most = all+measure(a), max(largest, measure(a)), max(most, parts(a))
	}
	size, widths, verbs, growth := len(format), 0, 0, 1
	for rest := format; ; {
		var found bool
		if _, rest, found = strings.Cut(rest, "%"); !found {
			break
		}
		if strings.HasPrefix(strings.TrimLeft(rest, "-+# .[]0123456789"), "*") {
			return math.MaxInt / 2
		}
		match := formatVerb.FindStringSubmatch(rest)
		if match == nil {
			break
		}
		rest = rest[len(match[0]):]
		verbs++
		for _, digits := range match[2:4] {
			n, err := strconv.Atoi(cmp.Or(digits, "0"))
			if err != nil || n > maxValueBytes {
				return math.MaxInt / 2
			}
			widths += n
		}
		if strings.Contains(match[1], "#") || !strings.Contains("svdt%", match[4]) {
			size, growth = size+number, escaped
		}
	}
	if strings.Contains(format, "[") {
		all += times(verbs, largest)
	}
	return size + times(widths, most) + times(all, growth)
}

// parts limits the number of texts and numbers in a value. Keys of a map are parts, too.
func parts(v any) int {
	const fields = 16 // Versions and other structs have fewer fields.
	switch reflect.ValueOf(v).Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return times(measure(v)/costNode, 2)
	case reflect.Pointer, reflect.Struct:
		return fields
	default:
		return 1
	}
}

func abs(n int) int {
	if n == math.MinInt {
		return math.MaxInt
	}
	return max(n, -n)
}

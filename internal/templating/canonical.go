// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// maxExactFloat is the limit below which float64 represents every integer exactly.
const maxExactFloat = 1 << 53

// canonicalizer copies values into the canonical form of a Result: nil, bool, int64, float64, string, []any and
// map[string]any. It counts the copied values.
type canonicalizer struct {
	nodes, bytes int
}

// canonical returns a copy of v in the form of a Result. The copy shares nothing with v.
func canonical(v any) (any, error) {
	c := &canonicalizer{}
	return c.value(v, 0)
}

func (c *canonicalizer) value(v any, depth int) (any, error) {
	if c.nodes++; c.nodes > maxNodes {
		return nil, faultf(ReasonLimitExceeded, "has more than %d values", maxNodes)
	}
	if depth > maxDepth {
		return nil, faultf(ReasonLimitExceeded, "is nested deeper than %d levels", maxDepth)
	}
	switch t := v.(type) {
	case nil, bool, int64:
		return t, nil
	case string:
		return c.text(t)
	case float64:
		return canonicalFloat(t)
	case json.Number:
		return canonicalNumber(t)
	case map[string]any:
		return c.stringMap(t, depth)
	case []any:
		out := make([]any, len(t))
		for i := range t {
			var err error
			if out[i], err = c.value(t[i], depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return c.reflected(reflect.ValueOf(v), depth)
}

func (c *canonicalizer) text(s string) (any, error) {
	if c.bytes += len(s); c.bytes > maxDocumentBytes {
		return nil, faultf(ReasonLimitExceeded, "is larger than %d bytes", maxDocumentBytes)
	}
	if !utf8.ValidString(s) {
		return nil, faultf(ReasonInvalidValues, "is not UTF-8 text")
	}
	return s, nil
}

func (c *canonicalizer) stringMap(m map[string]any, depth int) (any, error) {
	out := make(map[string]any, len(m))
	for k, e := range m {
		if _, err := c.text(k); err != nil {
			return nil, err
		}
		e, err := c.value(e, depth+1)
		if err != nil {
			return nil, err
		}
		out[k] = e
	}
	return out, nil
}

// reflected copies values of types that JSON does not have and template functions return.
func (c *canonicalizer) reflected(v reflect.Value, depth int) (any, error) {
	switch v.Kind() {
	case reflect.String:
		return c.text(v.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if u := v.Uint(); u > math.MaxInt64 {
			return canonicalFloat(float64(u))
		}
		return int64(v.Uint()), nil
	case reflect.Float32, reflect.Float64:
		return canonicalFloat(v.Float())
	case reflect.Slice, reflect.Array:
		out := make([]any, v.Len())
		for i := range out {
			var err error
			if out[i], err = c.value(v.Index(i).Interface(), depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			m := make(map[string]any, v.Len())
			for _, k := range v.MapKeys() {
				m[k.String()] = v.MapIndex(k).Interface()
			}
			return c.stringMap(m, depth)
		}
	}
	return nil, faultf(ReasonRenderFailed, "is a %s, which values cannot hold", typeName(v))
}

// canonicalNumber parses a JSON number. Integers stay exact.
func canonicalNumber(n json.Number) (any, error) {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i, nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, faultf(ReasonInvalidValues, "holds a number out of range")
	}
	return canonicalFloat(f)
}

// canonicalFloat converts a float without a fraction to an integer. JSON has one kind of number, so 1 and 1.0 must have
// the same digest.
func canonicalFloat(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, faultf(ReasonInvalidValues, "is not a finite number")
	}
	if f == math.Trunc(f) && math.Abs(f) <= maxExactFloat {
		return int64(f), nil
	}
	return f, nil
}

// typeName returns the kind of a value in the words of chart authors.
func typeName(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Map:
		return "map"
	case reflect.Slice, reflect.Array:
		return "list"
	case reflect.Invalid:
		return "null"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return "number"
	}
	return "Go " + v.Type().String()
}

// merge merges over into base, and returns base. Maps merge at every depth; other values are replaced. A null in over
// stays null: Helm then removes the chart's default of the key, like "helm install -f". Both arguments must be
// canonical. The result shares parts with over.
func merge(base, over map[string]any) map[string]any {
	for k, v := range over {
		overMap, ok := v.(map[string]any)
		baseMap, both := base[k].(map[string]any)
		if ok && both {
			base[k] = merge(baseMap, overMap)
			continue
		}
		base[k] = v
	}
	return base
}

// encodeJSON returns v as JSON, with sorted keys and without optional escapes.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, faultf(ReasonRenderFailed, "cannot be written as JSON")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// digest returns the SHA-256, in hexadecimal, of the JSON of canonical values.
func digest(values map[string]any) (string, error) {
	tooLarge := faultf(ReasonLimitExceeded, "the values are larger than %d bytes", maxDocumentBytes)
	if textBytes(values) > maxDocumentBytes { // Their JSON would be larger, and up to six times as large.
		return "", tooLarge
	}
	data, err := encodeJSON(values)
	if err != nil {
		return "", err
	}
	if len(data) > maxDocumentBytes {
		return "", tooLarge
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// textBytes returns the length of all strings and keys of a canonical value.
func textBytes(v any) (total int) {
	switch t := v.(type) {
	case string:
		total = len(t)
	case []any:
		for _, e := range t {
			total += textBytes(e)
		}
	case map[string]any:
		for k, e := range t {
			total += len(k) + textBytes(e)
		}
	}
	return total
}

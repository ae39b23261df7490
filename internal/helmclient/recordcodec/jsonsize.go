// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordcodec

import (
	"reflect"
	"unicode/utf8"
)

// jsonSize returns the size of the texts in a value if it is written as JSON, in bytes. Escapes make a text up to six
// times longer. The names of fields, numbers and punctuation do not count, so the real size is never smaller.
func jsonSize(value reflect.Value) int {
	size := 0
	switch value.Kind() {
	case reflect.String:
		return escapedSize(value.String())
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() {
			return jsonSize(value.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range value.Len() {
			size += jsonSize(value.Index(i))
		}
	case reflect.Map:
		for entries := value.MapRange(); entries.Next(); {
			size += jsonSize(entries.Key()) + jsonSize(entries.Value())
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if field := value.Type().Field(i); field.IsExported() && field.Tag.Get("json") != "-" {
				size += jsonSize(value.Field(i))
			}
		}
	default:
	}
	return size
}

// escapedSize returns the size of a text with the escapes of package json, in bytes.
func escapedSize(text string) int {
	size := 0
	for _, c := range text {
		switch {
		case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
			size += len(`\n`)
		case c < ' ', c == '<', c == '>', c == '&', c == '\u2028', c == '\u2029':
			size += len(`\u0000`)
		default:
			size += utf8.RuneLen(c)
		}
	}
	return size
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package redaction

import "fmt"

// Former returns the values in "before" that occur nowhere in "now", with their keys. It leaves out booleans.
func Former(before, now map[string]any) map[string]any {
	present := map[string]bool{}
	Texts(now, present)
	former, _ := without(before, present).(map[string]any)
	return former
}

// Texts adds the texts and numbers in a value, at any depth, to found.
func Texts(value any, found map[string]bool) {
	switch typed := value.(type) {
	case map[string]any:
		for _, child := range typed {
			Texts(child, found)
		}
	case []any:
		for _, child := range typed {
			Texts(child, found)
		}
	case nil, bool:
	default:
		found[fmt.Sprint(typed)] = true
	}
}

// without returns a copy of a value without the texts and numbers in present; nil if nothing is left.
func without(value any, present map[string]bool) any {
	switch typed := value.(type) {
	case map[string]any:
		left := map[string]any{}
		for key, child := range typed {
			if child = without(child, present); child != nil {
				left[key] = child
			}
		}
		if len(left) > 0 {
			return left
		}
	case []any:
		var left []any
		for _, child := range typed {
			if child = without(child, present); child != nil {
				left = append(left, child)
			}
		}
		if len(left) > 0 {
			return left
		}
	case nil, bool:
	default:
		if !present[fmt.Sprint(typed)] {
			return typed
		}
	}
	return nil
}

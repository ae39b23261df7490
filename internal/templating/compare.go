// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"cmp"
	"reflect"
)

// comparisons are the comparison functions of text/template, with the same results. Those of text/template are not
// charged for the texts that they compare, and print whole lists and maps into an error.
func comparisons() map[string]function {
	ordered := func(accepts func(order int) bool) function {
		return function{call: reflect.ValueOf(func(a, b any) (bool, error) {
			order, isOrdered, err := compare(a, b)
			switch {
			case err != nil:
				return false, err
			case !isOrdered:
				return false, faultf(ReasonRenderFailed, "invalid type for comparison")
			}
			return accepts(order), nil
		})}
	}
	return map[string]function{
		"eq": {call: reflect.ValueOf(equalsAny)},
		"ne": {call: reflect.ValueOf(func(a, b any) (bool, error) {
			equal, err := equalsAny(a, b)
			return !equal, err
		})},
		"lt": ordered(func(order int) bool { return order < 0 }),
		"le": ordered(func(order int) bool { return order <= 0 }),
		"gt": ordered(func(order int) bool { return order > 0 }),
		"ge": ordered(func(order int) bool { return order >= 0 }),
	}
}

// equalsAny reports whether a value equals one of others.
func equalsAny(a any, others ...any) (bool, error) {
	if len(others) == 0 {
		return false, faultf(ReasonRenderFailed, "missing argument for comparison")
	}
	for _, other := range others {
		order, _, err := compare(a, other)
		if err != nil || order == 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// compare returns 0 if two values are equal. isOrdered is true for texts and numbers: then the result is negative if a
// is less than b, and positive if a is greater. A whole number and a fraction cannot be compared.
func compare(a, b any) (order int, isOrdered bool, err error) {
	left, right := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case !left.IsValid() || !right.IsValid():
		return differ(left.IsValid() != right.IsValid()), false, nil
	case left.Kind() == reflect.String && right.Kind() == reflect.String:
		return cmp.Compare(left.String(), right.String()), true, nil
	case isInteger(left.Type()) && isInteger(right.Type()):
		return compareIntegers(left, right), true, nil
	case left.CanFloat() && right.CanFloat():
		return cmp.Compare(left.Float(), right.Float()), true, nil
	case left.Kind() == reflect.Bool && right.Kind() == reflect.Bool:
		return differ(left.Bool() != right.Bool()), false, nil
	case isBasic(left) || isBasic(right):
		return 0, false, faultf(ReasonRenderFailed, "incompatible types for comparison")
	case !left.Comparable() || !right.Comparable():
		return 0, false, faultf(ReasonRenderFailed, "cannot compare lists or maps; use deepEqual")
	}
	return differ(a != b), false, nil
}

func compareIntegers(a, b reflect.Value) int {
	switch {
	case a.CanInt() && b.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint() && b.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	case a.CanInt():
		return -compareIntegers(b, a)
	case b.Int() < 0:
		return 1
	}
	return cmp.Compare(a.Uint(), uint64(b.Int()))
}

// isBasic reports whether a value is a text, a number or a boolean.
func isBasic(v reflect.Value) bool {
	return v.Kind() == reflect.String || v.Kind() == reflect.Bool || v.CanInt() || v.CanUint() || v.CanFloat()
}

func differ(isDifferent bool) int {
	if isDifferent {
		return 1
	}
	return 0
}

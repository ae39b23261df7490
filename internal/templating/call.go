// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strconv"
)

var errorType = reflect.TypeFor[error]()

// wrap returns the function that templates call by a name. It charges for the call, converts the arguments, checks the
// size of the result, and removes data from errors. A panic of the function becomes an error of the call.
func (r *run) wrap(name string, f function) any {
	target := f.call
	if f.bind != nil {
		target = reflect.ValueOf(f.bind(r))
	}
	return func(args ...any) (result any, err error) {
		defer func() {
			if recover() != nil {
				result, err = nil, faultf(ReasonRenderFailed, "%s cannot work with these arguments", name)
			}
		}()
		if err := r.pay(f, args); err != nil {
			return nil, named(name, err)
		}
		if result, err = invoke(target, f, args); err != nil {
			return nil, named(name, err)
		}
		if f.shallow {
			return result, nil
		}
		size := measure(result)
		if size > maxValueBytes {
			return nil, faultf(ReasonLimitExceeded, "%s yields a value that is too large", name)
		}
		return result, r.spend(size)
	}
}

// pay charges for a call before the call begins.
func (r *run) pay(f function, args []any) error {
	if len(args) > maxArguments {
		return faultf(ReasonLimitExceeded, "takes at most %d arguments", maxArguments)
	}
	cost := costCall + costNode*len(args)
	for i, a := range args {
		if f.shallow {
			cost += len(textAt(args, i))
			continue
		}
		// set and merge may enlarge a map that many lists share, so the results of earlier calls may have grown.
		size := measure(a)
		if size > maxValueBytes {
			return faultf(ReasonLimitExceeded, "is given a value that is too large")
		}
		cost += size
	}
	if f.cost != nil {
		cost += f.cost(args)
	}
	if f.size != nil {
		size := f.size(args)
		if size > maxValueBytes {
			return faultf(ReasonLimitExceeded, "would yield a value that is too large")
		}
		cost += size
	}
	return r.spend(cost)
}

// named adds the name of the function to a fault. The texts of other errors are dropped, because they may contain data.
// The error of the context is an exception.
func named(name string, err error) error {
	var f *fault
	switch {
	case errors.As(err, &f):
		return faultf(f.reason, "%s: %s", name, f.cause)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return faultf(ReasonRenderFailed, "%s cannot work with these arguments", name)
}

func invoke(target reflect.Value, f function, args []any) (any, error) {
	t := target.Type()
	fixed := t.NumIn()
	if t.IsVariadic() {
		fixed--
	}
	if len(args) < fixed || len(args) > fixed && !t.IsVariadic() {
		return nil, faultf(ReasonRenderFailed, "takes %d arguments, is given %d", fixed, len(args))
	}
	in := make([]reflect.Value, len(args))
	for i, a := range args {
		want := t.In(min(i, t.NumIn()-1))
		if i >= fixed {
			want = want.Elem()
		}
		var err *fault
		if !f.layout {
			a = asText(a)
		}
		if f.number != nil {
			a, err = f.number(a)
		}
		var v reflect.Value
		if err == nil {
			v, err = convert(a, want)
		}
		if err != nil {
			return nil, faultf(err.reason, "argument %d %s", i+1, err.cause)
		}
		in[i] = v
	}
	out := target.Call(in)
	if last := out[len(out)-1]; last.Type() == errorType && !last.IsNil() {
		err, _ := last.Interface().(error) // the condition ensures the type
		return nil, err
	}
	return out[0].Interface(), nil
}

// asText converts markup to a plain string.
func asText(v any) any {
	switch t := v.(type) {
	case markup:
		return string(t)
	case indented:
		return string(t)
	}
	return v
}

// convert converts v to the type of a function's parameter, if nothing is lost. Numbers in objects are int64 or
// float64, but numbers of function parameters are int.
func convert(v any, want reflect.Type) (reflect.Value, *fault) {
	if v == nil {
		switch want.Kind() {
		case reflect.Interface:
			return reflect.Zero(want), nil
		}
		return reflect.Value{}, faultf(ReasonMissingKey, "has no value")
	}
	rv := reflect.ValueOf(v)
	if rv.Type().AssignableTo(want) {
		return rv, nil
	}
	switch {
	case isInteger(want) && isInteger(rv.Type()):
		if rv.CanInt() && want.Kind() <= reflect.Int64 && !reflect.Zero(want).OverflowInt(rv.Int()) {
			return rv.Convert(want), nil
		}
	case isInteger(want) && rv.CanFloat():
		if f := rv.Float(); f == math.Trunc(f) && math.Abs(f) <= maxExactFloat {
			return convert(int64(f), want)
		}
	case want.Kind() == reflect.Float64 && isInteger(rv.Type()) && rv.CanInt():
		return reflect.ValueOf(float64(rv.Int())), nil
	case want.Kind() == reflect.String && rv.Kind() == reflect.String:
		return rv.Convert(want), nil
	}
	return reflect.Value{}, faultf(ReasonRenderFailed, "is a %s, not a %s", typeName(rv), typeName(reflect.Zero(want)))
}

// integerIn returns the whole number in a text. Other values are returned unchanged.
func integerIn(v any) (any, *fault) {
	return numberIn(v, "whole number", func(text string) (any, error) { return strconv.ParseInt(text, 10, 64) })
}

// floatIn returns the number in a text. Other values are returned unchanged.
func floatIn(v any) (any, *fault) {
	return numberIn(v, "number", func(text string) (any, error) { return strconv.ParseFloat(text, 64) })
}

func numberIn(v any, what string, parse func(string) (any, error)) (any, *fault) {
	if v == nil {
		return nil, faultf(ReasonMissingKey, "has no value")
	}
	text := reflect.ValueOf(v)
	if text.Kind() != reflect.String {
		return v, nil
	}
	n, err := parse(text.String())
	if err != nil {
		return nil, faultf(ReasonRenderFailed, "is not a %s", what)
	}
	return n, nil
}

func isInteger(t reflect.Type) bool {
	return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package celexpr evaluates user-defined CEL expressions over one object. An expression may be malformed or expensive
// or have the wrong type, and the object may hold secrets. So the package bounds the time and the memory of compilation
// and evaluation, and its errors contain no values of the object. Callers may show these errors to users.
package celexpr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// maxCost bounds the cost of one evaluation, in CEL's units, to some tenths of a second. An expression that reads a
	// hundred conditions costs about a thousand.
	maxCost = 100_000
	// maxTime ends the loops of an evaluation whose cost is too low for its work. It is far above the time of an
	// evaluation with maxCost, so that a busy machine does not change a result.
	maxTime = 5 * time.Second
	// maxNesting is the maximum nesting depth of an expression.
	maxNesting = 100
	// maxSource is the maximum length of an expression, in characters.
	maxSource = 4096
	// maxCompiled is the maximum number of compiled expressions in the cache.
	maxCompiled = 512
)

// Expression is a compiled expression. It is safe for concurrent use.
type Expression struct {
	variable, source string
	program          cel.Program
}

// environment has the standard functions and macros of CEL. It has no extensions: nested macros of optional values take
// unbounded time and memory, and CEL does not count the cost of string functions.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(cel.ParserRecursionLimit(maxNesting), cel.ParserExpressionSizeLimit(maxSource))
})

// compiled caches compiled expressions and compilation errors. A thousand releases with the same expression share one
// entry.
var compiled = func() *lru.Cache[key, outcome] {
	cache, err := lru.New[key, outcome](maxCompiled)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return cache
}()

type key struct{ variable, source string }

type outcome struct {
	expression *Expression
	err        error
}

// Compile returns an expression in which the object is the given variable. Repeated calls with the same arguments are
// cheap. An error names the line and the column.
func Compile(variable, source string) (*Expression, error) {
	k := key{variable, source}
	if known, ok := compiled.Get(k); ok {
		return known.expression, known.err
	}
	program, err := compile(variable, source)
	made := outcome{err: err}
	if err == nil {
		made.expression = &Expression{variable: variable, source: source, program: program}
	}
	if len(source) <= maxSource {
		compiled.Add(k, made)
	}
	return made.expression, made.err
}

func compile(variable, source string) (cel.Program, error) {
	base, err := environment()
	if err != nil {
		return nil, err
	}
	env, err := base.Extend(cel.Variable(variable, cel.DynType))
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(source)
	if err := issues.Err(); err != nil {
		first := issues.Errors()[0]
		return nil, fmt.Errorf("line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, first.Message)
	}
	if kind := ast.OutputType(); !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("must be true or false, not of type %s", kind)
	}
	turns := loops(ast.NativeRep().Expr())
	return env.Program(ast, cel.CostTracking(costs{turns}), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(1),
		cel.CustomDecoratorV2(decorator(turns)))
}

// Holds reports whether the expression is true for an object. An error contains the reason why the expression cannot be
// evaluated, but no value of the object.
func (e *Expression) Holds(object map[string]any) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), maxTime)
	defer cancel()
	result, _, err := e.program.ContextEval(ctx, map[string]any{e.variable: object})
	if err != nil {
		// Errors of CEL name missing fields. They also quote values of the object: values that cannot be converted, and keys
		// of lookups. The constants in the expression itself are not secret.
		if missing, ok := strings.CutPrefix(err.Error(), "no such key: "); ok {
			if !strings.Contains(e.source, missing) {
				return false, errors.New("a field is missing")
			}
			return false, fmt.Errorf("field %q is missing", missing)
		}
		if strings.Contains(err.Error(), "cost limit") || errors.Is(err, context.DeadlineExceeded) {
			return false, errors.New("it is too expensive")
		}
		return false, errors.New("it cannot be evaluated")
	}
	truth, ok := result.Value().(bool)
	if !ok {
		return false, errors.New("it is neither true nor false")
	}
	return truth, nil
}

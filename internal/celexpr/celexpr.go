// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package celexpr evaluates CEL expressions that users write, over one object. An expression may be malformed, costly
// or of the wrong type, and what it looks at may hold secrets: compiling and evaluating are bounded in time and memory,
// and errors hold nothing of the object.
package celexpr

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// maxCost bounds one evaluation, in CEL's own units, to some tenths of a second. Looking through a hundred
	// conditions costs about a thousand.
	maxCost = 100_000
	// maxNesting bounds how deep an expression may be nested.
	maxNesting = 100
	// maxSource bounds the length of an expression, in characters.
	maxSource = 4096
	// maxCompiled bounds how many compiled expressions are kept.
	maxCompiled = 512
)

// Expression is a compiled expression. It is safe for concurrent use.
type Expression struct {
	variable, source string
	program          cel.Program
}

// environment is what expressions may use: the standard functions and macros of CEL. No more: the macros of optional
// values take time and memory without bounds where they are nested, and functions of texts cost nothing by CEL's
// reckoning.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(cel.ParserRecursionLimit(maxNesting), cel.ParserExpressionSizeLimit(maxSource))
})

// compiled keeps what was compiled, and what could not be: a thousand releases share one.
var compiled = func() *lru.Cache[key, outcome] {
	cache, err := lru.New[key, outcome](maxCompiled)
	if err != nil {
		panic(err) // only for a size below one
	}
	return cache
}()

type key struct{ variable, source string }

type outcome struct {
	expression *Expression
	err        error
}

// Compile returns the expression whose object goes by the name of a variable. Calling it again with the same arguments
// is cheap. An error tells the line and the column.
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
	return env.Program(ast, cel.CostTracking(costs{}), cel.CostLimit(maxCost))
}

// Holds reports whether the expression is true of an object. An error says why it has no answer, without any value of
// the object.
func (e *Expression) Holds(object map[string]any) (bool, error) {
	result, _, err := e.program.Eval(map[string]any{e.variable: object})
	if err != nil {
		// CEL's errors name fields that are missing, and quote values: those that cannot be converted, and those by which
		// something is looked up. What the expression itself says is no secret.
		if missing, ok := strings.CutPrefix(err.Error(), "no such key: "); ok {
			if !strings.Contains(e.source, missing) {
				return false, errors.New("a field is missing")
			}
			return false, fmt.Errorf("field %q is missing", missing)
		}
		if strings.Contains(err.Error(), "cost limit") {
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

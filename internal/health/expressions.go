/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package health

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// maxCost bounds one evaluation, in CEL's own units, to some tenths of a second. Looking through a hundred
	// conditions costs about a thousand.
	maxCost = 100_000
	// maxNesting bounds how deep an expression may be nested.
	maxNesting = 100
)

// environment is what expressions may use: the standard functions and macros of CEL. No more: the macros of optional values
// take time and memory without bounds where they are nested, and functions of texts cost nothing by CEL's reckoning.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("self", cel.DynType),
		cel.ParserRecursionLimit(maxNesting),
		cel.ParserExpressionSizeLimit(4096),
	)
})

// expressions are the compiled ones of a check. Programs are safe for concurrent use.
type expressions struct {
	// inProgress and failed may be nil.
	inProgress, failed, current cel.Program
}

func compile(check Check) (*expressions, error) {
	if check.Current == "" {
		return nil, errors.New("current: must not be empty")
	}
	var e expressions
	for _, field := range []struct {
		name, source string
		program      *cel.Program
	}{
		{"inProgress", check.InProgress, &e.inProgress},
		{"failed", check.Failed, &e.failed},
		{"current", check.Current, &e.current},
	} {
		if field.source == "" {
			continue
		}
		program, err := compileExpression(field.source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
		*field.program = program
	}
	return &e, nil
}

func compileExpression(source string) (cel.Program, error) {
	env, err := environment()
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

func (e *expressions) evaluate(obj *unstructured.Unstructured) (Verdict, string) {
	self := map[string]any{"self": obj.Object}
	if truth, _ := holds(e.inProgress, self); truth {
		return InProgress, "is in progress by its health check"
	}
	if truth, _ := holds(e.failed, self); truth {
		return Failed, "has failed by its health check"
	}
	truth, err := holds(e.current, self)
	switch {
	case truth:
		return Current, ""
	case err != nil:
		return InProgress, "its health check has no answer yet: " + err.Error()
	default:
		return InProgress, "is not yet current by its health check"
	}
}

// holds reports whether an expression is true. An error says why it has no answer, without any value of the object.
func holds(program cel.Program, self map[string]any) (bool, error) {
	if program == nil {
		return false, nil
	}
	result, _, err := program.Eval(self)
	if err != nil {
		// CEL's errors name fields that are missing, and quote values that cannot be converted.
		if missing, ok := strings.CutPrefix(err.Error(), "no such key: "); ok {
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

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package celexpr

import (
	"strconv"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// nodesPerCost is the number of steps of a loop that together cost one unit. CEL counts no cost for some steps.
const nodesPerCost = 8

// loops returns the cost of one turn of each loop of an expression, by the name of the loop.
func loops(expression ast.Expr) map[string]uint64 {
	turns := map[string]uint64{}
	ast.PostOrderVisit(expression, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			nodes := uint64(0)
			ast.PostOrderVisit(e.AsComprehension().LoopStep(), ast.NewExprVisitor(func(ast.Expr) { nodes++ }))
			turns[loopName(e.AsComprehension().LoopCondition().ID())] = 1 + nodes/nodesPerCost
		}
	}))
	return turns
}

// loopName returns the name of the loop whose condition has an ID.
func loopName(condition int64) string { return "@loop " + strconv.FormatInt(condition, 10) }

// decorator returns a function that replaces the steps of an expression whose work CEL does not bound.
func decorator(turns map[string]uint64) interpreter.InterpretableDecoratorV2 {
	return func(step interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if loop := loopName(step.ID()); turns[loop] > 0 {
			return &condition{step, loop}, nil
		}
		switch s := step.(type) {
		case interpreter.InterpretableConstructor:
			return &construction{s}, nil
		case interpreter.InterpretableCall:
			if s.Function() == overloads.Matches {
				return interpreter.NewCall(s.ID(), s.Function(), s.OverloadID(), s.Args(), match), nil
			}
		}
		return step, nil
	}
}

// refuse ends an evaluation as CEL does when the cost is too high.
func refuse() {
	panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "cost limit exceeded"})
}

// construction creates a list or a map. It refuses to create a value with too many elements. A nested list can contain
// the same list many times, so a short expression could create a list whose comparison never ends. To CEL, it is also a
// call, so that its cost is the weight of the value.
type construction struct {
	interpreter.InterpretableConstructor
}

// Exec implements interpreter.InterpretableV2.
func (c *construction) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	value := c.InterpretableConstructor.Exec(frame)
	budget := maxCost
	if weigh(value, &budget); budget < 0 {
		refuse()
	}
	return value
}

// Eval implements interpreter.Interpretable.
func (c *construction) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// Function implements interpreter.InterpretableCall.
func (*construction) Function() string { return "" }

// OverloadID implements interpreter.InterpretableCall.
func (*construction) OverloadID() string { return "" }

// Args implements interpreter.InterpretableCall.
func (c *construction) Args() []interpreter.InterpretableV2 { return c.InitVals() }

// condition is the condition of a loop. To CEL, it is also a call whose first argument is the condition of the turn
// before. So CEL forgets the values of that turn when it computes the cost of the call. It would otherwise keep some
// values of each turn, and search all of them in each step. A loop over 30,000 elements would take several seconds.
type condition struct {
	interpreter.InterpretableV2
	loop string
}

// Function implements interpreter.InterpretableCall. It returns the name of the loop.
func (c *condition) Function() string { return c.loop }

// OverloadID implements interpreter.InterpretableCall.
func (*condition) OverloadID() string { return "" }

// Args implements interpreter.InterpretableCall.
func (c *condition) Args() []interpreter.InterpretableV2 {
	args := []interpreter.InterpretableV2{c}
	if call, ok := c.InterpretableV2.(interpreter.InterpretableCall); ok {
		args = append(args, call.Args()...)
	}
	return args
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package celexpr

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// costs computes the cost of calls. CEL's own costs are wrong for values of unknown type, and the type of an object is
// always unknown to CEL: a comparison of lists ignores the elements, and the growth of strings and lists costs nothing.
// CEL also counts the characters of a string to compute a cost, which takes longer than most calls.
type costs struct {
	// turns has the cost of one turn of each loop.
	turns map[string]uint64
}

// CallCost implements interpreter.ActualCostEstimator. It returns the cost of every call, also of a call that a
// construction or a condition simulates.
func (c costs) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	if turn, ok := c.turns[function]; ok {
		return &turn
	}
	budget := maxCost
	switch {
	case function == operators.Add && len(args) == 2:
		if _, ok := result.(traits.Lister); ok {
			// The cost of the first list was counted when the list was made, or the list is part of the object.
			weigh(args[1], &budget)
		} else {
			weigh(result, &budget)
		}
	case (function == operators.Equals || function == operators.NotEquals) && len(args) == 2:
		budget -= lighter(args[0], args[1])
	case function == overloads.Matches && len(args) == 2:
		budget -= matchCost(args[0], args[1])
	case (function == overloads.StartsWith || function == overloads.EndsWith) && len(args) == 2:
		weigh(args[1], &budget)
	case function == overloads.TypeConvertDyn || function == overloads.TypeConvertType:
		// These functions do not read the value.
	default:
		for _, arg := range args {
			weigh(arg, &budget)
		}
	}
	cost := uint64(maxCost-budget) + 1
	return &cost
}

// lighter returns the weight of one of two values, at most four times that of the smaller one. So it bounds the work of
// a comparison, without the work to weigh a large value that is compared with a small one.
func lighter(a, b ref.Val) int {
	for limit := 16; ; limit *= 4 {
		for _, value := range []ref.Val{a, b} {
			budget := limit
			if weigh(value, &budget); budget >= 0 || limit >= maxCost {
				return limit - budget
			}
		}
	}
}

// weigh subtracts the size of a value from a budget. It stops when the budget is used up.
func weigh(value ref.Val, budget *int) {
	*budget--
	if *budget < 0 {
		return
	}
	switch v := value.(type) {
	case types.String:
		*budget -= len(v) / 10
	case types.Bytes:
		*budget -= len(v) / 10
	case traits.Mapper:
		for it := v.Iterator(); *budget >= 0 && it.HasNext() == types.True; {
			key := it.Next()
			weigh(key, budget)
			weigh(v.Get(key), budget)
		}
	case traits.Lister:
		for it := v.Iterator(); *budget >= 0 && it.HasNext() == types.True; {
			weigh(it.Next(), budget)
		}
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package celexpr

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// costs adds the cost of growing strings and lists. CEL does not count this cost for values of unknown type, and the
// type of an object is always unknown to CEL. Without the cost, a short expression could fill the memory by doubling a
// string repeatedly.
type costs struct{}

// CallCost implements interpreter.ActualCostEstimator. It counts additions, and calls whose overload is unknown. It
// returns nil for all other calls, whose cost CEL computes.
func (costs) CallCost(function, overloadID string, args []ref.Val, result ref.Val) *uint64 {
	budget := maxCost
	switch {
	case function == operators.Add && len(args) == 2:
		if _, ok := result.(traits.Lister); ok {
			// The cost of the first list was counted when the list was made, or the list is part of the object.
			weigh(args[1], &budget)
		} else {
			weigh(result, &budget)
		}
	case overloadID == "":
		for _, arg := range args {
			weigh(arg, &budget)
		}
	default:
		return nil
	}
	cost := uint64(maxCost-budget) + 1
	return &cost
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

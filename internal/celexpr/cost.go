// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package celexpr

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// costs charges expressions for what CEL takes to be free where it does not know types, as it never does of an object:
// the growth of texts and lists. Without it, a short expression could fill the memory by doubling a text again and
// again.
type costs struct{}

// CallCost implements interpreter.ActualCostEstimator. It leaves to CEL what it does not know better.
func (costs) CallCost(function, overloadID string, args []ref.Val, result ref.Val) *uint64 {
	budget := maxCost
	switch {
	case function == operators.Add && len(args) == 2:
		if _, ok := result.(traits.Lister); ok {
			// The first list was paid for when it was made, or is the object's own.
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

// weigh takes the size of a value off a budget, and stops when that is used up.
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

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

package celexpr

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// costs charges expressions for what CEL takes to be free where it does not know types, as it never does of an object:
// the growth of texts and lists. Without it, a short expression could fill the memory by doubling a text again and again.
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

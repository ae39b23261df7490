// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectinfo

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// HasQuantities reports whether a field has quantities, which the API server stores in another format.
func HasQuantities(field string) bool { return field == "limits" || field == "requests" }

// Contains reports whether an observed value has all fields of a desired value. Lists must have the same length.
func Contains(desired, observed any) bool {
	switch desired := desired.(type) {
	case map[string]any:
		fields, ok := observed.(map[string]any)
		if !ok {
			return observed == nil && len(desired) == 0
		}
		for key, value := range desired {
			if !ContainsField(key, value, fields[key]) {
				return false
			}
		}
		return true
	case []any:
		items, ok := observed.([]any)
		if len(items) != len(desired) || !ok && observed != nil {
			return false
		}
		for i := range desired {
			if !Contains(desired[i], items[i]) {
				return false
			}
		}
		return true
	default:
		return desired == observed
	}
}

// ContainsField is Contains for the values of a field. A quantity may have another format.
func ContainsField(key string, desired, observed any) bool {
	switch {
	case Contains(desired, observed):
		return true
	case HasQuantities(key):
		return sameAmounts(desired, observed)
	default:
		return key == "sizeLimit" && SameAmount(desired, observed)
	}
}

// sameAmounts reports whether the observed quantities include the desired quantities.
func sameAmounts(desired, observed any) bool {
	want, ok := desired.(map[string]any)
	have, isMap := observed.(map[string]any)
	if !ok || !isMap {
		return false
	}
	for name, amount := range want {
		if !SameAmount(amount, have[name]) {
			return false
		}
	}
	return true
}

// SameAmount reports whether two quantities are equal.
func SameAmount(desired, observed any) bool {
	x, err := resource.ParseQuantity(fmt.Sprint(desired))
	if err != nil {
		return false
	}
	y, err := resource.ParseQuantity(fmt.Sprint(observed))
	return err == nil && x.Cmp(y) == 0
}

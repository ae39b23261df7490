// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plural writes a number and its noun for messages, with the right singular or plural. It does not know any
// nouns. Callers pass both forms, with the verb if there is one.
package plural

import (
	"fmt"
	"strconv"
	"strings"
)

// Integer is a number of things.
type Integer interface{ ~int | ~int32 | ~int64 }

// Count returns a number with its noun: Count(1, "Cluster is", "Clusters are") is "1 Cluster is".
func Count[N Integer](n N, one, many string) string {
	return strconv.FormatInt(int64(n), 10) + " " + Word(n, one, many)
}

// Word returns the singular or the plural for a number.
func Word[N Integer](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Few returns the first names of a list, and the number of the others: "a, b and 3 more".
func Few(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

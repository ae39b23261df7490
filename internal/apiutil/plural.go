// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import "strconv"

// Integer is a number of things.
type Integer interface{ ~int | ~int32 | ~int64 }

// Count is a number with the word for it: Count(1, "Cluster is", "Clusters are") is "1 Cluster is".
func Count[N Integer](n N, one, many string) string {
	return strconv.FormatInt(int64(n), 10) + " " + Plural(n, one, many)
}

// Plural is the word for a number of things.
func Plural[N Integer](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

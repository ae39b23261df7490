// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sample selects a part of a long table of cases, so that a test takes seconds. Each run selects another part.
//
// The environment variable HELMOP_SAMPLE is the number of cases of each table, or "all". The default is 6. HELMOP_SEED
// is the seed of the selection. By default, it differs in each run. A failed test prints the seed, which repeats the
// selection.
package sample

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// defaultSize is the number of cases of each table.
const defaultSize = 6

// seed is the same for all tables of a process.
var seed = sync.OnceValue(func() uint64 {
	if given, err := strconv.ParseUint(os.Getenv("HELMOP_SEED"), 10, 64); err == nil {
		return given
	}
	return uint64(time.Now().UnixNano())
})

// Seed returns the seed of this process.
func Seed() uint64 { return seed() }

// Of returns some of the cases in order: the first, the last, and others that depend on the seed and the test's name.
func Of[T any](t testing.TB, cases []T) []T {
	t.Helper()
	size := defaultSize
	if given := os.Getenv("HELMOP_SAMPLE"); given == "all" {
		return cases
	} else if n, err := strconv.Atoi(given); err == nil && n > 0 {
		size = n
	} else if given != "" {
		t.Fatalf("HELMOP_SAMPLE is %q: it is \"all\" or a number above 0", given)
	}
	if len(cases) <= size {
		return cases
	}
	t.Logf("%d of %d cases; HELMOP_SEED=%d repeats the choice, HELMOP_SAMPLE=all runs all", size, len(cases), seed())
	picked := make([]T, 0, size)
	for _, i := range indices(len(cases), size, seed(), t.Name()) {
		picked = append(picked, cases[i])
	}
	return picked
}

// indices returns size of n indices, sorted. size must be less than n.
func indices(n, size int, seed uint64, name string) []int {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name))
	picked := []int{0, n - 1}[:min(size, 2)]
	// The first and the last index are selected already.
	for _, i := range rand.New(rand.NewPCG(seed, hash.Sum64())).Perm(n - 2)[:size-len(picked)] {
		picked = append(picked, i+1)
	}
	slices.Sort(picked)
	return picked
}

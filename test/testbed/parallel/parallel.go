// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package parallel sets how many tests of a package run at once where most of them wait: for an API server, a registry
// or a timeout.
package parallel

import (
	"flag"
	"runtime"
	"strconv"
)

// AtLeast lets n tests that call t.Parallel run at once, where go test's default is lower: one for each core. A
// -parallel of the command line wins. It is called in TestMain, parses the flags, and panics if go test has no such
// flag any more.
func AtLeast(n int) {
	flag.Parse()
	limit := flag.Lookup("test.parallel").Value
	if cores := runtime.GOMAXPROCS(0); cores < n && limit.String() == strconv.Itoa(cores) {
		if err := limit.Set(strconv.Itoa(n)); err != nil {
			panic(err)
		}
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package parallel sets how many tests of a package run at once. It is for packages whose tests mostly wait: for an API
// server, a registry or a timeout.
package parallel

import (
	"flag"
	"runtime"
	"strconv"
)

// AtLeast makes at least n tests that call t.Parallel run at the same time. The default of go test is one for each
// core. The flag -parallel of the command line takes precedence. TestMain calls AtLeast, which parses the flags.
// AtLeast panics if go test no longer has the flag.
func AtLeast(n int) {
	flag.Parse()
	limit := flag.Lookup("test.parallel").Value
	if cores := runtime.GOMAXPROCS(0); cores < n && limit.String() == strconv.Itoa(cores) {
		if err := limit.Set(strconv.Itoa(n)); err != nil {
			panic(err)
		}
	}
}

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

// Package parallel sets how many tests of a package run at once where most of them wait: for an API server, a registry or a timeout.
package parallel

import (
	"flag"
	"runtime"
	"strconv"
)

// AtLeast lets n tests that call t.Parallel run at once, where go test's default is lower: one for each core. A -parallel of the
// command line wins. It is called in TestMain, parses the flags, and panics if go test has no such flag any more.
func AtLeast(n int) {
	flag.Parse()
	limit := flag.Lookup("test.parallel").Value
	if cores := runtime.GOMAXPROCS(0); cores < n && limit.String() == strconv.Itoa(cores) {
		if err := limit.Set(strconv.Itoa(n)); err != nil {
			panic(err)
		}
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version holds the version of this build. The linker sets its variables. No other code may change them.
package version

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
)

// development is the version of a build that is not a release.
const development = "v0.0.0-dev"

var (
	// Version is the release, for example v0.1.0.
	Version = development

	// Commit is the Git commit.
	Commit = "unknown"

	// Date is when the commit was made, in RFC 3339.
	Date = "unknown"
)

// released matches the versions of releases. It does not match the versions that Go generates for other commits.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$`)

func init() {
	if info, ok := debug.ReadBuildInfo(); ok {
		Version = choose(Version, info.Main.Version)
	}
}

// choose returns the version that the linker set. "go install" sets no version. Then choose returns the version of the
// module if it is a release, because the command line installs the manager of the same version.
func choose(linked, module string) string {
	if linked == development && released.MatchString(module) {
		return module
	}
	return linked
}

// String returns one line for users.
func String() string {
	return fmt.Sprintf("helmop %s (commit %s of %s, %s, %s/%s)", Version, Commit, Date, runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version tells which build this is. The linker sets its variables.
package version

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
)

// development is the version of a build that is no release.
const development = "v0.0.0-dev"

var (
	// Version is the release, for example v0.1.0.
	Version = development

	// Commit is the Git commit.
	Commit = "unknown"

	// Date is when the commit was made, RFC 3339.
	Date = "unknown"
)

// released is what the versions of releases look like; those that Go makes up for other commits do not.
var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$`)

func init() {
	if info, ok := debug.ReadBuildInfo(); ok {
		Version = choose(Version, info.Main.Version)
	}
}

// choose returns the version that the linker was given or, as "go install" gives none, that of the module if it is a
// release: the command line installs the manager of its own version.
func choose(linked, module string) string {
	if linked == development && released.MatchString(module) {
		return module
	}
	return linked
}

// String is a line for people.
func String() string {
	return fmt.Sprintf("helmop %s (commit %s of %s, %s, %s/%s)", Version, Commit, Date, runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
}

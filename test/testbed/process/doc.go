// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process runs the test bed's programs: each in its own process group,
// with its output in a log file, and none left behind when the test's own
// process dies (on Linux, where the kernel kills them).
package process

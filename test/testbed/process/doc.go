// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process runs the test bed's programs. Each runs in its own process group, with its output in a log file. On
// Linux, the kernel kills all of them when the test's own process dies.
package process

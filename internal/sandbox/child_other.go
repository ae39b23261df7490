//go:build !linux

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

// confine sets no limits, because only Linux has all of them.
func (c *child) confine() error { return nil }

func (c *child) allowCPU() error { return nil }

func (c *child) exceedsKept() bool { return false }

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package containers

import "errors"

// Unsupported returns why this machine cannot run containers; nil if it can.
func Unsupported() error { return errors.New("only Linux has mount namespaces") }

func become(string) error { return Unsupported() }

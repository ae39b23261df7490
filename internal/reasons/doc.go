// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reasons maps errors to the reasons of conditions. It consists of tables and pure functions. Callers pass an
// error and a default reason, and set the condition themselves.
package reasons

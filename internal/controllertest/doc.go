// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllertest has what the tests of controllers and of the packages below them share: objects, clients and
// times.
package controllertest

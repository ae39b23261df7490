// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllertest has the objects, clients and times that the tests of controllers and of the packages below
// them share. It has no tests of its own. It imports no reconciler, so that the tests of all reconcilers can use it.
package controllertest

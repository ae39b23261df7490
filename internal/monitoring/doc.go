// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring defines the metrics of the controllers. docs/reference/metrics.md describes them. Other packages
// call its functions when something happens; the state of objects is read from the cache during a scrape. The series of
// an object disappear when the object is deleted. For each kind of object, the number of series has a limit.
package monitoring

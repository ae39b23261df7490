// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmtest has fixtures for the tests of the Helm engine's packages: charts, records, desired states, objects
// behind a transport, and connections that fail.
package helmtest

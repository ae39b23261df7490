// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply is Helm's client of a cluster: it builds, creates, updates and deletes the objects of a manifest.
//
// It differs from Helm's own client where a controller needs more care. It does not touch objects that belong to
// another release (ownership.go). It creates the namespace only when the first object needs it (namespace.go). It
// replaces objects whose update is refused, if the caller allows that (force.go). It ends an action whose record is
// gone (stop.go), and finds what failed revisions left (leftovers.go).
//
// It does not decide which manifest is applied, and it writes no records.
package apply

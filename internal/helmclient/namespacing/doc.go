// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespacing creates and labels the namespace of a release, right before an action creates the first object
// that may need it: a record, or an object in the folder crds of the chart. It changes no other object. Package session
// calls it around each new record, and package crds around each new object that is not a CRD. Package dryrun only plans
// the namespace.
package namespacing

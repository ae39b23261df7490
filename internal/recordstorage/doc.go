// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordstorage finds out where the records of a release are stored: in the workload cluster or in registries,
// from the settings of the HelmOp and of the manager. It sends no request; the credentials are read when a record is
// read or written. It knows nothing of the content of records.
package recordstorage

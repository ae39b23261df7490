// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordstorage decides where the records of a release are stored: in the workload cluster or in registries. It
// reads the settings of the HelmOp and of the manager. It sends no request. The returned storage reads the credentials
// when a record is read or written. It does not read or write records itself.
package recordstorage

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordcodec converts releases to the text of Helm's records, and back: base64 of gzip of JSON. Helm reads the
// records of this package, and this package reads the records of Helm.
//
// A [Codec] packs the files of a chart once for all records. It returns an error for a record that it could not unpack
// again. When it unpacks a record, it bounds the memory: other users of a cluster can write records, too. Callers
// reserve memory in functions that they pass.
//
// The package does not know where records are stored.
package recordcodec

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordreads limits the reads of Helm's records in clusters that do not answer promptly, so that these hold no workers.
package recordreads

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selection decides which HelmOps may access a Cluster of another namespace, or the management cluster: [Guard] asks the API server on
// behalf of the ServiceAccount that a HelmOp names, and remembers the answers.
package selection

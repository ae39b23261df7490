// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue orders the HelmOpReleases that wait for a worker: new ones before those that are looked at again.
package queue

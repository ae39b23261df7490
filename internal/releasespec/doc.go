// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releasespec translates the spec of a HelmOpRelease into the terms of the Helm engine. All its functions are
// pure. A field that is not set is left to the defaults of the engine.
package releasespec

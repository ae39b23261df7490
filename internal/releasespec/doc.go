// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package releasespec converts the spec of a HelmOpRelease to the types of the Helm engine. All its functions are pure:
// they read nothing but their arguments. For a field that is not set, the default of the engine applies. The package
// decides nothing.
package releasespec

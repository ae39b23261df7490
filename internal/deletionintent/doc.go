// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deletionintent finds out why a HelmOpRelease is under deletion, which decides whether its release is
// uninstalled. It knows HelmOps, their revisions and Clusters. It knows neither workload clusters nor deletion
// policies. It reads from the API server and writes nothing. Callers must not uninstall a release for which it
// returns an error.
package deletionintent

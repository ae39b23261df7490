// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deletionintent finds out why a HelmOpRelease is under deletion. The reason decides whether its Helm release
// is uninstalled. The package reads HelmOps, their revisions and Clusters from the API server, and writes nothing. It
// does not read workload clusters and ignores deletion policies: callers apply the policies. Callers must not uninstall
// a release for which the package returns an error.
package deletionintent

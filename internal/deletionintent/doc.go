// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deletionintent finds out why a HelmOpRelease is under deletion. The reason decides whether its Helm release
// is uninstalled. It reads HelmOps, their revisions and Clusters from the API server, and writes nothing. It does not
// read workload clusters and ignores deletion policies: callers apply them. Callers must not uninstall a release for
// which it returns an error.
package deletionintent

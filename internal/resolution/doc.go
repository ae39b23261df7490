// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolution resolves the references of a HelmOp to artifacts, and checks the required signatures. It looks up
// each distinct reference once per interval. The numbers of passes and Clusters do not matter. HelmOps with the same
// reference share results. While a registry fails, a reference keeps its last known artifact.
//
// The package does not read Clusters or releases. A [Resolver] returns an [Outcome] and changes no object. Callers
// write the outcome into the HelmOp and record Events. They must reconcile the HelmOp again when [Resolver.Source] or
// Outcome.RequeueAfter requires it, and call [Resolver.Forget] for HelmOps that they no longer serve.
package resolution

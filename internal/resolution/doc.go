// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolution resolves the references of a HelmOp to artifacts, and checks the required signatures. Each
// distinct reference is looked up once per interval, whatever the number of passes and of Clusters; HelmOps with the
// same reference share results. While a registry fails, the last known artifact of a reference stays.
//
// It knows HelmOps, registries and signatures, and neither Clusters nor releases. A [Resolver] returns an [Outcome] and
// changes no object. Callers write the outcome into the HelmOp, record Events, reconcile the HelmOp again when
// [Resolver.Source] or Outcome.RequeueAfter says so, and forget HelmOps that they do not serve any more.
package resolution

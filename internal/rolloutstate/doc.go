// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rolloutstate converts the spec and the status of a HelmOpRelease to the types of package rollout, which does
// not use the types of the API. It consists of pure functions and a cache of their results. It decides nothing: callers
// pass the results to the plan. They must not change the results, because the cache shares them.
package rolloutstate

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transport sends HTTP requests to single hosts: registries, their token services and storage, and chart
// repositories.
//
// # Contract
//
//   - Every request is cancelled when its body makes no progress for Options.Timeout.
//   - 408, 429 and 5xx are retried with jitter. Retry-After is respected if it fits into the deadline of the context.
//   - All clients of a Pool share, per host and way to it, a concurrency limit and a rate limit. Tenants have equal
//     shares, see ForTenant.
//   - After a 429 with Retry-After, requests with the same credential wait. After a 503 with Retry-After, all requests
//     to the host wait.
//   - After three requests in a row without an answer, requests to the host fail at once for ten seconds. Then one
//     request probes whether the host answers again.
//   - Client certificates do not follow a redirect to another host. Redirects out of TLS and to addresses of a cloud's
//     own services are refused.
//   - Errors are *ocierr.Error, or errors of net/http that Explain describes. The caller adds credentials, and must
//     close the body of each answer, which holds the slot of the request.
package transport

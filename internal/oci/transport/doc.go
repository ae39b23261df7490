// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transport sends HTTP requests to single hosts: registries, their token services and storage, and chart
// repositories. The package does not choose between a registry and its mirrors: package endpoint chooses the host and
// adds the credential.
//
// # Contract
//
//   - Every request is cancelled when its body makes no progress for Options.Timeout.
//   - 408, 429 and 5xx are retried with jitter. Retry-After is respected if it ends before the deadline of the context.
//   - All clients of a Pool share a concurrency limit and a rate limit for each host and way to the host. Tenants have
//     equal shares, see ForTenant.
//   - After a 429 with Retry-After, requests with the same credential wait. After a 503 with Retry-After, all requests
//     to the host wait.
//   - After three consecutive requests without a response, requests to the host fail at once for ten seconds. Then one
//     request probes whether the host answers again.
//   - Client certificates do not follow a redirect to another host. Redirects are refused if they leave TLS, or lead to
//     an address at which a cloud serves secrets of the machine.
//   - Errors are *ocierr.Error values, or errors of net/http that Explain describes.
//   - The caller must close the body of each response. An open body occupies the slot of the request.
package transport

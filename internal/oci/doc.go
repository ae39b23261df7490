/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Package oci turns a reference to an artifact in an OCI registry into a
// digest, and a digest into bytes. It knows registries: references,
// credentials, TLS, tokens and the content store. It knows neither Helm nor
// Kubernetes: credentials and certificates come in as bytes.
//
// # Contract
//
//   - Resolve costs one HEAD for a tag, a tag listing and one HEAD for a range or filter,
//     and nothing for a digest whose manifest is in the store. The manifest is
//     read only when its digest is new to the store. Resolve never takes longer
//     than Options.Timeout.
//   - Fetch and Content.ReadLayer go by digest only. A layer is pulled when it is
//     first read, once for all callers that ask at the same time, and is then
//     served from the store, over restarts too. Layers that nobody reads, and
//     the config blob, are not pulled.
//   - Every byte handed out has been checked against its digest. What is found
//     corrupt or truncated in the store is dropped and pulled again.
//   - A caller that gives up does not fail the others that wait for the same
//     pull: the pull runs under its own deadline.
//   - Every request runs under a deadline and stops when a body makes no
//     progress; everything read is bounded; 408, 429 and 5xx are tried again
//     with jitter, Retry-After is obeyed when it fits into the deadline and else
//     reported in Error.RetryAfter.
//   - Errors are *Error values; errors.Is matches their kind (ErrUnauthorized,
//     ErrNotFound, …). Their text holds neither credentials, nor tokens, nor
//     what a registry wrote in a body.
//
// # Store
//
// The store is an OCI image layout in Options.Dir, the only directory that is
// written. It belongs to one process at a time. A process that is killed leaves
// nothing behind that a later one takes for content. On a disk that is full, or
// smaller than Options.MaxBytes, what was used longest ago makes room; a directory
// that is emptied while it is in use is filled again.
//
// The store is shared by all repositories: content that is in it is handed out
// to whoever knows its digest, without asking the registry again. A digest is not
// a secret that protects content between tenants; who needs that must run one
// store per tenant.
package oci

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

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
//     than Options.Timeout; where it lists tags, each page has that time, the list
//     Options.PullTimeout, and what comes after it Options.Timeout again.
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
//   - All calls of a Client share, for each registry host, a number of requests at
//     a time and a rate. After a 429 or 503 with Retry-After nobody asks too early:
//     after a 429 none with the same credential, after a 503 none at all. A host
//     that did not answer three times in a row is left alone for ten seconds, in
//     which calls fail at once; then one request finds out whether it is back.
//   - Credentials go to the host they are for and to its token service. They follow
//     no redirect to elsewhere, as little as client certificates do. A token service
//     at another, private address must be among Options.TokenHosts.
//   - PreparePush, Push and Delete write to the registry itself, never to a mirror; PullBlob reads from
//     either. What they are about is not put into the store.
//   - Errors are *Error values; errors.Is matches their kind (ErrUnauthorized,
//     ErrNotFound, …). Their text holds neither credentials, nor tokens, nor
//     what a registry wrote in a body.
//
// # Mirrors
//
// Options.RegistriesFile is a registries.conf of version 2, as
// containers-registries.conf(5) describes it, with these differences:
//
//   - insecure means plain HTTP. A certificate is never left unchecked: put the
//     authority into Options.CAFile.
//   - Tag lists and referrers are asked of mirrors too; a list is a question by name
//     (tag-only), referrers are one by digest.
//   - What is about short names and about storage is ignored; credential helpers,
//     unknown keys and version 1 are errors that name the key.
//
// Mirrors are asked in their order and then the registry itself, the next one on
// any failure. Each has its share of the time, its own credential (that of the
// Access or of Options.CredentialsFile for the mirror's own name), its own limits.
// A mirror that sent wrong content is left out for that content for ten minutes,
// and one that did not answer for ten seconds. An empty list of a mirror is no
// answer while somebody else can be asked. A list with some of what the registry
// has, as pull-through caches may have it, is taken for the whole: let such mirrors
// serve content only ("digest-only"). When nobody has what is asked for,
// the error is the registry's, or the last mirror's that answered if the registry
// itself is silent, and names the others with their reasons.
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

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oci resolves a reference to an artifact in an OCI registry to a digest, and reads the
// content of a digest. It handles references, credentials, TLS, tokens and the content store. It
// depends on neither Helm nor Kubernetes: callers pass credentials and certificates as bytes.
//
// # Contract
//
//   - Resolve costs one HEAD for a tag, and a tag listing and one HEAD for a range or filter. A digest
//     whose manifest is in the store costs no request. Resolve reads the manifest only when its digest
//     is new to the store.
//   - Resolve takes at most Options.Timeout. Where it lists tags, each page may take Options.Timeout
//     and the list Options.PullTimeout. The requests after the list may take Options.Timeout again.
//   - Fetch and Content.ReadLayer address content by digest only. The first read of a layer pulls it,
//     once for all concurrent callers. Later reads use the store, also after a restart. Layers that
//     are not read, and the config blob, are not pulled.
//   - Every returned byte is verified against its digest. Corrupt or truncated content in the store is
//     dropped and pulled again.
//   - A caller that gives up does not fail other callers that wait for the same pull: the pull has its
//     own deadline.
//   - Every request has a deadline, and is cancelled when its body makes no progress. Everything read
//     is bounded.
//   - 408, 429 and 5xx are retried with jitter. Retry-After is respected if it fits into the deadline;
//     otherwise Error.RetryAfter reports it.
//   - All calls of a Client share, per registry host, a concurrency limit and a rate limit.
//   - After a 429 with Retry-After, requests with the same credential wait. After a 503 with
//     Retry-After, all requests to the host wait.
//   - After three requests in a row without an answer, calls to the host fail at once for ten seconds.
//     Then one request probes whether the host answers again.
//   - Credentials are sent to their host and its token service only. Credentials and client
//     certificates do not follow a redirect to another host. A token service at another, private
//     address must be listed in Options.TokenHosts.
//   - PreparePush, Push and Delete write to the registry itself, never to a mirror. PullBlob reads from
//     either. None of them puts content into the store.
//   - Errors are *Error values; errors.Is matches their kind (ErrUnauthorized, ErrNotFound, …). Their
//     text contains neither credentials, nor tokens, nor text that a registry wrote in a body.
//   - A Site requests files of a web server with the same connections, limits, retries and errors. Its credential is
//     sent with the first request, to its own host and port only.
//
// # Mirrors
//
// Options.RegistriesFile is a registries.conf of version 2, as described in
// containers-registries.conf(5), with these differences:
//
//   - insecure means plain HTTP. Certificates are always verified: put the authority into
//     Options.CAFile.
//   - Tag lists and referrers are requested from mirrors too. Tag lists count as requests by name
//     (tag-only), referrers as requests by digest.
//   - Settings for short names and storage are ignored. Credential helpers, unknown keys and version 1
//     are errors that name the key.
//
// Requests try the mirrors in their order and then the registry itself, and continue with the next
// host after any failure. Each mirror has its share of the time, its own limits and its own
// credential. The credential is the entry for the mirror's name in the Access or in
// Options.CredentialsFile.
//
// A mirror that sent wrong content is not tried for this content for ten minutes. A mirror that did
// not answer is not tried for ten seconds. An empty list of a mirror is ignored while another host is
// left to try. An incomplete list, as pull-through caches may have, is taken as complete: use such
// mirrors for content only ("digest-only").
//
// When no host has the content, the error is the registry's. If the registry does not answer, the
// error is that of the last mirror that answered. The error names the other hosts with their reasons.
package oci

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
//   - Requests are retried, and share limits per registry host, as package transport describes. If a
//     registry asks for a longer wait than the deadline permits, Error.RetryAfter has it.
//   - Credentials are sent to their host and its token service only. Credentials and client
//     certificates do not follow a redirect to another host. A token service at another, private
//     address must be listed in Options.TokenHosts.
//   - PreparePush, Push and Delete write to the registry itself, never to a mirror. PullBlob reads from
//     either. None of them puts content into the store.
//   - Errors are *ocierr.Error values, except ocierr.ErrNotStored. Their text contains neither
//     credentials, nor tokens, nor text that a registry wrote in a body.
//   - A Site requests files of a web server with the same connections, limits, retries and errors. Its credential is
//     sent with the first request, to its own host and port only.
//
// # Rooms
//
// This package has the operations of the distribution API. The packages below it do not use it, except
// for cloud and verification, which callers choose to use:
//
//   - endpoint sends the requests for a repository to the hosts that serve it.
//   - transport sends requests to one host, with limits and retries.
//   - routes decides which hosts serve a repository, by a registries.conf.
//   - credentials finds the credential for a host.
//   - store keeps content on disk.
//   - flight shares calls between concurrent callers.
//   - ocierr has the errors of all of them.
package oci

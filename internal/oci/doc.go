// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package oci resolves references to artifacts in OCI registries, and reads the content of digests. It has the
// operations of the distribution API. Packages below it handle mirrors, credentials, TLS, tokens and the content store.
// The package does not know Helm or Kubernetes: the caller passes credentials and certificates as bytes.
//
// # Contract
//
//   - Resolve sends one HEAD for a tag. For a range or filter, it lists the tags and sends one HEAD. For a digest whose
//     manifest is in the store, it sends no request. It reads a manifest only if the store does not have it.
//   - Resolve takes at most Options.Timeout. If it lists tags, each page may take Options.Timeout, and the whole list
//     may take Options.PullTimeout. The requests after the list may take Options.Timeout again.
//   - Fetch and Content.ReadLayer address content only by digest. The first read of a layer pulls the layer, once for
//     all concurrent callers. Later reads use the store, also after a restart. Fetch does not pull layers or the config
//     blob.
//   - The package verifies all content against its digest. It drops corrupt or truncated content in the store and pulls
//     the content again.
//   - A pull has its own deadline. If a caller stops waiting, other callers of the same pull still get their result.
//   - Every request has a deadline. A request is cancelled when its body makes no progress. All responses have a
//     maximum size.
//   - Requests are retried, and share limits for each registry host, see package transport. If a registry asks for a
//     wait beyond the deadline, Error.RetryAfter has the length of the wait.
//   - Credentials are sent only to their host and its token service. Credentials and client certificates do not follow
//     a redirect to another host. A token service with a private address and another host name must be in
//     Options.TokenHosts.
//   - PreparePush, Push and Delete use only the registry itself. PullBlob may use a mirror. None of them puts content
//     into the store.
//   - Errors are *ocierr.Error values, except ocierr.ErrNotStored. Their text contains no credentials, no tokens and no
//     text from the body of a response.
//   - A Site requests files from a web server. It has the same connections, limits, retries and errors. The credential
//     is sent with the first request, and only to the site's own host and port.
//
// # The packages below
//
// They do not use this package, except cloud and verification, which callers may add:
//
//   - endpoint sends the requests for a repository to the hosts that serve it.
//   - transport sends requests to one host, with limits and retries.
//   - routes decides which hosts serve a repository, by a registries.conf.
//   - credentials finds the credential for a host.
//   - store keeps content on disk.
//   - flight shares calls between concurrent callers.
//   - ocierr has the errors of all these packages.
package oci

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chartrepo resolves versions of charts in Helm chart repositories, and fetches their archives. A chart
// repository is a web server with a file index.yaml. Package oci makes the requests and has the content store, so that
// both kinds of source have the same limits, credentials, errors and one pull per digest.
//
// # Contract
//
//   - The URL of a chart is the URL of its repository, a slash, and the name of the chart. See [URL].
//   - The digest of a chart is the SHA-256 of its archive. Every returned byte is verified against it.
//   - Resolve and Fetch read the index once for all charts of a repository with the same credentials. A later check is
//     a conditional request. A server without ETag and Last-Modified is asked at most once a minute.
//   - An index has at most 64 MiB. It is read as a stream: memory holds the version, the digest and the URLs of each
//     entry, at most 24 MiB for one index and 64 MiB for all. An entry that cannot be read is skipped. Indexes that are
//     being read share 96 MiB: a host at most a quarter of them, a tenant at most a half.
//   - If the index has no digest for a version, Resolve pulls the archive and computes its digest, once for each entry
//     of the index while the process runs.
//   - An archive may be at another host than the index. Credentials are not sent to it.
package chartrepo

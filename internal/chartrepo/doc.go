// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chartrepo resolves versions of charts in Helm chart repositories, and fetches their archives. A chart
// repository is a web server with a file index.yaml. Package oci makes the requests and keeps the content store. So
// both kinds of source have the same limits, credentials and errors, and one pull per digest.
//
// # Contract
//
//   - The URL of a chart is the URL of its repository, a slash, and the name of the chart. See [URL].
//   - The digest of a chart is the SHA-256 of its archive. The package verifies every returned byte against this
//     digest.
//   - Resolve and Fetch read the index once for all charts of a repository with the same credentials. A later check for
//     changes is a conditional request. If a server sends no ETag and no Last-Modified, the package requests its index
//     at most once a minute.
//   - An index has at most 64 MiB. The package reads it as a stream, and keeps the version, the digest and the URLs of
//     each entry: at most 24 MiB for one index and 64 MiB for all. An entry that cannot be read is skipped. All indexes
//     that are being read share 96 MiB. One tenant may use a quarter of it for one host, and a half for all hosts.
//   - If the index has no digest for a version, Resolve pulls the archive and computes the digest. It does this once
//     per entry of the index, until the process ends.
//   - An archive may be at another host than the index. Credentials are not sent to it.
package chartrepo

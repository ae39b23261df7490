// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoint sends the requests for a repository to the hosts that serve it: its mirrors and the
// registry itself. It also sends requests to sites, which are web servers with files.
//
// # Contract
//
//   - Endpoint and Site make no request. They read the files of Options again when these change. The last
//     valid content of a file stays in use; calls fail while a file was never valid.
//   - Credentials and client certificates are sent to their host and its token service only.
//   - The caller makes each operation with the context of Begin, and turns each error of the protocol
//     library into an *ocierr.Error with Exchange.Error.
//   - Endpoints keeps connections, tokens and limits across calls. A rotated credential or certificate
//     takes effect with the next call.
//   - The package bounds the pages of lists, but does not read content: it does not know the store.
//
// # Mirrors
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
package endpoint

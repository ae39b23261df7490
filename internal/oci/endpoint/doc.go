// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoint sends the requests for a repository to the hosts that serve it: its mirrors and the registry itself.
// It also sends requests to sites, which are web servers with files. The package does not use the store, and does not
// read content: package oci does.
//
// # Contract
//
//   - Endpoint and Site send no request. They read the files of Options again when these change. If a valid file
//     becomes invalid, its last valid content stays in use. If a file was never valid, calls that need it fail.
//   - Credentials and client certificates are sent only to their host and its token service.
//   - The caller uses the context of Begin for all requests of an operation. It converts each error of the protocol
//     library to an *ocierr.Error with Exchange.Error.
//   - Endpoints keeps connections, tokens and limits between calls. A rotated credential or certificate takes effect
//     with the next call.
//   - The number of pages in a list is limited.
//
// # Mirrors
//
// A request goes to the mirrors in their order and then to the registry itself. After any failure, the next host gets
// the request. Each mirror has its share of the time, its own limits and its own credential. The credential is the
// entry for the mirror's name in the Access or in Options.CredentialsFile.
//
// A mirror that sent wrong content is not used for this content for ten minutes, by accesses with the same certificates
// and proxy. A mirror that did not answer is not used for ten seconds, by accesses with the same proxy. An empty list
// from a mirror is ignored while there is another host to try. An incomplete list is not detected. Pull-through caches
// may have incomplete lists: use them for content only ("digest-only").
//
// If no host has the content, the error is the error of the registry. If the registry does not answer, it is the error
// of the last mirror that answered. The text of the error names the other hosts with the reasons for their failures.
package endpoint

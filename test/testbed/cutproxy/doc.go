// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cutproxy is a proxy between a client and an API server that fails at a chosen request. With it, a test
// interrupts an action at each of its requests in turn:
//
//	proxy, err := cutproxy.Start(server.RESTConfig())
//	proxy.Cut(cutproxy.Cut{At: 3, Forward: true})     // the third request is carried out and its answer lost
//	…                                                 // act through proxy.Config(): the action fails
//	proxy.Heal()
//
// Clients connect by plain HTTP. To the API server they are the user of the proxy's own configuration; impersonation is
// passed on. A dead proxy refuses connections, like a machine on which no API server runs.
package cutproxy

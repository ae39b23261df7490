// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cutproxy stands between a client and an API server and goes dead at a request of choice, so that a test can
// interrupt an action at each of its requests in turn:
//
//	proxy, err := cutproxy.Start(server.RESTConfig())
//	proxy.Cut(cutproxy.Cut{At: 3, Forward: true})     // the third request is carried out and its answer lost
//	…                                                 // act through proxy.Config(): it fails
//	proxy.Heal()
//
// Clients speak plain HTTP to it and are to the API server who the proxy's own configuration says; impersonation passes
// through. A dead proxy refuses connections, as a machine whose API server is gone does.
package cutproxy

/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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

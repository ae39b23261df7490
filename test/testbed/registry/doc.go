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

// Package registry runs OCI registries as tests need them: the CNCF Distribution
// registry as a local process, or a small one in this process that also knows the
// referrers API; with TLS from an own certificate authority, client certificates,
// passwords or a token service.
//
// Clients speak to a front on the registry's address: a reverse proxy that
// records each request and can be told to fail. What Push* sends goes to
// the registry itself, neither recorded nor failing. Faults and counts can be
// limited to a repository, so that one registry serves many tests at a time.
package registry

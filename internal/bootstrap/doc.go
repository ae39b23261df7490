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

// Package bootstrap knows what an installation without Git consists of: the components of the provider, the objects that keep them and
// the desired state of the management cluster in step with a registry, and how they are applied.
//
// # Contract
//
//   - Equal input gives equal output: nothing here has a time, a random name or an order that is not fixed.
//   - What is applied here is what the manager installs later: it has the ownership metadata of the release that takes it over, so that
//     this is no change, and no restart.
//   - Objects are applied by server-side apply, in an order in which none is refused for want of another: namespaces, then
//     CustomResourceDefinitions until they are served, then the rest.
//   - No registry is asked here, and nothing of the machine is read but what the caller gives.
package bootstrap

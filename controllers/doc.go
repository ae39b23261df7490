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

// Package controllers sets up the controllers of HelmOps, HelmOpReleases and Clusters, which are packages of their own, and what they share.
//
// They know Kubernetes objects, conditions and Events and what to call in which order; they know neither the Helm SDK nor a
// registry's protocol. Nothing but the HelmOp controller writes the spec of a HelmOpRelease, and nothing but the
// HelmOpRelease controller talks to a workload cluster.
//
// An idle pass reads caches; for a release it asks the workload cluster for the metadata of the Secrets in which Helm
// stores it, and nothing else.
package controllers

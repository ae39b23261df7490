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

// Package testbed puts the parts of the test bed together: a management cluster
// with Cluster API's own core manager and the local provider, the way in which
// clusterctl installs the product there, and the product's manager as a process.
//
// README.md in this folder shows its use. Everything that Start* starts ends
// with the matching Stop, and on Linux at the latest when the caller's process
// ends, however it does.
package testbed

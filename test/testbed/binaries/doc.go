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

// Package binaries finds, downloads or builds the programs that the test bed
// runs: etcd, the Kubernetes control plane, kubectl, Cluster API's core manager,
// clusterctl, the CNCF Distribution registry and kwok.
//
// Ensure is the only entry point. It looks for every program in the user's
// cache folder, under a name that holds the version and a hash of the go.mod
// that pins it; a second call touches nothing but that folder. A missing program
// is taken from KUBEBUILDER_ASSETS (etcd, kube-apiserver and kubectl only),
// downloaded where the exact version is published with a checksum, or built
// from its Go module. Versions are read from hack/tools/testbed/go.mod and stand
// nowhere else.
package binaries

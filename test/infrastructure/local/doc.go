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

// Package local is a Cluster API provider for infrastructure and control
// planes, to the v1beta2 contracts, whose clusters are processes of the machine
// at hand: for each LocalControlPlane it starts a real etcd and kube-apiserver
// on loopback, and stops them when the object is deleted.
//
// The provider runs inside the process that calls New and Start. It keeps
// nothing on disk that survives Stop: a control plane whose provider is started
// anew begins empty.
package local

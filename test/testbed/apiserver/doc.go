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

// Package apiserver runs real Kubernetes control planes as local processes:
// one etcd and one kube-apiserver per Server, on loopback, with a certificate
// authority, RBAC and an audit log of their own, and on request
// kube-controller-manager, kube-scheduler and nodes that kwok simulates.
//
// Start returns a Server that answers. StopAPIServer and StartAPIServer, Hang
// and Resume, and Rotate make the troubles that clients must survive. Requests
// tells from the audit log who asked for what, so that tests can count.
package apiserver

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

// Package config holds the manifests of an installation, for who installs it without this repository.
package config

import "embed"

// Files are the kustomizations that an installation is built from, in the folders in which they are here.
//
//go:embed crd rbac manager default management-cluster
var Files embed.FS

// Bootstrap is the folder of Files with the kustomization of an installation that installs in the management cluster, too.
const Bootstrap = "management-cluster"

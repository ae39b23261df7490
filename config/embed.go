// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config holds the manifests of an installation, for programs that install HelmOp without this repository.
package config

import "embed"

// Files are the kustomizations of an installation, in the same folders as here.
//
//go:embed crd rbac manager default management-cluster
var Files embed.FS

// Bootstrap is the folder in Files with the kustomization of an installation that also installs in the management
// cluster.
const Bootstrap = "management-cluster"

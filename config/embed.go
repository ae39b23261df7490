// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config holds the manifests of an installation, for who installs it without this repository.
package config

import "embed"

// Files are the kustomizations that an installation is built from, in the folders in which they are here.
//
//go:embed crd rbac manager default management-cluster
var Files embed.FS

// Bootstrap is the folder of Files with the kustomization of an installation that installs in the management cluster,
// too.
const Bootstrap = "management-cluster"

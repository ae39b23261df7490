// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config embeds the manifests of an installation, for programs that install HelmOp without this repository. It
// does not build or apply them: package bootstrap does.
package config

import "embed"

// Files are the kustomizations of an installation, in the folders of this package.
//
//go:embed crd rbac manager default management-cluster
var Files embed.FS

// Bootstrap is the folder in Files whose kustomization also permits installations in the management cluster.
const Bootstrap = "management-cluster"

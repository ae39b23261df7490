// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import "github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"

// Access holds the settings for the requests to a registry.
type Access = credentials.Access

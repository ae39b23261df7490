// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images finds the container images in rendered objects. It reads the names of images in the same way as
// container runtimes. It sends no request: callers look up the images in registries. It does not find images that
// programs start by other means, see [In].
package images

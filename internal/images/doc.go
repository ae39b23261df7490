// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package images finds the container images in rendered objects, and reads the names of images as container runtimes
// do. It sends no request.
package images

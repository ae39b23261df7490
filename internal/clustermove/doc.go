// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustermove knows what clusterctl move takes along to another management cluster, and which HelmOpReleases it
// has just moved. It reads metadata of objects and writes nothing: the manager has no right to label the Secrets and
// ConfigMaps of users. Callers must not create a release again while [Releases.Rest] says so.
package clustermove

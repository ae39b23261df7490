// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustermove finds out which objects clusterctl move moves to another management cluster, and which
// HelmOpReleases it has just moved. It reads metadata of objects and writes nothing: the manager has no permission to
// label the Secrets and ConfigMaps of users. It follows the rules of clusterctl, because users can write clusterctl's
// annotations, too. Callers of [MovedObjects] must not change the release after an error. Callers must not create a
// moved release again before the time that [Releases.Rest] returns is over.
package clustermove

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterlink keeps a link to the API server of each Cluster. A link is a rest.Config, made from the kubeconfig
// of Cluster API, and the results of the probes. The package probes whether the API server responds, and notifies
// controllers when this changes. It also decides for all other packages which Clusters are unresponsive
// ([State.Unresponsive]).
//
// The package uses no Helm code, and caches no objects of a cluster. Callers get configs from [Links], and must copy a
// config before they change it. They must not connect to a Cluster without a link. No worker may wait for an
// unresponsive Cluster. Callers that read releases must report whether the API server answered in time.
//
// Cluster API has its clustercache for the same purpose. It also keeps clients, a cache and a map of all served kinds
// for each Cluster, which HelmOp does not use. They cost 280 KiB of memory and a full discovery per connection.
//
// # When a Cluster is linked
//
// A Cluster gets a link when its control plane is initialized and its infrastructure is provisioned; earlier attempts
// would fail. If the kubeconfig or the UID of the Cluster changes, the link is replaced at once. If only the token in
// the kubeconfig changes, the link stays, and its config sends the new token. If the kubeconfig is deleted, the link
// stays. A failed first attempt is repeated after 3, 6, 12 and 24 seconds.
//
// # When a Cluster is unreachable
//
// All data on the connection with the watches is a sign of life. After 14 seconds without data, HTTP/2 sends a ping,
// and its answer is a sign of life, too. A probe requests the version of the API server. A probe takes place every ten
// minutes while a watch gets bookmarks, every minute otherwise, after 15.5 seconds without a sign of life, and five
// seconds after a first failure.
//
// After two failed probes in a row, the Cluster counts as unreachable. The controllers are notified, the link stays,
// and a probe takes place every ten seconds. After five failures in a row, or if the API server rejects the
// credentials, the link is closed. Then an attempt takes place every 30 seconds, and every minute after the tenth
// failure.
package clusterlink

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterlink keeps a link to the API server of each Cluster. It makes a rest.Config from the kubeconfig that
// Cluster API generated, probes whether the API server responds, and notifies controllers when that changes. Callers
// get the config from [Links] and must copy it before they change it. They must not connect to a Cluster without a
// link.
//
// Links also decide, for all other packages, which Clusters are unresponsive ([State.Unresponsive]): no worker may
// wait for these. Callers that read releases in a Cluster report whether the API server answered in time.
//
// Cluster API's own clustercache has the same purpose. For each Cluster, it also keeps clients, a cache and a map of
// all served kinds, which HelmOp does not use. They cost 280 KiB of memory and a full discovery per connection. A link
// is a rest.Config and a few numbers.
//
// # When a Cluster is linked
//
// The control plane of the Cluster must be initialized and its infrastructure provisioned; earlier attempts would fail.
// A link is replaced at once if the kubeconfig or the UID of the Cluster changes. It is kept if the kubeconfig is
// deleted. If the first link of a Cluster cannot be made, it is tried again after 3, 6, 12 and 24 seconds.
//
// # When a Cluster is unreachable
//
// Everything that the API server sends on the connection with the watches is a sign of life, also the answer to a ping
// of HTTP/2, which is sent after ten seconds without data. The API server is asked for its version every minute, when
// it has sent nothing for 13 seconds, and five seconds after a first failure. After two failures in a row the Cluster
// counts as unreachable: the controllers are notified, and the link stays. From then on, the API server is asked every
// ten seconds. After five failures in a row, or if the API server rejects the credentials, the link is closed. The
// connection is then tried every 30 seconds, and every minute from the tenth failure.
package clusterlink

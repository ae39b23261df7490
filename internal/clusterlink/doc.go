// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterlink keeps one way to the API server of each Cluster: it makes a rest.Config of the kubeconfig that Cluster API
// generated, probes whether the API server answers, and tells when it begins or ceases to.
//
// Cluster API's own clustercache does this, too, and much that HelmOp has no use for: per Cluster it keeps clients, a
// cache and a map of all kinds that the API server serves, which is 280 KiB of memory and a discovery of everything per
// connection. A link is a rest.Config and a few numbers.
//
// # When a Cluster is linked
//
// Its control plane must be initialized and its infrastructure provisioned: trying before that would fail. A link is
// made anew at once if the kubeconfig, or the Cluster itself, is another one; one whose kubeconfig has gone is kept.
// The API server is asked for its version every ten seconds, and after a failure once more five seconds later. After
// two failures in a row the Cluster counts as silent: that is told to those who follow links, and the link stays. After
// five failures in a row, or if it does not accept the credentials any more, the link is down and tried again every 30
// seconds, and every minute from the tenth failure on; one that could not be made in the first place is tried again
// after 3, 6, 12 and 24 seconds.
package clusterlink

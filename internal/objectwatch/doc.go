// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectwatch follows the objects of releases in workload clusters by watches: their health, and whether somebody
// changed them. It costs no request while nothing changes and keeps a few hundred bytes per object.
//
//	watcher := objectwatch.New(objectwatch.Options{})
//	mgr.Add(watcher)                                   // ends all streams with the manager
//	builder.WatchesRawSource(watcher.Source())         // a request for each release about which something changed
//	watcher.Follow(key, connection, plan)              // in each pass; returns at once
//	snapshot, ok := watcher.Look(key)                  // what is known now
//
// # Streams
//
// All releases of a cluster that follow objects of one kind share one watch. It asks for objects with Helm's label
// app.kubernetes.io/managed-by=Helm, and keeps something only of those that are followed: of the health of an object a
// verdict and a message, of its content a fingerprint. Kinds with a health of their own are watched in full, others by
// their metadata. A stream ends with the last release that needs it. Where an identity may not watch the whole cluster,
// there is one stream for each namespace in which it follows objects.
//
// # Lists
//
// A kind without a health of its own, such as ConfigMap, is not worth a watch: all that can happen to it is that it is gone. With
// Plan.ListEvery, the metadata of all objects with Helm's label is listed instead, once for each kind and interval and for all releases
// of the cluster. Where that is not permitted, not even in single namespaces, objects count as existing. Watcher.List asks for
// the lists at once.
//
// A stream that is silent costs two goroutines, one of them of the HTTP connection, and some kilobytes: events are read one by one,
// and nothing of them is kept but what was found.
//
// A large event takes its share of Options.Bytes before it is read, and has a minute to come in. A cluster has at most 500 streams under one
// identity; objects beyond are in trouble (State.Trouble) until others end.
//
// # What is gone
//
// An object that vanishes from a stream was deleted, or lost the label. It is read once to tell which; one
// that exists without the label gets a stream of its own. What does not exist is read again every five minutes, for it may
// have come back without the label; Jobs are not, for those that finished are commonly deleted.
//
// Where the cluster stops serving a kind in the version that is watched, its objects are followed in another one. They
// are gone only when it serves the kind in none. Such a kind is asked for again after three seconds, then less and less
// often down to every five minutes, and at once when a release is given a new plan.
package objectwatch

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectwatch follows the objects of releases in workload clusters with watches: their health, and changes by
// other clients. While nothing changes, it only renews each watch after 30 to 60 minutes, and lists the kinds that need
// no watch, see Plan.ListEvery. It keeps a few hundred bytes per object.
//
//	watcher := objectwatch.New(objectwatch.Options{})
//	mgr.Add(watcher)                                   // ends all streams with the manager
//	builder.WatchesRawSource(watcher.Source())         // a request for each release about which something changed
//	end := watcher.Expect(key, connection, expected)   // before an action; ends after its Follow
//	watcher.Follow(key, connection, plan)              // in each pass; returns at once
//	snapshot, ok := watcher.Look(key)                  // what is known now
//
// # Streams
//
// All releases of a cluster that follow objects of one kind share one watch. The watch selects objects with Helm's
// label app.kubernetes.io/managed-by=Helm. For each followed object, HelmOp keeps the health, a message, and a
// fingerprint of the content. Kinds with a health rule are watched in full, other kinds by their metadata. A stream
// ends with its last release. While all followed objects of a kind are in one namespace, the stream watches only this
// namespace, unless Expectation.OtherNamespaces is set. If they are in several namespaces, and an identity may not
// watch the whole cluster, there is one stream for each followed namespace. About once an hour, HelmOp checks whether
// the identity may list the whole cluster again.
//
// A stream restarts with a list when a release joins it. There is no restart for objects whose events arrived while an
// action created them, see [Watcher.Expect].
//
// # Lists
//
// A kind without a health rule, such as ConfigMap, does not need a watch: its objects can only be deleted. With
// Plan.ListEvery, a list of the metadata of all objects with Helm's label replaces the watch. There is one list per
// kind and interval for all releases of the cluster. If lists are not permitted, not even in single namespaces, each
// object is read, at most four objects per second. An object that may not be read either counts as existing, and is
// marked (State.Denied). Watcher.List requests the lists at once.
//
// A stream without events needs some kilobytes and two goroutines, one of them for the HTTP connection. The other one
// only waits, with the smallest stack. Events are read one by one, and only their result is kept. A list keeps one
// result for each followed object, whatever the cluster sends, and has at most 1000 pages.
//
// An event must be complete within a minute after its first byte. A large event takes its share of Options.Bytes before
// it is read. A cluster has at most 500 streams under one identity. Further objects have an error (State.WatchError)
// until other streams end. Then the stream that has waited longest begins.
//
// # Missing objects
//
// An object that disappears from a stream was deleted or has lost the label. HelmOp reads it once to distinguish the
// two cases. An object without the label gets its own stream. A missing object is read every five minutes, because it
// may be re-created without the label. Missing Jobs are not read, because finished Jobs are commonly deleted.
//
// If the cluster stops serving the watched version of a kind, its objects are followed in another version. They count
// as deleted only if the cluster serves no version of the kind. Discovery of such a kind is repeated after three
// seconds, and then at growing intervals of up to five minutes. It is also repeated at once when a release gets a new
// plan.
//
// # What callers must do
//
// Call [Watcher.Follow] in each pass over a release, [Watcher.Forget] when the release is deleted,
// [Watcher.Disconnect] when its cluster is unreachable or deleted, and [Watcher.Reconnect] when its cluster was
// restored from a backup. A call of [Watcher.Expect] before an action saves requests. The package corrects nothing and
// writes no status: callers use the [Snapshot].
package objectwatch

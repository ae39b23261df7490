/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Package helmclient is the Helm SDK behind three verbs: observe a release, decide what it needs, do that.
//
//	obs, err := client.Observe(ctx, target, namespace, name)      // one small metadata read
//	decision := helmclient.Decide(obs, desired, policy, past, now) // pure
//	result, err := client.Act(ctx, target, decision, desired, options, chart, values)
//
// It knows clusters as a [Target] and releases as a [Desired]; it does not know the objects of this product.
// No other package but the one that loads charts imports the Helm SDK, so that a later move to another
// major version of Helm is work in this package only.
//
// # What says how a release came about
//
// Helm keeps each revision in a Secret. Act puts labels on it (see labels.go): who owns the release, the digests of
// the artifact, the values, the options and the post-rendering it was made from, the revision, and the UID of the object
// that asked; how many tries at the same had failed before; what a rollback returned from; how the tests ended. Observe
// reads these labels by one metadata list and never a payload, so a controller that was restarted, failed over or moved
// to another management cluster recognises its releases, and goes on counting failures where its predecessor stopped.
//
// Helm copies custom labels from the current revision to the next when somebody runs `helm upgrade` or
// `helm rollback` by hand. The label with the revision then differs from Helm's own label `version`: that revision
// was made by another hand, and the labels on it mean nothing.
//
// # What follows a failure
//
// A try counts as failed where it left a failed record, where its tests failed, and, with [RemediateRollback], where the
// caller says that it did not become healthy. One that never reached the storage does not count. The next try waits, see
// [Backoff]; after as many as the [FailurePolicy] allows the decision is to stall. Rollbacks that fail are counted apart, by
// the same policy. A try that was cut off is taken up at once; from the third in a row on it counts like one that failed,
// since it may itself be what cuts the connection or ends the process.
//
// The record of an action that was cut off stays until another takes its place: it is all that tells that something began.
//
// A rollback returns to the newest revision below that worked and was not made from what is desired. Its record has the
// digests of that revision, and says what was rolled back from: only this tells the return from an old revision.
//
// Where a [Desired] is a Return, what is desired is what the release had before, for example because a fleet gives something
// up. It then goes by the history, too, but without chart and values, and to a revision that was made from exactly what is
// desired. What it makes is in sync, and is tested as any other; a return that fails is tried again and never rolled back.
//
// Helm calls a failed or uninstalled revision superseded once a later one comes after it; Act keeps it as it is, else nothing
// would tell it from one that can be returned to. Helm also compares an upgrade with the deployed revision alone, and a rollback or uninstall
// with the newest: Act looks at the failed ones between as well, so that nothing they created is left behind, see leftovers.go.
//
// # What is not asked twice
//
// What a cluster serves is asked for once a minute at most, and once for all who wait; releases in one cluster share the
// answer, whoever they act as. The history is what Observe has just seen, the contents of old revisions are not read, and a
// chart's files are packed once for all clusters (records.go, codec.go). Within one action, an object that Helm reads twice
// within a second is read once (readcache.go); a write to it, or a hook that runs, ends that.
//
// # What never happens
//
//   - A release of another management cluster is not uninstalled, and not touched unless [Policy].TakeOwnership asks for it. One of the
//     management cluster that the object which asks was moved from counts as its own, see [Client.TakeOver].
//   - A release, or objects, that belong to somebody else are not touched unless [Policy].TakeOwnership asks for it.
//   - Decide never answers a failed or interrupted upgrade with an uninstall. It asks for one to finish an uninstall
//     which had begun, and with [RemediateUninstall] where the history proves that no revision ever worked.
//   - Act does not carry out a decision where a revision was made since the one that was observed, be it of the same number, and writes no record that another
//     one has written since. An uninstallation and an adoption at the same time never both happen.
//   - Act does not wait for a hook of a release whose record is gone: somebody else has uninstalled the release.
//   - Act does not wait until workloads are ready; only hooks hold it, and [Options] bound them.
//   - Act does not return while Helm still writes. A cancelled context does not cut an action in half: every
//     request has a deadline, and the action as a whole has one.
//   - No value that a release is configured with appears in an error, a log line or a result.
package helmclient

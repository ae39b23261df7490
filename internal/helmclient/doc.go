// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmclient is the Helm engine: it observes a release and carries out decisions with the Helm SDK. It knows
// Helm and clusters. It does not know the API objects of HelmOp: a cluster is a [model.Target], and a release is a
// [model.Desired]. The caller observes, decides and acts:
//
//	obs, err := client.Observe(ctx, target, namespace, name)      // one small metadata read
//	decision := decide.Next(obs, desired, policy, past, now)       // pure
//	result, err := client.Act(ctx, target, decision, desired, options, chart, values)
//
// The caller must not decide on a release while its own action on this release runs. A caller that changes objects of a
// release without Act must hold [Client.Lock], and call [Client.Confirm] right before the change.
//
// Outside of this folder, only package bundle imports the Helm SDK, to load charts. Another major version of Helm
// therefore changes mostly this folder.
//
// # The packages below
//
// Each package uses only packages above it in this list.
//
//   - rendering: charts, rendered in a separate process
//   - model: the types that all packages share, and the labels on Helm's records
//   - decide: the next action on a release; pure functions
//   - helmerr: errors, their kinds, and the removal of values from error texts
//   - recordcodec: the text of Helm's release records
//   - records: Helm's release records in a cluster
//   - connections: connections to clusters, and the kinds that clusters serve
//   - objectinfo: single objects of a manifest, and their metadata in a cluster
//   - manifests: manifests as texts: parsed, and cached
//   - knownobjects: what HelmOp knows about objects without reading them
//   - leftovers: the objects and fields that failed revisions left behind
//   - waits: waits that end when an action is stopped or loses its record
//   - namespacing: the namespace of a release
//   - apply: objects of a manifest
//   - crds: the folder crds of a chart
//   - adoption: the comparison of a record with the rendering of HelmOp
//   - session: Helm, connected with one release for one action or read
//   - dryrun: the changes that an action would make; changes nothing
//   - verbs: the actions
//
// This package holds the state that actions share: the connections, the caches and the list of running actions. Package
// helmtest has fixtures for the tests.
//
// # A restart loses no state
//
// Act labels each record, see [model.Record]. Observe lists the labels of the records in one request and reads no
// payload. A manager therefore recognises its releases after a restart, a failover or a move to another management
// cluster. It also continues to count failures.
//
// Helm marks a failed or uninstalled revision as superseded when a later revision follows. Act keeps the status,
// because a superseded revision would look like a target for a rollback. Helm compares an upgrade only with the
// deployed revision, and a rollback or an uninstallation only with the newest revision. Act also checks the failed
// revisions between them and deletes their objects, see [session.Session.FindLeftovers].
//
// # Guarantees
//
//   - Act does not uninstall a release of another management cluster. It changes such a release only if
//     [model.Policy].TakeOwnership permits the change. If the caller's object was moved from a management cluster, that
//     cluster counts as the same management cluster, see [Client.TakeOver].
//   - Act changes a release or objects of another owner only if [model.Policy].TakeOwnership permits the change.
//   - Act does not carry out a decision if a revision was created after the observed revision, even with the same
//     number. Act does not overwrite a record that another process has changed. If an uninstallation and an adoption
//     run at the same time, at most one succeeds.
//   - If the record of a release no longer exists, another process uninstalled the release. Act then stops waiting for
//     hooks.
//   - Act waits only for hooks, and [model.Options] limit these waits. Act does not wait for ready workloads.
//   - Act returns only after Helm's last write. A cancelled context does not interrupt an action: every request and the
//     whole action have a deadline.
//   - Plan and Render write nothing. The transport of a plan makes each write a dry run.
//   - Errors, log lines and results contain no configured value of a release.
package helmclient

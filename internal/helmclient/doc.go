// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmclient is the Helm engine: it observes a release and carries out decisions with the Helm SDK.
//
//	obs, err := client.Observe(ctx, target, namespace, name)      // one small metadata read
//	decision := decide.Next(obs, desired, policy, past, now)       // pure
//	result, err := client.Act(ctx, target, decision, desired, options, chart, values)
//
// A cluster is a [model.Target], and a release is a [model.Desired]. The package does not use the API objects of
// HelmOp. Outside of this folder, only the package that loads charts imports the Helm SDK. Another major version of
// Helm therefore changes only this folder.
//
// The caller observes, decides and acts. It must not decide on a release while its own action on the release runs.
//
// # The packages below
//
// Each package uses only packages above it in this list.
//
//   - rendering: charts, rendered in a separate process
//   - model: the types that all packages share, and the labels on Helm's records
//   - decide: the next action on a release; pure functions
//   - helmerr: errors, their kinds, and the removal of values from error texts
//   - records: Helm's release records in a cluster
//   - connections: connections to clusters, and the kinds that clusters serve
//   - apply: objects of a manifest
//   - crds: the folder crds of a chart
//   - adoption: the comparison of a record with what HelmOp would render in its place
//   - manifests: the cache of manifests
//   - session: Helm, connected with one release for one action or read
//   - dryrun: what an action would do; changes nothing
//   - verbs: the actions
//
// This package has what they share between actions: the connections, the caches and the list of running actions.
//
// The package helmtest has fixtures for the tests.
//
// # A restart loses no state
//
// Act labels each record, see [model.Record]. Observe lists the labels of the records in one request and reads no
// payload. So a manager that was restarted, failed over or moved to another management cluster recognises its releases
// and continues to count failures.
//
// Helm marks a failed or uninstalled revision as superseded when a later revision follows. Act keeps the status,
// because otherwise the revision would look like a target for a rollback. Helm compares an upgrade only with the
// deployed revision, and a rollback or an uninstallation only with the newest revision. Act checks the failed revisions
// in between as well, so that none of their objects is left behind, see [session.Session.FindLeftovers].
//
// # Guarantees
//
//   - Act does not uninstall a release of another management cluster, and changes it only if
//     [model.Policy].TakeOwnership permits this. The management cluster that the caller's object was moved from counts
//     as the same management cluster, see [Client.TakeOver].
//   - Act changes a release, or objects, of another owner only if [model.Policy].TakeOwnership permits this.
//   - Act does not carry out a decision if a revision was created after the observed revision, even with the same
//     number. Act does not overwrite a record that another process has written since. Of an uninstallation and an
//     adoption at the same time, at most one succeeds.
//   - Act does not wait for a hook of a release whose record no longer exists: another process uninstalled the release.
//   - Act does not wait until workloads are ready. Act waits only for hooks, and [model.Options] bound these waits.
//   - Act does not return while Helm still writes. A cancelled context does not interrupt an action: every request and
//     the whole action have a deadline.
//   - Plan and Render write nothing. The transport of a plan makes each write a dry run.
//   - No configured value of a release appears in an error, a log line or a result.
package helmclient

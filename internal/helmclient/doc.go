// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmclient is the Helm engine: it observes a release and carries out decisions. It uses the Helm SDK.
//
//	obs, err := client.Observe(ctx, target, namespace, name)      // one small metadata read
//	decision := decide.Next(obs, desired, policy, past, now)       // pure
//	result, err := client.Act(ctx, target, decision, desired, options, chart, values)
//
// It knows clusters as a [model.Target] and releases as a [model.Desired]; it does not know the API objects of HelmOp.
// Outside of this folder only the package that loads charts imports the Helm SDK, so a move to another major version of
// Helm changes only this folder.
//
// The caller observes, decides and acts, and must not decide on a release while its own action on it runs.
//
// # The packages below
//
// Each uses only packages above it in this list.
//
//   - model: the types that all share, and the labels on Helm's records
//   - decide: what a release needs next; pure
//   - helmerr: errors, their kinds, and what they must not show
//   - rendering: charts, in a process of their own
//   - records: Helm's release records in a cluster
//   - connections: connections to clusters, and what these serve
//   - apply: objects of a manifest
//   - crds: the folder crds of a chart
//
// helmtest has fixtures for their tests.
//
// # A restart loses nothing
//
// Act labels each record, see [model.Record]. Observe reads these labels with one metadata list and never a payload. So
// a manager that was restarted, failed over or moved to another management cluster recognises its releases and
// continues to count failures.
//
// Helm marks a failed or uninstalled revision as superseded when a later one follows. Act keeps its status, because
// otherwise the revision would look like a target for a rollback. Helm also compares an upgrade with the deployed
// revision alone, and a rollback or an uninstallation with the newest one. Act checks the failed revisions in between
// as well, so that none of their objects is left behind, see leftovers.go.
//
// # What never happens
//
//   - A release of another management cluster is not uninstalled, and not changed unless [model.Policy].TakeOwnership
//     permits it. The management cluster that the caller's object was moved from counts as the same one, see
//     [Client.TakeOver].
//   - A release, or objects, of another owner are not changed unless [model.Policy].TakeOwnership permits it.
//   - Act does not carry out a decision if a revision was made after the observed one, even with the same number. It
//     does not write a record that another process has written since. An uninstallation and an adoption at the same
//     time never both happen.
//   - Act does not wait for a hook of a release whose record no longer exists: another process uninstalled the release.
//   - Act does not wait until workloads are ready. Only hooks make it wait, and [model.Options] bound them.
//   - Act does not return while Helm still writes. A cancelled context does not interrupt an action: every request has
//     a deadline, and so has the whole action.
//   - No configured value of a release appears in an error, a log line or a result.
package helmclient

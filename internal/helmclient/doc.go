// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmclient is the Helm engine: it observes a release, and does what was decided. It uses the Helm SDK.
//
//	obs, err := client.Observe(ctx, target, namespace, name)      // one small metadata read
//	decision := decide.Next(obs, desired, policy, past, now)       // pure
//	result, err := client.Act(ctx, target, decision, desired, options, chart, values)
//
// It knows clusters as a [model.Target] and releases as a [model.Desired]; it does not know the objects of this product.
// Outside of this folder only the package that loads charts imports the Helm SDK, so that a later move to another
// major version of Helm is work here.
//
// # The packages below
//
// Each uses only those above it in this list.
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
// helmtest is for their tests.
//
// # A restart loses nothing
//
// Act labels each record, see [model.Record]. Observe reads these labels by one metadata list and never a payload, so a controller that was
// restarted, failed over or moved to another management cluster recognises its releases, and continues to count failures.
//
// Helm calls a failed or uninstalled revision superseded once a later one comes after it. Act keeps its status, because otherwise it
// would look like one that can be returned to. Helm also compares an upgrade with the deployed revision alone, and a rollback or an
// uninstallation with the newest: Act looks at the failed ones between as well, so that nothing they created is left behind, see leftovers.go.
//
// # What never happens
//
//   - A release of another management cluster is not uninstalled, and not touched unless [model.Policy].TakeOwnership asks for it. The
//     management cluster that the object which asks was moved from counts as the same one, see [Client.TakeOver].
//   - A release, or objects, of another owner are not touched unless [model.Policy].TakeOwnership asks for it.
//   - Act does not carry out a decision if a revision was made since the one that was observed, even one of the same number, and writes no
//     record that another process has written since. An uninstallation and an adoption at the same time never both happen.
//   - Act does not wait for a hook of a release whose record is gone: it was uninstalled by another process.
//   - Act does not wait until workloads are ready; only hooks hold it, and [model.Options] bound them.
//   - Act does not return while Helm still writes. A cancelled context does not cut an action in half: every
//     request has a deadline, and the action as a whole has one.
//   - No value that a release is configured with appears in an error, a log line or a result.
package helmclient

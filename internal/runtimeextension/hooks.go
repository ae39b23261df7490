// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeextension

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// retryAfterSeconds is the time after which Cluster API calls the hook again.
	retryAfterSeconds = 5

	// maxNamed is the largest number of names in a message.
	maxNamed = 3
)

// hooks answer the calls of Cluster API.
type hooks struct {
	reader                        client.Reader
	namespace, watchFilter, shard string
	now                           func() time.Time

	// unrecorded limits the waits that the controller of Clusters has not recorded.
	unrecorded *clocks
}

func newHooks(reader client.Reader, options Options) *hooks {
	return &hooks{reader: reader, namespace: options.Namespace, watchFilter: options.WatchFilter, shard: options.Shard,
		now: time.Now, unrecorded: newClocks()}
}

// beforeClusterDelete makes Cluster API wait until the releases with the option beforeClusterDelete are uninstalled.
func (h *hooks) beforeClusterDelete(ctx context.Context, request *runtimehooksv1.BeforeClusterDeleteRequest,
	response *runtimehooksv1.BeforeClusterDeleteResponse,
) {
	h.answer(ctx, &request.Cluster, response, h.waitForDeletion)
}

// waitForDeletion returns why the deletion of a Cluster waits; empty if it does not wait.
func (h *hooks) waitForDeletion(scope *clusterlife.Scope) string {
	hold := apiutil.HoldOf(scope.Cluster)
	// While a user pauses the Cluster, the time does not count.
	isPaused := hold.Paused && apiutil.IsClusterPaused(scope.Cluster)
	if hold.Over || hold.IsOn() || isPaused {
		h.unrecorded.stop(scope.Cluster.UID, "", "")
	}
	if hold.Over || report.IsBeingMoved(scope.Cluster) && !hold.IsOn() {
		return "" // The controller of Clusters begins no hold of a Cluster with the annotation of clusterctl move.
	}
	// After a pause, the hold starts again with its full time, so it has another clock.
	about := "deletion|" + scope.Cluster.Annotations[addonsv1.DeletionHoldAnnotation]
	var names []string
	for _, release := range clusterlife.ReleasesToUninstall(scope.Releases, scope.HelmOps) {
		rest := clusterlife.DeletionTimeout(release)
		switch {
		case hold.IsOn():
			rest = clusterlife.DeletionRest(hold, release, h.now())
		case isPaused || scope.Cluster.DeletionTimestamp.IsZero():
			// No clock starts before the deletion is in the cache: otherwise any caller could start the clock for any
			// Cluster.
		default:
			rest = h.unrecorded.rest(scope.Cluster.UID, wait{about, string(release.UID)}, rest, h.now())
		}
		if rest > 0 {
			names = append(names, apiutil.HelmOpOf(release))
		}
	}
	return waitMessage(names, "to uninstall their releases, at most for beforeClusterDelete.timeout")
}

// beforeControlPlaneUpgrade makes Cluster API wait until the releases with the option beforeClusterUpgrade are ready
// for a step.
func (h *hooks) beforeControlPlaneUpgrade(ctx context.Context, request *runtimehooksv1.BeforeControlPlaneUpgradeRequest,
	response *runtimehooksv1.BeforeControlPlaneUpgradeResponse,
) {
	version := render.NewerVersion(request.ToKubernetesVersion, request.FromKubernetesVersion)
	h.answer(ctx, &request.Cluster, response, func(scope *clusterlife.Scope) string {
		return h.waitForUpgrade(scope, request.FromKubernetesVersion, version, clusterlife.StepHoldName,
			func(state *clusterlife.UpgradeState) func(string) string { return state.Unready })
	})
}

// beforeWorkersUpgrade makes Cluster API wait until the releases with the option beforeClusterUpgrade are ready for the
// version that the control plane runs.
func (h *hooks) beforeWorkersUpgrade(ctx context.Context, request *runtimehooksv1.BeforeWorkersUpgradeRequest,
	response *runtimehooksv1.BeforeWorkersUpgradeResponse,
) {
	version := render.NewerVersion(request.ToKubernetesVersion, request.FromKubernetesVersion)
	h.answer(ctx, &request.Cluster, response, func(scope *clusterlife.Scope) string {
		return h.waitForUpgrade(scope, request.FromKubernetesVersion, version, clusterlife.WorkersHoldName,
			func(state *clusterlife.UpgradeState) func(string) string { return state.UnreadyWorkers })
	})
}

// waitForUpgrade returns why an upgrade to a version waits; empty if it does not wait. An empty version means that
// there is no upgrade for HelmOp: the versions differ only in their build parts.
func (h *hooks) waitForUpgrade(scope *clusterlife.Scope, running, version string, annotation func(hold string) string,
	unready func(*clusterlife.UpgradeState) func(string) string,
) string {
	if version == "" {
		return ""
	}
	var names []string
	holders := clusterlife.UpgradeHolders(scope.Cluster, scope.Releases, scope.HelmOps)
	for _, name := range slices.Sorted(maps.Keys(holders)) {
		holder, value := holders[name], scope.Cluster.Annotations[annotation(name)]
		if !apiutil.IsWatched(holder.HelmOp, h.watchFilter) || holder.Release == nil && value == "" {
			continue
		}
		state := clusterlife.UpgradeState{Running: running, Now: h.now(),
			Resumed: clusterlife.ResumedAt(scope.Cluster, h.now())}
		holder.Apply(&state, scope.Cluster)
		_, decision := clusterlife.DecideWait(state, value, version, unready(&state))
		if decision.Held && h.mayWait(scope.Cluster, &state, wait{annotation(name) + "|" + version, name}, value, version) {
			names = append(names, holder.HelmOp.Name)
		}
		if !decision.Held {
			h.unrecorded.stop(scope.Cluster.UID, annotation(name)+"|"+version, name)
		}
	}
	return waitMessage(names, "to make their releases ready for "+version+", at most for beforeClusterUpgrade.timeout")
}

// mayWait reports whether a held upgrade may still wait, even if the controller of Clusters records nothing. value is
// the value of the annotation that records the wait.
func (h *hooks) mayWait(cluster *clusterv1.Cluster, state *clusterlife.UpgradeState, key wait, value, version string,
) bool {
	limit, isBounded := state.UnrecordedLimit(value, version)
	if isBounded {
		h.unrecorded.stop(cluster.UID, key.about, key.who)
		return true
	}
	// No clock starts before the upgrade is in the cache: otherwise any caller could start the clock long before the
	// upgrade.
	isRequested := cluster.Spec.Topology.IsDefined() && render.NewerVersion(version, cluster.Spec.Topology.Version) == ""
	return state.Deferred != "" || !isRequested || h.unrecorded.rest(cluster.UID, key, limit, h.now()) > 0
}

// waitMessage returns the message for Cluster API; empty if there are no names. Every client of the port can read the
// message, so it contains no details.
func waitMessage(helmOps []string, what string) string {
	if len(helmOps) == 0 {
		return ""
	}
	slices.Sort(helmOps)
	named := helmOps[:min(len(helmOps), maxNamed)]
	text := strings.Join(named, ", ")
	if len(named) < len(helmOps) {
		text += ", …"
	}
	return fmt.Sprintf("Waiting for HelmOps (%s) %s: see the Events of the Cluster", text, what)
}

// answer fills a response. A Cluster of another namespace or of another shard never waits here: its own manager has its
// own ExtensionConfig, or holds the Cluster without the extension. The cache has all Clusters of this manager. If it
// does not have a Cluster yet, Cluster API must call again.
func (h *hooks) answer(ctx context.Context, cluster *clusterv1.Cluster, response runtimehooksv1.RetryResponseObject,
	why func(*clusterlife.Scope) string,
) {
	key := client.ObjectKeyFromObject(cluster)
	response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	if h.namespace != "" && h.namespace != key.Namespace || !apiutil.IsOfShard(cluster, h.shard) {
		return
	}
	scope, err := clusterlife.ReadScope(ctx, h.reader, apiutil.TypedCluster, key)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot answer a hook of Cluster API", "Cluster", key)
		response.SetStatus(runtimehooksv1.ResponseStatusFailure)
		response.SetMessage("HelmOp cannot read its cache: see the logs of the manager")
		return
	}
	message := "HelmOp does not know the Cluster yet"
	if scope != nil && scope.Cluster.UID == cluster.UID {
		message = why(scope)
	}
	if message != "" {
		response.SetMessage(message)
		response.SetRetryAfterSeconds(retryAfterSeconds)
	}
}

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

	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
)

const (
	// retryAfterSeconds is the time after which Cluster API asks again.
	retryAfterSeconds = 5

	// maxNamed bounds the names in a message.
	maxNamed = 3

	// maxUnrecorded bounds the waits that the controller of Clusters has not recorded, some 100 bytes each.
	maxUnrecorded = 4096
)

// hooks answer the calls of Cluster API.
type hooks struct {
	reader                 client.Reader
	namespace, watchFilter string
	now                    func() time.Time

	// unrecorded has since when a Cluster waits although no annotation says so. It bounds a wait that the controller of
	// Clusters cannot record, for example because it cannot write the Cluster.
	unrecorded *lru.Cache[wait, time.Time]
}

// wait identifies a wait of a Cluster for a release.
type wait struct {
	cluster    types.UID
	about, who string
}

func newHooks(reader client.Reader, options Options) *hooks {
	// It fails only if the size is not positive.
	unrecorded, _ := lru.New[wait, time.Time](maxUnrecorded)
	return &hooks{reader: reader, namespace: options.Namespace, watchFilter: options.WatchFilter, now: time.Now,
		unrecorded: unrecorded}
}

// beforeClusterDelete makes Cluster API wait until the releases with beforeClusterDelete are uninstalled.
func (h *hooks) beforeClusterDelete(ctx context.Context, request *runtimehooksv1.BeforeClusterDeleteRequest,
	response *runtimehooksv1.BeforeClusterDeleteResponse,
) {
	h.answer(ctx, &request.Cluster, response, func(scope *clusterlife.Scope) string {
		hold := apiutil.HoldOf(scope.Cluster)
		if hold.Over {
			return ""
		}
		var names []string
		for _, release := range clusterlife.ReleasesToUninstall(scope.Releases, scope.HelmOps) {
			rest := clusterlife.DeletionRest(hold, release, h.now())
			if !hold.IsOn() {
				rest = h.restUnrecorded(wait{scope.Cluster.UID, "deletion", string(release.UID)},
					clusterlife.DeletionTimeout(release))
			}
			if rest > 0 {
				names = append(names, apiutil.HelmOpOf(release))
			}
		}
		return waitMessage(names, "to uninstall their releases, at most for beforeClusterDelete.timeout")
	})
}

// beforeControlPlaneUpgrade makes Cluster API wait until the releases with beforeClusterUpgrade are ready for a step.
func (h *hooks) beforeControlPlaneUpgrade(ctx context.Context, request *runtimehooksv1.BeforeControlPlaneUpgradeRequest,
	response *runtimehooksv1.BeforeControlPlaneUpgradeResponse,
) {
	version := render.NewerVersion(request.ToKubernetesVersion, request.FromKubernetesVersion)
	h.answer(ctx, &request.Cluster, response, func(scope *clusterlife.Scope) string {
		return h.waitForUpgrade(scope, version, clusterlife.StepHoldName,
			func(state *clusterlife.UpgradeState) func(string) string { return state.Unready })
	})
}

// beforeWorkersUpgrade makes Cluster API wait until the releases with beforeClusterUpgrade are ready for the version
// that the control plane runs.
func (h *hooks) beforeWorkersUpgrade(ctx context.Context, request *runtimehooksv1.BeforeWorkersUpgradeRequest,
	response *runtimehooksv1.BeforeWorkersUpgradeResponse,
) {
	version := render.NewerVersion(request.ToKubernetesVersion, request.FromKubernetesVersion)
	h.answer(ctx, &request.Cluster, response, func(scope *clusterlife.Scope) string {
		return h.waitForUpgrade(scope, version, clusterlife.WorkersHoldName,
			func(state *clusterlife.UpgradeState) func(string) string { return state.UnreadyWorkers })
	})
}

// waitForUpgrade returns why an upgrade to a version waits; empty if it does not wait. An empty version is no upgrade
// for HelmOp: the versions differ in their build parts only.
func (h *hooks) waitForUpgrade(scope *clusterlife.Scope, version string, annotation func(hold string) string,
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
		state := clusterlife.UpgradeState{Now: h.now(), Resumed: clusterlife.ResumedAt(scope.Cluster, h.now())}
		holder.Apply(&state, scope.Cluster)
		_, decision := clusterlife.DecideWait(state, value, version, unready(&state))
		if !decision.Held {
			continue
		}
		if !clusterlife.IsWaitRecorded(value, version) && state.Deferred == "" &&
			h.restUnrecorded(wait{scope.Cluster.UID, annotation(version), name}, state.Timeout) <= 0 {
			continue
		}
		names = append(names, holder.HelmOp.Name)
	}
	return waitMessage(names, "to make their releases ready for "+version+", at most for beforeClusterUpgrade.timeout")
}

// restUnrecorded returns the rest of a wait that the controller of Clusters has not recorded.
func (h *hooks) restUnrecorded(key wait, timeout time.Duration) time.Duration {
	since, known := h.unrecorded.Get(key)
	if !known {
		since = h.now()
		h.unrecorded.Add(key, since)
	}
	return timeout - h.now().Sub(since)
}

// waitMessage returns the message for Cluster API; empty if there are no names. Anybody who reaches the port can read
// it, so it has no details.
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

// answer fills a response. A Cluster that the manager does not serve never waits.
func (h *hooks) answer(ctx context.Context, cluster *clusterv1.Cluster, response runtimehooksv1.RetryResponseObject,
	why func(*clusterlife.Scope) string,
) {
	key := client.ObjectKeyFromObject(cluster)
	response.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	if h.namespace != "" && h.namespace != key.Namespace {
		return
	}
	scope, err := clusterlife.ReadScope(ctx, h.reader, key)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot answer a hook of Cluster API", "Cluster", key)
		response.SetStatus(runtimehooksv1.ResponseStatusFailure)
		response.SetMessage("HelmOp cannot read its cache: see the logs of the manager")
		return
	}
	if scope == nil || scope.Cluster.UID != cluster.UID {
		return
	}
	if message := why(scope); message != "" {
		response.SetMessage(message)
		response.SetRetryAfterSeconds(retryAfterSeconds)
	}
}

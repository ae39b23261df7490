// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/controllers/helmoprelease"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
)

// TestForgettingDropsStateOfCluster checks that no state is kept of a Cluster that was deleted after its last release.
func TestForgettingDropsStateOfCluster(t *testing.T) {
	t.Parallel()
	var engine forgottenByEngine
	var watcher forgottenByWatcher
	reads := recordreads.New(1, clusterlink.New(clusterlink.Options{}))
	key := client.ObjectKey{Namespace: "ns", Name: "c"}
	_, _, _ = reads.Observe(t.Context(), ctrl.Request{}, key, "a",
		func(ctx context.Context) (model.Observation, error) {
			return model.Observation{}, helmerr.ErrUnreachable
		})
	forgetting(&engine, &watcher, reads)(key)
	// A worker waits only for a Cluster that was not unresponsive.
	_, _, waited := reads.Observe(t.Context(), ctrl.Request{}, key, "b",
		func(context.Context) (model.Observation, error) {
			<-time.After(10 * time.Millisecond)
			return model.Observation{}, nil
		})
	if len(engine.clusters) != 1 || len(watcher.clusters) != 1 || !waited {
		t.Errorf("forgotten by the engine %v, by the watcher %v; a worker waits: %t", engine.clusters, watcher.clusters,
			waited)
	}
}

// forgottenByEngine and forgottenByWatcher record the Clusters whose state must be dropped.
type forgottenByEngine struct {
	helmoprelease.Engine
	clusters []string
}

func (f *forgottenByEngine) Forget(cluster string) { f.clusters = append(f.clusters, cluster) }

type forgottenByWatcher struct {
	helmoprelease.Watcher
	clusters []string
}

func (f *forgottenByWatcher) Disconnect(cluster string) { f.clusters = append(f.clusters, cluster) }

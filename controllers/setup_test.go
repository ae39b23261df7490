// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/controllers/helmoprelease"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
)

// TestAClusterThatIsGoneIsForgotten holds that nothing of a Cluster is kept that went after the last of its releases.
func TestAClusterThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	var engine forgottenByEngine
	var watcher forgottenByWatcher
	reads := recordreads.New(1)
	key := client.ObjectKey{Namespace: "ns", Name: "c"}
	_, _ = reads.Begin(key.String(), ctrl.Request{})
	reads.Hangs(key.String(), 0)
	if grace, _ := reads.Grace(key.String()); grace != 0 {
		t.Fatalf("a worker waits %s for a Cluster that hangs", grace)
	}
	forgetting(&engine, &watcher, reads)(key)
	grace, _ := reads.Grace(key.String())
	if len(engine.clusters) != 1 || len(watcher.clusters) != 1 || grace == 0 {
		t.Errorf("forgotten by the engine %v, by the watcher %v; a worker waits %s", engine.clusters, watcher.clusters, grace)
	}
}

// forgottenByEngine and forgottenByWatcher note of which Clusters they are to forget all.
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

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

const (
	oldVersion = "v1.35.4"
	newVersion = "v1.36.0"
	hook       = clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/test"
)

// oldAPIServer returns a set with another kube-apiserver: the program of set itself, with another path and version.
func oldAPIServer(t *testing.T, set *binaries.Set) *binaries.Set {
	t.Helper()
	path := filepath.Join(t.TempDir(), binaries.KubeAPIServer)
	if err := os.Symlink(set.Path(binaries.KubeAPIServer), path); err != nil {
		t.Fatal(err)
	}
	return set.WithAPIServer(path, oldVersion)
}

// testClassClusterIsUpgraded creates and upgrades a Cluster by Cluster API's topology controller. The upgrade waits for
// an annotation, and ends with the API server of the new version.
func testClassClusterIsUpgraded(ctx context.Context, t *testing.T, m *Management) {
	if err := m.CreateClass(ctx, ClassOptions{Name: "class"}); err != nil {
		t.Fatal(err)
	}
	cluster, err := m.CreateClassCluster(ctx, "class", ClusterOptions{
		Name: "class", Version: oldVersion, Annotations: map[string]string{hook: ""},
	})
	if err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(cluster)
	if err := m.WaitClusterAvailable(ctx, key); err != nil {
		t.Fatal(err)
	}
	server := m.Provider.Server(key)
	waitControlPlane(ctx, t, m, key, oldVersion, oldVersion)
	pids := server.PIDs()

	if err := m.Upgrade(ctx, key, newVersion); err != nil {
		t.Fatal(err)
	}
	waitTopology(ctx, t, m, key, hook)
	if err := m.HoldUpgrade(ctx, key, true); err != nil {
		t.Fatal(err)
	}
	before := cluster.DeepCopy()
	delete(cluster.Annotations, hook)
	if err := m.Client.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	// The upgrade starts, and is held.
	waitControlPlane(ctx, t, m, key, newVersion, oldVersion)
	if server.Version() != oldVersion {
		t.Errorf("a held upgrade runs %s", server.Version())
	}
	if err := m.HoldUpgrade(ctx, key, false); err != nil {
		t.Fatal(err)
	}
	waitControlPlane(ctx, t, m, key, newVersion, newVersion)
	if server.Version() != newVersion || len(server.PIDs()) != len(pids) || server.PIDs()[1] == pids[1] {
		t.Errorf("after the upgrade %s runs, as %v, before as %v", server.Version(), server.PIDs(), pids)
	}
	if err := m.WaitClusterAvailable(ctx, key); err != nil {
		t.Error(err)
	}
	if err := m.Client.Delete(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	if err := m.WaitGone(ctx, cluster); err != nil {
		t.Error(err)
	}
	wantEnded(t, pids)
}

// waitControlPlane waits until the control plane of a Cluster has the desired version spec and reports the version
// status.
func waitControlPlane(ctx context.Context, t *testing.T, m *Management, key types.NamespacedName, spec, status string) {
	t.Helper()
	got := &controlplanev1.LocalControlPlane{}
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		obj, err := m.ControlPlane(ctx, key)
		if err != nil {
			return false, client.IgnoreNotFound(err)
		}
		got = obj
		return got.Spec.Version == spec && got.Status.Version == status, nil
	})
	if err != nil {
		t.Fatalf("the control plane has the version %q and reports %q: %v", got.Spec.Version, got.Status.Version, err)
	}
}

// waitTopology waits until Cluster API reports that it waits, with text in the message.
func waitTopology(ctx context.Context, t *testing.T, m *Management, key types.NamespacedName, text string) {
	t.Helper()
	message := ""
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		cluster := &clusterv1.Cluster{}
		if err := m.Client.Get(ctx, key, cluster); err != nil {
			return false, err
		}
		condition := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition)
		if condition != nil {
			message = condition.Message
		}
		return strings.Contains(message, text), nil
	})
	if err != nil {
		t.Fatalf("the message of TopologyReconciled is %q: %v", message, err)
	}
}

// testVersionWithoutProgram changes the version of a control plane to a version for which the test bed has no program.
func testVersionWithoutProgram(ctx context.Context, t *testing.T, m *Management) {
	cluster, err := m.CreateCluster(ctx, ClusterOptions{Name: "told", Version: "v1.34.0"})
	if err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(cluster)
	if err := m.WaitClusterAvailable(ctx, key); err != nil {
		t.Fatal(err)
	}
	waitControlPlane(ctx, t, m, key, "v1.34.0", "v1.34.0")
	pids := m.Provider.Server(key).PIDs()
	obj, err := m.ControlPlane(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	before := obj.DeepCopy()
	obj.Spec.Version = "v1.35.0"
	if err := m.Client.Patch(ctx, obj, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	waitControlPlane(ctx, t, m, key, "v1.35.0", "v1.35.0")
	if obj, err = m.ControlPlane(ctx, key); err != nil || obj.Status.ProgramVersion != m.Server.Version() {
		t.Errorf("the program is %q, %v", obj.Status.ProgramVersion, err)
	}
	if got := m.Provider.Server(key).PIDs(); got[1] != pids[1] {
		t.Error("the API server was restarted")
	}
}

// testClustersShareAnAPIServer creates a second Cluster that uses the API server of the first, under its own name.
func testClustersShareAnAPIServer(ctx context.Context, t *testing.T, m *Management) {
	for _, opts := range []ClusterOptions{{Name: "tenant", Host: "host"}, {Name: "host"}} {
		if _, err := m.CreateCluster(ctx, opts); err != nil {
			t.Fatal(err)
		}
	}
	tenant := &clusterv1.Cluster{}
	key := types.NamespacedName{Namespace: "default", Name: "tenant"}
	if err := m.WaitClusterAvailable(ctx, key); err != nil {
		t.Fatal(err)
	}
	if err := useCluster(ctx, t, kubeconfigOf(ctx, t, m, key)); err != nil {
		t.Errorf("the tenant's kubeconfig does not work: %v", err)
	}
	host := m.Provider.Server(types.NamespacedName{Namespace: "default", Name: "host"})
	if m.Provider.Server(key) != host {
		t.Error("the server of the tenant is not that of the host")
	}
	requests, err := host.Requests(apiserver.ByUser("tenant"))
	if err != nil || len(requests) == 0 {
		t.Errorf("the audit log of the host has %d requests of the tenant, %v", len(requests), err)
	}
	if err := m.Client.Get(ctx, key, tenant); err != nil {
		t.Fatal(err)
	}
	if err := m.Client.Delete(ctx, tenant); err != nil {
		t.Fatal(err)
	}
	if err := m.WaitGone(ctx, tenant); err != nil {
		t.Error(err)
	}
	if len(host.PIDs()) == 0 {
		t.Error("the host's API server was stopped with the tenant")
	}
}

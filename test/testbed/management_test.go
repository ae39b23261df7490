// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
	infrav1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/infrastructure/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// TestManagement uses one management cluster for all parallel parts, and checks at the end that none of its processes
// is left.
func TestManagement(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	set, err := binaries.Ensure(t.Context(), binaries.Options{Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	m, err := StartManagement(t.Context(),
		ManagementOptions{Binaries: set, Dir: t.TempDir(), Versions: map[string]*binaries.Set{
			oldVersion: oldAPIServer(t, set), newVersion: set.WithAPIServer(set.Path(binaries.KubeAPIServer), newVersion),
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pids := m.PIDs()
		if err := m.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := m.Stop(context.Background()); err != nil {
			t.Errorf("stopping again: %v", err)
		}
		wantEnded(t, pids)
	})
	for name, test := range map[string]func(context.Context, *testing.T, *Management){
		"the lifecycle of a Cluster":       testClusterLifecycle,
		"held and paused control planes":   testHeldBackAndPausedControlPlanes,
		"clusterctl installs an addon":     testClusterctlInstallsAnAddon,
		"a Cluster of a class is upgraded": testClassClusterIsUpgraded,
		"a version without a program":      testVersionWithoutProgram,
		"two Clusters share an API server": testClustersShareAnAPIServer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			test(ctx, t, m)
		})
	}
}

func wantEnded(t *testing.T, pids []int) {
	t.Helper()
	if len(pids) == 0 {
		t.Error("no process ran at all")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the process %d is left (%v)", pid, err)
		}
	}
}

// kubeconfigOf returns the kubeconfig in the Cluster's Secret.
func kubeconfigOf(ctx context.Context, t *testing.T, m *Management, cluster types.NamespacedName) []byte {
	t.Helper()
	secret := &corev1.Secret{}
	if err := m.Client.Get(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"},
		secret); err != nil {
		t.Fatal(err)
	}
	return secret.Data["value"]
}

func useCluster(ctx context.Context, t *testing.T, kubeconfig []byte) error {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	workload, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = workload.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	return err
}

func testClusterLifecycle(ctx context.Context, t *testing.T, m *Management) {
	cluster, err := m.CreateCluster(ctx, ClusterOptions{
		Name: "lifecycle", PodCIDRs: []string{"10.1.0.0/16"}, Region: "north", Settings: map[string]string{"k": "v"},
	})
	if err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(cluster)
	if err := m.WaitClusterAvailable(ctx, key); err != nil {
		t.Fatal(err)
	}
	first := kubeconfigOf(ctx, t, m, key)
	if err := useCluster(ctx, t, first); err != nil {
		t.Errorf("the Cluster's kubeconfig does not work: %v", err)
	}

	if err := m.Provider.RotateKubeconfig(ctx, key, apiserver.RotateOptions{NewPort: true}); err != nil {
		t.Fatal(err)
	}
	if err := useCluster(ctx, t, first); err == nil {
		t.Error("the old kubeconfig works after the rotation")
	}
	if err := useCluster(ctx, t, kubeconfigOf(ctx, t, m, key)); err != nil {
		t.Errorf("the new kubeconfig does not work: %v", err)
	}
	if err := m.WaitClusterAvailable(ctx, key); err != nil {
		t.Errorf("Cluster API does not use the new kubeconfig: %v", err)
	}

	pids := m.Provider.Server(key).PIDs()
	if err := m.Client.Delete(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	own := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	for _, obj := range []client.Object{
		cluster, &infrav1.LocalCluster{ObjectMeta: own}, &controlplanev1.LocalControlPlane{ObjectMeta: own},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name + "-kubeconfig"}},
	} {
		if err := m.WaitGone(ctx, obj); err != nil {
			t.Error(err)
		}
	}
	wantEnded(t, pids)
	if m.Provider.Server(key) != nil {
		t.Error("the provider still has the deleted Cluster's server")
	}
}

func testHeldBackAndPausedControlPlanes(ctx context.Context, t *testing.T, m *Management) {
	cluster, err := m.CreateCluster(ctx, ClusterOptions{Name: "held", HoldBack: true})
	if err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(cluster)
	cp := &controlplanev1.LocalControlPlane{}
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := m.Client.Get(ctx, key, cp)
		return err == nil && cp.Status.Version != "", err
	})
	if err != nil {
		t.Fatal(err)
	}
	if cp.Status.Initialization != nil {
		t.Error("a control plane that is held back is initialized")
	}
	if err := useCluster(ctx, t, kubeconfigOf(ctx, t, m, key)); err != nil {
		t.Errorf("the API server of a control plane that is held back does not run: %v", err)
	}

	if err := m.Client.Get(ctx, key, cluster); err != nil {
		t.Fatal(err)
	}
	before := cluster.DeepCopy()
	cluster.Spec.Paused = boolPointer(true)
	if err := m.Client.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := m.Release(ctx, key); err != nil {
		t.Fatal(err)
	}
	short, cancelShort := context.WithTimeout(ctx, time.Second)
	defer cancelShort()
	if err := m.WaitClusterAvailable(short, key); err == nil {
		t.Error("a paused Cluster's control plane became initialized")
	}
	before = cluster.DeepCopy()
	cluster.Spec.Paused = nil
	if err := m.Client.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := m.WaitClusterAvailable(ctx, key); err != nil {
		t.Error(err)
	}
}

func boolPointer(b bool) *bool { return &b }

const sampleComponents = `apiVersion: v1
kind: Namespace
metadata:
  name: helmop-system
  labels: {cluster.x-k8s.io/provider: addon-helmop}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: manager
  namespace: helmop-system
  labels: {cluster.x-k8s.io/provider: addon-helmop}
  annotations: {greeting: "${GREETING:=none}"}
`

func testClusterctlInstallsAnAddon(ctx context.Context, t *testing.T, m *Management) {
	repository := t.TempDir()
	dir := filepath.Join(repository, "addon-helmop", "v0.1.0")
	metadata, err := metadataFor("v0.1.0")
	if err := errors.Join(err, os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "addon-components.yaml"), []byte(sampleComponents), 0o600),
		os.WriteFile(filepath.Join(dir, "metadata.yaml"), metadata, 0o600)); err != nil {
		t.Fatal(err)
	}
	out, err := m.InstallHelmOp(ctx, InstallOptions{
		Repository: repository, Version: "v0.1.0", Variables: map[string]string{"GREETING": "hello"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out.Stderr)
	sa := &corev1.ServiceAccount{}
	if err := m.Client.Get(ctx, types.NamespacedName{Namespace: "helmop-system", Name: "manager"}, sa); err != nil {
		t.Fatal(err)
	}
	if got := sa.Annotations["greeting"]; got != "hello" {
		t.Errorf("the variable became %q", got)
	}
	kubeconfig, err := m.ServiceAccountKubeconfig(ctx, "helmop-system", "manager", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	who, err := Kubectl(ctx, m.opts.Binaries, file, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
	if err != nil || !strings.Contains(who.Stdout, "system:serviceaccount:helmop-system:manager") {
		t.Errorf("got %q, %v", who.Stdout, err)
	}
	if out, err := m.Kubectl(ctx, "get", "providers", "-A", "-o", "name"); err != nil ||
		!strings.Contains(out.Stdout, "addon-helmop") {
		t.Errorf("clusterctl's inventory is %q, %v", out.Stdout, err)
	}
}

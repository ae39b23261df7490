// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

func startServer(t *testing.T, opts Options) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	set, err := binaries.Ensure(t.Context(), binaries.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opts.Dir, opts.Binaries = t.TempDir(), set
	s, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if pids := s.PIDs(); len(pids) > 0 {
			t.Errorf("processes are left: %v", pids)
		}
	})
	return s
}

func clientOf(t *testing.T, kubeconfig []byte, err error) kubernetes.Interface {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Timeout = 10 * time.Second
	return kubernetes.NewForConfigOrDie(config)
}

func getDefaultNamespace(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
	return err
}

func TestOutagesAndRotation(t *testing.T) {
	s := startServer(t, Options{Name: "outages"})
	ctx := t.Context()
	old, err := s.Kubeconfig()
	client := clientOf(t, old, err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	if _, err := client.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	if err := s.StopAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if err := getDefaultNamespace(ctx, client); err == nil {
		t.Error("a stopped API server answers")
	}
	if err := s.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Secrets("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("data did not survive the restart: %v", err)
	}

	if err := s.Hang(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := getDefaultNamespace(short, client); err == nil {
		t.Error("a hung API server answers")
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := getDefaultNamespace(ctx, client); err != nil {
		t.Errorf("a resumed API server does not answer: %v", err)
	}

	if err := errors.Join(s.Save(ctx), s.Rotate(ctx, RotateOptions{})); err != nil {
		t.Fatal(err)
	}
	if err := s.Reset(ctx); !errors.Is(err, ErrNotResettable) {
		t.Errorf("the reset of a server with other certificates returns the error %v", err)
	}
	if err := getDefaultNamespace(ctx, clientOf(t, old, nil)); err == nil {
		t.Error("the old kubeconfig works after a rotation")
	}
	fresh, err := s.Kubeconfig()
	if err := getDefaultNamespace(ctx, clientOf(t, fresh, err)); err != nil {
		t.Errorf("the new kubeconfig does not work: %v", err)
	}
}

func TestCountsRequestsByUser(t *testing.T) {
	s := startServer(t, Options{Name: "counting"})
	ctx := t.Context()
	admin, err := s.Kubeconfig()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	if _, err := clientOf(t, admin, err).CoreV1().ServiceAccounts("default").Create(ctx, sa,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := s.ServiceAccountKubeconfig(ctx, "default", "robot", time.Hour)
	robot := clientOf(t, kubeconfig, err)
	// RBAC is on and the robot has no rights; the log contains the refusal.
	_, listErr := robot.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
	_, createErr := robot.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
		metav1.CreateOptions{})
	if listErr == nil || createErr == nil {
		t.Error("RBAC is off")
	}

	byRobot := ByUser("system:serviceaccount:default:robot")
	all, err := s.Requests(byRobot)
	if err != nil {
		t.Fatal(err)
	}
	writes, err := s.Requests(byRobot, Writes(), OnResource("secrets"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || len(writes) != 1 || writes[0].Code != 403 || writes[0].Verb != "create" {
		t.Errorf("got %d requests and the writes %+v, want 2 and one refused create", len(all), writes)
	}
}

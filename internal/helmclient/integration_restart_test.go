// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// newOwnServer starts an API server for one test and returns a bench with it. The test may stop the API server.
func newOwnServer(t *testing.T) (*bench, *apiserver.Server) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real API server")
	}
	t.Parallel()
	set, err := binaries.Ensure(t.Context(), binaries.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.Start(t.Context(),
		apiserver.Options{Name: "own", Dir: filepath.Join(t.TempDir(), "server"), Binaries: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	kube, err := kubernetes.NewForConfig(server.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, namespace: "own", kube: kube, client: New(testRunner),
		target: model.Target{Key: "own", Config: server.RESTConfig()}}
	return b, server
}

// upgradeAtHook starts an upgrade whose hook waits for a Job. It returns when the upgrade waits.
func (b *bench) upgradeAtHook(run *releaseRun) (ended <-chan error) {
	b.t.Helper()
	run.mustSettle(b.t)
	run.want("a2", helmtest.NewChart("2.0.0",
		map[string]string{"value.yaml": helmtest.ValueConfigMap, "hook.yaml": hook("Job", "job", "pre-upgrade", jobSpec)}))
	run.values = map[string]any{"cidr": "2"}
	run.options.Upgrade.Timeout = time.Minute
	decision, err := run.decide(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := run.act(b.t.Context(), decision)
		done <- err
	}()
	b.eventually("the hook", func(ctx context.Context) (bool, error) {
		_, err := b.kube.BatchV1().Jobs(b.namespace).Get(ctx, "job", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	return done
}

// TestIntegrationAPIServerRestart checks that an upgrade has the same result if the API server is restarted during the
// upgrade.
func TestIntegrationAPIServerRestart(t *testing.T) {
	b, server := newOwnServer(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	ended := b.upgradeAtHook(run)
	if err := server.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	obs, err := run.observe(t.Context())
	helmtest.WantError(t, err, helmerr.ErrUnreachable, false)
	if len(obs.Records) > 0 {
		t.Errorf("observed without a server: %+v", obs)
	}
	if err := server.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := endJob(t.Context(), b.kube, b.namespace, "job", false); err != nil {
		t.Fatal(err)
	}
	first := <-ended
	t.Logf("the upgrade during which the API server was restarted: %v", first)
	// Another process may continue. If the first process failed, the hook runs again.
	run.client = New(testRunner)
	jobEnds := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { jobEnds <- endJob(ctx, b.kube, b.namespace, "job", false) }()
	run.mustSettle(t)
	cancel()
	if err := <-jobEnds; err != nil && first != nil {
		t.Errorf("the hook of the second try: %v", err)
	}
	b.wantSettledUpgrade(run, first != nil)
}

// TestIntegrationUnresponsiveAPIServer checks that an upgrade completes although the API server does not respond for a
// while.
func TestIntegrationUnresponsiveAPIServer(t *testing.T) {
	b, server := newOwnServer(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	ended := b.upgradeAtHook(run)
	if err := server.Hang(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	_, err := run.observe(ctx)
	cancel()
	if err == nil {
		t.Error("a server that hangs was observed")
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := endJob(t.Context(), b.kube, b.namespace, "job", false); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the upgrade: %v", err)
	}
	b.wantSettledUpgrade(run, false)
}

// wantSettledUpgrade checks the final state after upgradeAtHook.
func (b *bench) wantSettledUpgrade(run *releaseRun, mayFail bool) {
	b.t.Helper()
	b.wantConfigMap("demo-value", "2")
	b.wantNoConfigMap("first")
	obs, err := run.observe(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := checkHistory(obs, []string{"superseded", "deployed"}, mayFail); err != nil {
		b.t.Error(err)
	}
}

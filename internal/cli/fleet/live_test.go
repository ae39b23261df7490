// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

func TestScreen(t *testing.T) {
	t.Parallel()
	s := &status{Base: kube.NewBase(kube.Options{Program: "kubectl helmop",
		Now: func() time.Time { return testNow }})}
	world := newTestWorld()
	for _, helmOp := range world.HelmOps {
		helmOp.Status.Clusters = &addonsv1.ClusterCounts{Selected: 5, UpToDate: 2}
	}
	whole, err := s.screen(world, "Clusters may not be current", 200, 50)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "status-live", strings.Join(whole, "\n")+"\n")
	small, err := s.screen(world, "", 30, 4)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"12:00:00, until Ctrl-C", "", "h: not Ready (ReleasesFaile...", "... and 7 more lines; --sta..."}
	if !slices.Equal(small, want) {
		t.Errorf("got %q, want %q", small, want)
	}
	s.noHeaders = true
	rows, err := s.screen(world, "", 200, 50)
	if err != nil || len(rows) != 7 || !strings.HasPrefix(rows[3], "h ") {
		t.Errorf("got %q (%v), want 4 rows after 3 lines", rows, err)
	}
}

func TestRolloutBar(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		clusters *addonsv1.ClusterCounts
		rollout  *addonsv1.RolloutStatus
		want     string
	}{
		"no rollout":  {&addonsv1.ClusterCounts{Selected: 4}, nil, ""},
		"no counts":   {nil, &addonsv1.RolloutStatus{}, ""},
		"no Clusters": {&addonsv1.ClusterCounts{}, &addonsv1.RolloutStatus{}, ""},
		"ended": {&addonsv1.ClusterCounts{Selected: 4}, &addonsv1.RolloutStatus{Phase: addonsv1.RolloutPhaseComplete},
			""},
		"not begun": {&addonsv1.ClusterCounts{Selected: 4}, &addonsv1.RolloutStatus{}, strings.Repeat(".", 40)},
		"half": {&addonsv1.ClusterCounts{Selected: 4, UpToDate: 2}, &addonsv1.RolloutStatus{},
			strings.Repeat("#", 20) + strings.Repeat(".", 20)},
		"all": {&addonsv1.ClusterCounts{Selected: 4, UpToDate: 4}, &addonsv1.RolloutStatus{},
			strings.Repeat("#", 40)},
		"all failed": {&addonsv1.ClusterCounts{Selected: 4, UpToDate: 4}, &addonsv1.RolloutStatus{Failed: 9},
			strings.Repeat("!", 40)},
		"one of many": {&addonsv1.ClusterCounts{Selected: 1000, UpToDate: 1}, &addonsv1.RolloutStatus{Failed: 1},
			"!" + strings.Repeat(".", 39)},
		"of each kind": {&addonsv1.ClusterCounts{Selected: 8, UpToDate: 4}, &addonsv1.RolloutStatus{InFlight: 1, Failed: 1},
			strings.Repeat("#", 10) + ">>>>>!!!!!" + strings.Repeat(".", 20)},
	} {
		got := rolloutBar(&fleetview.Summary{Clusters: tc.clusters, Rollout: tc.rollout})
		bar, _, _ := strings.Cut(strings.TrimPrefix(got, "["), "]")
		if bar != tc.want {
			t.Errorf("%s: got %q, want %q", name, bar, tc.want)
		}
	}
}

// TestLive follows a fleet on a terminal. At the end, the output must have the status.
func TestLive(t *testing.T) {
	t.Parallel()
	b := newFleetBed(t, "live")
	var screen, out lockedBuffer
	s := &status{Base: kube.NewBase(kube.Options{Program: "kubectl helmop", Now: func() time.Time { return testNow },
		Streams: genericiooptions.IOStreams{Out: &out, ErrOut: &out}})}
	s.ConfigFlags.KubeConfig = &b.kubeconfig
	c, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	c.Namespace = b.namespace
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() {
		ended <- s.runLive(ctx, c, kube.NewTerminal(&screen, func() (int, int, error) { return 150, 40, nil }))
	}()
	eventually(t, &screen, "prod-5")
	b.observe("calico", func(s *addonsv1.HelmOpStatus) { s.Rollout.Wave, s.Rollout.WaitingFor = "europe", "2 Clusters" })
	eventually(t, &screen, "waits for 2 Clusters")
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(screen.String(), "\x1b[?1049l") {
		t.Error("the terminal does not show again what was on it before")
	}
	if !strings.Contains(out.String(), "waits for 2 Clusters") {
		t.Errorf("the output has no status: %q", out.String())
	}
	s.HelmOps = []string{"kalico"}
	if err := s.runLive(t.Context(), c, nil); !apierrors.IsNotFound(err) {
		t.Errorf("got %v for a HelmOp that does not exist", err)
	}
}

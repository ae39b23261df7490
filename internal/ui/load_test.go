// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/ui/uitest"
)

// counted is a source that counts how often the fleet is computed. Each computation takes some time.
type counted struct {
	*uitest.Source
	takes  time.Duration
	worlds atomic.Int32
}

func (c *counted) World(ctx context.Context) (*fleetview.World, string, error) {
	c.worlds.Add(1)
	time.Sleep(c.takes)
	return c.Source.World(ctx)
}

// During a rollout, the objects change all the time. The page computes the fleet only for a tenth of this time, and
// shows the last state in the end.
func TestChangesCostLittle(t *testing.T) {
	t.Parallel()
	for takes, most := range map[time.Duration]int32{0: 20, 500 * time.Millisecond: 4} {
		synctest.Test(t, func(t *testing.T) {
			source := &counted{Source: uitest.New(8), takes: takes}
			page := newPage(source, "/")
			for began, i := time.Now(), 0; time.Since(began) < 20*time.Second; i++ {
				source.Warn(fmt.Sprint("state ", i, " of the fleet"))
				get(t, page, "/")
				time.Sleep(50 * time.Millisecond)
			}
			if got := source.worlds.Load(); got > most || got < most/2 {
				t.Errorf("%d computations that take %s", got, takes)
			}
			source.Warn("the last state")
			time.Sleep(6 * time.Second)
			if _, text := get(t, page, "/"); !strings.Contains(text, "the last state") {
				t.Errorf("the page shows an old state: %.500s", text)
			}
		})
	}
}

// A fleet is dropped some time after the last request for it: it holds old versions of all objects.
func TestUnusedFleetIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &counted{Source: uitest.New(8)}
		page := newPage(source, "/")
		for range 5 {
			get(t, page, "/")
			time.Sleep(50 * time.Second)
		}
		if got := source.worlds.Load(); got != 1 {
			t.Errorf("%d computations of a fleet in use", got)
		}
		time.Sleep(11 * time.Second)
		if get(t, page, "/"); source.worlds.Load() != 2 {
			t.Error("the unused fleet is kept")
		}
	})
}

// A stream reports the last of many changes, although not each change makes another fleet.
func TestStreamReportsLastChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &counted{Source: uitest.New(8)}
		page := newPage(source, "/")
		ctx, cancel := context.WithCancel(t.Context())
		w, ended := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(ended)
			page.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/stream", nil))
		}()
		synctest.Wait()
		for i := range 50 {
			source.Change("cert-manager", "prod-001", func(r *addonsv1.HelmOpRelease) {
				r.Status.Conditions[0].Status, r.Status.Conditions[0].Reason = metav1.ConditionTrue, addonsv1.ReadyReason
				if i%2 == 1 {
					r.Status.Conditions[0].Status, r.Status.Conditions[0].Reason = metav1.ConditionFalse, "UpgradeFailed"
				}
			})
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		cancel()
		<-ended
		text := w.Body.String()
		said := text[max(0, strings.LastIndex(text, "event: say")):]
		if !strings.HasPrefix(said, "event: say\ndata: 40 releases, 8 unhealthy, 1 HelmOp needs you\n") {
			t.Errorf("the last state is missing: %s", text)
		}
		if got := strings.Count(text, "event: change"); got > 3 || got != int(source.worlds.Load())-1 {
			t.Errorf("%d changes are reported, and the fleet is computed %d times", got, source.worlds.Load())
		}
	})
}

// slow is a source that lists HelmOp revisions only when the test permits it.
type slow struct {
	*uitest.Source
	permits chan struct{}
}

func (s *slow) Revisions(ctx context.Context, helmOp *addonsv1.HelmOp) ([]*addonsv1.HelmOpRevision, error) {
	<-s.permits
	return s.Source.Revisions(ctx, helmOp)
}

// Only a few views are made at the same time. Other requests wait, and then get an error.
func TestFewViewsAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &slow{Source: uitest.New(8), permits: make(chan struct{})}
		page := newPage(source, "/")
		statuses := make(chan int)
		request := func() {
			status, _ := get(t, page, "/helmop/fleet/calico")
			statuses <- status
		}
		for range 2 {
			go request()
		}
		synctest.Wait()
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/versions", nil))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("a view too many: status %d", w.Code)
		}
		go request()
		time.Sleep(time.Second)
		close(source.permits)
		for range 3 {
			if status := <-statuses; status != http.StatusOK {
				t.Errorf("status %d", status)
			}
		}
	})
}

// silent is a source whose management cluster does not answer.
type silent struct {
	*uitest.Source
	isSilent atomic.Bool
}

// wait waits for the end of a request, unless the management cluster answers.
func (s *silent) wait(ctx context.Context) error {
	if !s.isSilent.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *silent) World(ctx context.Context) (*fleetview.World, string, error) {
	if err := s.wait(ctx); err != nil {
		return nil, "", err
	}
	return s.Source.World(ctx)
}

func (s *silent) Revisions(ctx context.Context, helmOp *addonsv1.HelmOp) ([]*addonsv1.HelmOpRevision, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Source.Revisions(ctx, helmOp)
}

// A management cluster that does not answer occupies the page only for a limited time.
func TestSilentSource(t *testing.T) {
	t.Parallel()
	for name, isCached := range map[string]bool{"the fleet is known": true, "the fleet is not known": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := &silent{Source: uitest.New(8)}
				page := newPage(source, "/")
				if isCached {
					get(t, page, "/")
				}
				source.isSilent.Store(true)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				// A stream also reads the fleet, and its request does not end.
				go page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/stream", nil))
				texts := make(chan string)
				for range 2 {
					go func() {
						status, text := get(t, page, "/helmop/fleet/calico")
						texts <- fmt.Sprint(status, text)
					}()
				}
				synctest.Wait()
				if status, text := get(t, page, "/versions"); status != http.StatusServiceUnavailable ||
					!strings.Contains(text, "check whether the API server of the management cluster answers") {
					t.Errorf("a third request: %d %s", status, text)
				}
				for range 2 {
					if text := <-texts; !strings.HasPrefix(text, "504") || !strings.Contains(text, "did not answer within") {
						t.Errorf("a request without an answer: %s", text)
					}
				}
				source.isSilent.Store(false)
				if status, text := get(t, page, "/helmop/fleet/calico"); status != http.StatusOK {
					t.Errorf("after the timeout: %d %s", status, text)
				}
			})
		})
	}
}

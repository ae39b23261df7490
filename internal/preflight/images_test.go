// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

// counting is a registry that counts the lookups of each image.
type counting struct {
	mu    sync.Mutex
	calls map[string]int
	errs  map[string]error
}

func (c *counting) Head(_ context.Context, url, reference string, _ oci.Access) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := url + ":" + reference
	c.calls[name]++
	return "sha256:1", c.errs[name]
}

func (c *counting) set(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs[name] = err
}

func (c *counting) sum() (sum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, calls := range c.calls {
		sum += calls
	}
	return sum
}

func releaseOf(n int, images ...string) *Release {
	return &Release{Request: ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "a", Name: fmt.Sprint(n)}},
		Images: images, ChartURL: "oci://r.example/chart"}
}

func check(t *testing.T, i *Images, release *Release) Outcome {
	t.Helper()
	outcome, err := i.Check(t.Context(), release)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// TestOneLookupForAll looks up each image once for a thousand releases, and again after half an hour.
func TestOneLookupForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &counting{calls: map[string]int{}}
		i := New(r, 8)
		for range 2 {
			for n := range 1000 {
				if outcome := check(t, i, releaseOf(n, "r.example/a:1", "r.example/b:1")); !outcome.IsComplete() {
					t.Fatalf("release %d: %+v", n, outcome)
				}
			}
		}
		if r.sum() != 2 {
			t.Errorf("%d lookups, want 2", r.sum())
		}
		other := releaseOf(1, "r.example/a:1")
		other.Request.Namespace = "b"
		if check(t, i, other); r.sum() != 3 {
			t.Errorf("%d lookups, want one more for another namespace", r.sum())
		}
		time.Sleep(foundFor)
		if check(t, i, releaseOf(1, "r.example/a:1")); r.sum() != 4 {
			t.Errorf("%d lookups, want one more after %s", r.sum(), foundFor)
		}
	})
}

// TestMissingAndUnknown distinguishes a missing image from a registry that does not answer, waits longer after each
// lookup, and finds an image that was pushed.
func TestMissingAndUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		absent := &oci.Error{Op: "look up", Kind: oci.ErrNotFound}
		silent := &oci.Error{Op: "look up", Kind: oci.ErrUnreachable}
		r := &counting{calls: map[string]int{}, errs: map[string]error{
			"oci://r.example/absent:1": absent, "oci://silent.example/a:1": silent}}
		i := New(r, 8)
		release := releaseOf(1, "not an image", "r.example/absent:1", "r.example/a:1", "silent.example/a:1")
		outcome := check(t, i, release)
		if !slices.Equal(outcome.Missing, []string{"not an image", "r.example/absent:1"}) ||
			!slices.Equal(outcome.Unknown, []string{"silent.example/a:1"}) || !errors.Is(outcome.Err, oci.ErrUnreachable) ||
			outcome.IsPending || outcome.Wait < 5*time.Second || outcome.Wait > 6*time.Second {
			t.Fatalf("%+v", outcome)
		}
		if before := r.sum(); before != 3 || check(t, i, releaseOf(2, release.Images...)).IsComplete() || r.sum() != before {
			t.Errorf("%d lookups, want %d", r.sum(), before)
		}
		retried := releaseOf(2, release.Images...)
		retried.IsRetry = true
		if check(t, i, retried); r.sum() != 3 {
			t.Errorf("%d lookups, want none for a retry at once", r.sum())
		}
		time.Sleep(outcome.Wait)
		r.set("oci://silent.example/a:1", nil)
		time.Sleep(time.Second)
		outcome = check(t, i, release)
		if len(outcome.Missing) != 2 || len(outcome.Unknown) != 0 || outcome.Wait < 10*time.Second {
			t.Errorf("after the registry answers: %+v", outcome)
		}
		r.set("oci://r.example/absent:1", nil)
		time.Sleep(6 * time.Second)
		pushed := releaseOf(1, release.Images[1:]...)
		if outcome = check(t, i, pushed); outcome.IsComplete() {
			t.Errorf("looked up before the time: %+v", outcome)
		}
		pushed.IsRetry = true
		if outcome = check(t, i, pushed); !outcome.IsComplete() {
			t.Errorf("after the push: %+v", outcome)
		}
	})
}

// slow is a registry that answers after a time.
type slow struct{ Registry }

func (s slow) Head(ctx context.Context, url, reference string, access oci.Access) (string, error) {
	time.Sleep(time.Minute)
	return s.Registry.Head(ctx, url, reference, access)
}

// TestPending does not hold a worker while a registry is slow.
func TestPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &counting{calls: map[string]int{}, errs: map[string]error{}}
		r.set("oci://r.example/a:1", &oci.Error{Kind: oci.ErrNotFound})
		i := New(slow{r}, 8)
		began := time.Now()
		outcome := check(t, i, releaseOf(1, "r.example/a:1"))
		if !outcome.IsPending || time.Since(began) > time.Second {
			t.Errorf("%+v after %s", outcome, time.Since(began))
		}
		time.Sleep(time.Minute)
		outcome = check(t, i, releaseOf(1, "r.example/a:1"))
		if len(outcome.Missing) != 1 {
			t.Errorf("after the answer: %+v", outcome)
		}
		r.set("oci://r.example/a:1", nil)
		time.Sleep(outcome.Wait)
		if outcome = check(t, i, releaseOf(1, "r.example/a:1")); !outcome.IsPending {
			t.Errorf("during the next lookup: %+v", outcome)
		}
		time.Sleep(time.Minute)
		if outcome = check(t, i, releaseOf(1, "r.example/a:1")); !outcome.IsComplete() {
			t.Errorf("after the push: %+v", outcome)
		}
	})
}

// TestList renders the images of a release once for the same inputs.
func TestList(t *testing.T) {
	t.Parallel()
	i, rendered := New(nil, 1), 0
	request := releaseOf(1).Request
	list := func(inputs string, err error) ([]string, bool, error) {
		return i.List(request, inputs, func() ([]string, error) {
			rendered++
			return []string{inputs}, err
		})
	}
	if _, _, err := list("a", errors.New("broken")); err == nil {
		t.Error("an error is lost")
	}
	for n, inputs := range []string{"a", "a", "b"} {
		got, isRendered, err := list(inputs, nil)
		if err != nil || !slices.Equal(got, []string{inputs}) || isRendered != (n != 1) {
			t.Errorf("%s: %q, %t, %v", inputs, got, isRendered, err)
		}
	}
	i.Forget(request)
	if _, _, err := list("b", nil); err != nil || rendered != 4 {
		t.Errorf("%v, rendered %d times, want 4", err, rendered)
	}
}

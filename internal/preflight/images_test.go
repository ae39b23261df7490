// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
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
		absent := &ocierr.Error{Op: "look up", Kind: ocierr.ErrNotFound}
		silent := &ocierr.Error{Op: "look up", Kind: ocierr.ErrUnreachable}
		r := &counting{calls: map[string]int{}, errs: map[string]error{
			"oci://r.example/absent:1": absent, "oci://silent.example/a:1": silent}}
		i := New(r, 8)
		release := releaseOf(1, "not an image", "r.example/absent:1", "r.example/a:1", "silent.example/a:1")
		outcome := check(t, i, release)
		if !slices.Equal(outcome.Missing, []string{"not an image", "r.example/absent:1"}) ||
			!slices.Equal(outcome.Unknown, []string{"silent.example/a:1"}) || !errors.Is(outcome.Err, ocierr.ErrUnreachable) ||
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
type slow struct {
	Registry
	after time.Duration
}

func (s slow) Head(ctx context.Context, url, reference string, access oci.Access) (string, error) {
	time.Sleep(s.after)
	return s.Registry.Head(ctx, url, reference, access)
}

// TestPending checks that no worker is blocked while a registry is slow.
func TestPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &counting{calls: map[string]int{}, errs: map[string]error{}}
		r.set("oci://r.example/a:1", &ocierr.Error{Kind: ocierr.ErrNotFound})
		i := New(slow{r, time.Minute}, 8)
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

// TestResultExpiresDuringCheck checks that a release does not wait for a lookup that does not run.
func TestResultExpiresDuringCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := New(slow{&counting{calls: map[string]int{}}, 200 * time.Millisecond}, 8)
		check(t, i, releaseOf(1, "r.example/a:1"))
		time.Sleep(foundFor - 100*time.Millisecond)
		if outcome := check(t, i, releaseOf(1, "r.example/a:1", "r.example/b:1")); !outcome.IsComplete() {
			t.Errorf("%+v, %d tasks", outcome, i.tasks.Len())
		}
	})
}

// TestRefusesTooMany checks that a release with too many images or hosts causes no request.
func TestRefusesTooMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		names := func(n int, format string) (names []string) {
			for k := range n {
				names = append(names, fmt.Sprintf(format, k))
			}
			return names
		}
		for _, tc := range []struct {
			images []string
			want   string
		}{
			{names(maxImages, "r.example/a:%d"), ""},
			{names(maxImages+1, "r.example/a:%d"), "it has more than 500 images"},
			{names(maxImages, "r.example/"+strings.Repeat("a", maxNameBytes/maxImages-15)+":%03d"), ""},
			{names(maxImages, "r.example/"+strings.Repeat("a", maxNameBytes/maxImages)+":%03d"),
				"the names of its images have more than 128000 bytes"},
			{names(2, strings.Repeat("not an image", maxNameBytes)+"%d"),
				"the names of its images have more than 128000 bytes"},
			{names(maxHosts, "r%d.example/a:1"), ""},
			{names(maxHosts+1, "r%d.example/a:1"), "its images are on more than 50 hosts"},
		} {
			r := &counting{calls: map[string]int{}}
			outcome := check(t, New(r, 8), releaseOf(1, tc.images...))
			if outcome.Refused != tc.want || outcome.IsComplete() != (tc.want == "") || (r.sum() > 0) != (tc.want == "") {
				t.Errorf("%d images: %+v, %d lookups", len(tc.images), outcome, r.sum())
			}
		}
		for _, images := range [][]string{
			names(3*maxImages, "r.example/a:%d"),
			names(maxImages, strings.Repeat("not an image", 2000)+"%d"),
			names(1, strings.Repeat("not an image", maxNameBytes)+"%d"),
		} {
			var list List
			list.Set("a", images, strings.Clone)
			kept, _ := list.Of("a")
			if size := len(strings.Join(kept, "")); len(kept) > maxImages+1 || size > maxNameBytes+1 {
				t.Errorf("%d images of a list are kept, with %d bytes", len(kept), size)
			}
			r := &counting{calls: map[string]int{}}
			before, after := check(t, New(r, 8), releaseOf(1, images...)), check(t, New(r, 8), releaseOf(1, kept...))
			if before.Refused == "" || after.Refused != before.Refused {
				t.Errorf("the images are refused with %q, and the list with %q", before.Refused, after.Refused)
			}
		}
	})
}

// TestResultsAreBounded evicts the least recently used results of a namespace, and searches for old ones at most once a
// minute.
func TestResultsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := New(nil, 8)
		i.record("b", "other", nil)
		swept := i.swept
		time.Sleep(sweepInterval - time.Second)
		for n := range maxResults + 10 {
			i.record("a", fmt.Sprint(n), nil)
		}
		if n, other := i.results["a"].Len(), i.results["b"].Len(); n != maxResults || other != 1 || i.swept != swept {
			t.Errorf("%d and %d results, swept at %s and %s", n, other, swept, i.swept)
		}
		time.Sleep(2*foundFor + time.Second)
		if i.record("b", "other", nil); i.results["a"] != nil || len(i.results) != 1 {
			t.Errorf("results of %d namespaces are left", len(i.results))
		}
	})
}

// accesses is a registry that records the settings of the lookups, and fails with details.
type accesses struct {
	mu   sync.Mutex
	seen map[string]oci.Access
}

func (a *accesses) Head(_ context.Context, url, _ string, access oci.Access) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[url] = access
	return "", &ocierr.Error{Op: "look up", Subject: url, Kind: ocierr.ErrUnreachable, Detail: "dial tcp 10.1.2.3:443",
		Hint: "a hint", RetryAfter: time.Hour}
}

// TestOtherHosts checks that a chart cannot use the account of the manager on other hosts, and cannot explore the
// manager's network.
func TestOtherHosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &accesses{seen: map[string]oci.Access{}}
		i := New(r, 8)
		for image, isOfChart := range map[string]bool{"r.example/a:1": true, "other.example/a:1": false} {
			outcome := check(t, i, releaseOf(1, image))
			if !errors.Is(outcome.Err, ocierr.ErrUnreachable) || outcome.Wait < time.Hour ||
				strings.Contains(outcome.Err.Error(), "10.1.2.3") != isOfChart {
				t.Errorf("%s: %+v", image, outcome)
			}
		}
		if r.seen["oci://r.example/a"].OnlyOwnCredentials || !r.seen["oci://other.example/a"].OnlyOwnCredentials {
			t.Errorf("looked up with %+v", r.seen)
		}
	})
}

// TestList remembers the images of a release for the same inputs.
func TestList(t *testing.T) {
	t.Parallel()
	var list List
	if _, ok := list.Of(""); ok {
		t.Error("an empty list has images")
	}
	list.Set("a", []string{"x"}, strings.Clone)
	if list.HasSecret() {
		t.Error("the names have a secret")
	}
	for inputs, want := range map[string]bool{"a": true, "b": false} {
		if got, ok := list.Of(inputs); ok != want || ok && !slices.Equal(got, []string{"x"}) {
			t.Errorf("%s: %q, %t", inputs, got, ok)
		}
	}
	list.Forget()
	if _, ok := list.Of("a"); ok {
		t.Error("the images are not forgotten")
	}
	list.Set("a", []string{"x", "a/secret:1"}, func(text string) string { return strings.ReplaceAll(text, "secret", "…") })
	if !list.HasSecret() {
		t.Error("the names have no secret")
	}
}

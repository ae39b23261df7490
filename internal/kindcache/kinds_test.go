// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kindcache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// world is a cache whose informers are synced after some time, or never.
type world struct {
	client.Reader

	mu             sync.Mutex
	syncedAfter    map[string]time.Duration
	refused        map[string]string
	begun, removed map[string]int
	reads          int

	// reviewed is the result of a review; the number counts all reviews from 1. It is not called for refused kinds.
	reviewed func(number int) (string, error)
	reviews  int
}

// never is the time of a kind whose informer is never synced.
const never = time.Duration(-1)

type informer struct {
	cache.Informer
	after time.Duration
	since time.Time
}

func (i *informer) HasSynced() bool { return i.after != never && time.Since(i.since) >= i.after }

func (w *world) GetInformer(_ context.Context, obj client.Object,
	_ ...cache.InformerGetOption,
) (cache.Informer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := obj.GetObjectKind().GroupVersionKind().Kind
	w.begun[name]++
	return &informer{after: w.syncedAfter[name], since: time.Now()}, nil
}

func (w *world) RemoveInformer(_ context.Context, obj client.Object) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed[obj.GetObjectKind().GroupVersionKind().Kind]++
	return nil
}

func (w *world) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	return nil
}

func (w *world) review(_ context.Context, gvk schema.GroupVersionKind) (string, error) {
	w.mu.Lock()
	w.reviews++
	number, reviewed := w.reviews, w.reviewed
	reason, refused := w.refused[gvk.Kind]
	w.mu.Unlock()
	switch {
	case refused:
		return reason, nil
	case reviewed != nil:
		return reviewed(number)
	default:
		return "", errors.New("the API server has no result")
	}
}

func newWorld() (*world, *Kinds) {
	w := &world{syncedAfter: map[string]time.Duration{}, refused: map[string]string{}, begun: map[string]int{},
		removed: map[string]int{}}
	return w, New(Options{Reader: w, Informers: w, Review: w.review, Idle: 30 * time.Minute,
		Own: []schema.GroupVersionKind{kindNamed("Cluster")}})
}

func kindNamed(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "infrastructure.example", Version: "v1", Kind: name}
}

func read(t *testing.T, kinds *Kinds, namespace, name string) error {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kindNamed(name))
	return kinds.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "one"}, u)
}

// wantReason checks that an object could not be read and that the error contains the reason.
func wantReason(t *testing.T, err error, reason string) {
	t.Helper()
	var unreadable *UnreadableError
	if !errors.As(err, &unreadable) || !strings.Contains(err.Error(), reason) {
		t.Fatalf("error = %v, want one that says %q", err, reason)
	}
}

func TestFirstReadWaitsForSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, kinds := newWorld()
		w.syncedAfter["Fast"] = firstReadWait / 2
		for range 3 {
			if err := read(t, kinds, "a", "Fast"); err != nil {
				t.Fatal(err)
			}
		}
		if w.begun["Fast"] != 1 || w.reads != 3 {
			t.Errorf("begun %d times, read %d times", w.begun["Fast"], w.reads)
		}
	})
}

// TestUnsyncedKindBlocksNoCaller checks that callers wait only once for half a second, and that the kind is tried again
// after its informer was stopped.
func TestUnsyncedKindBlocksNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, kinds := newWorld()
		w.syncedAfter["Hangs"] = never
		begun := time.Now()
		for range 50 {
			if err := read(t, kinds, "a", "Hangs"); !errors.Is(err, ErrPending) {
				t.Fatalf("error = %v, want ErrPending", err)
			}
		}
		if took := time.Since(begun); took > firstReadWait {
			t.Errorf("50 reads took %s", took)
		}
		time.Sleep(slowAfter)
		wantReason(t, read(t, kinds, "a", "Hangs"), "could not be listed within 10s")
		time.Sleep(syncTimeout)
		wantReason(t, read(t, kinds, "a", "Hangs"), "could not be listed within 1m0s")
		if w.removed["Hangs"] != 1 {
			t.Errorf("the informer was ended %d times", w.removed["Hangs"])
		}
		time.Sleep(retryAfter)
		w.mu.Lock()
		w.syncedAfter["Hangs"] = time.Second
		w.mu.Unlock()
		// The result is kept until the next try has ended.
		wantReason(t, read(t, kinds, "a", "Hangs"), "could not be listed")
		time.Sleep(2 * time.Second)
		if err := read(t, kinds, "a", "Hangs"); err != nil {
			t.Error(err)
		}
	})
}

// TestSlowKindIsReadAfterSync checks that a slow try continues.
func TestSlowKindIsReadAfterSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, kinds := newWorld()
		w.syncedAfter["Slow"] = 30 * time.Second
		_ = read(t, kinds, "a", "Slow")
		time.Sleep(20 * time.Second)
		wantReason(t, read(t, kinds, "a", "Slow"), "could not be listed within 10s")
		time.Sleep(20 * time.Second)
		if err := read(t, kinds, "a", "Slow"); err != nil || w.begun["Slow"] != 1 {
			t.Errorf("begun %d times, error %v", w.begun["Slow"], err)
		}
	})
}

// TestForbiddenKindStartsNoInformer checks that a refusal starts no informer and is cached. The first read after
// answeredRetry waits for the next answer.
func TestForbiddenKindStartsNoInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, kinds := newWorld()
		w.refused["Forbidden"] = "the manager may not list it"
		begun := time.Now()
		for range 10 {
			wantReason(t, read(t, kinds, "a", "Forbidden"), "the manager may not list it")
		}
		if took := time.Since(begun); took > 0 || w.begun["Forbidden"] != 0 {
			t.Errorf("it took %s, and %d informers began", took, w.begun["Forbidden"])
		}
		w.mu.Lock()
		delete(w.refused, "Forbidden")
		w.mu.Unlock()
		time.Sleep(answeredRetry)
		if err := read(t, kinds, "a", "Forbidden"); err != nil {
			t.Error(err)
		}
	})
}

// notServed is the error of a review if the API server does not serve the kind.
var notServed = &meta.NoKindMatchError{GroupKind: kindNamed("New").GroupKind(), SearchedVersions: []string{"v1"}}

// wantPending checks that a kind has no result yet.
func wantPending(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrPending) {
		t.Fatalf("error = %v, want ErrPending", err)
	}
}

// TestKindServedDuringReview checks that a kind which the API server begins to serve is reviewed before its informer
// starts.
func TestKindServedDuringReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, kinds := newWorld()
		w.syncedAfter["New"] = never
		w.reviewed = func(number int) (string, error) {
			if number == 1 {
				return "", notServed
			}
			return "the manager may not list it", nil
		}
		wantPending(t, read(t, kinds, "a", "New"))
		time.Sleep(2*servedPoll - firstReadWait)
		wantReason(t, read(t, kinds, "a", "New"), "the manager may not list it")
		if w.begun["New"] != 0 {
			t.Errorf("%d informers began", w.begun["New"])
		}
	})
}

// TestKindNotServedYet checks that a kind is read soon after the API server begins to serve it.
func TestKindNotServedYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, kinds := newWorld()
		begun := time.Now()
		w.reviewed = func(int) (string, error) {
			if time.Since(begun) < 6*time.Second {
				return "", notServed
			}
			return "", nil
		}
		for time.Since(begun) < 5*time.Second {
			wantPending(t, read(t, kinds, "a", "New"))
			time.Sleep(time.Second)
		}
		time.Sleep(7*time.Second - time.Since(begun))
		if err := read(t, kinds, "a", "New"); err != nil {
			t.Error(err)
		}
	})
}

// TestKindNeverServed checks that a kind which the API server does not serve is reported, and is then looked up rarely.
func TestKindNeverServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, kinds := newWorld()
		w.reviewed = func(int) (string, error) { return "", notServed }
		wantPending(t, read(t, kinds, "a", "New"))
		time.Sleep(slowAfter)
		wantReason(t, read(t, kinds, "a", "New"), notServed.Error())
		w.mu.Lock()
		reported := w.reviews
		w.mu.Unlock()
		for range 60 {
			wantReason(t, read(t, kinds, "a", "New"), notServed.Error())
			time.Sleep(time.Second)
		}
		if later := w.reviews - reported; later < 3 || later > 4 || w.begun["New"] != 0 {
			t.Errorf("%d reviews in a minute, %d informers", later, w.begun["New"])
		}
	})
}

// TestRefusedWhileStarting checks that a refusal ends a starting informer, and that the kind is tried again. The
// refusal arrives at the time when the attempt becomes slow.
func TestRefusedWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, kinds := newWorld()
		w.syncedAfter["New"] = never
		wantPending(t, read(t, kinds, "a", "New"))
		w.mu.Lock()
		w.reviewed = func(int) (string, error) { return "the manager may not list it", nil }
		w.mu.Unlock()
		time.Sleep(reviewInterval)
		synctest.Wait()
		wantReason(t, read(t, kinds, "a", "New"), "the manager may not list it")
		if w.begun["New"] != 1 || w.removed["New"] != 1 {
			t.Errorf("%d informers began, %d were stopped", w.begun["New"], w.removed["New"])
		}
		w.mu.Lock()
		w.reviewed, w.syncedAfter["New"] = nil, 0
		w.mu.Unlock()
		time.Sleep(answeredRetry)
		if err := read(t, kinds, "a", "New"); err != nil || w.begun["New"] != 2 {
			t.Errorf("%d informers began, %v", w.begun["New"], err)
		}
	})
}

// TestLateSlowResult checks that the result "slow" of an attempt that has just ended does not end further attempts.
func TestLateSlowResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, kinds := newWorld()
		w.refused["New"] = "the manager may not list it"
		wantReason(t, read(t, kinds, "a", "New"), "the manager may not list it")
		kinds.setResult(kindNamed("New"), kinds.known[kindNamed("New")], "slow", attemptContinues)
		wantReason(t, read(t, kinds, "a", "New"), "the manager may not list it")
		delete(w.refused, "New")
		time.Sleep(answeredRetry)
		if err := read(t, kinds, "a", "New"); err != nil {
			t.Error(err)
		}
	})
}

// TestSlowReview checks that a review without an answer is reported as a slow kind is.
func TestSlowReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, kinds := newWorld()
		w.reviewed = func(int) (string, error) {
			time.Sleep(30 * time.Second)
			return "", nil
		}
		wantPending(t, read(t, kinds, "a", "Slow"))
		time.Sleep(slowAfter)
		wantReason(t, read(t, kinds, "a", "Slow"), "could not be listed within 10s")
		time.Sleep(30 * time.Second)
		if err := read(t, kinds, "a", "Slow"); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitingCallersAreLimited checks that a namespace with many kinds does not block all workers.
func TestWaitingCallersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, kinds := newWorld()
		begun := time.Now()
		var mu sync.Mutex
		waited := map[string]int{}
		var all sync.WaitGroup
		for i := range 40 {
			name, namespace := fmt.Sprint("Hangs", i), fmt.Sprint("namespace-", i%2)
			w.mu.Lock()
			w.syncedAfter[name] = never
			w.mu.Unlock()
			all.Go(func() {
				if err := read(t, kinds, namespace, name); !errors.Is(err, ErrPending) {
					t.Errorf("error = %v, want ErrPending", err)
				}
				if time.Since(begun) > 0 {
					mu.Lock()
					defer mu.Unlock()
					waited[namespace]++
				}
			})
		}
		all.Wait()
		defer time.Sleep(2 * syncTimeout) // All tries have ended then.
		for namespace, callers := range waited {
			if callers >= maxCallers {
				t.Errorf("%d callers of %s waited, of %d that may wait", callers, namespace, maxCallers)
			}
		}
	})
}

// TestNamespacesShareLimitOfKinds checks that a namespace with many kinds leaves some of the limit for other
// namespaces.
func TestNamespacesShareLimitOfKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, kinds := newWorld()
		refused := 0
		for i := range 2 * maxKinds {
			if err := read(t, kinds, "hostile", fmt.Sprint("Kind", i)); err != nil {
				if !errors.Is(err, ErrTooMany) {
					t.Fatal(err)
				}
				refused++
			}
		}
		if refused < maxKinds {
			t.Errorf("%d of %d kinds were refused", refused, 2*maxKinds)
		}
		if err := read(t, kinds, "other", "Machine"); err != nil {
			t.Error(err)
		}
		if err := read(t, kinds, "other", "Kind0"); err != nil {
			t.Errorf("a kind that is known already: %v", err)
		}
	})
}

// TestIdleInformerIsStopped checks that an idle informer is stopped, and that the next read starts it again with all
// its watches.
func TestIdleInformerIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, kinds := newWorld()
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- kinds.Start(ctx) }()
		watches, failing := 0, errors.New("no watch")
		watcher := kinds.NewWatcher(func(client.Object) error {
			watches++
			if watches == 1 {
				return failing
			}
			return nil
		})
		if err := watcher.Watch(kindNamed("Used")); err != nil || watches != 0 {
			t.Errorf("a kind that is not read is watched: %v", err)
		}
		pass := func(name string) error {
			if err := read(t, kinds, "a", name); err != nil {
				t.Fatal(err)
			}
			return watcher.Watch(kindNamed(name))
		}
		if err := pass("Used"); !errors.Is(err, failing) {
			t.Errorf("error = %v, want that of the watch", err)
		}
		for range 7 { // These are 70 minutes.
			if err := pass("Used"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
		}
		if watches != 2 || w.removed["Used"] != 0 {
			t.Errorf("watched %d times, ended %d times while it is read", watches, w.removed["Used"])
		}
		_ = pass("Idle")
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		if w.removed["Used"] != 1 || w.removed["Idle"] != 1 || len(kinds.known) != 0 || kinds.slots.Total() != 0 {
			t.Errorf("removed %v, known %d, places %d", w.removed, len(kinds.known), kinds.slots.Total())
		}
		if err := pass("Used"); err != nil || watches != 4 || w.begun["Used"] != 2 {
			t.Errorf("watched %d times, begun %d times, %v", watches, w.begun["Used"], err)
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// TestOwnKindsAreNeverStopped checks that the informers of the controllers themselves are neither started nor stopped.
func TestOwnKindsAreNeverStopped(t *testing.T) {
	t.Parallel()
	w, kinds := newWorld()
	if err := read(t, kinds, "a", "Cluster"); err != nil || w.begun["Cluster"] != 0 || len(kinds.known) != 0 ||
		w.reads != 1 {
		t.Errorf("begun %d times, %d reads, %v", w.begun["Cluster"], w.reads, err)
	}
}

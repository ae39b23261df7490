// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package flight

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

func TestPanicInSharedCallIsAnError(t *testing.T) {
	t.Parallel()
	var group singleflight.Group
	call := Call{Key: "key", Limit: time.Minute, Op: "get blob", Subject: "oci://r.example/x"}
	_, err := Do(t.Context(), &group, call, func(context.Context) (int, error) { panic("planted-text") })
	if !errors.Is(err, ocierr.ErrUnexpected) || !strings.HasPrefix(err.Error(), "get blob oci://r.example/x: ") {
		t.Fatalf("error = %v, want ErrUnexpected of what was tried", err)
	}
	if strings.Contains(err.Error(), "planted") {
		t.Errorf("error holds the text of the panic: %v", err)
	}
	if got, err := Do(t.Context(), &group, call,
		func(context.Context) (int, error) { return 1, nil }); err != nil || got != 1 {
		t.Errorf("after it: %d, %v", got, err)
	}
}

func TestConcurrentCallsShareOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group singleflight.Group
		var runs atomic.Int32
		gate := make(chan struct{})
		call := func(ctx context.Context) (string, error) {
			return Do(ctx, &group, Call{Key: "key", Limit: time.Minute}, func(ctx context.Context) (string, error) {
				runs.Add(1)
				select {
				case <-gate:
					return "value", nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			})
		}
		leaving, leave := context.WithCancel(t.Context())
		go func() {
			if _, err := call(leaving); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that left got %v", err)
			}
		}()
		synctest.Wait() // it is the one that runs the call
		for range 20 {
			go func() {
				if got, err := call(t.Context()); err != nil || got != "value" {
					t.Errorf("got %q, %v", got, err)
				}
			}()
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(gate)
		synctest.Wait()
		if got := runs.Load(); got != 1 {
			t.Errorf("%d runs, want 1", got)
		}
	})
}

// TestResultOfAnotherType expects the kind of error that callers document if two calls with one key have different
// types.
func TestResultOfAnotherType(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group singleflight.Group
		call, gate := Call{Key: "key", Limit: time.Minute, Op: "resolve", Subject: "oci://r.example/x"}, make(chan struct{})
		go func() {
			if got, err := Do(t.Context(), &group, call, func(context.Context) (string, error) {
				<-gate
				return "value", nil
			}); err != nil || got != "value" {
				t.Errorf("the first caller got %q, %v", got, err)
			}
		}()
		synctest.Wait()
		go func() {
			_, err := Do(t.Context(), &group, call, func(context.Context) (int, error) { return 1, nil })
			var failure *ocierr.Error
			if !errors.As(err, &failure) || !errors.Is(err, ocierr.ErrUnexpected) || failure.Op != call.Op {
				t.Errorf("the second caller got %v", err)
			}
		}()
		synctest.Wait()
		close(gate)
		synctest.Wait()
	})
}

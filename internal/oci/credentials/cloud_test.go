// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oras.land/oras-go/v2/registry"
)

const testPassword = "planted-password"

// fakeCloud is a CloudLogin that counts logins. give returns the result of a login.
type fakeCloud struct {
	logins atomic.Int32
	give   func(login int, provider, repository string) (CloudCredential, error)
}

func (c *fakeCloud) Login(_ context.Context, provider, repository string) (CloudCredential, error) {
	return c.give(int(c.logins.Add(1)), provider, repository)
}

func TestCloudTokensAreRenewedBeforeExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for life, want := range map[time.Duration]time.Duration{
		0: cloudTokenLife, time.Hour: 54 * time.Minute, 10 * time.Second: 9 * time.Second, -time.Minute: -54 * time.Second,
	} {
		given := CloudCredential{}
		if life != 0 {
			given.Expires = now.Add(life)
		}
		if got := newCloudToken(given, now).renew.Sub(now); got != want {
			t.Errorf("life %s: renewed after %s, want %s", life, got, want)
		}
	}
	cloud := &fakeCloud{give: func(login int, _, _ string) (CloudCredential, error) {
		expires := time.Now().Add(time.Hour)
		if login == 1 {
			expires = time.Now().Add(-time.Second)
		}
		return CloudCredential{Username: fmt.Sprint(login), Expires: expires}, nil
	}}
	tokens := NewClouds(cloud, time.Minute)
	ref := registry.Reference{Registry: "r.example", Repository: "x"}
	for _, want := range []string{"1", "2", "2"} {
		if got, err := tokens.get(t.Context(), "aws", ref); err != nil || got.Username != want {
			t.Errorf("user = %q, %v; want %q", got.Username, err, want)
		}
	}
	if _, err := tokens.get(t.Context(), "gcp", ref); err != nil || cloud.logins.Load() != 3 {
		t.Errorf("error = %v, %d logins; want one of its own for another provider", err, cloud.logins.Load())
	}
}

func TestCloudLoginIsShared(t *testing.T) {
	t.Parallel()
	const callers = 20
	var waiting sync.WaitGroup
	waiting.Add(callers)
	cloud := &fakeCloud{give: func(int, string, string) (CloudCredential, error) {
		waiting.Wait() // wait until all callers have started
		return CloudCredential{Username: "u", Password: testPassword, Expires: time.Now().Add(time.Hour)}, nil
	}}
	tokens := NewClouds(cloud, time.Minute)
	var done sync.WaitGroup
	for i := range callers {
		done.Go(func() {
			waiting.Done()
			ref := registry.Reference{Registry: "r.example", Repository: fmt.Sprintf("x%d", i)}
			if got, err := tokens.get(t.Context(), "azure", ref); err != nil || got.Password != testPassword {
				t.Errorf("credential = %v, %v", got.Username, err)
			}
		})
	}
	done.Wait()
	if n := cloud.logins.Load(); n != 1 {
		t.Errorf("%d logins, want 1", n)
	}
}

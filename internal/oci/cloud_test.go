// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oras.land/oras-go/v2/registry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// fakeCloud counts logins and answers with what give returns.
type fakeCloud struct {
	logins atomic.Int32
	give   func(login int, provider, repository string) (CloudCredential, error)
}

func (c *fakeCloud) Login(_ context.Context, provider, repository string) (CloudCredential, error) {
	return c.give(int(c.logins.Add(1)), provider, repository)
}

func goodCloud() *fakeCloud {
	return &fakeCloud{give: func(int, string, string) (CloudCredential, error) {
		return CloudCredential{Username: testUser, Password: testPassword, Expires: time.Now().Add(time.Hour)}, nil
	}}
}

func withCloud(login CloudLogin) func(*Options) {
	return func(o *Options) { o.CloudLogin = login }
}

// trusting makes a client trust a registry's authority, for all who use it: a
// cloud's identity is not used with an authority of the Access.
func trusting(t *testing.T, r *fakeRegistry) func(*Options) {
	path := filepath.Join(t.TempDir(), "ca.crt")
	writeFile(t, path, string(r.ca()))
	return func(o *Options) { o.CAFile = path }
}

func TestCloudLogin(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.basic = true
	r.push("1.0.0", "1.0.0", []byte("x"))
	src := r.source(Reference{Tag: "1.0.0"})
	src.Access = Access{CloudProvider: "aws"}
	cloud := goodCloud()
	give := cloud.give
	cloud.give = func(login int, provider, repository string) (CloudCredential, error) {
		if provider != "aws" || repository != r.host()+"/"+testRepo {
			t.Errorf("asked %s for %s", provider, repository)
		}
		return give(login, provider, repository)
	}
	c := newClient(t, trusting(t, r), withCloud(cloud))
	for range 3 {
		if _, err := c.Resolve(t.Context(), src); err != nil {
			t.Fatal(err)
		}
	}
	if n := cloud.logins.Load(); n != 1 {
		t.Errorf("%d logins, want 1", n)
	}
	// A Docker config with an entry goes first.
	src.Access.DockerConfigs = [][]byte{
		[]byte(`{"auths":{}}`), dockerConfigFor("other.example", "a", "b"), dockerConfigFor(r.host(), testUser, testPassword),
		dockerConfigFor(r.host(), testUser, "planted-wrong"),
	}
	if _, err := newClient(t, trusting(t, r), withCloud(cloud)).Resolve(t.Context(), src); err != nil ||
		cloud.logins.Load() != 1 {
		t.Errorf("error = %v, %d logins", err, cloud.logins.Load())
	}
	if _, err := newClient(t, trusting(t, r)).Resolve(t.Context(), src); !errors.Is(err, ocierr.ErrInvalidAccess) {
		t.Errorf("without a CloudLogin: error = %v, want ErrInvalidAccess", err)
	}
}

func TestRefusedCloudCredentialIsRenewedOnce(t *testing.T) {
	t.Parallel()
	for _, bearer := range []bool{false, true} {
		t.Run(fmt.Sprintf("bearer=%t", bearer), func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.basic, r.bearer = !bearer, bearer
			r.push("1.0.0", "1.0.0", []byte("x"))
			src := r.source(Reference{Tag: "1.0.0"})
			src.Access = Access{CloudProvider: "gcp"}
			var revoked atomic.Bool
			cloud := &fakeCloud{give: func(login int, _, _ string) (CloudCredential, error) {
				password := "planted-early" // what the provider gave once, and the registry does not accept any longer
				if login > 1 && !revoked.Load() {
					password = testPassword
				}
				return CloudCredential{Username: testUser, Password: password}, nil
			}}
			c := newClient(t, trusting(t, r), withCloud(cloud))
			if _, err := c.Resolve(t.Context(), src); !errors.Is(err, ocierr.ErrUnauthorized) || cloud.logins.Load() != 1 {
				t.Fatalf("error = %v, %d logins; want ErrUnauthorized after one", err, cloud.logins.Load())
			}
			if _, err := c.Resolve(t.Context(), src); err != nil || cloud.logins.Load() != 2 {
				t.Fatalf("error = %v, %d logins; want a second one that helps", err, cloud.logins.Load())
			}
			if _, err := c.Resolve(t.Context(), src); err != nil || cloud.logins.Load() != 2 {
				t.Fatalf("error = %v, %d logins; want the second one kept", err, cloud.logins.Load())
			}
		})
	}
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
	tokens, err := newCloudTokens(cloud, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
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
	cloud := goodCloud()
	give := cloud.give
	cloud.give = func(login int, provider, repository string) (CloudCredential, error) {
		waiting.Wait() // until all callers are there
		return give(login, provider, repository)
	}
	tokens, err := newCloudTokens(cloud, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
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

func TestCloudLoginFails(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	src := r.source(Reference{Tag: "1.0.0"})
	src.Access = Access{CloudProvider: "aws"}
	for name, tc := range map[string]struct {
		err, want error
	}{
		"with a text": {errors.New("no identity at https://sts.example/?token=planted-x"), ocierr.ErrUnauthorized},
		"with a kind": {&ocierr.Error{Op: "log in to", Subject: "aws", Kind: ocierr.ErrInvalidAccess, Detail: "not a registry of it"},
			ocierr.ErrInvalidAccess},
		"by its deadline": {fmt.Errorf("x: %w", context.DeadlineExceeded), ocierr.ErrUnreachable},
		"by silence":      {fmt.Errorf("x: %w", os.ErrDeadlineExceeded), ocierr.ErrUnreachable},
	} {
		cloud := &fakeCloud{give: func(int, string, string) (CloudCredential, error) { return CloudCredential{}, tc.err }}
		_, err := newClient(t, trusting(t, r), withCloud(cloud)).Resolve(t.Context(), src)
		if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), "aws") {
			t.Errorf("%s: error = %v, want %v that names the provider", name, err, tc.want)
			continue
		}
		noSecrets(t, err)
	}
	r.wantRequests(map[string]int{})
}

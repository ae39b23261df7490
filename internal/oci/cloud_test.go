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
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// fakeCloud is a CloudLogin that counts logins. give returns the result of a login.
type fakeCloud struct {
	logins atomic.Int32
	give   func(login int, provider, repository string) (credentials.CloudCredential, error)
}

func (c *fakeCloud) Login(_ context.Context, provider, repository string) (credentials.CloudCredential, error) {
	return c.give(int(c.logins.Add(1)), provider, repository)
}

func goodCloud() *fakeCloud {
	return &fakeCloud{give: func(int, string, string) (credentials.CloudCredential, error) {
		return credentials.CloudCredential{Username: testUser, Password: testPassword,
			Expires: time.Now().Add(time.Hour)}, nil
	}}
}

func withCloud(login credentials.CloudLogin) func(*Options) {
	return func(o *Options) { o.CloudLogin = login }
}

// trusting makes a client trust the certificate authority of a registry through Options.CAFile. The authority cannot be
// in the Access, because the cloud identity is then not used.
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
	cloud.give = func(login int, provider, repository string) (credentials.CloudCredential, error) {
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
	// A Docker config with an entry wins against the cloud provider.
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
			cloud := &fakeCloud{give: func(login int, _, _ string) (credentials.CloudCredential, error) {
				password := "planted-early" // an old credential of the provider that the registry refuses now
				if login > 1 && !revoked.Load() {
					password = testPassword
				}
				return credentials.CloudCredential{Username: testUser, Password: password}, nil
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
		cloud := &fakeCloud{give: func(int, string, string) (credentials.CloudCredential, error) {
			return credentials.CloudCredential{}, tc.err
		}}
		_, err := newClient(t, trusting(t, r), withCloud(cloud)).Resolve(t.Context(), src)
		if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), "aws") {
			t.Errorf("%s: error = %v, want %v that names the provider", name, err, tc.want)
			continue
		}
		noSecrets(t, err)
	}
	r.wantRequests(map[string]int{})
}

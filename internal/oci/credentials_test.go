// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// The author of a HelmOp may choose proxy, authority and plain HTTP, and could read the requests
// with them. So these requests must not contain the manager's own credentials.
func TestManagerCredentialsAreNotExposed(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.json")
	writeFile(t, config, `{"auths": {"registry.example": {"username": "u", "password": "planted"}}}`)
	fallback := watchFile(config, parseDockerConfig, func(err error) { t.Error(err) })
	proxy := &Proxy{Address: "http://proxy.example:3128"}
	for name, tc := range map[string]struct {
		access   Access
		insecure bool
		want     bool
	}{
		"as it is":                             {Access{}, false, true},
		"plain HTTP to a mirror, by the admin": {Access{}, true, true},
		"a proxy, and TLS through it":          {Access{Proxy: proxy}, false, true},
		"a client certificate":                 {Access{ClientCert: []byte("c"), ClientKey: []byte("k")}, false, true},
		"only the author's own":                {Access{OnlyOwnCredentials: true}, false, false},
		"plain HTTP":                           {Access{Insecure: true}, true, false},
		"plain HTTP, a mirror by TLS":          {Access{Insecure: true}, false, false},
		"an own authority":                     {Access{CA: []byte("ca")}, false, false},
		"a proxy, and plain HTTP through it":   {Access{Proxy: proxy}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ref, err := parseURL("oci://registry.example/charts/hello")
			if err != nil {
				t.Fatal(err)
			}
			credentials, err := newCredentials(tc.access, fallback.get, nil)
			if err != nil {
				t.Fatal(err)
			}
			source, err := credentials.source(route{ref: ref, insecure: tc.insecure})
			if err != nil {
				t.Fatal(err)
			}
			if given := source.static.Password != ""; given != tc.want {
				t.Errorf("the manager's credential is given: %v, want %v", given, tc.want)
			}
		})
	}
}

func TestCloudIdentityIsNotExposed(t *testing.T) {
	t.Parallel()
	asked := false
	c := newClient(t, func(o *Options) {
		o.CloudLogin = cloudFunc(func() { asked = true })
	})
	for name, access := range map[string]Access{
		"plain HTTP":       {CloudProvider: "gcp", Insecure: true},
		"an own authority": {CloudProvider: "gcp", CA: newAuthority(t).PEM()},
	} {
		_, err := c.Resolve(t.Context(),
			Source{URL: "oci://europe-docker.pkg.dev/p/r/x", Ref: Reference{Tag: "1"}, Access: access})
		if !errors.Is(err, ocierr.ErrInvalidAccess) || !strings.Contains(err.Error(), "cloud identity") || asked {
			t.Errorf("%s: error = %v, logged in: %v", name, err, asked)
		}
	}
}

// cloudFunc is a CloudLogin that must not be called.
type cloudFunc func()

func (f cloudFunc) Login(context.Context, string, string) (CloudCredential, error) {
	f()
	return CloudCredential{}, errors.New("not to be called")
}

func TestHintOfRefusedCredentials(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.basic = true
	wrong := dockerConfigFor(r.host(), testUser, "planted-wrong")
	config := filepath.Join(t.TempDir(), "config.json")
	writeFile(t, config, string(wrong))
	byDefault := func(o *Options) { o.CredentialsFile = config }
	cloud := &fakeCloud{give: func(int, string, string) (CloudCredential, error) {
		return CloudCredential{Username: testUser, Password: "planted-wrong"}, nil
	}}
	for want, tc := range map[string]struct {
		access Access
		change []func(*Options)
	}{
		hintNone:     {},
		hintGiven:    {Access{DockerConfigs: [][]byte{wrong}}, []func(*Options){byDefault}},
		hintDefault:  {Access{}, []func(*Options){byDefault}},
		hintIdentity: {Access{CloudProvider: "aws"}, []func(*Options){byDefault, withCloud(cloud)}},
	} {
		c := newClient(t, append(tc.change, trusting(t, r))...)
		_, err := c.Resolve(t.Context(), Source{URL: r.url(), Ref: Reference{Tag: "1.0.0"}, Access: tc.access})
		if !errors.Is(err, ocierr.ErrUnauthorized) || !strings.HasSuffix(err.Error(), "; "+want) {
			t.Errorf("error = %v, want ErrUnauthorized with the hint %q", err, want)
		}
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
)

// TestManagerCredentialsAreNotExposed checks that the manager's own credentials are not sent on a route whose requests
// the author of a HelmOp could read. The author may choose the proxy, the certificate authority and plain HTTP.
func TestManagerCredentialsAreNotExposed(t *testing.T) {
	t.Parallel()
	fallback := func() (DockerConfig, error) {
		return ParseDockerConfig([]byte(`{"auths": {"registry.example": {"username": "u", "password": "planted"}}}`))
	}
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
			ref, err := routes.ParseURL("oci://registry.example/charts/hello")
			if err != nil {
				t.Fatal(err)
			}
			sources, err := NewSources(tc.access, fallback, nil)
			if err != nil {
				t.Fatal(err)
			}
			source, err := sources.For(routes.Route{Ref: ref, Insecure: tc.insecure})
			if err != nil {
				t.Fatal(err)
			}
			if given := source.Static.Password != ""; given != tc.want {
				t.Errorf("the manager's credential is given: %v, want %v", given, tc.want)
			}
		})
	}
}

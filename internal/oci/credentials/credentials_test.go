// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
)

// The author of a HelmOp may choose proxy, authority and plain HTTP, and could read the requests
// with them. So these requests must not contain the manager's own credentials.
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

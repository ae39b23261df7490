// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
)

// TestEndpointKey checks the keys of endpoints. Concurrent calls with the same key share one result, so two endpoints
// must have different keys if their results can be different.
func TestEndpointKey(t *testing.T) {
	t.Parallel()
	const url = "oci://r.example/charts/demo"
	ca := newAuthority(t)
	pair := clientPair(t, ca)
	set, path := withRegistries(t, "")
	c := newClient(t, set, withCloud(goodCloud()))
	accesses := map[string]Access{
		"none":           {},
		"credential":     {DockerConfigs: [][]byte{dockerConfigFor("r.example", "a", "b")}},
		"password":       {DockerConfigs: [][]byte{dockerConfigFor("r.example", "a", "c")}},
		"identity token": {DockerConfigs: [][]byte{[]byte(`{"auths":{"r.example":{"identitytoken":"t"}}}`)}},
		"provider":       {CloudProvider: "aws"},
		"other provider": {CloudProvider: "gcp"},
		"CA":             {CA: ca.PEM()},
		"certificate":    {ClientCert: pair.Cert, ClientKey: pair.Key},
		"proxy":          {Proxy: &credentials.Proxy{Address: "http://p.example"}},
		"proxy's user":   {Proxy: &credentials.Proxy{Address: "http://p.example", Username: "u"}},
		"insecure":       {Insecure: true},
	}
	key := func(url string, access Access) string {
		t.Helper()
		e, err := c.endpoints.Endpoint(url, access)
		if err != nil {
			t.Fatal(err)
		}
		return e.Key
	}
	seen := map[string]string{}
	keep := func(name, key string) {
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have the same key", name, other)
		}
		seen[key] = name
	}
	for name, access := range accesses {
		first := key(url, access)
		keep(name, first)
		if key(url, access) != first {
			t.Errorf("%s: another key for the same", name)
		}
	}
	keep("another repository", key(url+"x", Access{}))
	keep("another registry", key("oci://r2.example/charts/demo", Access{}))
	// A credential for another registry does not change the key.
	if key(url, Access{DockerConfigs: [][]byte{dockerConfigFor("o.example", "a", "b")}}) != key(url, Access{}) {
		t.Error("an entry for another registry makes another key")
	}
	writeFile(t, path, mirrored("r.example", "m.example"))
	keep("a mirror", key(url, Access{}))
	keep("a mirror's credential", key(url, Access{DockerConfigs: [][]byte{dockerConfigFor("m.example", "a", "b")}}))
	writeFile(t, path, mirrored("r.example", "m.example\ninsecure = true"))
	keep("an insecure mirror", key(url, Access{}))
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"net/http"
	"testing"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

func newEndpoints(t *testing.T) *Endpoints {
	t.Helper()
	c := New(Options{
		Requests:         transport.Options{Timeout: time.Minute, RequestsPerSecond: 1000, MaxRequests: 8},
		EnvironmentProxy: http.ProxyFromEnvironment,
	})
	t.Cleanup(c.Close)
	return c
}

// TestCredentialsShareConnections checks that clients with different credentials use the same connections.
func TestCredentialsShareConnections(t *testing.T) {
	t.Parallel()
	c := newEndpoints(t)
	for _, password := range []string{"a", "b", "a"} {
		config := `{"auths":{"r.example":{"username":"u","password":"` + password + `"}}}`
		e, err := c.Endpoint("oci://r.example/x", credentials.Access{DockerConfigs: [][]byte{[]byte(config)}})
		if err != nil {
			t.Fatal(err)
		}
		credential, _, err := e.hops[0].source.Credential(t.Context())
		if err != nil || credential.Password != password {
			t.Fatalf("credential of %q: %v", credential.Username, err)
		}
		c.client(e.hops[0], credential)
	}
	if clients, transports := c.clients.Len(), c.transports.Len(); clients != 2 || transports != 1 {
		t.Errorf("%d clients, %d transports; want 2 and 1", clients, transports)
	}
}

func TestCredentialIsSentToItsHostOnly(t *testing.T) {
	t.Parallel()
	c := newEndpoints(t)
	e, err := c.Endpoint("oci://r.example/x", credentials.Access{})
	if err != nil {
		t.Fatal(err)
	}
	given := auth.Credential{Username: "u", Password: "planted"}
	client := c.client(e.hops[0], given)
	for host, want := range map[string]auth.Credential{"r.example": given, "r.example:443": {}, "o.example": {}, "": {}} {
		if got, err := client.Credential(t.Context(), host); got != want || err != nil {
			t.Errorf("%q is given %q, %v", host, got.Username, err)
		}
	}
}

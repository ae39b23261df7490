// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
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

// TestTransportsAreBounded checks that the certificates of connection pools have a limit in bytes, and that a client
// does not keep the certificates of a dropped pool.
func TestTransportsAreBounded(t *testing.T) {
	t.Parallel()
	c := newEndpoints(t)
	server := httptest.NewTLSServer(nil)
	server.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	var first *Endpoint
	use := func(size, pools int) {
		t.Helper()
		for i := range pools {
			ca := append(bytes.Repeat([]byte("# comment\n"), size/10), certificate...)
			e, err := c.Endpoint("oci://r.example/x", credentials.Access{CA: fmt.Appendf(ca, "# %d of %d", i, size)})
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = e
			}
			c.client(e.hops[0], auth.EmptyCredential)
		}
	}
	if use(1000, maxTransports); c.transports.Len() != maxTransports || c.clients.Len() != maxTransports {
		t.Errorf("%d pools and %d clients of small bundles, want %d", c.transports.Len(), c.clients.Len(), maxTransports)
	}
	const large = 1 << 20
	use(large, 8)
	sum := 0
	for _, kept := range c.transports.Values() {
		sum += kept.bytes
	}
	if sum != c.transportBytes || sum > maxTransportBytes || sum < maxTransportBytes-2*large {
		t.Errorf("%d pools have %d bytes, and %d bytes are counted, want at most %d", c.transports.Len(), sum,
			c.transportBytes, maxTransportBytes)
	}
	c.client(first.hops[0], auth.EmptyCredential) // of a long operation, whose pool is dropped
	if clients := c.clients.Len(); clients != 1 {
		t.Errorf("%d clients are kept, want that of the newest pool", clients)
	}
	if c.Close(); c.transportBytes != 0 {
		t.Errorf("%d bytes are counted without a pool", c.transportBytes)
	}
}

// TestLargeConfigsAreParsedOneByOne checks that only one large Docker config is in use at a time, and that small ones
// do not wait for it.
func TestLargeConfigsAreParsedOneByOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.json")
	writeFile(t, path, `{"auths":{}}`)
	var c *Endpoints
	used := 0
	c = New(Options{
		Requests:        transport.Options{Timeout: time.Minute, RequestsPerSecond: 1000, MaxRequests: 8},
		CredentialsFile: path,
		// The report of the broken file of the manager is made while the Docker configs of the Access are in use.
		Report: func(string, error) {
			if used++; c.largeConfigs.TryLock() {
				t.Error("another large config can be in use")
				c.largeConfigs.Unlock()
			}
		},
	})
	t.Cleanup(c.Close)
	config := func(size int) credentials.Access {
		return credentials.Access{DockerConfigs: [][]byte{[]byte(`{"auths":{}}` + strings.Repeat(" ", size))}}
	}
	writeFile(t, path, "broken")
	if _, err := c.Endpoint("oci://r.example/x", config(maxSmallConfigs)); err != nil || used != 1 {
		t.Errorf("of a registry: the file was used %d times: %v", used, err)
	}
	writeFile(t, path, `{"credsStore":"x"}`) // another error, which is reported again
	if _, err := c.Site("https://r.example/x", config(maxSmallConfigs)); err != nil || used != 2 {
		t.Errorf("of a site: the file was used %d times: %v", used, err)
	}
	c.largeConfigs.Lock()
	defer c.largeConfigs.Unlock()
	if _, err := c.Endpoint("oci://r.example/x", config(1000)); err != nil {
		t.Error(err)
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

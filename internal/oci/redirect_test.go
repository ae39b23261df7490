// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dialguard"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

// pullByRedirect reads a layer of a registry that redirects its blobs.
func pullByRedirect(t *testing.T, r *fakeRegistry, target string, change ...func(*Access)) error {
	t.Helper()
	dgst := r.push("1.0.0", "1.0.0", []byte("layer"))
	r.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
		if transport.KindOf(req) != transport.RequestBlob || req.Header.Get("Authorization") == "" {
			return false
		}
		http.Redirect(w, req, target, http.StatusTemporaryRedirect)
		return true
	})
	access := r.access()
	for _, f := range change {
		f(&access)
	}
	content, err := newClient(t).Fetch(t.Context(), r.url(), dgst, access)
	if err != nil {
		t.Fatal(err)
	}
	_, err = content.ReadLayer(t.Context(), content.Layers[0])
	return err
}

func TestCredentialsDoNotFollowRedirects(t *testing.T) {
	t.Parallel()
	for _, bearer := range []bool{false, true} {
		for name, ask := range map[string]bool{"storage serves": false, "storage asks for credentials": true} {
			t.Run(fmt.Sprintf("%s, bearer=%t", name, bearer), func(t *testing.T) {
				t.Parallel()
				var shown atomic.Int32
				storage := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					if req.Header.Get("Authorization") != "" {
						shown.Add(1)
					}
					if ask {
						w.Header().Set("WWW-Authenticate", `Basic realm="planted-x"`)
						w.WriteHeader(http.StatusUnauthorized)
						return
					}
					_, _ = w.Write([]byte("layer"))
				}))
				t.Cleanup(storage.Close)
				r := newRegistry(t)
				r.basic, r.bearer = !bearer, bearer
				err := pullByRedirect(t, r, storage.URL+"/planted-x")
				if ask != errors.Is(err, ocierr.ErrUnauthorized) || !ask && err != nil {
					t.Errorf("error = %v", err)
				}
				if err != nil {
					noSecrets(t, err)
				}
				if n := shown.Load(); n > 0 {
					t.Errorf("the storage was shown credentials %d times", n)
				}
			})
		}
	}
}

func TestRedirectsAreBounded(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	var hops atomic.Int32
	loop := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		hops.Add(1)
		http.Redirect(w, req, "/planted-x", http.StatusFound)
	}))
	t.Cleanup(loop.Close)
	for name, tc := range map[string]struct {
		target, text string
		kind         error
	}{
		"out of TLS":          {plain.URL + "/planted-x", "without TLS", ocierr.ErrTLS},
		"in circles":          {loop.URL, "redirects", ocierr.ErrUnexpected},
		"to the cloud's own":  {"https://169.254.169.254/planted-x", "link-local", ocierr.ErrAddressRefused},
		"in IPv6 too":         {"https://[fe80::1%25lo]:443/planted-x", "link-local", ocierr.ErrAddressRefused},
		"in IPv6 for IPv4":    {"https://[::ffff:169.254.169.254]/planted-x", "link-local", ocierr.ErrAddressRefused},
		"to AWS in IPv6":      {"https://[fd00:ec2::254]/planted-x", "link-local", ocierr.ErrAddressRefused},
		"to Alibaba":          {"https://100.100.100.200/planted-x", "link-local", ocierr.ErrAddressRefused},
		"to Azure":            {"https://168.63.129.16/planted-x", "link-local", ocierr.ErrAddressRefused},
		"by NAT64":            {"https://[64:ff9b::a9fe:a9fe]/planted-x", "link-local", ocierr.ErrAddressRefused},
		"to another protocol": {"ftp://127.0.0.1/planted-x", "without TLS", ocierr.ErrTLS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.basic = true
			err := pullByRedirect(t, r, tc.target)
			if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("error = %v, want %v with %q", err, tc.kind, tc.text)
			}
			var failure *ocierr.Error
			if errors.Is(err, ocierr.ErrAddressRefused) && (!errors.As(err, &failure) || failure.Hint == "") {
				t.Errorf("%v has no hint", err)
			}
			noSecrets(t, err)
			// After the first request, to the registry, the client follows five redirects to the server that redirects.
			if n := hops.Load(); tc.target == loop.URL && n != 5 {
				t.Errorf("%d requests to the server that redirects in circles, want 5", n)
			}
		})
	}
}

// TestLocalAddressesAreRefused checks that a tenant cannot use a registry, proxy or redirect with a local address of
// the manager. The administrator can.
func TestLocalAddressesAreRefused(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	dgst := r.push("1.0.0", "1.0.0", []byte("layer"))
	_, port, err := net.SplitHostPort(r.host())
	if err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(t.TempDir(), "registries.conf")
	if err := os.WriteFile(named, []byte("[[registry]]\nlocation = \""+r.host()+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mirror := filepath.Join(t.TempDir(), "registries.conf")
	writeFile(t, mirror, mirrored("registry.example", r.host()))
	strict := func(o *Options) { o.RefuseLocal = true }
	direct := func(*http.Request) (*url.URL, error) { return nil, nil }
	proxied := http.ProxyURL(&url.URL{Scheme: "http", Host: r.host()})
	tenantProxy := newConnectProxy(t, nil, nil)
	t.Cleanup(func() {
		if asked := tenantProxy.requests(); len(asked) > 0 {
			t.Errorf("the proxy of the tenant was asked %q", asked)
		}
	})
	byTenantProxy := func(a *Access) { a.Proxy = &credentials.Proxy{Address: tenantProxy.URL} }
	for name, tc := range map[string]struct {
		host        string
		change      func(*Access)
		options     func(*Options)
		environment dialguard.ProxyFunc
		refused     bool
	}{
		"address":             {host: r.host(), environment: direct, refused: true},
		"name":                {host: "localhost:" + port, environment: direct, refused: true},
		"link-local":          {host: "169.254.169.254", environment: direct, refused: true},
		"address by a proxy":  {host: r.host(), environment: proxied, refused: true},
		"proxy of the tenant": {host: "registry.example", change: byTenantProxy, environment: direct, refused: true},
		"proxy of the tenant, named by the file": {host: r.host(), change: byTenantProxy,
			options: func(o *Options) { o.RegistriesFile = named }, environment: direct, refused: true},
		"proxy of a trusted access": {host: "registry.example", change: func(a *Access) {
			a.Proxy, a.Trusted = &credentials.Proxy{Address: "http://" + r.host()}, true
		}, environment: direct},
		"trusted access": {host: r.host(), change: func(a *Access) { a.Trusted = true }, environment: direct},
		"named by the file": {host: r.host(), options: func(o *Options) { o.RegistriesFile = named },
			environment: direct},
		"mirror, named by the file": {host: "registry.example", options: func(o *Options) { o.RegistriesFile = mirror },
			environment: direct},
		"proxy of the tenant, with a mirror": {host: "registry.example", change: byTenantProxy,
			options: func(o *Options) { o.RegistriesFile = mirror }, environment: direct, refused: true},
		"allowed for all": {host: r.host(), options: func(o *Options) { o.RefuseLocal = false },
			environment: direct},
		"proxy of the environment": {host: "registry.example", environment: proxied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := tc.options
			if change == nil {
				change = func(*Options) {}
			}
			c := newClient(t, strict, change, func(o *Options) { o.environmentProxy, o.Timeout = tc.environment, time.Second })
			access := r.access()
			if tc.change != nil {
				tc.change(&access)
			}
			_, err := c.Fetch(t.Context(), scheme+tc.host+"/"+testRepo, dgst, access)
			if refused := err != nil && strings.Contains(err.Error(), dialguard.ErrRefused.Error()); refused != tc.refused {
				t.Errorf("refused %t: %v", refused, err)
			}
			if tc.refused && !errors.Is(err, ocierr.ErrAddressRefused) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestRedirectsThroughProxyAreNotGuarded checks that a proxy may have any address. The operator or the owner of the
// source chose the proxy.
func TestRedirectsThroughProxyAreNotGuarded(t *testing.T) {
	t.Parallel()
	storage := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("layer"))
	}))
	t.Cleanup(storage.Close)
	proxy := newConnectProxy(t, nil, map[string]string{"example.com:443": storage.Listener.Addr().String()})
	r := newRegistry(t)
	r.basic = true
	err := pullByRedirect(t, r, "https://example.com/x", func(a *Access) {
		a.Proxy = &credentials.Proxy{Address: proxy.URL}
	})
	if err != nil {
		t.Error(err)
	}
}

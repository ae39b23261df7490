// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// tokenService is a token service with another host name than the registry.
type tokenService struct {
	*httptest.Server
	host string

	mu sync.Mutex
	// asked has an entry "METHOD URI user" for each request.
	asked []string
	serve func(w http.ResponseWriter, req *http.Request)
}

// newTokenService starts a token service at a loopback address. It returns the certificate authority of the service.
func newTokenService(t *testing.T, ip string) (*tokenService, []byte) {
	t.Helper()
	ca := newAuthority(t)
	pair, err := ca.Server("tokens", ip)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &tokenService{host: listener.Addr().String()}
	s.serve = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"token":%q,"access_token":%q}`, testToken, testToken)
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		user, _, _ := req.BasicAuth()
		if req.Method == http.MethodPost {
			user = req.FormValue("refresh_token")
		}
		s.mu.Lock()
		s.asked = append(s.asked, req.Method+" "+req.Host+req.URL.RequestURI()+" "+user)
		s.mu.Unlock()
		s.serve(w, req)
	}))
	s.Server.Listener = listener
	s.Server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	s.Server.StartTLS()
	t.Cleanup(s.Server.Close)
	return s, ca.PEM()
}

func (s *tokenService) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

// withRealm returns a registry with a realm in its challenge.
func withRealm(t *testing.T, realm string) *fakeRegistry {
	t.Helper()
	r := newRegistry(t)
	r.bearer = true
	r.push("1.0.0", "1.0.0", []byte("x"))
	r.intercept = func(w http.ResponseWriter, req *http.Request) bool {
		if strings.HasPrefix(req.URL.Path, "/v2/") && req.Header.Get("Authorization") == "Bearer "+testToken {
			return false
		}
		if !strings.HasPrefix(req.URL.Path, "/v2/") {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		w.Header().Set("WWW-Authenticate",
			fmt.Sprintf(`Bearer realm="%s",service="test",scope="repository:%s:pull"`, realm, testRepo))
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	return r
}

func TestTrustedTokenHost(t *testing.T) {
	t.Parallel()
	query := "service=test"
	scope := "scope=" + url.QueryEscape("repository:"+testRepo+":pull")
	for _, tc := range []struct {
		name string
		// trusted is the value of TokenHosts. "%s" is replaced by host:port of the service.
		trusted, path string
		identity      bool
		want          string // the request without the host; empty means no request
	}{
		{name: "host and port", trusted: "%s", path: "/jwt/auth",
			want: "GET /jwt/auth?" + scope + "&" + query + " " + testUser},
		{name: "host", trusted: "127.0.0.2", path: "/jwt/auth",
			want: "GET /jwt/auth?" + scope + "&" + query + " " + testUser},
		{name: "query of the realm", trusted: "%s", path: "/t?account=1",
			want: "GET /t?account=1&" + scope + "&" + query + " " + testUser},
		{name: "escaped path", trusted: "%s", path: "/a%2Fb", want: "GET /a%2Fb?" + scope + "&" + query + " " + testUser},
		{name: "identity token", trusted: "%s", path: "/t", identity: true, want: "POST /t " + testIdentity},
		{name: "nobody", trusted: "", path: "/t"},
		{name: "another host", trusted: "127.0.0.3", path: "/t"},
		{name: "another port", trusted: "127.0.0.2:1", path: "/t"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			service, ca := newTokenService(t, "127.0.0.2")
			r := withRealm(t, service.URL+tc.path)
			c := newClient(t, func(o *Options) {
				if tc.trusted != "" {
					o.TokenHosts = []string{strings.ReplaceAll(tc.trusted, "%s", service.host)}
				}
			})
			src := r.source(Reference{Tag: "1.0.0"})
			src.Access.CA = append(src.Access.CA, ca...)
			if tc.identity {
				src.Access.DockerConfigs = [][]byte{[]byte(`{"auths":{"` + r.host() + `":{"identitytoken":"` + testIdentity +
					`"}}}`)}
			}
			_, err := c.Resolve(t.Context(), src)
			asked := service.requests()
			if tc.want == "" {
				if !errors.Is(err, ocierr.ErrUnauthorized) || !strings.Contains(err.Error(), "token service is refused") ||
					len(asked) > 0 {
					t.Errorf("error = %v, requests %q; want ErrUnauthorized and none", err, asked)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			method, rest, _ := strings.Cut(tc.want, " ")
			if want := method + " " + service.host + rest; len(asked) != 1 || asked[0] != want {
				t.Errorf("requests = %q, want %q", asked, want)
			}
			// The token stays in the cache for another request and another tag.
			r.push("2.0.0", "2.0.0", []byte("y"))
			src.Ref.Tag = "2.0.0"
			if _, err := c.Resolve(t.Context(), src); err != nil || len(service.requests()) != 1 {
				t.Errorf("error = %v, requests %q; want the token kept", err, service.requests())
			}
		})
	}
}

func TestTokenServiceRedirects(t *testing.T) {
	t.Parallel()
	stranger, strangerCA := newTokenService(t, "127.0.0.3")
	for _, tc := range []struct {
		name     string
		redirect string // the redirect of the trusted service; "" means a token
		realm    func(service *tokenService) string
		wantErr  bool
		want     int // the number of requests to the trusted service
	}{
		{name: "redirect on the same host", redirect: "/elsewhere?x=1", want: 2},
		{name: "redirect to a private host", redirect: stranger.URL + "/t", wantErr: true, want: 1},
		{name: "redirect to plain HTTP", redirect: "http://" + stranger.host + "/t", wantErr: true, want: 1},
		{name: "plain HTTP realm", realm: func(s *tokenService) string { return "http://" + s.host + "/t" }, wantErr: true},
		{name: "realm with user", realm: func(s *tokenService) string { return "https://u@" + s.host + "/t" }, wantErr: true},
		{name: "forged disguise", wantErr: true, realm: func(*tokenService) string {
			return "/.token-service/" + base64.RawURLEncoding.EncodeToString([]byte(stranger.URL+"/t"))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			service, ca := newTokenService(t, "127.0.0.2")
			if tc.redirect != "" {
				served := service.serve
				service.serve = func(w http.ResponseWriter, req *http.Request) {
					if req.URL.Path == "/t" {
						http.Redirect(w, req, tc.redirect, http.StatusTemporaryRedirect)
						return
					}
					served(w, req)
				}
			}
			realm := service.URL + "/t"
			if tc.realm != nil {
				realm = tc.realm(service)
			}
			r := withRealm(t, realm)
			if strings.HasPrefix(realm, "/") {
				realm = r.srv.URL + realm
				again := withRealm(t, realm)
				r.intercept = again.intercept
			}
			src := r.source(Reference{Tag: "1.0.0"})
			src.Access.CA = append(append(src.Access.CA, ca...), strangerCA...)
			_, err := newClient(t, func(o *Options) { o.TokenHosts = []string{service.host} }).Resolve(t.Context(), src)
			if (err != nil) != tc.wantErr {
				t.Errorf("error = %v", err)
			}
			if err != nil {
				noSecrets(t, err)
			}
			asked := service.requests()
			if len(asked) != tc.want {
				t.Errorf("requests = %q, want %d", asked, tc.want)
			}
			for _, request := range asked {
				if !strings.HasSuffix(request, " "+testUser) {
					t.Errorf("%q came without the user", request)
				}
			}
			if strange := stranger.requests(); len(strange) > 0 {
				t.Errorf("the other service was asked %q", strange)
			}
		})
	}
}

// TestTrustedTokenHostOfPlainHTTPRegistry checks that a registry without TLS may have a token service without TLS.
func TestTrustedTokenHostOfPlainHTTPRegistry(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 4)
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked <- req.Host
		fmt.Fprintf(w, `{"token":%q}`, testToken)
	}))
	service.Listener = listener
	service.Start()
	t.Cleanup(service.Close)
	r := withRealm(t, service.URL+"/t")
	plain := httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(plain.Close)
	src := Source{URL: scheme + strings.TrimPrefix(plain.URL, "http://") + "/" + testRepo, Ref: Reference{Tag: "1.0.0"},
		Access: Access{Insecure: true}}
	if _, err := newClient(t, func(o *Options) { o.TokenHosts = []string{"127.0.0.2"} }).Resolve(t.Context(),
		src); err != nil {
		t.Fatal(err)
	}
	if host := <-asked; host != listener.Addr().String() {
		t.Errorf("asked at %s", host)
	}
}

// TestSiteUsesNoTokenService expects that a web server cannot send the credential of its requests to a trusted token
// service, with a redirect to the path of the service in requests to registries.
func TestSiteUsesNoTokenService(t *testing.T) {
	t.Parallel()
	service, ca := newTokenService(t, "127.0.0.2")
	var paths []string
	var mu sync.Mutex
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if paths = append(paths, req.URL.Path); len(paths) == 1 {
			http.Redirect(w, req, "/.token-service/"+base64.RawURLEncoding.EncodeToString([]byte(service.URL+"/token")),
				http.StatusFound)
			return
		}
		http.NotFound(w, req)
	}))
	t.Cleanup(web.Close)
	config := fmt.Sprintf(`{"auths":{%q:{"username":"u","password":"planted"}}}`, strings.TrimPrefix(web.URL, "http://"))
	site, err := newClient(t, func(o *Options) { o.TokenHosts = []string{service.host} }).Site(web.URL+"/charts",
		Access{Insecure: true, CA: ca, DockerConfigs: [][]byte{[]byte(config)}})
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(web.URL + "/charts/index.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := site.Get(t.Context(), "index", target, nil); err == nil {
		_ = resp.Body.Close() // the answer is the failure
		t.Error("the redirect was answered")
	}
	if asked := service.requests(); len(asked) != 0 {
		t.Errorf("the token service got %q", asked)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(paths) != 2 || !strings.HasPrefix(paths[1], "/.token-service/") {
		t.Errorf("the site got %q", paths)
	}
}

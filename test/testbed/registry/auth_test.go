// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

// TestUsers adds, changes and removes users while the registry runs.
func TestUsers(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{
		"htpasswd": {}, "tokens": {Auth: AuthToken}, "in process": {Implementation: InProcess},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRegistry(t, opts)
			push(t, r, "demo", "1")
			resolve := func(user, password string) error {
				credential := auth.Credential{Username: user, Password: password}
				_, err := clientRepository(t, r, "demo", credential).Resolve(t.Context(), "1")
				return err
			}
			first, err := r.AddUser("second")
			if err != nil {
				t.Fatal(err)
			}
			for user, password := range map[string]string{"second": first, r.Username(): r.Password()} {
				if err := resolve(user, password); err != nil {
					t.Errorf("%s: %v", user, err)
				}
				if !slices.ContainsFunc(r.Requests(), func(r Request) bool { return r.User == user && r.Code == http.StatusOK }) {
					t.Errorf("no request of %s in %+v", user, r.Requests())
				}
			}
			rotated, err := r.AddUser("second")
			if err != nil {
				t.Fatal(err)
			}
			if err := resolve("second", first); !hasStatus(http.StatusUnauthorized)(err) {
				t.Errorf("the old password: %v", err)
			}
			if err := resolve("second", rotated); err != nil {
				t.Errorf("the new password: %v", err)
			}
			if err := r.RemoveUser("second"); err != nil {
				t.Fatal(err)
			}
			if err := resolve("second", rotated); !hasStatus(http.StatusUnauthorized)(err) {
				t.Errorf("a user who was removed: %v", err)
			}
			if err := resolve("second", ""); err == nil {
				t.Error("a removed user has access without a password")
			}
		})
	}
}

// TestTokenService follows a token from the challenge to the registry, for all kinds of users.
func TestTokenService(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{Auth: AuthToken, Public: "public/"})
	push(t, r, "charts/demo", "1")
	push(t, r, "public/demo", "1")
	identity := auth.Credential{RefreshToken: r.Tokens().IdentityToken()}
	tests := []struct {
		name, repository string
		credential       auth.Credential
		// method, authorization and user are the expected values in the token request, code is the expected status.
		method, authorization, user string
		code                        int
		want                        func(error) bool
	}{
		{"password", "charts/demo", owner(r), http.MethodGet, "Basic", r.Username(), 200, isNil},
		{"wrong password", "charts/demo", auth.Credential{Username: "helmop", Password: "wrong"}, http.MethodGet, "Basic",
			"helmop", 401, hasStatus(401)},
		{"identity token", "charts/demo", identity, http.MethodPost, "", r.Username(), 200, isNil},
		{"anonymous", "charts/demo", auth.EmptyCredential, http.MethodGet, "", "", 200, hasStatus(401)},
		{"anonymous, public", "public/demo", auth.EmptyCredential, http.MethodGet, "", "", 200, isNil},
	}
	for _, tt := range tests {
		before := len(r.Tokens().Requests())
		r.ResetCounts()
		err := pull(t, clientRepository(t, r, tt.repository, tt.credential), "1")
		if !tt.want(err) {
			t.Errorf("%s: got %v", tt.name, err)
		}
		tokenRequests := r.Tokens().Requests()[before:]
		if len(tokenRequests) == 0 {
			t.Errorf("%s: no token was requested", tt.name)
			continue
		}
		got, scope := tokenRequests[0], "repository:"+tt.repository+":pull"
		if got.Method != tt.method || got.Authorization != tt.authorization || got.User != tt.user || got.Code != tt.code ||
			got.Service != tokenServiceName || !slices.Contains(got.Scopes, scope) {
			t.Errorf("%s: the token request is %+v", tt.name, got)
		}
		for _, request := range r.Requests() {
			if request.Authorization != "" && (request.Authorization != "Bearer" || request.User != tt.user) {
				t.Errorf("%s: the request to the registry is %+v", tt.name, request)
			}
		}
	}
}

// TestTokenIsLimitedToGrantedRepository uses a token for one repository at another repository.
func TestTokenIsLimitedToGrantedRepository(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{Auth: AuthToken})
	push(t, r, "charts/one", "1")
	push(t, r, "charts/two", "1")
	token := fetchToken(t, r, "repository:charts/one:pull")
	for repository, want := range map[string]int{"charts/one": http.StatusOK, "charts/two": http.StatusUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"https://"+r.Host()+"/v2/"+repository+"/tags/list", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := (&http.Client{Transport: trusting(t, r)}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s", repository, resp.Status)
		}
	}
}

func fetchToken(t *testing.T, r *Registry, scope string) string {
	t.Helper()
	query := url.Values{"service": {tokenServiceName}, "scope": {scope}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.Tokens().URL()+"?"+query.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(r.Username(), r.Password())
	resp, err := (&http.Client{Transport: trusting(t, r)}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Token == "" {
		t.Fatalf("no token: %s, %v", resp.Status, err)
	}
	return answer.Token
}

// TestTokenHost runs the token service under other names of this machine.
func TestTokenHost(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"", "localhost", "127.0.0.2"} {
		r := startRegistry(t, Options{Auth: AuthToken, TokenHost: host})
		want := host
		if want == "" {
			want = "127.0.0.1"
		}
		resp, err := (&http.Client{Transport: trusting(t, r)}).Get("https://" + r.Host() + "/v2/")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if challenge := resp.Header.Get("WWW-Authenticate"); !strings.Contains(challenge, `realm="https://`+want+":") {
			t.Errorf("%q: challenged with %s", host, challenge)
		}
		if fetchToken(t, r, "repository:demo:pull") == "" {
			t.Errorf("%q: no token", host)
		}
	}
}

func TestClientCertificate(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{Implementation: InProcess, RequireClientCert: true})
	push(t, r, "demo", "1")
	resolve := func(certificates ...tls.Certificate) error {
		repo := clientRepository(t, r, "demo", owner(r))
		transport := trusting(t, r)
		transport.TLSClientConfig.Certificates = certificates
		repo.Client.(*auth.Client).Client = &http.Client{Transport: transport}
		_, err := repo.Resolve(t.Context(), "1")
		return err
	}
	if err := resolve(); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: %v", err)
	}
	if n := r.Counts().Total(); n != 0 {
		t.Errorf("%d requests without a certificate were answered", n)
	}
	pair, err := r.ClientCert("reader")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := resolve(certificate); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	for _, request := range r.Requests() {
		if request.ClientCert != "reader" {
			t.Errorf("the request has no certificate name: %+v", request)
		}
	}
}

// TestDockerConfig reads the credentials as Docker's own tools do.
func TestDockerConfig(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{Implementation: InProcess})
	config, err := r.DockerConfigJSON()
	if err != nil {
		t.Fatal(err)
	}
	store, err := credentials.NewMemoryStoreFromDockerConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	push(t, r, "demo", "1")
	repo, err := remote.NewRepository(r.Host() + "/demo")
	if err != nil {
		t.Fatal(err)
	}
	repo.Client = &auth.Client{Client: &http.Client{Transport: trusting(t, r)}, Credential: credentials.Credential(store)}
	if err := pull(t, repo, "1"); err != nil {
		t.Error(err)
	}
}

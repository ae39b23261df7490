// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	tokenServiceName = "helmop-testbed"
	tokenIssuer      = "helmop-testbed-tokens"
	tokenPath        = "/token"
	tokenLifetime    = 5 * time.Minute
)

var tokenAlgorithm = jwt.SigningMethodES256

// TokenService issues tokens for passwords, as the distribution project specifies. It accepts a GET with a password, or
// a POST with a password or an identity token in a form of OAuth 2.
type TokenService struct {
	endpoint endpoint
	host     string
	users    *accounts
	public   string
	identity string
	key      *ecdsa.PrivateKey
	// chain is the certificate of the key. The registry trusts its authority.
	chain []string

	mu       sync.Mutex
	requests []TokenRequest
}

// TokenRequest is one request for a token.
type TokenRequest struct {
	Time   time.Time
	Method string
	// Service is the registry for which the token is requested.
	Service string
	// Scopes are the requested permissions, such as "repository:charts/demo:pull".
	Scopes []string
	// User is the user of the request, empty for an anonymous request.
	User string
	// Authorization is the scheme of the Authorization header, such as "Basic". It is empty without the header.
	Authorization string
	// Code is the HTTP status of the answer.
	Code int
}

// tokenAccess is the access that a token permits to one repository.
type tokenAccess struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Actions []string `json:"actions"`
}

// tokenClaims are the content of a token.
type tokenClaims struct {
	jwt.RegisteredClaims
	Access []tokenAccess `json:"access"`
}

func (r *Registry) startTokens() error {
	pair, err := r.ca.Client("token-service")
	if err != nil {
		return err
	}
	key, err := jwt.ParseECPrivateKeyFromPEM(pair.Key)
	if err != nil {
		return err
	}
	cert, _ := pem.Decode(pair.Cert)
	t := &TokenService{
		host: r.opts.TokenHost, users: r.accounts, public: r.opts.Public, identity: rand.Text(), key: key,
		chain: []string{base64.StdEncoding.EncodeToString(cert.Bytes)},
	}
	if t.host == "" {
		t.host = "127.0.0.1"
	}
	ip := "127.0.0.1"
	if net.ParseIP(t.host) != nil {
		ip = t.host
	}
	t.endpoint = endpoint{addr: net.JoinHostPort(ip, "0"), handler: t, tls: r.tlsConfig()}
	r.tokens = t
	return t.endpoint.listen()
}

func (t *TokenService) close() error { return t.endpoint.close() }

// Host returns the address of the service, which differs from the registry's: "host:port".
func (t *TokenService) Host() string {
	_, port, _ := net.SplitHostPort(t.endpoint.addr)
	return net.JoinHostPort(t.host, port)
}

// URL returns the address at which tokens are issued, which is the realm in the registry's challenges.
func (t *TokenService) URL() string { return t.endpoint.scheme() + "://" + t.Host() + tokenPath }

// IdentityToken returns a token that can be used instead of the first user's password, as "identitytoken" in a Docker
// config.
func (t *TokenService) IdentityToken() string { return t.identity }

// Requests returns all requests for tokens since the start.
func (t *TokenService) Requests() []TokenRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}

// ServeHTTP issues a token, or refuses to.
func (t *TokenService) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	request := TokenRequest{
		Time: time.Now(), Method: req.Method, Service: req.FormValue("service"),
		Scopes: strings.Fields(strings.Join(req.Form["scope"], " ")), Code: http.StatusOK,
	}
	request.Authorization, _, _ = strings.Cut(req.Header.Get("Authorization"), " ")
	var known bool
	var token string
	switch request.User, known = t.authenticate(req); {
	case req.URL.Path != tokenPath:
		request.Code = http.StatusNotFound
	case !known:
		request.Code = http.StatusUnauthorized
	default:
		var err error
		if token, err = t.issue(request.User, t.grant(request.User, request.Scopes)); err != nil {
			request.Code = http.StatusInternalServerError
		}
	}
	t.mu.Lock()
	t.requests = append(t.requests, request)
	t.mu.Unlock()
	if request.Code != http.StatusOK {
		writeError(w, request.Code, "DENIED", "the token service refuses a token")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// A client that has closed the connection needs no answer.
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "access_token": token,
		"expires_in": int(tokenLifetime.Seconds())})
}

// authenticate returns the user of a request. An anonymous request is known, with an empty user.
func (t *TokenService) authenticate(req *http.Request) (user string, known bool) {
	if req.Method == http.MethodPost {
		if req.PostFormValue("grant_type") == "refresh_token" {
			return username, req.PostFormValue("refresh_token") == t.identity
		}
		user = req.PostFormValue("username")
		return user, t.users.valid(user, req.PostFormValue("password"))
	}
	user, password, given := req.BasicAuth()
	if !given {
		return "", req.Header.Get("Authorization") == ""
	}
	return user, t.users.valid(user, password)
}

// grant returns the requested scopes without those that the user may not have.
func (t *TokenService) grant(user string, scopes []string) []tokenAccess {
	granted := []tokenAccess{}
	for _, scope := range scopes {
		kind, rest, _ := strings.Cut(scope, ":")
		colon := strings.LastIndex(rest, ":")
		if colon < 0 {
			continue
		}
		access := tokenAccess{Type: kind, Name: rest[:colon], Actions: strings.Split(rest[colon+1:], ",")}
		if user == "" {
			if t.public == "" || !strings.HasPrefix(access.Name, t.public) {
				continue
			}
			access.Actions = []string{"pull"}
		}
		if t.users.isReader(user) {
			access.Actions = []string{"pull"}
		}
		granted = append(granted, access)
	}
	return granted
}

func (t *TokenService) issue(user string, access []tokenAccess) (string, error) {
	now := time.Now()
	token := jwt.NewWithClaims(tokenAlgorithm, tokenClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: tokenIssuer, Subject: user, Audience: jwt.ClaimStrings{tokenServiceName}, ID: rand.Text(),
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now),
			ExpiresAt: jwt.NewNumericDate(now.Add(tokenLifetime)),
		},
		Access: access,
	})
	token.Header["x5c"] = t.chain
	return token.SignedString(t.key)
}

// withToken adds to each request a token with all rights for the repository of the request.
func (t *TokenService) withToken(base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		var access []tokenAccess
		if repository := classify(req.Method, req.URL.Path).Repository; repository != "" {
			access = append(access, tokenAccess{Type: "repository", Name: repository,
				Actions: []string{"pull", "push", "delete"}})
		}
		token, err := t.issue(username, access)
		if err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token)
		return base.RoundTrip(req)
	})
}

// tokenUser returns the user for whom a token was issued. It does not verify the token.
func tokenUser(raw string) string {
	claims := jwt.RegisteredClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(raw, &claims); err != nil {
		return ""
	}
	return claims.Subject
}

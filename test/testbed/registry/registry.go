// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/pki"
)

// username is that of the user whom every registry has.
const username = "helmop"

// Auth is how a registry wants its clients to authenticate.
type Auth int

// The ways to authenticate.
const (
	// AuthBasic is a user's password with every request.
	AuthBasic Auth = iota
	// AuthToken is a token that a service at another address gives for a
	// user's password, as large registries do it.
	AuthToken
	// AuthNone lets everybody in.
	AuthNone
)

// Implementation is the program that a registry is.
type Implementation int

// The implementations.
const (
	// Distribution is the CNCF's registry. It has no referrers API.
	Distribution Implementation = iota
	// InProcess is the registry of go-containerregistry, in this process. It has
	// the referrers API. It does not know AuthToken.
	InProcess
)

// Options describe a Registry. The zero value of all that is not required is a
// Distribution with TLS and AuthBasic.
type Options struct {
	// Dir is the work folder: keys, logs, blobs. Required; the caller removes it after Stop.
	Dir string
	// Binaries are the programs to run. Required for Distribution.
	Binaries       *binaries.Set
	Implementation Implementation
	Auth           Auth
	// TokenHost is the host in the address of the token service for AuthToken: an address of
	// this machine ("127.0.0.2") or a name of it ("localhost"). Default: the registry's own, 127.0.0.1.
	TokenHost string
	// Public is the beginning of the names of repositories from which AuthToken lets
	// everybody pull, with a token that is given for no password. Default: none.
	Public string
	// PlainHTTP serves without TLS.
	PlainHTTP bool
	// RequireClientCert refuses clients without a certificate of the registry's authority.
	RequireClientCert bool
	// Names are further names that the certificate is good for, besides 127.0.0.1,
	// 127.0.0.2 and localhost; a Proxy can lead to the registry under such a name.
	Names []string
}

// Registry is a running registry. Its methods may be called concurrently.
type Registry struct {
	opts     Options
	ca       *pki.CA
	serving  tls.Certificate
	roots    *x509.CertPool
	accounts *accounts

	backend   *backend
	tokens    *TokenService
	front     *front
	elsewhere *Elsewhere
}

// Start starts a registry and returns when it answers. On an error nothing is
// left running.
func Start(ctx context.Context, opts Options) (*Registry, error) {
	r := &Registry{opts: opts}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the registry: %w", err), r.Stop(context.WithoutCancel(ctx)))
	}
	return r, nil
}

func (r *Registry) start(ctx context.Context) error {
	if r.opts.Implementation == InProcess && r.opts.Auth == AuthToken {
		return errors.New("the registry in this process knows no tokens; use Distribution for AuthToken")
	}
	if err := r.prepare(); err != nil {
		return err
	}
	if r.opts.Auth == AuthToken {
		if err := r.startTokens(); err != nil {
			return err
		}
	}
	var err error
	if r.opts.Implementation == InProcess {
		r.backend, err = startInProcess(r.accounts, r.opts.Auth)
	} else {
		r.backend, err = r.startDistribution(ctx)
	}
	if err != nil {
		return err
	}
	if r.elsewhere, err = r.startElsewhere(); err != nil {
		return err
	}
	r.front, err = r.startFront()
	return err
}

func (r *Registry) file(name string) string { return filepath.Join(r.opts.Dir, name) }

// prepare makes the work folder, the keys and the first user.
func (r *Registry) prepare() error {
	if err := os.MkdirAll(r.opts.Dir, 0o700); err != nil {
		return err
	}
	var err error
	if r.ca, err = pki.NewCA("helmop-testbed-registry"); err != nil {
		return err
	}
	pair, err := r.ca.Server("registry", append([]string{"127.0.0.1", "127.0.0.2", "localhost"}, r.opts.Names...)...)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"ca.crt": r.ca.PEM(), "tls.crt": pair.Cert, "tls.key": pair.Key} {
		if err := os.WriteFile(r.file(name), data, 0o600); err != nil {
			return err
		}
	}
	if r.serving, err = tls.X509KeyPair(pair.Cert, pair.Key); err != nil {
		return err
	}
	r.roots = x509.NewCertPool()
	r.roots.AppendCertsFromPEM(r.ca.PEM())
	r.accounts = newAccounts(r.file("htpasswd"))
	_, err = r.accounts.add(username)
	return err
}

// tlsConfig is that of the registry's servers, nil for those without TLS.
func (r *Registry) tlsConfig() *tls.Config {
	if r.opts.PlainHTTP {
		return nil
	}
	return &tls.Config{Certificates: []tls.Certificate{r.serving}, MinVersion: tls.VersionTLS12}
}

func (r *Registry) startFront() (*front, error) {
	config := r.tlsConfig()
	if r.opts.RequireClientCert {
		if config == nil {
			return nil, errors.New("RequireClientCert needs TLS: leave PlainHTTP away")
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, r.roots
	}
	return newFront(r.backend, r.elsewhere.URL(), config)
}

// Stop ends the registry with all that belongs to it; the work folder stays.
func (r *Registry) Stop(context.Context) error {
	var errs []error
	if r.front != nil {
		errs = append(errs, r.front.close())
	}
	if r.elsewhere != nil {
		errs = append(errs, r.elsewhere.close())
	}
	if r.tokens != nil {
		errs = append(errs, r.tokens.close())
	}
	if r.backend != nil {
		errs = append(errs, r.backend.stop())
	}
	return errors.Join(errs...)
}

// Host returns the address that clients use, "127.0.0.1:port".
func (r *Registry) Host() string { return r.front.addr }

// CA returns the certificate of the authority that signed the registry's, in PEM.
func (r *Registry) CA() []byte { return r.ca.PEM() }

// ClientCert makes a certificate that RequireClientCert accepts, for a client of this name.
func (r *Registry) ClientCert(name string) (pki.Pair, error) { return r.ca.Client(name) }

// Username returns the name of the user whom the registry has from the beginning.
func (r *Registry) Username() string { return username }

// Password returns that user's password, random for each Registry.
func (r *Registry) Password() string { return r.accounts.password(username) }

// AddUser adds a user who may do everything, or gives one a new random password, which takes
// effect at once, and returns the password.
func (r *Registry) AddUser(name string) (password string, err error) { return r.accounts.add(name) }

// AddReader adds a user who may pull, and no more, and returns the password. It takes AuthToken: passwords alone know
// no rights.
func (r *Registry) AddReader(name string) (password string, err error) {
	r.accounts.restrict(name)
	return r.accounts.add(name)
}

// RemoveUser removes a user; the next request with the password is refused. Tokens stay valid.
func (r *Registry) RemoveUser(name string) error { return r.accounts.remove(name) }

// DockerConfigJSON returns the content of a kubernetes.io/dockerconfigjson
// Secret with the registry's credentials.
func (r *Registry) DockerConfigJSON() ([]byte, error) {
	return DockerConfig(r.Host(), username, r.Password())
}

// DockerConfig returns a Docker config with the password of a user for a host, or
// for a repository ("host/path").
func DockerConfig(host, user, password string) ([]byte, error) {
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return json.Marshal(map[string]any{
		"auths": map[string]any{host: map[string]string{"username": user, "password": password, "auth": auth}},
	})
}

// Tokens returns the token service of a registry with AuthToken, else nil.
func (r *Registry) Tokens() *TokenService { return r.tokens }

// Elsewhere returns the other host to which Redirect leads.
func (r *Registry) Elsewhere() *Elsewhere { return r.elsewhere }

// PIDs returns the id of the registry's process while it runs; InProcess has none.
func (r *Registry) PIDs() []int { return r.backend.pids() }

// client speaks to a server of the registry, with all rights.
func (r *Registry) client() *http.Client { return &http.Client{Transport: r.backend.owner} }

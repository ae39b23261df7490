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

// username is the name of the user that every registry has.
const username = "helmop"

// Auth is how clients of a registry must authenticate.
type Auth int

// The ways to authenticate.
const (
	// AuthBasic requires a user's password with every request.
	AuthBasic Auth = iota
	// AuthToken requires a token, which a service at another address issues for a user's password. Large registries use
	// tokens.
	AuthToken
	// AuthNone requires no credentials.
	AuthNone
)

// Implementation is the program that serves the registry.
type Implementation int

// The implementations.
const (
	// Distribution is the CNCF's registry. It has no referrers API.
	Distribution Implementation = iota
	// InProcess is the registry of go-containerregistry, in this process. It has the referrers API, and does not support
	// AuthToken.
	InProcess
)

// Options configure a Registry. The default is a Distribution with TLS and AuthBasic.
type Options struct {
	// Dir is the work folder: keys, logs, blobs. Required; the caller removes it after Stop.
	Dir string
	// Binaries are the programs to run. Required for Distribution.
	Binaries       *binaries.Set
	Implementation Implementation
	Auth           Auth
	// TokenHost is the host in the address of the token service for AuthToken: an address of this machine ("127.0.0.2") or
	// a name of it ("localhost"). Default: the registry's own, 127.0.0.1.
	TokenHost string
	// Public is the prefix of the names of repositories that all clients may pull with AuthToken. The token for such a
	// repository needs no password. Default: none.
	Public string
	// PlainHTTP serves without TLS.
	PlainHTTP bool
	// RequireClientCert refuses clients without a certificate of the registry's authority.
	RequireClientCert bool
	// Names are further names in the certificate, besides 127.0.0.1, 127.0.0.2 and localhost. A Proxy can route such a
	// name to the registry.
	Names []string
}

// Registry is a running registry. Its methods may be called concurrently.
type Registry struct {
	opts     Options
	ca       *pki.CA
	serving  tls.Certificate
	roots    *x509.CertPool
	accounts *accounts

	backend  *backend
	tokens   *TokenService
	front    *front
	blobHost *BlobHost
}

// Start starts a registry and returns when it answers. On an error, nothing keeps running.
func Start(ctx context.Context, opts Options) (*Registry, error) {
	r := &Registry{opts: opts}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start the registry: %w", err), r.Stop(context.WithoutCancel(ctx)))
	}
	return r, nil
}

func (r *Registry) start(ctx context.Context) error {
	if r.opts.Implementation == InProcess && r.opts.Auth == AuthToken {
		return errors.New("the registry in this process does not support AuthToken: use Distribution")
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
	if r.blobHost, err = r.startBlobHost(); err != nil {
		return err
	}
	r.front, err = r.startFront()
	return err
}

func (r *Registry) file(name string) string { return filepath.Join(r.opts.Dir, name) }

// prepare creates the work folder, the keys and the first user.
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

// tlsConfig returns the TLS configuration of the registry's servers, nil for servers without TLS.
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
			return nil, errors.New("RequireClientCert needs TLS: do not set PlainHTTP")
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, r.roots
	}
	return newFront(r.backend, r.blobHost.URL(), config)
}

// Stop stops the registry and all its servers. The work folder stays.
func (r *Registry) Stop(context.Context) error {
	var errs []error
	if r.front != nil {
		errs = append(errs, r.front.close())
	}
	if r.blobHost != nil {
		errs = append(errs, r.blobHost.close())
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

// CA returns the certificate of the authority that signed the registry's certificate, in PEM.
func (r *Registry) CA() []byte { return r.ca.PEM() }

// ClientCert creates a certificate that RequireClientCert accepts, for a client of this name.
func (r *Registry) ClientCert(name string) (pki.Pair, error) { return r.ca.Client(name) }

// Username returns the name of the first user of the registry.
func (r *Registry) Username() string { return username }

// Password returns the password of the first user, random for each Registry.
func (r *Registry) Password() string { return r.accounts.password(username) }

// AddUser adds a user with all rights, or changes the password of an existing user, and returns the new random
// password. A change takes effect at once.
func (r *Registry) AddUser(name string) (password string, err error) { return r.accounts.add(name) }

// AddReader adds a user who may only pull, and returns the password. It requires AuthToken, as AuthBasic has no rights.
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

// BlobHost returns the host to which Redirect redirects by default.
func (r *Registry) BlobHost() *BlobHost { return r.blobHost }

// PIDs returns the id of the registry's process while it runs. InProcess has no process.
func (r *Registry) PIDs() []int { return r.backend.pids() }

// client sends requests to a server of the registry, with all rights.
func (r *Registry) client() *http.Client { return &http.Client{Transport: r.backend.owner} }

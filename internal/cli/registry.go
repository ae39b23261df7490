// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

const scheme = "oci://"

// registryFlags are how registries are reached.
type registryFlags struct {
	plainHTTP bool
	caFile    string
	config    string
	timeout   time.Duration
	// as is the credential instead of those of the Docker configuration; nil is none.
	as auth.CredentialFunc
}

func (f *registryFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.plainHTTP, "plain-http", false, "Talk HTTP to the registry instead of HTTPS.")
	flags.StringVar(&f.caFile, "ca-file", "", "File with PEM certificates of authorities to trust beside the system's.")
	flags.StringVar(&f.config, "registry-config", "", "Docker configuration with the credentials (default: that of Docker).")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "How long the whole command may take; 0 is without end.")
}

// bounded is a context that ends after the timeout.
func (f *registryFlags) bounded(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	if f.timeout <= 0 {
		return context.WithCancel(cmd.Context())
	}
	return context.WithTimeoutCause(cmd.Context(), f.timeout, fmt.Errorf("not done after %s (--timeout): %w", f.timeout, context.DeadlineExceeded))
}

// location is a reference as users write it: oci://host/repository, :tag or @digest.
type location struct{ registry.Reference }

// parseLocation reads a reference. What names neither a tag nor a digest has an empty Reference.
func parseLocation(text string) (location, error) {
	bare, ok := strings.CutPrefix(text, scheme)
	if !ok {
		return location{}, usageError{fmt.Errorf("%q does not begin with %s", text, scheme)}
	}
	ref, err := registry.ParseReference(bare)
	if err != nil {
		return location{}, usageError{fmt.Errorf("%q is no reference of the form %shost/repository[:tag|@digest]: %w", text, scheme, err)}
	}
	return location{ref}, nil
}

// parseArtifact reads a reference that must name an artifact.
func parseArtifact(text string) (location, error) {
	l, err := parseLocation(text)
	if err == nil && l.Reference.Reference == "" {
		err = usageError{fmt.Errorf("%q names no artifact: add :tag or @digest", text)}
	}
	return l, err
}

// name is the repository without a tag.
func (l location) name() string { return scheme + l.Registry + "/" + l.Repository }

// pinned is the reference with a digest.
func (l location) pinned(digest string) string { return l.name() + "@" + digest }

// repository is the way to the repository of a location.
func (f *registryFlags) repository(l location) (*remote.Repository, error) {
	client, err := f.client()
	if err != nil {
		return nil, err
	}
	repository := &remote.Repository{Reference: l.Reference, Client: client, PlainHTTP: f.plainHTTP, SkipReferrersGC: true}
	return repository, nil
}

// client sends requests with the credentials of the Docker configuration.
func (f *registryFlags) client() (*auth.Client, error) {
	plain, err := f.httpClient()
	if err != nil {
		return nil, err
	}
	credential := f.as
	if credential == nil {
		store, err := f.credentials()
		if err != nil {
			return nil, err
		}
		credential = credentials.Credential(store)
	}
	client := &auth.Client{Client: plain, Cache: auth.NewCache(), Credential: credential}
	client.SetUserAgent("kubectl-helmop/" + version.Version)
	return client, nil
}

// credentials is the Docker configuration. Passwords are written into it where there is no credential helper, as Docker does.
func (f *registryFlags) credentials() (credentials.Store, error) {
	options := credentials.StoreOptions{AllowPlaintextPut: true, DetectDefaultNativeStore: true}
	if f.config != "" {
		return credentials.NewStore(f.config, options)
	}
	return credentials.NewStoreFromDocker(options)
}

func (f *registryFlags) httpClient() (*http.Client, error) {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default transport of this program was replaced")
	}
	transport = transport.Clone()
	transport.ResponseHeaderTimeout = 30 * time.Second
	if f.caFile != "" {
		pool, err := withAuthorities(f.caFile)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: retry.NewTransport(transport)}, nil
}

// withAuthorities are the system's authorities and those of a file.
func withAuthorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, usageError{fmt.Errorf("--ca-file: %w", err)}
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, usageError{fmt.Errorf("--ca-file: %s has no certificate", file)}
	}
	return pool, nil
}

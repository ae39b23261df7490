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

// registryFlags are the flags for access to registries.
type registryFlags struct {
	plainHTTP bool
	caFile    string
	config    string
	timeout   time.Duration
	// as returns the credentials to use instead of the Docker configuration; nil to use the Docker configuration.
	as auth.CredentialFunc
}

func (f *registryFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.plainHTTP, "plain-http", false, "Use HTTP instead of HTTPS.")
	flags.StringVar(&f.caFile, "ca-file", "",
		"File with PEM certificates of CAs to trust in addition to the system's CAs.")
	flags.StringVar(&f.config, "registry-config", "",
		"File with the Docker configuration and its credentials (default: Docker's own).")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "Time limit for the whole command. 0 means no limit.")
}

// bounded returns a context that ends after the timeout.
func (f *registryFlags) bounded(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	if f.timeout <= 0 {
		return context.WithCancel(cmd.Context())
	}
	return context.WithTimeoutCause(cmd.Context(), f.timeout, fmt.Errorf(
		"not finished after %s (--timeout): %w", f.timeout, context.DeadlineExceeded))
}

// location is a reference as users write it: oci://host/repository, with an optional :tag or @digest.
type location struct{ registry.Reference }

// parseLocation parses a reference. Without a tag and a digest, its Reference is empty.
func parseLocation(text string) (location, error) {
	bare, ok := strings.CutPrefix(text, scheme)
	if !ok {
		return location{}, usageError{fmt.Errorf("%q does not start with %s", text, scheme)}
	}
	ref, err := registry.ParseReference(bare)
	if err != nil {
		return location{}, usageError{fmt.Errorf(
			"%q is not a reference of the form %shost/repository[:tag|@digest]: %w", text, scheme, err)}
	}
	return location{ref}, nil
}

// parseArtifact parses a reference that must have a tag or a digest.
func parseArtifact(text string) (location, error) {
	l, err := parseLocation(text)
	if err == nil && l.Reference.Reference == "" {
		err = usageError{fmt.Errorf("%q has neither a tag nor a digest; add :tag or @digest", text)}
	}
	return l, err
}

// name returns the repository without tag and digest.
func (l location) name() string { return scheme + l.Registry + "/" + l.Repository }

// pinned returns the repository with a digest.
func (l location) pinned(digest string) string { return l.name() + "@" + digest }

// repository returns a client for the repository of a location.
func (f *registryFlags) repository(l location) (*remote.Repository, error) {
	client, err := f.client()
	if err != nil {
		return nil, err
	}
	repository := &remote.Repository{Reference: l.Reference, Client: client, PlainHTTP: f.plainHTTP, SkipReferrersGC: true}
	return repository, nil
}

// client returns a client that uses the credentials of the Docker configuration.
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

// credentials returns the store of the Docker configuration. Like Docker, it stores passwords in the file if there is
// no credential helper.
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
		return nil, errors.New("internal error: http.DefaultTransport was replaced")
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

// withAuthorities returns the CAs of the system and those of a file.
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
		return nil, usageError{fmt.Errorf("--ca-file: %s contains no certificate", file)}
	}
	return pool, nil
}

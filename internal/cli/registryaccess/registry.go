// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registryaccess

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

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// Scheme is the prefix of references to charts and artifacts.
const Scheme = "oci://"

// Flags are the flags for access to registries.
type Flags struct {
	PlainHTTP bool
	// CAFile is a file with CAs that are trusted in addition to the CAs of the system.
	CAFile string
	// Config is the file of the Docker configuration. If it is empty, Docker's own file is used.
	Config string
	// Timeout is the time limit of the whole command; 0 means no limit.
	Timeout time.Duration
	// As returns the credentials. If it is nil, the Docker configuration has the credentials.
	As auth.CredentialFunc
}

// Add adds the flags.
func (f *Flags) Add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.PlainHTTP, "plain-http", false, "Use HTTP instead of HTTPS.")
	flags.StringVar(&f.CAFile, "ca-file", "",
		"File with PEM certificates of CAs to trust in addition to the system's CAs.")
	flags.StringVar(&f.Config, "registry-config", "",
		"File with the Docker configuration and its credentials (default: Docker's own).")
	flags.DurationVar(&f.Timeout, "timeout", 10*time.Minute, "Time limit for the whole command. 0 means no limit.")
}

// Bounded returns a context that ends after the timeout.
func (f *Flags) Bounded(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	if f.Timeout <= 0 {
		return context.WithCancel(cmd.Context())
	}
	return context.WithTimeoutCause(cmd.Context(), f.Timeout, fmt.Errorf(
		"not finished after %s (--timeout): %w", f.Timeout, context.DeadlineExceeded))
}

// Location is a reference as users write it: oci://host/repository, with an optional :tag or @digest.
type Location struct{ registry.Reference }

// ParseLocation parses a reference. If the text has no tag and no digest, the Reference of the result is empty.
func ParseLocation(text string) (Location, error) {
	bare, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return Location{}, kube.Usagef("%q does not start with %s", text, Scheme)
	}
	ref, err := registry.ParseReference(bare)
	if err != nil {
		return Location{}, kube.Usagef(
			"%q is not a reference of the form %shost/repository[:tag|@digest]: %v", text, Scheme, err)
	}
	return Location{ref}, nil
}

// ParseArtifact parses a reference that must have a tag or a digest.
func ParseArtifact(text string) (Location, error) {
	l, err := ParseLocation(text)
	if err == nil && l.Reference.Reference == "" {
		err = kube.Usagef("%q has neither a tag nor a digest; add :tag or @digest", text)
	}
	return l, err
}

// URL returns the repository without tag and digest.
func (l Location) URL() string { return Scheme + l.Registry + "/" + l.Repository }

// Pinned returns the repository with a digest.
func (l Location) Pinned(digest string) string { return l.URL() + "@" + digest }

// Repository returns a client for the repository of a Location.
func (f *Flags) Repository(l Location) (*remote.Repository, error) {
	client, err := f.Client()
	if err != nil {
		return nil, err
	}
	repository := &remote.Repository{Reference: l.Reference, Client: client, PlainHTTP: f.PlainHTTP, SkipReferrersGC: true}
	return repository, nil
}

// Client returns a client that uses the credentials of the Docker configuration.
func (f *Flags) Client() (*auth.Client, error) {
	plain, err := f.HTTPClient()
	if err != nil {
		return nil, err
	}
	credential := f.As
	if credential == nil {
		store, err := f.CredentialStore()
		if err != nil {
			return nil, err
		}
		credential = credentials.Credential(store)
	}
	client := &auth.Client{Client: plain, Cache: auth.NewCache(), Credential: credential}
	client.SetUserAgent("kubectl-helmop/" + version.Version)
	return client, nil
}

// CredentialStore returns the store of the Docker configuration. Without a credential helper, it stores passwords in
// the file, like Docker.
func (f *Flags) CredentialStore() (credentials.Store, error) {
	options := credentials.StoreOptions{AllowPlaintextPut: true, DetectDefaultNativeStore: true}
	if f.Config != "" {
		return credentials.NewStore(f.Config, options)
	}
	return credentials.NewStoreFromDocker(options)
}

// HTTPClient returns the client for requests to the registry, with the certificates of the flags.
func (f *Flags) HTTPClient() (*http.Client, error) {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("internal error: http.DefaultTransport was replaced")
	}
	transport = transport.Clone()
	transport.ResponseHeaderTimeout = 30 * time.Second
	if f.CAFile != "" {
		pool, err := withAuthorities(f.CAFile)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: retry.NewTransport(transport)}, nil
}

// withAuthorities returns the CAs of the system and of a file.
func withAuthorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, kube.Usagef("--ca-file: %v", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, kube.Usagef("--ca-file: %s contains no certificate", file)
	}
	return pool, nil
}

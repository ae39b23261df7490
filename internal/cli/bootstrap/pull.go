// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/pflag"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/exit"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
)

// The ways in which the cluster pulls.
const (
	pullsWithSecret  = "Secret"
	pullsAnonymously = "Anonymous"
)

// pullFlags are the flags for the pull credential of the cluster.
type pullFlags struct {
	username, password string
	stdin              bool
	config             string
	mayPush            bool
}

func (f *pullFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.username, "pull-username", "",
		"Username of a read-only account with which the cluster pulls (default: pull anonymously).")
	flags.StringVar(&f.password, "pull-password", "", "Password of the account with which the cluster pulls.")
	flags.BoolVar(&f.stdin, "pull-password-stdin", false,
		"Read the password of the account with which the cluster pulls from standard input.")
	flags.StringVar(&f.config, "pull-registry-config", "",
		"Docker configuration with the accounts with which the cluster pulls, if the two registries need different ones. "+
			"Only the accounts of these two registries are stored in the cluster.")
	flags.BoolVar(&f.mayPush, "allow-push-with-pull-credential", false,
		"Accept a credential that can push, for registries without access rights. "+
			"Anyone who reads it in the cluster can replace what the cluster runs.")
}

func (f *pullFlags) validate() error {
	switch {
	case f.username != "" && f.password == "" && !f.stdin:
		return kube.Usagef("--pull-username requires --pull-password or --pull-password-stdin")
	case f.username != "" && f.config != "":
		return kube.Usagef("--pull-username and --pull-registry-config cannot be used together")
	case f.username == "" && (f.password != "" || f.stdin):
		return kube.Usagef("--pull-password requires --pull-username")
	default:
		return nil
	}
}

// known maps registries to credentials.
type known map[string]auth.Credential

// only returns the credential for the registries of the given locations.
func only(username, password string, locations ...registryaccess.Location) known {
	all := known{}
	for _, l := range locations {
		if l.Registry != "" {
			all[l.Registry] = auth.Credential{Username: username, Password: password}
		}
	}
	return all
}

// find is an auth.CredentialFunc. Other hosts get no credential, for example the target of a redirect.
func (k known) find(_ context.Context, host string) (auth.Credential, error) {
	for name, credential := range k {
		if (registryaccess.Location{Reference: registry.Reference{Registry: name}}).Host() == host {
			return credential, nil
		}
	}
	return auth.EmptyCredential, nil
}

// dockerConfig returns a Docker configuration with only these credentials.
func (k known) dockerConfig() ([]byte, error) {
	auths := map[string]any{}
	for name, c := range k {
		auths[name] = map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))}
	}
	return json.Marshal(map[string]any{"auths": auths})
}

// credentials returns the pull credentials of the cluster; nil for anonymous pulls.
func (f *pullFlags) credentials(ctx context.Context, locations ...registryaccess.Location) (known, error) {
	switch {
	case f.username != "":
		return only(f.username, f.password, locations...), nil
	case f.config == "":
		return nil, nil
	}
	if _, err := os.Stat(f.config); err != nil {
		return nil, kube.Usagef("--pull-registry-config: %v", err)
	}
	// Credential helpers are not called, because their credentials may expire.
	store, err := credentials.NewFileStore(f.config)
	if err != nil {
		return nil, kube.Usagef("--pull-registry-config: %v", err)
	}
	all := known{}
	for _, l := range locations {
		if l.Registry == "" {
			continue
		}
		credential, err := credentialOf(ctx, store, l.Registry)
		if err != nil {
			return nil, kube.Usagef("--pull-registry-config: %s: %v", l.Registry, err)
		}
		if credential.Username == "" || credential.Password == "" {
			return nil, kube.Usagef(
				"--pull-registry-config: %s has no username and password for %s", f.config, l.Registry)
		}
		all[l.Registry] = credential
	}
	return all, nil
}

// credentialOf returns the credential for a registry. Docker stores the credential of Docker Hub under a special
// address, but some tools store it under the name of the registry.
func credentialOf(ctx context.Context, store credentials.Store, name string) (auth.Credential, error) {
	credential, err := store.Get(ctx, credentials.ServerAddressFromRegistry(name))
	if err != nil || credential != auth.EmptyCredential {
		return credential, err
	}
	return store.Get(ctx, name)
}

// puller returns the access to the registries that the cluster will have, and the name of this access.
func (b *ociCommand) puller(plan *plan) (registryaccess.Flags, string) {
	reader := b.Flags
	switch {
	case b.isCloud():
		return reader, b.provider
	case plan.pull != nil:
		reader.As = plan.pull.find
		return reader, pullsWithSecret
	default:
		reader.As = func(context.Context, string) (auth.Credential, error) { return auth.EmptyCredential, nil }
		return reader, pullsAnonymously
	}
}

// checkRights checks, before any push, that the credential of the cluster permits only pulls.
func (b *ociCommand) checkRights(ctx context.Context, plan *plan) error {
	reader, how := b.puller(plan)
	if b.isCloud() {
		b.say("the cluster pulls with the manager's identity at %s; make sure that this identity can only read", how)
		return nil
	}
	for _, l := range []registryaccess.Location{plan.provider, plan.state} {
		can, err := canPush(ctx, &reader, l)
		switch {
		case err != nil:
			return fmt.Errorf("checking whether the cluster's credential can push to %s: %w", l.URL(), err)
		case can && how == pullsAnonymously:
			b.say("warning: anyone can push to %s without a credential", l.URL())
		case can && !b.pull.mayPush:
			return kube.Usagef(
				"the account %q can push to %s: anyone who reads its password in the cluster could replace what the cluster runs; "+
					"use a read-only account, or --allow-push-with-pull-credential if the registry has no access rights",
				plan.pull[l.Registry].Username, l.URL())
		case can:
			b.say(
				"warning: the account %q can push to %s, and its password is stored in the cluster",
				plan.pull[l.Registry].Username,
				l.URL(),
			)
		}
	}
	return nil
}

// checkPull checks that the cluster can pull both artifacts. It returns the way in which the cluster pulls.
func (b *ociCommand) checkPull(ctx context.Context, plan *plan) (string, error) {
	reader, how := b.puller(plan)
	if b.isCloud() {
		return how, nil
	}
	for _, l := range []registryaccess.Location{plan.provider, plan.state} {
		repository, err := reader.Repository(l)
		if err != nil {
			return "", err
		}
		_, err = repository.Resolve(ctx, l.Reference.Reference)
		switch {
		case err == nil:
		case how == pullsAnonymously && exit.Code(err) == exit.Denied:
			return "", kube.Usagef(
				"%s cannot be pulled anonymously: %v; set --pull-username and --pull-password to a read-only account "+
					"(the credential for pushing is never stored in the cluster)", l.URL(), err)
		default:
			return "", fmt.Errorf("pulling %s with the cluster's credential: %w", l.URL(), err)
		}
	}
	b.say("the cluster pulls with: %s", how)
	return how, nil
}

// canPush reports whether the registry lets an upload start. It cancels the upload.
func canPush(ctx context.Context, f *registryaccess.Flags, l registryaccess.Location) (bool, error) {
	client, err := f.Client()
	if err != nil {
		return false, err
	}
	ctx = auth.AppendRepositoryScope(ctx, l.Reference, auth.ActionPull, auth.ActionPush)
	scheme := "https"
	if f.PlainHTTP {
		scheme = "http"
	}
	begin := fmt.Sprintf("%s://%s/v2/%s/blobs/uploads/", scheme, l.Host(), l.Repository)
	answer, err := send(ctx, client, http.MethodPost, begin)
	var refused *errcode.ErrorResponse
	switch {
	case errors.Is(err, auth.ErrBasicCredentialNotFound),
		errors.As(err, &refused) && exit.Code(refused) == exit.Denied:
		return false, nil
	case err != nil:
		return false, err
	}
	switch answer.code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotFound:
		return false, nil
	case http.StatusAccepted:
	default:
		return false, fmt.Errorf("the registry answers %q to the start of an upload", http.StatusText(answer.code))
	}
	if answer.location != "" {
		// If the request fails, the upload expires in the registry.
		_, _ = send(ctx, client, http.MethodDelete, answer.location)
	}
	return true, nil
}

// answer has the status of a response, and the Location header if there is one.
type answer struct {
	code     int
	location string
}

// send sends a request without a body and ignores the body of the response.
func send(ctx context.Context, client *auth.Client, method, url string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return answer{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	got := answer{code: resp.StatusCode}
	if at, err := resp.Location(); err == nil {
		got.location = at.String()
	}
	return got, resp.Body.Close()
}

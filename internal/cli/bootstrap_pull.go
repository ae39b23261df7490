// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

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
)

// How the cluster pulls.
const (
	pullsWithSecret  = "Secret"
	pullsAnonymously = "Anonymous"
)

// pullFlags are the credential with which the cluster pulls.
type pullFlags struct {
	username, password string
	stdin              bool
	config             string
	mayPush            bool
}

func (f *pullFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.username, "pull-username", "", "User name with which the cluster pulls, of somebody who cannot push; default: nobody, where anybody may pull.")
	flags.StringVar(&f.password, "pull-password", "", "Password with which the cluster pulls.")
	flags.BoolVar(&f.stdin, "pull-password-stdin", false, "Read the password with which the cluster pulls from standard input.")
	flags.StringVar(&f.config, "pull-registry-config", "", "Docker configuration with the user names and passwords with which the cluster pulls, where the two registries "+
		"have different ones; nothing else of it gets into the cluster.")
	flags.BoolVar(&f.mayPush, "allow-push-with-pull-credential", false,
		"Keep the credential in the cluster though it can push: for registries that know no rights. Who gets it can replace what the cluster runs.")
}

func (f *pullFlags) validate() error {
	switch {
	case f.username != "" && f.password == "" && !f.stdin:
		return usageError{errors.New("--pull-username needs --pull-password or --pull-password-stdin")}
	case f.username != "" && f.config != "":
		return usageError{errors.New("--pull-username and --pull-registry-config exclude each other")}
	case f.username == "" && (f.password != "" || f.stdin):
		return usageError{errors.New("--pull-password without --pull-username")}
	default:
		return nil
	}
}

// known are credentials by registries.
type known map[string]auth.Credential

// only is a credential for the registries of some locations.
func only(username, password string, locations ...location) known {
	all := known{}
	for _, l := range locations {
		if l.Registry != "" {
			all[l.Registry] = auth.Credential{Username: username, Password: password}
		}
	}
	return all
}

// find is an auth.CredentialFunc for these registries, and for no other host that they lead to.
func (k known) find(_ context.Context, host string) (auth.Credential, error) {
	for name, credential := range k {
		if (location{registry.Reference{Registry: name}}).Host() == host {
			return credential, nil
		}
	}
	return auth.EmptyCredential, nil
}

// dockerConfig is a Docker configuration with nothing but the credentials.
func (k known) dockerConfig() ([]byte, error) {
	auths := map[string]any{}
	for name, c := range k {
		auths[name] = map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))}
	}
	return json.Marshal(map[string]any{"auths": auths})
}

// credentials are those with which the cluster pulls; none where there are none.
func (f *pullFlags) credentials(ctx context.Context, locations ...location) (known, error) {
	switch {
	case f.username != "":
		return only(f.username, f.password, locations...), nil
	case f.config == "":
		return nil, nil
	}
	if _, err := os.Stat(f.config); err != nil {
		return nil, usageError{fmt.Errorf("--pull-registry-config: %w", err)}
	}
	// Of files with helpers only what they hold themselves is read: a helper's credential may change.
	store, err := credentials.NewFileStore(f.config)
	if err != nil {
		return nil, usageError{fmt.Errorf("--pull-registry-config: %w", err)}
	}
	all := known{}
	for _, l := range locations {
		if l.Registry == "" {
			continue
		}
		credential, err := credentialOf(ctx, store, l.Registry)
		if err != nil {
			return nil, usageError{fmt.Errorf("--pull-registry-config: %s: %w", l.Registry, err)}
		}
		if credential.Username == "" || credential.Password == "" {
			return nil, usageError{fmt.Errorf("--pull-registry-config: %s has no user name with a password for %s", f.config, l.Registry)}
		}
		all[l.Registry] = credential
	}
	return all, nil
}

// credentialOf is the credential for a registry. Docker keeps that of its Hub under an address of its own, some others under the name.
func credentialOf(ctx context.Context, store credentials.Store, name string) (auth.Credential, error) {
	credential, err := store.Get(ctx, credentials.ServerAddressFromRegistry(name))
	if err != nil || credential != auth.EmptyCredential {
		return credential, err
	}
	return store.Get(ctx, name)
}

// puller reaches registries as the cluster will, and tells how that is.
func (b *bootstrapOCI) puller(plan *bootstrapPlan) (registryFlags, string) {
	reader := b.registryFlags
	switch {
	case b.isCloud():
		return reader, b.provider
	case plan.pull != nil:
		reader.as = plan.pull.find
		return reader, pullsWithSecret
	default:
		reader.as = func(context.Context, string) (auth.Credential, error) { return auth.EmptyCredential, nil }
		return reader, pullsAnonymously
	}
}

// checkRights makes sure, before anything is pushed, that the cluster will be able to do no more than pull.
func (b *bootstrapOCI) checkRights(ctx context.Context, plan *bootstrapPlan) error {
	reader, how := b.puller(plan)
	if b.isCloud() {
		b.say("the cluster pulls with the manager's identity at %s: see that it can read only", how)
		return nil
	}
	for _, l := range []location{plan.provider, plan.state} {
		can, err := reader.canPush(ctx, l)
		switch {
		case err != nil:
			return fmt.Errorf("finding out whether the cluster's credential can push to %s: %w", l.name(), err)
		case can && how == pullsAnonymously:
			b.say("warning: anybody can push to %s", l.name())
		case can && !b.pull.mayPush:
			return usageError{fmt.Errorf("%s can push to %s: whoever gets at the cluster could replace what it runs. Give one that can only pull,"+
				" or --allow-push-with-pull-credential if the registry knows no rights", plan.pull[l.Registry].Username, l.name())}
		case can:
			b.say("warning: %s, whose password is kept in the cluster, can push to %s", plan.pull[l.Registry].Username, l.name())
		}
	}
	return nil
}

// checkPull makes sure that the cluster can pull what is there now. It tells how.
func (b *bootstrapOCI) checkPull(ctx context.Context, plan *bootstrapPlan) (string, error) {
	reader, how := b.puller(plan)
	if b.isCloud() {
		return how, nil
	}
	for _, l := range []location{plan.provider, plan.state} {
		repository, err := reader.repository(l)
		if err != nil {
			return "", err
		}
		_, err = repository.Resolve(ctx, l.Reference.Reference)
		switch {
		case err == nil:
		case how == pullsAnonymously && exitCode(err) == exitDenied:
			return "", usageError{fmt.Errorf("%s is not for everybody to pull: give the cluster a credential with --pull-username and --pull-password,"+
				" of somebody who cannot push. That for pushing is never put into the cluster: %w", l.name(), err)}
		default:
			return "", fmt.Errorf("pulling %s as the cluster will: %w", l.name(), err)
		}
	}
	b.say("the cluster pulls with: %s", how)
	return how, nil
}

// canPush finds out whether an upload may begin, and gives it up again.
func (f *registryFlags) canPush(ctx context.Context, l location) (bool, error) {
	client, err := f.client()
	if err != nil {
		return false, err
	}
	ctx = auth.AppendRepositoryScope(ctx, l.Reference, auth.ActionPull, auth.ActionPush)
	scheme := "https"
	if f.plainHTTP {
		scheme = "http"
	}
	begin := fmt.Sprintf("%s://%s/v2/%s/blobs/uploads/", scheme, l.Host(), l.Repository)
	answer, err := send(ctx, client, http.MethodPost, begin)
	var refused *errcode.ErrorResponse
	switch {
	case errors.Is(err, auth.ErrBasicCredentialNotFound),
		errors.As(err, &refused) && codesByStatus[refused.StatusCode] == exitDenied:
		return false, nil
	case err != nil:
		return false, err
	}
	switch answer.code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotFound:
		return false, nil
	case http.StatusAccepted:
	default:
		return false, fmt.Errorf("the registry answers %s to the begin of an upload", http.StatusText(answer.code))
	}
	if answer.location != "" {
		// One that is not given up expires.
		_, _ = send(ctx, client, http.MethodDelete, answer.location)
	}
	return true, nil
}

// answer is what is of interest of one: its status, and where it leads, empty if nowhere.
type answer struct {
	code     int
	location string
}

// send sends a request without a body, and reads none.
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

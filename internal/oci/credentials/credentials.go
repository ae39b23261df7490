// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"net/http"
	"time"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
)

// The values of Error.Hint for credentials that a registry refuses.
const (
	// HintNone is for a request without a credential.
	HintNone = "there are no credentials for this registry: add an entry for it to a Secret"
	// HintGiven is for a credential of Access.DockerConfigs.
	HintGiven    = "check that the account in the Secret's entry for this registry may pull from the repository"
	hintIdentity = "check that the manager's identity at the cloud provider may pull from the repository"
	hintDefault  = "the manager's own credentials were used: ask its operator, or add credentials to a Secret"
)

// Sources are the sources of credentials for an Access, in the order in which they are tried.
type Sources struct {
	configs  []DockerConfig // the configs of the Access
	provider string
	fallback func() (DockerConfig, error) // the Docker config of the manager
	clouds   *Clouds                      // nil without a CloudLogin
	// access is the Access, with the settings that the author of the HelmOp chose.
	access Access
}

// isExposed reports whether the author of the Access may be able to read the requests on a route. This is possible with
// plain HTTP, or with a proxy or certificate authority of the author. The manager does not send its own credentials on
// such a route: the author must not get them.
func (c *Sources) isExposed(r routes.Route) bool {
	return c.access.Insecure || len(c.access.CA) > 0 || r.Insecure && c.access.Proxy != nil
}

// NewSources reads the Docker configs of an Access. fallback returns the Docker config of the manager. clouds is nil if
// the manager has no CloudLogin.
func NewSources(access Access, fallback func() (DockerConfig, error), clouds *Clouds) (*Sources, error) {
	out := &Sources{provider: access.CloudProvider, fallback: fallback, clouds: clouds, access: access}
	switch {
	case out.provider == "":
	case clouds == nil:
		return nil, errors.New("the manager is not set up to log in to cloud providers")
	case access.Insecure || len(access.CA) > 0:
		return nil, errors.New("the manager's cloud identity is not used together with plain HTTP or a custom CA (ca.crt): " +
			"the author of the HelmOp could read it")
	}
	for _, data := range access.DockerConfigs {
		config, err := ParseDockerConfig(data)
		if err != nil {
			return nil, err
		}
		out.configs = append(out.configs, config)
	}
	return out, nil
}

// Source provides the credential for one registry.
type Source struct {
	// Static is the credential from a Docker config. It is empty if there is none.
	Static auth.Credential
	// Hint is the Error.Hint for a registry that refuses Static.
	Hint string
	// provider is the cloud provider to log in to. Empty means no provider. With a provider, Static is used for hosts
	// that do not belong to the provider. otherHost is true if the host is not the host in the source's URL.
	provider  string
	clouds    *Clouds
	ref       registry.Reference
	otherHost bool
}

// For returns the source of the credential for a route. It returns the first of these: the first Docker config of the
// Access with an entry, the cloud provider, the Docker config of the manager, or no credential. It skips the cloud
// provider and the Docker config of the manager on an exposed route, see isExposed, and with Access.OnlyOwnCredentials.
func (c *Sources) For(r routes.Route) (*Source, error) {
	out := &Source{clouds: c.clouds, ref: r.Ref, otherHost: r.IsOtherHost, Hint: HintNone}
	for _, config := range c.configs {
		credential, found, err := config.lookup(r.Ref, r.Insecure)
		if err != nil || found {
			out.Static, out.Hint = credential, HintGiven
			return out, err
		}
	}
	if c.access.OnlyOwnCredentials || c.isExposed(r) {
		return out, nil
	}
	config, err := c.fallback()
	if err != nil {
		return nil, err
	}
	out.provider = c.provider
	var found bool
	if out.Static, found, err = config.lookup(r.Ref, r.Insecure); found {
		out.Hint = hintDefault
	}
	return out, err
}

// ID returns strings that identify the source. They contain secrets, so the caller must hash them.
func (s *Source) ID() []string {
	return append(ID(s.Static), s.provider)
}

// ID returns strings that identify a credential. They contain secrets, so the caller must hash them.
func ID(c auth.Credential) []string {
	return []string{c.Username, c.Password, c.RefreshToken, c.AccessToken}
}

// Credential returns the credential to use now. hint is the Error.Hint for a registry that refuses this credential.
func (s *Source) Credential(ctx context.Context) (credential auth.Credential, hint string, err error) {
	if s.provider == "" {
		return s.Static, s.Hint, nil
	}
	credential, err = s.clouds.get(ctx, s.provider, s.ref)
	if s.otherHost && errors.Is(err, ocierr.ErrInvalidAccess) {
		return s.Static, s.Hint, nil
	}
	return credential, hintIdentity, err
}

// Renewable reports whether the request should be repeated, because the registry refused a cached credential of the
// cloud provider. It removes the credential from the cache. began is the start of the request.
func (s *Source) Renewable(resp *http.Response, err error, began time.Time) bool {
	if s.provider == "" {
		return false
	}
	var answer *errcode.ErrorResponse // the answer of a token service
	refused := resp != nil && resp.StatusCode == http.StatusUnauthorized ||
		errors.As(err, &answer) && answer.StatusCode == http.StatusUnauthorized
	return refused && s.clouds.dropOlder(s.provider, s.ref, began)
}

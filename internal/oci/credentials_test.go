// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

func TestCloudIdentityIsNotExposed(t *testing.T) {
	t.Parallel()
	asked := false
	c := newClient(t, func(o *Options) {
		o.CloudLogin = cloudFunc(func() { asked = true })
	})
	for name, access := range map[string]Access{
		"plain HTTP":       {CloudProvider: "gcp", Insecure: true},
		"an own authority": {CloudProvider: "gcp", CA: newAuthority(t).PEM()},
	} {
		_, err := c.Resolve(t.Context(),
			Source{URL: "oci://europe-docker.pkg.dev/p/r/x", Ref: Reference{Tag: "1"}, Access: access})
		if !errors.Is(err, ocierr.ErrInvalidAccess) || !strings.Contains(err.Error(), "cloud identity") || asked {
			t.Errorf("%s: error = %v, logged in: %v", name, err, asked)
		}
	}
}

// cloudFunc is a CloudLogin that calls a function and returns an error.
type cloudFunc func()

func (f cloudFunc) Login(context.Context, string, string) (credentials.CloudCredential, error) {
	f()
	return credentials.CloudCredential{}, errors.New("not to be called")
}

func TestHintOfRefusedCredentials(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.basic = true
	wrong := dockerConfigFor(r.host(), testUser, "planted-wrong")
	config := filepath.Join(t.TempDir(), "config.json")
	writeFile(t, config, string(wrong))
	byDefault := func(o *Options) { o.CredentialsFile = config }
	cloud := &fakeCloud{give: func(int, string, string) (credentials.CloudCredential, error) {
		return credentials.CloudCredential{Username: testUser, Password: "planted-wrong"}, nil
	}}
	for want, tc := range map[string]struct {
		access Access
		change []func(*Options)
	}{
		credentials.HintNone:  {},
		credentials.HintGiven: {Access{DockerConfigs: [][]byte{wrong}}, []func(*Options){byDefault}},
		"the manager's own credentials were used: ask its operator, or add credentials to a Secret": {Access{}, []func(*Options){byDefault}},
		"check that the manager's identity at the cloud provider may pull from the repository":      {Access{CloudProvider: "aws"}, []func(*Options){byDefault, withCloud(cloud)}},
	} {
		c := newClient(t, append(tc.change, trusting(t, r))...)
		_, err := c.Resolve(t.Context(), Source{URL: r.url(), Ref: Reference{Tag: "1.0.0"}, Access: tc.access})
		if !errors.Is(err, ocierr.ErrUnauthorized) || !strings.HasSuffix(err.Error(), "; "+want) {
			t.Errorf("error = %v, want ErrUnauthorized with the hint %q", err, want)
		}
	}
}

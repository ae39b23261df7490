// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/signing"
)

// startDistribution starts the CNCF's registry. It requires a password and does not list referrers.
func startDistribution(t *testing.T) (*registry.Registry, signing.Registry) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a process")
	}
	programs, err := binaries.Ensure(t.Context(), binaries.Options{})
	check(t, err)
	r, err := registry.Start(t.Context(), registry.Options{Dir: t.TempDir(), Binaries: programs})
	check(t, err)
	t.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(r.CA()) {
		t.Fatal("the CA is no PEM certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return r, signing.Registry{Host: r.Host(), Client: &http.Client{Transport: transport}, Username: r.Username(),
		Password: r.Password()}
}

func TestVerifyWithDistributionRegistry(t *testing.T) {
	t.Parallel()
	r, pushing := startDistribution(t)
	client := must(oci.New(oci.Options{Dir: t.TempDir()}))(t)
	t.Cleanup(client.Close)
	v := must(New(Options{Registry: client, httpClient: noNetwork()}))(t)
	access := oci.Access{CA: r.CA(), DockerConfigs: [][]byte{must(r.DockerConfigJSON())(t)}}

	key := newTestKey(t)
	sigstore := signing.NewSigstore()
	notary := signing.NewNotary("jane", time.Now().Add(time.Hour))
	keys, cosign := keyPolicy(key), keylessPolicy(sigstore)
	notation := notationPolicy(notary, signing.TrustAnyone("strict"))
	for name, tc := range map[string]struct {
		sign   func(ctx context.Context, a signing.Artifact) error
		policy Policy
		signer string
	}{
		"key-tag": {func(ctx context.Context, a signing.Artifact) error { return a.SignKeyed(ctx, key) }, keys,
			"key a.pub"},
		"key-bundle": {func(ctx context.Context, a signing.Artifact) error { return a.SignKeyedBundle(ctx, key) }, keys,
			"key a.pub"},
		"keyless-tag": {func(ctx context.Context, a signing.Artifact) error { return sigstore.SignKeyless(ctx, a, workflow) },
			cosign, workflowText},
		"keyless-bundle": {func(ctx context.Context, a signing.Artifact) error {
			return sigstore.SignKeylessBundle(ctx, a, workflow)
		}, cosign, workflowText},
		"notation": {notary.Sign, notation, notary.Subject()},
	} {
		t.Run(name, func(t *testing.T) {
			desc, err := r.PushChart(t.Context(), "signed/"+name, "1.0.0", registry.ChartFiles(map[string]string{
				"Chart.yaml": "apiVersion: v2\nname: demo\nversion: 1.0.0\ndescription: A chart\n",
			}))
			check(t, err)
			artifact := must(pushing.Artifact("signed/"+name, desc.Digest.String()))(t)
			url := "oci://" + r.Host() + "/signed/" + name
			_, err = v.Verify(t.Context(), url, artifact.Digest(), access, tc.policy)
			wantError(t, err, ErrUnsigned, "")
			check(t, tc.sign(t.Context(), artifact))
			_, err = v.Verify(t.Context(), url, artifact.Digest(), oci.Access{CA: r.CA()}, tc.policy)
			wantError(t, err, ocierr.ErrUnauthorized, "")
			result, err := v.Verify(t.Context(), url, artifact.Digest(), access, tc.policy)
			wantSigners(t, result, err, tc.signer)
		})
	}
}

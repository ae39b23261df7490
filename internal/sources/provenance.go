// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"errors"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/provenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
)

// Signers implements verification.Provenance.
func (c *Client) Signers(ctx context.Context, url, digest string, access oci.Access,
	keyrings map[string][]byte,
) ([]string, error) {
	failure := func(kind error, detail, hint string) error {
		return &ocierr.Error{Op: "verify", Subject: url + "@" + digest, Kind: kind, Detail: detail, Hint: hint}
	}
	signed, err := c.charts.Provenance(ctx, url, digest, access)
	if errors.Is(err, chartrepo.ErrNoProvenance) {
		return nil, failure(verification.ErrUnsigned, "the repository has no provenance file for the archive",
			`sign the chart with "helm package --sign", and upload the file .prov beside the archive`)
	}
	if err != nil {
		return nil, err
	}
	defer signed.Release()
	signer, err := provenance.Verify(ctx, signed.File, signed.Archive, signed.Provenance, keyrings)
	switch {
	case errors.Is(err, provenance.ErrKeyring):
		return nil, failure(verification.ErrInvalidPolicy, err.Error(), "put public keys of OpenPGP into the Secret")
	case errors.Is(err, provenance.ErrFiles):
		return nil, failure(ocierr.ErrStore, err.Error(), "")
	case err != nil:
		return nil, failure(verification.ErrUntrusted, err.Error(),
			"if you trust the signer, add the signer's public key to the Secret")
	}
	return []string{signer}, nil
}

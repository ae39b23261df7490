// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package chartrepo

import (
	"context"
	"errors"
	"io"
	"net/url"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const (
	// maxProvenance bounds a provenance file, in bytes. It has the metadata of a chart and a signature.
	maxProvenance = 1 << 20
	// provenanceTimeout bounds the requests for a provenance file, because memory is reserved meanwhile.
	provenanceTimeout = 20 * time.Second
)

// Signed is an archive with its provenance file. It holds memory until Release is called.
type Signed struct {
	// File is the name of the archive, NAME-VERSION.tgz, by the chart and the version in the index. The provenance file
	// must contain this name: otherwise a repository could offer an old signed archive as a new version.
	File string
	// Archive and Provenance are the bytes of both files. The archive may be shared with other callers: do not change it.
	Archive, Provenance []byte

	lease *bytebudget.Lease
}

// Release returns the memory of both files. The caller must not use the files afterwards.
func (s *Signed) Release() { s.lease.Release() }

// ErrNoProvenance means that the repository has no provenance file for an archive.
var ErrNoProvenance = errors.New("no provenance file")

// Provenance returns the archive with a digest and its provenance file. It waits for the memory of both files until the
// context ends. The caller must call Signed.Release.
func (c *Client) Provenance(ctx context.Context, chartURL, digest string, access oci.Access) (*Signed, error) {
	l, err := c.lookup(chartURL, access)
	if err != nil {
		return nil, err
	}
	found, err := l.entryOf(ctx, digest)
	if err != nil {
		return nil, err
	}
	content, err := c.Fetch(ctx, chartURL, digest, access)
	if err != nil {
		return nil, err
	}
	// Many calls may wait for the same pull. So reserve the memory after the pull, and before each call reads its files.
	lease, err := c.registry.Reserve(ctx, content.Layers[0].Size+maxProvenance)
	if err != nil {
		return nil, &ocierr.Error{Op: opFetch, Subject: chartURL + "@" + digest, Kind: ocierr.ErrRateLimited,
			Detail: "too much other content is being read"}
	}
	signed := &Signed{File: l.chart + "-" + found.version + ".tgz", lease: lease}
	if err := l.read(ctx, signed, found, content); err != nil {
		signed.Release()
		return nil, err
	}
	return signed, nil
}

// read reads the archive and the provenance file of an entry.
func (l *lookup) read(ctx context.Context, signed *Signed, e *entry, content *oci.Content) error {
	targets, err := l.archiveURLs(e)
	if err != nil {
		return err
	}
	if signed.Provenance, err = l.provenance(ctx, targets); err != nil {
		return err
	}
	signed.Archive, err = content.ReadLayer(ctx, content.Layers[0])
	return err
}

// provenance returns the provenance file of an archive. It tries the archive's URLs in their order.
func (l *lookup) provenance(ctx context.Context, archives []*url.URL) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, provenanceTimeout)
	defer cancel()
	for _, archive := range archives {
		target := *archive
		target.Path += ".prov"
		if target.RawPath != "" {
			target.RawPath += ".prov"
		}
		text, err := l.text(ctx, &target)
		if !errors.Is(err, ocierr.ErrNotFound) {
			return text, err
		}
	}
	return nil, ErrNoProvenance
}

// text returns a file of at most maxProvenance bytes.
func (l *lookup) text(ctx context.Context, target *url.URL) ([]byte, error) {
	resp, err := l.site.Get(ctx, transport.RequestBlob, target, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // the needed part has been read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProvenance+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxProvenance {
		return nil, &ocierr.Error{Op: opFetch, Subject: endpoint.SubjectOf(target), Kind: ocierr.ErrTooLarge,
			Detail: "the provenance file has more than 1 MiB"}
	}
	return text, nil
}

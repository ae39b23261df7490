// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"oras.land/oras-go/v2/registry/remote"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/jsonvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const (
	// maxTags bounds the list of the tags of a repository.
	maxTags = 100_000
	// maxValues bounds the JSON values in a manifest or a page of referrers. A limit on bytes is not
	// enough: "{}," needs forty times as much memory as text. The limit is far above a thousand layers
	// with annotations.
	maxValues = 50_000
	// maxTagPageValues bounds the JSON values in a page of tags: the tags and some other fields.
	maxTagPageValues = maxTags + 100
)

// valuesBody is a body that returns an error before a decoder reads too many values.
type valuesBody struct {
	io.ReadCloser
	values  jsonvalues.Counter
	limit   int
	tooMany error
}

// Read implements io.Reader.
func (b *valuesBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.values.Add(p[:n])
	if b.values.Count > b.limit {
		return 0, b.tooMany
	}
	return n, err
}

// tagsClient bounds the values in each page of tags before the protocol library decodes it, and the
// time for each page.
type tagsClient struct {
	remote.Client
	subject string
	timeout time.Duration
}

// Do implements remote.Client.
func (c tagsClient) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), c.timeout)
	resp, err := c.Client.Do(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = transport.OnClose(resp.Body, cancel)
	if resp.StatusCode == http.StatusOK {
		resp.Body = &valuesBody{ReadCloser: resp.Body, limit: maxTagPageValues, tooMany: tooManyTags(c.subject)}
	}
	return resp, nil
}

func tooManyTags(subject string) *ocierr.Error {
	return &ocierr.Error{Op: opTags, Subject: subject, Kind: ocierr.ErrTooLarge,
		Detail: fmt.Sprintf("more than %d tags", maxTags),
		Hint:   "use a tag or a digest instead of a range or a filter"}
}

func tooManyValues(subject string) *ocierr.Error {
	return &ocierr.Error{Op: opManifest, Subject: subject, Kind: ocierr.ErrTooLarge,
		Detail: fmt.Sprintf("more than %d values", maxValues)}
}

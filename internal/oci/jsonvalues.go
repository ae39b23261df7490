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
	// maxTags limits the number of tags of a repository.
	maxTags = 100_000
	// maxValues limits the number of JSON values in a manifest or in a page of referrers. A limit for the bytes is not
	// enough: in memory, "{}," needs forty times the size of its text. A manifest with a thousand annotated layers has
	// far fewer values.
	maxValues = 50_000
	// maxTagPageValues limits the number of JSON values in a page of tags. It includes a few fields beside the tags.
	maxTagPageValues = maxTags + 100
)

// valuesBody is a body that returns an error when it has too many JSON values. The decoder does not get the text that
// exceeds the limit.
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

// tagsClient limits the number of values in each page of tags before the protocol library decodes the page. It also
// limits the time for each page.
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

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package chartrepo

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const (
	opIndex   = "read the index of"
	indexFile = "index.yaml"

	// maxIndexFile bounds an index.yaml after decompression, in bytes. The indexes of the largest public repositories have
	// about 25 MB.
	maxIndexFile = 64 << 20
	// maxIndex bounds the memory that is kept for one index, in bytes. maxIndexes and maxReading are the default limits
	// for all indexes, see [NewBounded].
	maxIndex   = 24 << 20
	maxIndexes = 64 << 20
	maxReading = 4 * maxIndex
	// roomStep is the memory that is reserved at a time, in bytes.
	roomStep = 1 << 20

	// freshTime is how long an index is used without a request, so that HelmOps that are resolved at the same moment
	// share one request. unvalidatedTime is this time for a server that sends no validators: each request to such a
	// server returns the whole index.
	freshTime       = time.Second
	unvalidatedTime = time.Minute
)

// index is the part of an index.yaml that is kept in memory. Its charts do not change after it was read.
type index struct {
	*catalog
	// etag and lastModified are the validators of the server; empty if it sends none.
	etag, lastModified string
	// checked is when the server last confirmed the index.
	checked time.Time
}

func (i *index) isFresh(now time.Time) bool {
	limit := freshTime
	if i.etag+i.lastModified == "" {
		limit = unvalidatedTime
	}
	return now.Sub(i.checked) < limit
}

// index returns the index of the repository, and reads it if it may have changed.
func (l *lookup) index(ctx context.Context) (*index, error) {
	key, c := l.site.Key(), l.client
	if known, ok := c.indexes.Get(key); ok && known.isFresh(c.now()) {
		return known, nil
	}
	subject := l.repository.String()
	return oci.Once(ctx, l.site, &c.reads, indexFile, opIndex, subject, func(ctx context.Context) (*index, error) {
		known, ok := c.indexes.Get(key)
		if ok && known.isFresh(c.now()) {
			return known, nil
		}
		found, err := l.readIndex(ctx, known)
		if err != nil {
			return nil, explain(err, ocierr.ErrNotFound, "the server has no "+indexFile+" there",
				"source.url must be the URL of a chart repository, as \"helm repo add\" takes it")
		}
		c.indexes.Put(key, found, found.bytes)
		return found, nil
	})
}

// readIndex requests the index. It returns the known index with a new time if the server has no newer index.
func (l *lookup) readIndex(ctx context.Context, known *index) (*index, error) {
	header := http.Header{"Accept-Encoding": {"gzip"}}
	if known != nil && known.etag != "" {
		header.Set("If-None-Match", known.etag)
	}
	if known != nil && known.lastModified != "" {
		header.Set("If-Modified-Since", known.lastModified)
	}
	lease, err := l.client.reading.Acquire(ctx, l.site.Owner(ctx), roomStep)
	if err != nil {
		return nil, l.unreadable(err)
	}
	defer lease.Release()
	// The time of the index is the time before the request, because the index may change while it is read.
	began := l.client.now()
	resp, err := l.site.Get(ctx, transport.RequestIndex, l.repository.JoinPath(indexFile), header)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // the needed part has been read
	if resp.StatusCode == http.StatusNotModified && known != nil {
		same := *known
		same.checked = began
		return &same, nil
	}
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			return nil, l.unreadable(err)
		}
	}
	found, err := parseIndex(&limitedReader{from: body, left: maxIndexFile}, lease.Grow)
	if err != nil {
		return nil, l.unreadable(err)
	}
	return &index{catalog: found, etag: resp.Header.Get("ETag"), lastModified: resp.Header.Get("Last-Modified"),
		checked: began}, nil
}

// unreadable returns the error for an index that cannot be read.
func (l *lookup) unreadable(err error) error {
	var failure *ocierr.Error
	out := &ocierr.Error{Op: opIndex, Subject: l.repository.String(), Kind: ocierr.ErrUnsupported}
	var wrong *formatError
	switch {
	case errors.As(err, &failure):
		return failure
	case errors.Is(err, bytebudget.ErrExhausted):
		out.Kind, out.Detail = ocierr.ErrRateLimited, "too many large indexes are being read"
	case errors.Is(err, bytebudget.ErrTooLarge):
		out.Kind = ocierr.ErrTooLarge
		out.Detail = fmt.Sprintf("its entries need more than %d MiB, the manager's limit for one chart repository",
			l.client.reading.Share()>>20)
		out.Hint = "raise the memory limit of the manager, or use the chart from an OCI registry"
	case errors.Is(err, errTooLarge):
		out.Kind, out.Detail = ocierr.ErrTooLarge, err.Error()
	case errors.As(err, &wrong):
		out.Detail, out.Hint = err.Error(), "check that source.url is the URL of a chart repository"
	default: // error texts of libraries may contain text of the index
		out.Detail = "it is not an index of a chart repository, or it is damaged"
	}
	return out
}

var errTooLarge = errors.New("the index is over the limit")

// tooLarge returns an errTooLarge.
func tooLarge(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errTooLarge, fmt.Sprintf(format, args...))
}

// limitedReader reads up to a number of bytes and then fails.
type limitedReader struct {
	from io.Reader
	left int64
}

// Read implements io.Reader.
func (r *limitedReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, tooLarge("more than %d MiB", maxIndexFile>>20)
	}
	return n, err
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"net/http"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/flight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const opHead = "look up"

// Head returns the digest that a tag or a digest refers to now: of an artifact, an image or an index. It takes at most
// Options.Timeout. Concurrent calls share the requests. The error is ErrNotFound if the registry answers that it does
// not have the content. Head does not use the store. It does not replace a "+" in the tag.
func (c *Client) Head(ctx context.Context, url, reference string, access Access) (string, error) {
	subject := url + ":" + reference
	if digest.Digest(reference).Validate() == nil {
		subject = url + "@" + reference
	} else if !tagPattern.MatchString(reference) {
		return "", &ocierr.Error{Op: opHead, Subject: url, Kind: ocierr.ErrInvalidReference,
			Detail: "neither a tag nor a digest"}
	}
	e, err := c.endpoints.Endpoint(url, access)
	if err != nil {
		return "", err
	}
	call := flight.Call{Key: tenantKey(ctx, e.Key, reference), Limit: c.opts.Timeout, Op: opHead, Subject: subject}
	found, err := flight.Do(ctx, &c.heads, call, func(ctx context.Context) (digest.Digest, error) {
		found, isFinal, err := headManifest(ctx, e, opHead, subject, reference)
		if isFinal {
			return found, err
		}
		return getDigest(ctx, e, subject, reference)
	})
	return found.String(), err
}

// headManifest gets the digest of a tag or a digest by HEAD. With an error, isFinal is false if a GET may succeed or
// return a better error. A GET may succeed if the registry refuses HEAD or omits a required header. Some registries
// answer 403 or 404 because they do not support HEAD, and only the body of a GET has the error code. Failures are rare,
// so the second request costs little.
func headManifest(ctx context.Context, e *endpoint.Endpoint, op, subject, reference string,
) (found digest.Digest, isFinal bool, err error) {
	ctx, x := e.Begin(ctx)
	desc, err := e.Repository().Resolve(ctx, reference)
	if err == nil {
		return desc.Digest, true, nil
	}
	failure := x.Error(op, subject, err)
	isFinal = !errors.Is(failure, ocierr.ErrNotFound) && !errors.Is(failure, ocierr.ErrUnexpected) && !isForbidden(err)
	return "", isFinal, failure
}

func isForbidden(err error) bool {
	var answer *errcode.ErrorResponse
	return errors.As(err, &answer) && answer.StatusCode == http.StatusForbidden
}

// getDigest gets the digest of a tag or a digest by GET. Unlike pullManifest, it accepts manifests of all kinds.
func getDigest(ctx context.Context, e *endpoint.Endpoint, subject, reference string) (digest.Digest, error) {
	ctx, x := e.Begin(ctx)
	repository := e.Repository()
	repository.Client = manifestClient{Client: repository.Client, subject: subject}
	desc, body, err := repository.Manifests().FetchReference(ctx, reference)
	if err != nil {
		return "", x.Error(opHead, subject, err)
	}
	_ = body.Close() // only the digest is needed
	return desc.Digest, nil
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"cloud.google.com/go/compute/metadata"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"golang.org/x/oauth2"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// maxReason bounds the text of an SDK's error, in characters.
const maxReason = 200

var (
	// errorCode matches error codes. Other text is not shown, because it comes from the body of a response.
	errorCode = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.]{1,63}$`)
	// azureCode matches error codes of Microsoft's identity platform in a message.
	azureCode = regexp.MustCompile(`AADSTS[0-9]{1,10}`)
	urlText   = regexp.MustCompile(`[a-z][a-z0-9+]*://[^\s"]+`)
	// opaque matches text that may be a token or a part of a token, JSON web tokens first. Names and file paths have
	// shorter parts.
	opaque = regexp.MustCompile(`eyJ[A-Za-z0-9_.=-]+|[A-Za-z0-9_+=-]{24,}`)
)

// explain turns an error of an SDK into an *ocierr.Error. ctx is the caller's context.
func explain(ctx context.Context, subject, hint string, err error) *ocierr.Error {
	out := &ocierr.Error{Op: opLogin, Subject: subject, Kind: ocierr.ErrUnauthorized, Hint: hint}
	var (
		network   net.Error
		file      *fs.PathError
		operation *smithy.OperationError
	)
	inner := innermost(err)
	codes, answered := codesOf(err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return &ocierr.Error{Op: opLogin, Subject: subject, Kind: context.Canceled}
	case errors.Is(err, errIncomplete):
		out.Detail = "the cloud provider's response is incomplete"
	case errors.As(err, &operation) && operation.ServiceID == "ec2imds":
		// If the Pod has no identity, the SDK tries the identity of the instance last.
		out.Detail = "there is no identity, neither of the Pod nor of the instance"
	case answered:
		out.Detail = strings.Join(append([]string{"the cloud provider refused"}, codes...), ", ")
	case errors.As(err, &file):
		out.Detail = fmt.Sprintf("%s %s: %v", file.Op, file.Path, file.Err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(inner, &network) && network.Timeout():
		out.Kind, out.Detail = ocierr.ErrUnreachable, "the cloud provider did not respond in time"
	case errors.As(inner, &network):
		out.Kind, out.Detail = ocierr.ErrUnreachable, "the cloud provider cannot be reached: "+reason(network)
	default:
		out.Detail = reason(inner)
	}
	return out
}

// codesOf returns the error codes and HTTP statuses in an error of an SDK. answered reports whether the provider
// answered the request.
func codesOf(err error) (codes []string, answered bool) {
	add := func(code string) {
		answered = true
		if errorCode.MatchString(code) && !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	status := func(code int) {
		answered = true
		codes = append(codes, fmt.Sprintf("HTTP %d", code))
	}
	var (
		awsError    smithy.APIError
		awsAnswer   *awshttp.ResponseError
		azureLogin  *azidentity.AuthenticationFailedError
		azureAnswer *azcore.ResponseError
		gcpAnswer   *oauth2.RetrieveError
		gcpMetadata *metadata.Error
	)
	if errors.As(err, &awsError) {
		add(awsError.ErrorCode())
	}
	if errors.As(err, &awsAnswer) && awsAnswer.HTTPStatusCode() >= http.StatusBadRequest {
		status(awsAnswer.HTTPStatusCode())
	}
	if errors.As(err, &azureLogin) && azureLogin.RawResponse != nil {
		add(azureCode.FindString(err.Error()))
		status(azureLogin.RawResponse.StatusCode)
	}
	if errors.As(err, &azureAnswer) {
		add(azureAnswer.ErrorCode)
		status(azureAnswer.StatusCode)
	}
	if errors.As(err, &gcpAnswer) {
		add(gcpAnswer.ErrorCode)
		if gcpAnswer.Response != nil {
			status(gcpAnswer.Response.StatusCode)
		}
	}
	if errors.As(err, &gcpMetadata) {
		status(gcpMetadata.Code)
	}
	return codes, answered
}

// innermost removes the url.Error that net/http puts around every error. It contains the URL, and counts as a network
// error whatever its cause is.
func innermost(err error) error {
	var wrapped *url.Error
	for errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err
}

// reason returns the end of the first line of an error's text without text that may be secret. The end of the line has
// the cause.
func reason(err error) string {
	text, _, _ := strings.Cut(strings.ToValidUTF8(err.Error(), "?"), "\n")
	text = opaque.ReplaceAllString(urlText.ReplaceAllString(text, "<url>"), "…")
	if runes := []rune(text); len(runes) > maxReason {
		return "…" + string(runes[len(runes)-maxReason:])
	}
	return text
}

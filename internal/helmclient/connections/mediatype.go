// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"bufio"
	"bytes"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// jsonStart and protobufStart are the first bytes of an object in these forms.
	jsonStart, protobufStart = '{', 'k'
	// maxErrorText is the size of an error text, in bytes. The clients ignore the rest of the text.
	maxErrorText = 2 << 10
	// openAPIForm is a part of the header Accept of a request for the OpenAPI document.
	openAPIForm = "com.github.proto-openapi"
)

// logPath matches the path of the log of a container.
var logPath = regexp.MustCompile(`/api/v1/namespaces/[^/]+/pods/[^/]+/log$`)

// errNotAnObject is the error of a body that is not of the media type of its response.
var errNotAnObject = helmerr.New(helmerr.ErrUnreachable,
	"the response of the cluster cannot be decoded: its body does not have the media type in its header")

// bodyForm is the form in which the clients decode the body of a response.
type bodyForm struct {
	form bytebudget.Form
	// start is the first byte of the body after white space; zero for any byte.
	start byte
	// isErrorText is true for an error response that the clients do not decode.
	isErrorText bool
}

// formOf returns the form of a response. The API server chooses the media type, and the clients choose the decoder by
// this type: JSON, protobuf, but also YAML, which takes gigabytes for some texts, and their own type if the server
// names none. Some clients also choose the decoder by the body. So formOf permits only the types that the memory budget
// can measure. It makes the body of an error response a short text if it has another type.
func formOf(req *http.Request, resp *http.Response) (bodyForm, error) {
	given, accept := resp.Header.Get("Content-Type"), req.Header.Get("Accept")
	mediaType, _, err := mime.ParseMediaType(given)
	if err != nil {
		mediaType = ""
	}
	isError := resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices
	switch {
	case mediaType == runtime.ContentTypeJSON && (!isError || beginsWithObject(resp)):
		return bodyForm{form: bytebudget.JSON, start: jsonStart}, nil
	case mediaType == runtime.ContentTypeProtobuf && strings.Contains(accept, runtime.ContentTypeProtobuf):
		if isWatch(req) {
			return bodyForm{form: bytebudget.Protobuf}, nil // Each event begins with its length.
		}
		return bodyForm{form: bytebudget.Protobuf, start: protobufStart}, nil
	case isError:
		switch {
		case given == "", mediaType == runtime.ContentTypeJSON:
			resp.Header.Set("Content-Type", "text/plain")
		case !strings.HasPrefix(mediaType, "text/"):
			resp.Header.Set("Content-Type", "application/octet-stream")
		}
		return bodyForm{isErrorText: true}, nil
	case resp.ContentLength == 0, resp.StatusCode == http.StatusNoContent, logPath.MatchString(req.URL.Path):
		return bodyForm{}, nil
	case strings.Contains(accept, openAPIForm):
		return bodyForm{form: bytebudget.Protobuf}, nil
	case given == "":
		return bodyForm{}, helmerr.New(helmerr.ErrUnreachable, "the response of the cluster has no media type")
	}
	return bodyForm{}, helmerr.New(helmerr.ErrUnreachable,
		"the response of the cluster has the media type %q instead of JSON", truncate.Text(given, 64))
}

// beginsWithObject reports whether a body begins with a JSON object. Some proxies send error messages of other forms as
// JSON. The clients must then still see the status of the response.
func beginsWithObject(resp *http.Response) bool {
	body := bufio.NewReader(resp.Body)
	resp.Body = struct {
		io.Reader
		io.Closer
	}{body, resp.Body}
	first, err := body.Peek(1)
	return err == nil && first[0] == jsonStart
}

// checkStart reports whether a body may start with data. The caller stops when started is true.
func (f bodyForm) checkStart(data []byte) (started bool, err error) {
	if f.start == 0 {
		return true, nil
	}
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) > 0 && data[0] != f.start {
		return true, errNotAnObject
	}
	return len(data) > 0, nil
}

// content returns the part of a body that the clients receive.
func (f bodyForm) content(body io.Reader) io.Reader {
	if f.isErrorText {
		return io.LimitReader(body, maxErrorText)
	}
	return body
}

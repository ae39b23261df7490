// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmerr

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Refusals is a transport that adds the name of the object to error responses of the cluster. API servers omit the name
// if they cannot decode an object. Webhooks omit it too. Helm adds it only to errors of patches. Without the name,
// users could not find the faulty object among the objects of a chart.
type Refusals struct {
	Base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r *Refusals) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.Base.RoundTrip(req)
	if err != nil || req.GetBody == nil || !refusesObject(req.Method, resp.StatusCode) {
		return resp, err
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	sent, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	answer = nameObject(sent, answer)
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	resp.ContentLength = int64(len(answer))
	resp.Header.Set("Content-Length", strconv.Itoa(len(answer)))
	return resp, nil
}

// refusesObject reports whether a response rejects the object of the request. Otherwise it rejects the client or the
// rate of its requests.
func refusesObject(method string, code int) bool {
	return (method == http.MethodPost || method == http.MethodPut) && code >= http.StatusBadRequest &&
		code < http.StatusInternalServerError && code != http.StatusUnauthorized && code != http.StatusTooManyRequests
}

// nameObject returns an error response with the name of the object before the message, unless the message contains the
// name. It returns other responses unchanged.
func nameObject(sent, answer []byte) []byte {
	// Only these fields are decoded, because other metadata may be invalid.
	var object struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	var status metav1.Status
	if json.Unmarshal(sent, &object) != nil || json.Unmarshal(answer, &status) != nil || status.Kind != "Status" {
		return answer
	}
	name := object.Metadata.Name
	if object.Kind == "" || name == "" || strings.Contains(status.Message, strconv.Quote(name)) {
		return answer
	}
	if object.Metadata.Namespace != "" {
		name = object.Metadata.Namespace + "/" + name
	}
	status.Message = object.Kind + " " + name + ": " + status.Message
	named, err := json.Marshal(status)
	if err != nil {
		return answer
	}
	return named
}

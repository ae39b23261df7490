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

// Refusals adds the name of the object to errors of the cluster. API servers omit it if they cannot decode an object,
// webhooks omit it, too, and Helm adds it only to patches: among a hundred objects, the failing one would be unknown.
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

// refusesObject reports whether an answer is about the object that was sent, rather than about who sent it, or when.
func refusesObject(method string, code int) bool {
	return (method == http.MethodPost || method == http.MethodPut) && code >= http.StatusBadRequest &&
		code < http.StatusInternalServerError && code != http.StatusUnauthorized && code != http.StatusTooManyRequests
}

// nameObject returns the error of the API server with the name of the object before the message, unless the message has
// it. Other responses are returned unchanged.
func nameObject(sent, answer []byte) []byte {
	// Decode no more than this: the metadata itself may be faulty.
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

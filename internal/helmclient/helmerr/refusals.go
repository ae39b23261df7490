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

// Refusals has the cluster's refusals of an object name it. API servers name none where they cannot decode one, nor do
// webhooks, and Helm only names what it patches: of a hundred objects, nobody would know which.
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

// nameObject returns the API server's answer to an object, with the object's name before the message unless that has it
// already. What is no such answer, or no such object, stays as it is.
func nameObject(sent, answer []byte) []byte {
	// No more than this: what is wrong with the object may be its metadata.
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

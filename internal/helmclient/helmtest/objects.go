// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"
)

// ObjectThrough returns the configuration of a cluster behind a transport, and the object with the manifest, in the
// namespace "apps".
func ObjectThrough(t *testing.T, transport RoundTripperFunc, manifest string) (*rest.Config, kube.ResourceList) {
	t.Helper()
	config := &rest.Config{Host: "http://cluster", Transport: transport}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(manifest), object); err != nil {
		t.Fatal(err)
	}
	kind := object.GroupVersionKind()
	version := kind.GroupVersion()
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.NegotiatedSerializer = resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return config, kube.ResourceList{{Client: client, Namespace: "apps", Name: object.GetName(), Object: object,
		Mapping: &meta.RESTMapping{Resource: plural, GroupVersionKind: kind, Scope: meta.RESTScopeNamespace}}}
}

// InBubble runs a test with a fake clock. It removes the process-wide delay between the errors of informers: the last
// error may have happened outside of the bubble, and the delay would then last for decades of fake time.
func InBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	defer func() { utilruntime.ErrorHandlers = handlers }()
	synctest.Test(t, test)
}

// Kinds of objects that can end.
var (
	JobKind = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	PodKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
)

// ObjectOf returns an object as JSON. rest are further fields.
func ObjectOf(kind schema.GroupVersionKind, rest string) string {
	version, name := kind.ToAPIVersionAndKind()
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"a","namespace":"apps","resourceVersion":"1"}%s}`,
		version, name, rest)
}

// DeletingPod returns a Pod with a finalizer that is being deleted.
func DeletingPod() string {
	return strings.Replace(ObjectOf(PodKind, ""), `"name"`,
		`"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["example.com/slow"],"name"`, 1)
}

// Response returns the response to a request.
type Response = func(*http.Request) (*http.Response, error)

// Answers is a transport that sends one response after the other, and then repeats the last response.
func Answers(responses ...Response) RoundTripperFunc {
	return func(req *http.Request) (*http.Response, error) {
		answer := responses[0]
		if len(responses) > 1 {
			responses = responses[1:]
		}
		return answer(req)
	}
}

// Answer returns a response of an API server.
func Answer(code int, body string) Response {
	return func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
			Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// Status returns a response with an error.
func Status(code int, reason string) Response {
	return Answer(code, fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Status","status":"Failure","code":%d,"reason":%q,"message":"the test answers %s"}`, code,
		reason, reason))
}

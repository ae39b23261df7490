// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmerr

import (
	"encoding/json"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNameObject(t *testing.T) {
	t.Parallel()
	const (
		undecodable = `ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal object into Go struct field ConfigMap.data of type string`
		denied      = `admission webhook "check.example.com" denied the request: no`
	)
	answer := func(message string) string {
		text, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonBadRequest, Code: http.StatusBadRequest, Message: message})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, test := range map[string]struct{ sent, answer, want string }{
		"undecodable": {`{"kind":"ConfigMap","metadata":{"name":"bad","namespace":"team"}}`, answer(undecodable),
			answer("ConfigMap team/bad: " + undecodable)},
		"bad metadata": {`{"kind":"ConfigMap","metadata":{"name":"bad","namespace":"team","labels":{"a":1}}}`,
			answer(undecodable), answer("ConfigMap team/bad: " + undecodable)},
		"of the cluster": {`{"kind":"ClusterRole","metadata":{"name":"bad"}}`, answer(denied),
			answer("ClusterRole bad: " + denied)},
		"named already": {`{"kind":"Service","metadata":{"name":"bad","namespace":"team"}}`,
			answer(`Service "bad" is invalid: spec.ports: Required value`),
			answer(`Service "bad" is invalid: spec.ports: Required value`)},
		"without a name": {`{"kind":"SelfSubjectAccessReview","metadata":{}}`, answer(denied), answer(denied)},
		"no object":      {`[]`, answer(denied), answer(denied)},
		"no status":      {`{"kind":"ConfigMap","metadata":{"name":"bad"}}`, `{"message":"no"}`, `{"message":"no"}`},
		"no JSON":        {`{"kind":"ConfigMap","metadata":{"name":"bad"}}`, "bad gateway", "bad gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(nameObject([]byte(test.sent), []byte(test.answer))); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestRefusesObject(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method string
		code   int
		want   bool
	}{
		{http.MethodPost, http.StatusBadRequest, true},
		{http.MethodPut, http.StatusUnprocessableEntity, true},
		{http.MethodPost, http.StatusForbidden, true},
		{http.MethodPost, http.StatusCreated, false},
		{http.MethodPost, http.StatusUnauthorized, false},
		{http.MethodPost, http.StatusTooManyRequests, false},
		{http.MethodPost, http.StatusServiceUnavailable, false},
		{http.MethodPatch, http.StatusBadRequest, false},
		{http.MethodGet, http.StatusNotFound, false},
	} {
		if got := refusesObject(test.method, test.code); got != test.want {
			t.Errorf("%s %d: got %t", test.method, test.code, got)
		}
	}
}

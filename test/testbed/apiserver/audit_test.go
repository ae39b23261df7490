// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const sampleLog = `{"auditID":"1","requestURI":"/api/v1/secrets?watch=true","verb":"watch","user":{"username":"a"},"objectRef":{"resource":"secrets"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:05.000001Z","stage":"ResponseStarted"}
{"auditID":"2","requestURI":"/apis/apps/v1/namespaces/n/deployments/d/status","verb":"patch","user":{"username":"b"},"userAgent":"helm/3","objectRef":{"resource":"deployments","namespace":"n","name":"d","apiGroup":"apps","subresource":"status"},"responseStatus":{"code":409},"requestReceivedTimestamp":"2026-01-02T03:04:06Z"}
{"auditID":"1","requestURI":"/api/v1/secrets?watch=true","verb":"watch","user":{"username":"a"},"objectRef":{"resource":"secrets"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:05.000001Z","stage":"ResponseComplete"}
{"auditID":"3","requestURI":"/version","verb":"get","user":{"us`

// readSample reads the sample in two parts. The second part starts where the first one ended.
func readSample(t *testing.T) []Request {
	t.Helper()
	var a audit
	half := strings.Index(sampleLog, "patch")
	taken, err := a.read(strings.NewReader(sampleLog[:half]))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.read(strings.NewReader(sampleLog[taken:])); err != nil {
		t.Fatal(err)
	}
	return a.requests
}

func TestReadAudit(t *testing.T) {
	t.Parallel()
	six := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	tests := []struct {
		name    string
		filters []Filter
		want    []string
	}{
		{"counts a watch once, and ignores an incomplete line", nil, []string{"watch", "patch"}},
		{"by user", []Filter{ByUser("a")}, []string{"watch"}},
		{"by user agent", []Filter{ByUserAgent("helm")}, []string{"patch"}},
		{"writes", []Filter{Writes()}, []string{"patch"}},
		{"not writes", []Filter{Not(Writes())}, []string{"watch"}},
		{"by resource", []Filter{OnResource("deployments")}, []string{"patch"}},
		{"since includes the given time", []Filter{Since(six)}, []string{"patch"}},
		{"all filters must match", []Filter{ByUser("a"), Writes()}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := selectAll(readSample(t), tt.filters)
			var verbs []string
			for _, r := range got {
				verbs = append(verbs, r.Verb)
			}
			if strings.Join(verbs, " ") != strings.Join(tt.want, " ") {
				t.Errorf("got %v, want %v", verbs, tt.want)
			}
		})
	}
}

func TestReadAuditFields(t *testing.T) {
	t.Parallel()
	got := selectAll(readSample(t), []Filter{ByUser("b")})
	if len(got) != 1 {
		t.Fatalf("got %v", got)
	}
	want := Request{
		Time: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC), User: "b", UserAgent: "helm/3", Verb: "patch",
		Group: "apps", Resource: "deployments", Subresource: "status", Namespace: "n", Name: "d",
		URI: "/apis/apps/v1/namespaces/n/deployments/d/status", Code: 409,
	}
	if got[0] != want {
		t.Errorf("got %+v, want %+v", got[0], want)
	}
}

func TestEachRequest(t *testing.T) {
	t.Parallel()
	log := sampleLog[:strings.LastIndex(sampleLog, "\n")+1] +
		`{"auditID":"4","verb":"list","user":{"username":"a"},"impersonatedUser":{"username":"b"}}` + "\n" +
		`{"auditID":"5","verb":"get","user":{"username":"b"},"impersonatedUser":{"username":"a"}}` + "\n" +
		`{"auditID":"6","verb":"delete","user":{"username":"aa"}}` + "\n"
	var got []string
	err := eachRequest(strings.NewReader(log), "a", func(r Request) { got = append(got, r.Verb+" "+r.Impersonated) })
	if want := []string{"watch ", "watch ", "list b"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

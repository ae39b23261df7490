// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

func TestOptOutEqualsAnnotationOfAPI(t *testing.T) {
	t.Parallel()
	if optOut != addonsv1.DriftDetectionAnnotation {
		t.Errorf("%s, but the API says %s", optOut, addonsv1.DriftDetectionAnnotation)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	forbidden := func(why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "a", errors.New(why))
	}
	denied := forbidden("denied: hunter2 is no good")
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "x"}, "a", field.ErrorList{
		field.Invalid(field.NewPath("spec", "size"), "hunter2", "must be a number"),
		field.Invalid(field.NewPath("spec", "size"), "hunter2", "must be small"),
		field.Required(field.NewPath("spec", "name"), "hunter2"),
	})
	immutable := apierrors.NewInvalid(schema.GroupKind{Kind: "x"}, "a", field.ErrorList{
		field.Invalid(field.NewPath("spec"), "hunter2", "field is immutable"),
	})
	network := &url.Error{Op: "Get", URL: "https://cluster.example.com", Err: context.DeadlineExceeded}
	for _, test := range []struct {
		name, kind string
		err        error
		want       string
	}{
		{"admission", "ConfigMap", denied, "the API server responded with 403 Forbidden"},
		{"webhook", "ConfigMap", apierrors.NewBadRequest(`admission webhook "a.example.com" denied the request: no hunter2`),
			`the API server responded with 400 BadRequest: admission webhook "a.example.com" denied the request`},
		{"policy", "ConfigMap", forbidden("ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no hunter2"),
			"the API server responded with 403 Forbidden: ValidatingAdmissionPolicy 'a' with binding 'b' denied request"},
		{"rights", "ConfigMap", forbidden(`User "a" cannot patch resource "x" in API group "" in the namespace "n"`),
			`the API server responded with 403 Forbidden: User "a" cannot patch resource "x" in API group "" in the namespace "n"`},
		{"admission of a Secret", "Secret", denied, "the API server responded with 403 Forbidden"},
		{"invalid", "ConfigMap", invalid, "the API server rejects the desired values of spec.size, spec.name"},
		{"invalid Secret", "Secret", invalid, "the API server rejects the desired values of spec.size, spec.name"},
		{"immutable", "ConfigMap", immutable, "the API server rejects the desired values of spec, which are immutable: " +
			"delete the object to have it re-created from the manifest, or exclude the fields with driftDetection.ignore"},
		{"wrapped", "Secret", fmt.Errorf("hunter2: %w", denied), "the API server responded with 403 Forbidden"},
		{"network", "Secret", network, `Get "https://cluster.example.com": context deadline exceeded`},
		{"ended", "Secret", context.Canceled, "context canceled"},
		{"anything", "ConfigMap", errors.New("x\ny"), "x y"},
		{"anything of a Secret", "Secret", errors.New("hunter2"), "the request failed"},
		{"long", "ConfigMap", errors.New(strings.Repeat("x", 10000)), strings.Repeat("x", maxErrorLength-len("…")) + "…"},
		{"long answer", "ConfigMap", apierrors.NewResourceExpired(strings.Repeat("x", 10000)),
			strings.Repeat("x", maxErrorLength-len("…")) + "…"},
	} {
		got := describe(refOf("v1", test.kind), test.err)
		if want := test.kind + " n/a: " + test.want; got.Error() != want {
			t.Errorf("%s: %q, want %q", test.name, got, want)
		}
		if apierrors.ReasonForError(got) != apierrors.ReasonForError(test.err) {
			t.Errorf("%s: became %s", test.name, apierrors.ReasonForError(got))
		}
		// The wrapped errors must not contain more either.
		for err := error(got); err != nil && test.want != ""; err = errors.Unwrap(err) {
			if text := fmt.Sprintf("%+v", err); strings.Contains(text, "hunter2") {
				t.Errorf("%s: holds %s", test.name, text)
			}
		}
	}
	throttled := apierrors.NewTooManyRequests("later", 7)
	if seconds, ok := apierrors.SuggestsClientDelay(describe(refOf("v1", "Secret"), throttled)); !ok || seconds != 7 {
		t.Errorf("delay %d, %t", seconds, ok)
	}
}

func TestCompareUnreachableCluster(t *testing.T) {
	b := newBench(t)
	manifest := b.parse(strings.Repeat("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", 100))
	meant := errors.New("cut")
	b.requests.setBefore(func(*http.Request) error { return meant })
	got, err := Compare(t.Context(), b.cluster, b.release, nil, manifest)
	if err != nil || len(got.Compared) != 0 || len(got.Failed) < maxUnanswered ||
		len(got.Failed) > maxUnanswered+parallel {
		t.Fatalf("compared %v, failed %v: %v", got.Compared, got.Failed, err)
	}
	if !errors.Is(got.Failed[0], meant) {
		t.Errorf("error %v", got.Failed[0])
	}
	if made := len(b.requests.reset()); made >= maxUnanswered+parallel {
		t.Errorf("%d requests", made)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b.requests.setBefore(func(*http.Request) error {
		cancel()
		return nil
	})
	if got, err := Compare(ctx, b.cluster, b.release, nil, manifest); err != nil ||
		len(got.Compared)+len(got.Failed) > parallel {
		t.Errorf("compared %v, failed %v: %v", got.Compared, got.Failed, err)
	}
	if made := len(b.requests.reset()); made > parallel {
		t.Errorf("%d requests after the end", made)
	}
	b.requests.setBefore(nil)
	if err := Correct(t.Context(), b.cluster, Difference{Ref: refOf("v1", "ConfigMap")}); err == nil {
		t.Error("corrected what was not compared")
	}
}

// TestUnservedVersionIsNotMissing checks an object in a version that the mapper knows and the cluster no longer serves.
// The object may exist in another version.
func TestUnservedVersionIsNotMissing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1beta1", Kind: "Widget"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeNamespace)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetName("w")
	got, err := Compare(t.Context(), Cluster{Config: &rest.Config{Host: server.URL}, Mapper: mapper},
		Release{Namespace: "n", Name: "r"}, nil, []*unstructured.Unstructured{object})
	if err != nil || len(got.Failed) != 1 || len(got.Differences)+len(got.Compared) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestCompareStopsAtDeadline checks that Compare returns the objects that it compared before the deadline. It completes
// requests that it started. Its result has different errors for unresponsive objects and for objects without a request.
// A slow machine needs more time.
func TestCompareStopsAtDeadline(t *testing.T) {
	b := newBench(t)
	var err error
	for _, whole := range []time.Duration{3 * time.Second, 12 * time.Second, 48 * time.Second} {
		if err = b.stopsAtDeadline(whole); err == nil {
			return
		}
	}
	t.Error(err)
}

// stopsAtDeadline compares objects, and some of them are slow. It returns an error if the result is not as expected.
func (b *bench) stopsAtDeadline(whole time.Duration) error {
	b.Helper()
	manifest := b.parse(`
{apiVersion: v1, kind: ConfigMap, metadata: {name: hangs}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: first}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: slow-1}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: slow-2}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: slow-3}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: late}}
`)
	began := time.Now()
	b.requests.setBefore(func(request *http.Request) error {
		switch {
		case strings.HasSuffix(request.URL.Path, "/hangs"):
			<-request.Context().Done()
			return request.Context().Err()
		case strings.Contains(request.URL.Path, "/slow"):
			// This is more than two thirds of the time.
			<-time.After(time.Until(began.Add(whole * 3 / 4)))
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(b.Context(), whole)
	defer cancel()
	got, err := Compare(ctx, b.cluster, b.release, nil, manifest)
	if err != nil || !slices.Equal(got.Compared, inventory.FromObjects(manifest[1:5])) || len(got.Differences) != 4 {
		return fmt.Errorf("within %s: compared %v, %d differ: %w", whole, got.Compared, len(got.Differences), err)
	}
	if len(got.Failed) != 1 || got.Failed[0].Ref != inventory.Of(manifest[0]) ||
		!errors.Is(got.Failed[0], context.DeadlineExceeded) {
		return fmt.Errorf("within %s: failed %v", whole, got.Failed)
	}
	return nil
}

func TestErrorsQuoteNoSecrets(t *testing.T) {
	b := newBench(t)
	manifest := b.parse("{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {password: hunter2}}")
	b.install(manifest...)
	b.edit(manifest[0], `[{"op":"replace","path":"/data/password","value":"eA=="}]`)
	differences := b.compare(nil, manifest...)
	b.cluster.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return next.RoundTrip(r)
			}
			status := `{"kind":"Status","apiVersion":"v1","status":"Failure","code":400,"reason":"BadRequest","message":"denied: password hunter2 aHVudGVyMg=="}`
			return answer(r, http.StatusBadRequest, status), nil
		})
	})
	got, err := Compare(t.Context(), b.cluster, b.release, nil, manifest)
	if err != nil || len(got.Failed) != 1 {
		t.Fatalf("failed %v: %v", got.Failed, err)
	}
	for _, err := range []error{got.Failed[0], Correct(t.Context(), b.cluster, differences[0])} {
		if !apierrors.IsBadRequest(err) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "aHVu") {
			t.Errorf("error %v", err)
		}
		var answered apierrors.APIStatus
		if !errors.As(err, &answered) || answered.Status().Reason != metav1.StatusReasonBadRequest {
			t.Errorf("error %#v", err)
		}
	}
}

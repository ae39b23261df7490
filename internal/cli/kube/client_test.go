// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview/fleettest"
)

// TestFollow has an API server that fails in between.
func TestFollow(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	resource := addonsv1.GroupVersion.WithResource("helmops").GroupResource()
	busy, ended := apierrors.NewServiceUnavailable("busy"), errors.New("ended by the test")
	refused, denied := errors.New("connection refused"), apierrors.NewForbidden(resource, "h", errors.New("no"))
	for name, tc := range map[string]struct {
		// lists and watches are the results of the first requests.
		lists, watches []error
		want           error
		notes          []string
	}{
		"the first list fails": {lists: []error{busy}, want: busy},
		"a later list fails": {lists: []error{nil, busy}, watches: []error{refused}, want: ended,
			notes: []string{"connection refused", "busy"}},
		"a watch is refused": {watches: []error{denied}, want: denied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := func(errs *[]error) (err error) {
				if len(*errs) > 0 {
					err, *errs = (*errs)[0], (*errs)[1:]
				}
				return err
			}
			var notes []string
			c := &Client{Note: func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }}
			c.WithWatch = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					return errors.Join(next(&tc.lists), c.List(ctx, list, opts...))
				},
				Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption,
				) (watch.Interface, error) {
					if err := next(&tc.watches); err != nil {
						return nil, err
					}
					return c.Watch(ctx, list, opts...)
				},
			})
			lists := 0
			err := Follow(t.Context(), c, &addonsv1.HelmOpList{}, func(Change[*addonsv1.HelmOp]) (bool, error) {
				if lists++; lists == 2 {
					return false, ended
				}
				return false, nil
			})
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if !slices.EqualFunc(notes, tc.notes, strings.Contains) {
				t.Errorf("got %q, want %q", notes, tc.notes)
			}
		})
	}
}

// TestProgram expects the flags that choose the management cluster.
func TestProgram(t *testing.T) {
	t.Parallel()
	b := NewBase(Options{Program: "kubectl helmop"})
	helmOp := fleettest.Rolling(func(h *addonsv1.HelmOp) { h.Annotations["cluster.x-k8s.io/paused"] = "" })
	if got := b.Invocation().Command(helmOp, "retry"); got != "kubectl helmop retry h -n ns" {
		t.Errorf("got %q", got)
	}
	*b.ConfigFlags.Context, *b.ConfigFlags.KubeConfig = "my context", "/k"
	if got, want := b.Invocation().Command(helmOp, "retry", "--cluster", "c"),
		"kubectl helmop retry h -n ns --cluster c --context='my context' --kubeconfig=/k"; got != want {
		t.Errorf("got %q", got)
	}
	step := fleetview.NextForHelmOp(helmOp, b.Invocation())[0]
	if !strings.HasSuffix(step.Command, "/paused- --context='my context' --kubeconfig=/k") {
		t.Errorf("got %q", step.Command)
	}
}

// TestWarnings expects each warning of the API server once, as kubectl prints it.
func TestWarnings(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Warning", `299 - "a policy warns"`)
		_ = json.NewEncoder(w).Encode(&addonsv1.HelmOp{})
	}))
	t.Cleanup(server.Close)
	var errOut strings.Builder
	base := NewBase(Options{Streams: genericiooptions.IOStreams{ErrOut: &errOut}})
	empty := ""
	base.ConfigFlags.APIServer, base.ConfigFlags.KubeConfig = &server.URL, &empty
	c, err := base.Connect()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.HelmOp(t.Context(), "calico"); err != nil {
			t.Fatal(err)
		}
	}
	if got := errOut.String(); !strings.HasPrefix(got, "Warning: a policy ") || strings.Count(got, "Warning: ") != 1 {
		t.Errorf("got %q", got)
	}
}

// TestWritesAreStrict checks that the API server refuses fields that its CRDs do not have, and that the error says what
// to do.
func TestWritesAreStrict(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := apierrors.NewBadRequest("not strict").Status()
		if r.URL.Query().Get("fieldValidation") == metav1.FieldValidationStrict {
			status = apierrors.NewBadRequest(`HelmOp in version "v1alpha1" cannot be handled as a HelmOp: strict decoding ` +
				`error: unknown field "spec.new"`).Status()
		}
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(status)
	}))
	t.Cleanup(server.Close)
	base := NewBase(Options{})
	empty := ""
	base.ConfigFlags.APIServer, base.ConfigFlags.KubeConfig = &server.URL, &empty
	c, err := base.Connect()
	if err != nil {
		t.Fatal(err)
	}
	helmOp := &addonsv1.HelmOp{}
	helmOp.Namespace, helmOp.Name, helmOp.ResourceVersion = "fleet", "calico", "1"
	for verb, write := range map[string]func() error{
		"create": func() error { return c.Create(t.Context(), helmOp.DeepCopy(), client.DryRunAll) },
		"update": func() error { return c.Update(t.Context(), helmOp.DeepCopy()) },
		"patch":  func() error { return c.Patch(t.Context(), helmOp.DeepCopy(), client.MergeFrom(&addonsv1.HelmOp{})) },
	} {
		err := Explain(write())
		if err == nil || !strings.Contains(err.Error(), `unknown field "spec.new"`) ||
			!strings.Contains(err.Error(), "use kubectl helmop of the manager's version") {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

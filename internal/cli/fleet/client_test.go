// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
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
			c := &fleetClient{note: func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }}
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
			err := follow(t.Context(), c, &addonsv1.HelmOpList{}, func(change[*addonsv1.HelmOp]) (bool, error) {
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

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package resolution

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
)

// TestRegistryAccessKeepsErrorsOfReferences checks that a missing or forbidden Secret is an error in the result, which
// the conditions report. Any other error ends the pass, which is tried again.
func TestRegistryAccessKeepsErrorsOfReferences(t *testing.T) {
	t.Parallel()
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, tc := range map[string]struct {
		err    error
		passes bool
	}{
		"forbidden":   {apierrors.NewForbidden(secrets, "own", errors.New("no role")), true},
		"not found":   {apierrors.NewNotFound(secrets, "own"), true},
		"unavailable": {apierrors.NewServiceUnavailable("starting"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(controllertest.PullSecret("own", "1")).Build(),
				interceptor.Funcs{
					Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
						return tc.err
					},
				})
			r := New(Options{References: references.NewReader(c, c), Concurrency: 1})
			by, err := readAccess(t.Context(), r.options.References,
				controllertest.HelmOpWith(addonsv1.ArtifactSource{SecretRef: controllertest.SecretRef("own")}))
			if passes := err == nil; passes != tc.passes {
				t.Fatalf("error = %v", err)
			}
			if tc.passes && reasons.For(by.accessErr, reasons.ArtifactErrors, "") != addonsv1.ReferenceNotFoundReason {
				t.Errorf("the access error is %v", by.accessErr)
			}
		})
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package resolution

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// TestManyPullSecretsTakeLittleMemory checks that a pass over a HelmOp does not copy the credentials of its
// ServiceAccount, and that too large credentials are an error in the result. The test does not run in parallel, because
// it counts the memory that the process allocates.
func TestManyPullSecretsTakeLittleMemory(t *testing.T) {
	const names, limit = 100, 64 << 20
	config := strings.Repeat("x", 1<<20)
	one, many := accountOf("one"), accountOf("many")
	objects := []client.Object{one, many}
	for i := range names {
		one.ImagePullSecrets = append(one.ImagePullSecrets, corev1.LocalObjectReference{Name: "0"})
		many.ImagePullSecrets = append(many.ImagePullSecrets, corev1.LocalObjectReference{Name: fmt.Sprint(i % 3)})
	}
	for i := range 3 {
		objects = append(objects, controllertest.PullSecret(fmt.Sprint(i), config))
	}
	c := controllertest.ClientOf(objects...)
	// The fake client copies the whole object for each read of metadata. Its first version of each object is 999.
	metadata := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			obj.SetResourceVersion("999")
			return nil
		},
	})
	for account, want := range map[string]string{"one": "", "many": addonsv1.RegistryAuthenticationFailedReason} {
		reader := references.NewReader(metadata, c)
		var by *registryAccess
		var err error
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 3 {
			by, err = readAccess(t.Context(), reader,
				controllertest.HelmOpWith(addonsv1.ArtifactSource{ImagePullServiceAccountName: account}))
		}
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatalf("%s: the pass ends: %v", account, err)
		}
		if got := reasons.For(by.accessErr, reasons.ArtifactErrors, ""); got != want {
			t.Errorf("%s: got the reason %q for %v, want %q", account, got, by.accessErr, want)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > limit {
			t.Errorf("%s: %d bytes were allocated, want at most %d", account, used, limit)
		}
	}
}

func accountOf(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: controllertest.Meta(name)}
}

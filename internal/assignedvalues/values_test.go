// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package assignedvalues

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
)

func rendererOf(b *controllertest.ReleaseBench) *Renderer {
	c := b.Client()
	return &Renderer{Client: c, Live: c}
}

// TestHelmOpAtRevision checks that the HelmOp has the spec of the assigned revision.
func TestHelmOpAtRevision(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	r := rendererOf(b)
	for number, want := range map[int64]string{0: "three", 1: "one", 2: "two"} {
		b.Release.Spec.Rollout.Revision = number
		helmOp, err := r.helmOpAtRevision(t.Context(), b.Release, b.HelmOp)
		if err != nil || helmOp.Spec.Release.Name != want {
			t.Errorf("HelmOp revision %d: %v, %v", number, helmOp, err)
		}
	}
	b.Release.Spec.Rollout.Revision = 9
	if _, err := r.helmOpAtRevision(t.Context(), b.Release, b.HelmOp); !errors.Is(err, ErrOutdated) ||
		!strings.Contains(err.Error(), "HelmOp revision 9") || apierrors.IsNotFound(err) {
		t.Errorf("a revision that does not exist: %v", err)
	}
}

// TestStaysAtRevision checks when a release may be rendered from its assigned revision: not while the HelmOp is about
// to assign another spec.
func TestStaysAtRevision(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*controllertest.ReleaseBench)
		want   bool
	}{
		"no other spec assigned":           {nil, true},
		"the HelmOp is not reconciled yet": {func(b *controllertest.ReleaseBench) { b.HelmOp.Generation = 4 }, false},
		"assigned, but not cached":         {func(b *controllertest.ReleaseBench) { b.Release.Generation = 2 }, false},
		"no known revision":                {func(b *controllertest.ReleaseBench) { b.Release.Spec.Rollout = nil }, false},
		"the HelmOp is reconciled": {func(b *controllertest.ReleaseBench) {
			b.HelmOp.Generation, b.HelmOp.Status.ObservedGeneration = 4, 4
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			b.HelmOp.Generation, b.HelmOp.Status.ObservedGeneration, b.Release.Generation = 3, 3, 1
			r := rendererOf(b)
			if test.change != nil {
				test.change(b)
			}
			if stays, err := r.staysAtRevision(t.Context(), b.Release, b.HelmOp); stays != test.want || err != nil {
				t.Errorf("stays: %t, %v; want %t", stays, err, test.want)
			}
		})
	}
}

// TestUnavailableManagementCluster checks that a failure of the API server is no failure of the values.
func TestUnavailableManagementCluster(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	unavailable := apierrors.NewServiceUnavailable("starting")
	r := rendererOf(b)
	r.Live = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return unavailable
		},
	})
	_, ofRelease := r.staysAtRevision(t.Context(), b.Release, b.HelmOp)
	b.Release.Spec.Rollout.Revision = 9 // The cache does not have this revision.
	_, ofRevision := r.Revision(t.Context(), b.Release, b.HelmOp)
	for what, err := range map[string]error{"the release": ofRelease, "its revision": ofRevision} {
		if reason := reasons.ForRendering(err); !errors.Is(err, unavailable) || reason != addonsv1.ObjectReadFailedReason {
			t.Errorf("%s: %s, %v", what, reason, err)
		}
	}
}

// TestOutdatedError checks the error for values whose digests differ from the assigned digests.
func TestOutdatedError(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	outdated := func(revision *addonsv1.HelmOp) error { return outdatedError(b.Release, b.HelmOp, revision) }
	refers := b.HelmOp.DeepCopy()
	refers.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: apiutil.KindSecret, Name: "s"}}
	current := func(number int64) { b.HelmOp.Status.Rollout = &addonsv1.RolloutStatus{Revision: number} }
	if err := outdated(refers); err != ErrOutdated { //nolint:errorlint // It must be this error.
		t.Errorf("the rollout is not known: %v", err)
	}
	current(1)
	if err := outdated(refers); err != ErrOutdated { //nolint:errorlint // It must be this error.
		t.Errorf("its revision is the current one: %v", err)
	}
	current(2)
	if err := outdated(b.HelmOp); err != ErrOutdated { //nolint:errorlint // It must be this error.
		t.Errorf("it has no references: %v", err)
	}
	err := outdated(refers)
	if !errors.Is(err, ErrOutdated) || !strings.Contains(err.Error(), "HelmOp revision 1 cannot be rendered") {
		t.Errorf("another revision is current: %v", err)
	}
}

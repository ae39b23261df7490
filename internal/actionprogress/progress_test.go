// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package actionprogress

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// TestProgressDoesNotConflict checks that an action that runs long reports its progress, and that the result is one
// more write unless another program has written the object.
func TestProgressDoesNotConflict(t *testing.T) {
	for name, isShared := range map[string]bool{"alone": false, "another program writes, too": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testProgress(t, isShared) })
		})
	}
}

func testProgress(t *testing.T, isShared bool) {
	scheme := runtime.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	stored := controllertest.ReadyRelease("cni", nil)
	stored.ResourceVersion = ""
	patches := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch,
				options ...client.SubResourcePatchOption) error {
				patches++
				return c.SubResource(name).Patch(ctx, obj, patch, options...)
			},
		}).Build()
	read := func() *addonsv1.HelmOpRelease {
		t.Helper()
		release := &addonsv1.HelmOpRelease{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(stored), release); err != nil {
			t.Fatal(err)
		}
		return release
	}
	expect := func(what string) {
		t.Helper()
		<-time.After(progressInterval)
		synctest.Wait()
		if got := conditions.GetMessage(read(), addonsv1.ReadyCondition); !strings.Contains(got, what) {
			t.Errorf("the message of Ready is %q, want %q", got, what)
		}
	}
	release := read()
	before := release.DeepCopy()
	progress := Start(t.Context(), c, release, before, model.ActionInstall)
	expect("started")
	if isShared {
		other := read()
		other.Spec.ValuesDigest = "another"
		if err := c.Update(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	progress.Set("a hook")
	expect("a hook")
	progress.Stop()
	progress.Stop()
	report.SetCondition(release, addonsv1.ReadyCondition, report.True, "Ready", "done")
	release.Status.Failures = 3
	if err := report.WriteObject(t.Context(), c, before, release,
		[]string{addonsv1.ReadyCondition, addonsv1.ReleasedCondition}); err != nil {
		t.Fatal(err)
	}
	got := read()
	if !conditions.IsTrue(got, addonsv1.ReadyCondition) || got.Status.Failures != 3 ||
		(got.Spec.ValuesDigest == "another") != isShared {
		t.Errorf("%+v, %+v", got.Spec, got.Status)
	}
	// Two reports and the result; after a change by another program, two of them fail once with a conflict.
	if want := 3; !isShared && patches != want {
		t.Errorf("%d writes, want %d", patches, want)
	}
}

// TestPause checks that the caller can write the release between two reports, without a conflict.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := controllertest.ReadyRelease("cni", nil)
		stored.Status.LastError = "before the action"
		c := controllertest.StoreOf(t, stored)
		read := func() *addonsv1.HelmOpRelease {
			t.Helper()
			release := &addonsv1.HelmOpRelease{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(stored), release); err != nil {
				t.Fatal(err)
			}
			return release
		}
		release := read()
		before := release.DeepCopy()
		progress := Start(t.Context(), c, release, before, model.ActionInstall)
		defer progress.Stop()
		report := func(what string) {
			t.Helper()
			progress.Set(what)
			<-time.After(progressInterval)
			synctest.Wait()
			if got := conditions.GetMessage(read(), addonsv1.ReadyCondition); !strings.Contains(got, what) {
				t.Errorf("the message of Ready is %q, want %q", got, what)
			}
		}
		report("a schema")
		err := progress.Pause(func() error {
			begun := before.DeepCopy()
			begun.Status.Preparation = &addonsv1.ReleasePreparation{Key: "a", Count: 1}
			err := c.Status().Patch(t.Context(), begun,
				client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
			before.ResourceVersion, before.Status = begun.ResourceVersion, *begun.Status.DeepCopy()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []string{"a CRD", "rendering", "a Pod"} {
			report(step)
			if status := read().Status; status.Preparation == nil || status.LastError != "before the action" {
				t.Errorf("during %s, the status is %+v", step, status)
			}
		}
		progress.Stop()
		if got := read(); progress.isShared || before.Status.Preparation == nil ||
			before.ResourceVersion != got.ResourceVersion || release.ResourceVersion != got.ResourceVersion {
			t.Errorf("got %+v; shared: %t", got.Status, progress.isShared)
		}
	})
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// writes records the requests that write an object.
type writes struct {
	client.Client
	sent []string
	// afterObject, if set, is called after a request that writes an object.
	afterObject func(client.WithWatch) error
}

func newWrites(t *testing.T, release *addonsv1.HelmOpRelease) *writes {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return writesTo(fake.NewClientBuilder().WithScheme(scheme).WithObjects(release.DeepCopy()).
		WithStatusSubresource(release).Build())
}

// writesTo records the writes to a client.
func writesTo(c client.WithWatch) *writes {
	w := &writes{}
	w.Client = interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			w.sent = append(w.sent, "object")
			if err := c.Patch(ctx, obj, patch, options...); err != nil || w.afterObject == nil {
				return err
			}
			return w.afterObject(c)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			w.sent = append(w.sent, name)
			return c.SubResource(name).Patch(ctx, obj, patch, options...)
		},
	})
	return w
}

func condition(kind, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason,
		LastTransitionTime: metav1.NewTime(time.Unix(1e9, 0))}
}

// TestWriteObject checks that a pass writes an object with few requests, and keeps changes by other programs.
func TestWriteObject(t *testing.T) {
	t.Parallel()
	changeStatus := func(release *addonsv1.HelmOpRelease) {
		release.Status.ObservedGeneration, release.Status.Failures = 3, 2
		conditions.Set(release, condition(addonsv1.ReadyCondition, "Ours"))
	}
	addFinalizer := func(release *addonsv1.HelmOpRelease) {
		changeStatus(release)
		release.Finalizers = append(release.Finalizers, "x.example/y")
	}
	for name, tc := range map[string]struct {
		change func(*addonsv1.HelmOpRelease)
		// foreign is true if another program writes a condition of its own and a condition Ready during the pass.
		foreign, ending bool
		want            []string
		gone            bool
		// isRefused means that the finalizers are not written.
		isRefused bool
	}{
		"nothing":    {change: func(*addonsv1.HelmOpRelease) {}},
		"the status": {change: changeStatus, want: []string{"status"}},
		"the status, after a change by another program": {change: changeStatus, foreign: true,
			want: []string{"status", "status", "status"}},
		"a finalizer": {change: func(r *addonsv1.HelmOpRelease) { r.Finalizers = append(r.Finalizers, "x.example/y") },
			want: []string{"object"}},
		"a finalizer, and the status": {change: addFinalizer, want: []string{"object", "status"}},
		"a finalizer and the status, after a change by another program": {change: addFinalizer, foreign: true,
			want: []string{"object", "status", "status"}, isRefused: true},
		"an annotation and the status, after a change by another program": {
			change:  func(r *addonsv1.HelmOpRelease) { changeStatus(r); r.Annotations = map[string]string{"a": "b"} },
			foreign: true, want: []string{"object", "status", "object", "status"}},
		"the last finalizer, and the status": {
			change: func(r *addonsv1.HelmOpRelease) { changeStatus(r); r.Finalizers = nil }, ending: true,
			want: []string{"object"}, gone: true,
		},
		"the last finalizer and the status, after a change by another program": {
			change: func(r *addonsv1.HelmOpRelease) { changeStatus(r); r.Finalizers = nil }, ending: true, foreign: true,
			want: []string{"object"}, gone: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "calico-one", Finalizers: []string{addonsv1.HelmOpReleaseFinalizer},
			}}
			w, key := newWrites(t, stored), client.ObjectKeyFromObject(stored)
			if tc.ending {
				if err := w.Delete(t.Context(), stored); err != nil {
					t.Fatal(err)
				}
			}
			read := &addonsv1.HelmOpRelease{}
			if err := w.Get(t.Context(), key, read); err != nil {
				t.Fatal(err)
			}
			if tc.foreign {
				theirs := read.DeepCopy()
				conditions.Set(theirs, condition("Theirs", "Theirs"))
				conditions.Set(theirs, condition(addonsv1.ReadyCondition, "Theirs"))
				if err := w.Status().Update(t.Context(), theirs); err != nil {
					t.Fatal(err)
				}
			}
			before := read.DeepCopy()
			tc.change(read)
			if err := report.WriteObject(t.Context(), w, before, read, releaseConditions); apierrors.IsConflict(err) !=
				tc.isRefused || err != nil && !tc.isRefused {
				t.Fatal(err)
			}
			if tc.isRefused {
				read.Finalizers = before.Finalizers
			}
			if !slices.Equal(w.sent, tc.want) {
				t.Errorf("sent %q, want %q", w.sent, tc.want)
			}
			got := &addonsv1.HelmOpRelease{}
			if err := w.Get(t.Context(), key, got); (err != nil) != tc.gone {
				t.Fatalf("gone: %v, want %t", err, tc.gone)
			}
			if tc.gone {
				return
			}
			if !slices.Equal(got.Finalizers, read.Finalizers) {
				t.Errorf("the finalizers are %q, want %q", got.Finalizers, read.Finalizers)
			}
			if got.Status.Failures != read.Status.Failures || got.Status.ObservedGeneration != read.Status.ObservedGeneration {
				t.Errorf("the status is %+v, want %+v", got.Status, read.Status)
			}
			for kind, reason := range map[string]string{
				addonsv1.ReadyCondition: conditions.GetReason(read, addonsv1.ReadyCondition),
				"Theirs":                map[bool]string{true: "Theirs"}[tc.foreign],
			} {
				if found := conditions.GetReason(got, kind); found != reason {
					t.Errorf("the condition %s has the reason %q, want %q", kind, found, reason)
				}
			}
		})
	}
}

// TestWriteObjectKeepsForeignFinalizers has another program that adds a finalizer and removes one after a pass has read
// the object. The pass must neither remove the new finalizer nor add the old one again. The next pass writes its own.
func TestWriteObjectKeepsForeignFinalizers(t *testing.T) {
	t.Parallel()
	for name, changesStatus := range map[string]bool{"only a finalizer": false, "a finalizer and the status": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "calico-one",
				Finalizers: []string{"theirs.example/old"}}}
			w, key := newWrites(t, stored), client.ObjectKeyFromObject(stored)
			get := func() *addonsv1.HelmOpRelease {
				release := &addonsv1.HelmOpRelease{}
				if err := w.Get(t.Context(), key, release); err != nil {
					t.Fatal(err)
				}
				return release
			}
			write := func(read *addonsv1.HelmOpRelease) error {
				before := read.DeepCopy()
				read.Finalizers = append(read.Finalizers, addonsv1.HelmOpReleaseFinalizer)
				if changesStatus {
					read.Status.Failures = 2
				}
				return report.WriteObject(t.Context(), w, before, read, releaseConditions)
			}
			read, theirs := get(), get()
			theirs.Finalizers = []string{"theirs.example/new"}
			if err := w.Update(t.Context(), theirs); err != nil {
				t.Fatal(err)
			}
			if err := write(read); !apierrors.IsConflict(err) {
				t.Errorf("the write is not refused: %v", err)
			}
			got := get()
			if !slices.Equal(got.Finalizers, theirs.Finalizers) || (got.Status.Failures == 2) != changesStatus {
				t.Errorf("finalizers %q, %d failures", got.Finalizers, got.Status.Failures)
			}
			if err := write(got); err != nil {
				t.Error(err)
			}
			want := []string{"theirs.example/new", addonsv1.HelmOpReleaseFinalizer}
			if got := get(); !slices.Equal(got.Finalizers, want) {
				t.Errorf("the finalizers are %q, want %q", got.Finalizers, want)
			}
		})
	}
}

// TestWriteObjectBetweenRequests checks that changes by another program between the two requests of a write stay.
func TestWriteObjectBetweenRequests(t *testing.T) {
	t.Parallel()
	stored := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "calico-one",
		Finalizers: []string{"theirs.example/old"}}}
	w, key := newWrites(t, stored), client.ObjectKeyFromObject(stored)
	read := &addonsv1.HelmOpRelease{}
	if err := w.Get(t.Context(), key, read); err != nil {
		t.Fatal(err)
	}
	want := []string{addonsv1.HelmOpReleaseFinalizer, "theirs.example/new"}
	w.afterObject = func(c client.WithWatch) error {
		w.afterObject = nil
		theirs := &addonsv1.HelmOpRelease{}
		if err := c.Get(t.Context(), key, theirs); err != nil {
			return err
		}
		theirs.Finalizers = want
		if err := c.Update(t.Context(), theirs); err != nil {
			return err
		}
		conditions.Set(theirs, condition("Theirs", "Theirs"))
		return c.Status().Update(t.Context(), theirs)
	}
	before := read.DeepCopy()
	read.Finalizers = append(read.Finalizers, addonsv1.HelmOpReleaseFinalizer)
	read.Status.Failures = 2
	conditions.Set(read, condition(addonsv1.ReadyCondition, "Ours"))
	if err := report.WriteObject(t.Context(), w, before, read, releaseConditions); err != nil {
		t.Fatal(err)
	}
	got := &addonsv1.HelmOpRelease{}
	if err := w.Get(t.Context(), key, got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Finalizers, want) {
		t.Errorf("the finalizers are %q, want %q", got.Finalizers, want)
	}
	if got.Status.Failures != 2 || conditions.GetReason(got, "Theirs") != "Theirs" ||
		conditions.GetReason(got, addonsv1.ReadyCondition) != "Ours" {
		t.Errorf("the status is %+v", got.Status)
	}
	if sent := []string{"object", "status", "status", "status"}; !slices.Equal(w.sent, sent) {
		t.Errorf("sent %q, want %q", w.sent, sent)
	}
}

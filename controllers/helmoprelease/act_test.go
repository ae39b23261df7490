// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// TestFirstRenderingCountsAsAttempt checks that the status has a failed attempt if the manager stops during the first
// rendering of an artifact. The result of the attempt must replace this failure.
func TestFirstRenderingCountsAsAttempt(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	install := decide.Decision{Action: model.ActionInstall, Failures: 2}
	for name, tc := range map[string]struct {
		change   func(*Reconciler, *releasePass)
		decision decide.Decision
		want     int32
	}{
		"the first time":    {decision: install, want: 3},
		"an uninstallation": {decision: decide.Decision{Action: model.ActionUninstall}},
		"rendered before": {decision: install, change: func(r *Reconciler, p *releasePass) {
			r.rendered.Note(install.Action, p.release.Spec.Artifact.Digest, p.desired, helmclient.Result{},
				nil)
		}},
		"an earlier rendering exceeded its limits": {decision: install, want: 3, change: func(r *Reconciler, p *releasePass) {
			r.rendered.Note(install.Action, p.release.Spec.Artifact.Digest, p.desired, helmclient.Result{},
				&helmerr.Error{Kind: helmerr.ErrRenderLimit})
		}},
		"the chart rejected the same attempt": {decision: install, change: func(r *Reconciler, p *releasePass) {
			r.rendered.Note(install.Action, p.release.Spec.Artifact.Digest, p.desired, helmclient.Result{},
				&helmerr.Error{Kind: helmerr.ErrChartFailed})
		}},
		"the chart rejected other values": {decision: install, want: 3, change: func(r *Reconciler, p *releasePass) {
			r.rendered.Note(install.Action, p.release.Spec.Artifact.Digest, model.Desired{ArtifactDigest: "a",
				ValuesDigest: "v"}, helmclient.Result{}, &helmerr.Error{Kind: helmerr.ErrChartFailed})
		}},
		"the Cluster could not be reached": {decision: install, want: 3, change: func(r *Reconciler, p *releasePass) {
			r.rendered.Note(install.Action, p.release.Spec.Artifact.Digest, p.desired, helmclient.Result{},
				&helmerr.Error{Kind: helmerr.ErrUnreachable})
		}},
		"an adoption that would change the release": {decision: install, change: func(r *Reconciler, p *releasePass) {
			r.rendered.Note(model.ActionAdopt, p.release.Spec.Artifact.Digest, p.desired, helmclient.Result{},
				&helmerr.Error{Kind: helmerr.ErrWouldChange})
		}},
		"the release is made from it": {decision: install, change: func(_ *Reconciler, p *releasePass) {
			p.before.Status.Release = &addonsv1.ReleaseObservation{ArtifactDigest: p.release.Spec.Artifact.Digest}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := controllertest.ReadyRelease("cni", nil)
			stored.ResourceVersion = ""
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).WithStatusSubresource(stored).Build()
			read := func() *addonsv1.HelmOpRelease {
				release := &addonsv1.HelmOpRelease{}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(stored), release); err != nil {
					t.Fatal(err)
				}
				return release
			}
			now := time.Unix(1_800_000_000, 0)
			r := &Reconciler{client: c, now: func() time.Time { return now }}
			release := read()
			release.Status.Release = nil
			p := &releasePass{releaseScope: &releaseScope{release: release, before: release.DeepCopy()},
				desired: model.Desired{ArtifactDigest: "a"}}
			if tc.change != nil {
				tc.change(r, p)
			}
			before := read().Status.Failures
			if err := r.countAttempt(t.Context(), p, tc.decision); err != nil {
				t.Fatal(err)
			}
			counted := read()
			if tc.want == 0 {
				if counted.Status.Failures != before {
					t.Errorf("%d failures, want none to be counted", counted.Status.Failures)
				}
				return
			}
			at := metav1.NewTime(now.Add(-time.Second))
			if counted.Status.Failures != tc.want || !counted.Status.LastAttemptedAt.Equal(&at) ||
				counted.Status.LastError == "" {
				t.Errorf("status %+v", counted.Status)
			}
			past := (&releasePass{releaseScope: &releaseScope{release: counted}, desired: p.desired}).past()
			if past.Failures != int(tc.want) || past.RetryRequested {
				t.Errorf("the next manager finds %+v", past)
			}
			// The attempt did not reach the cluster, so it does not count.
			if err := report.WriteObject(t.Context(), c, p.before, release, releaseConditions); err != nil {
				t.Fatal(err)
			}
			if after := read(); after.Status.Failures != before || after.Status.LastError != release.Status.LastError {
				t.Errorf("after the result: %+v", after.Status)
			}
		})
	}
}

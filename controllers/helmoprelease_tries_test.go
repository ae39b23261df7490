/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
)

// triedPass is a pass over a release whose last try, at what is wanted now, failed twice.
func triedPass() *releasePass {
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Name: "one", Generation: 2}}
	p := &releasePass{releaseScope: &releaseScope{release: release, helmOp: &addonsv1.HelmOp{}}, desired: helmclient.Desired{ArtifactDigest: "a"}}
	release.Status = addonsv1.HelmOpReleaseStatus{
		Failures: 2, LastAttemptedRevision: attemptOf(p.desired), LastAttemptedGeneration: 2, LastAttemptedAt: metav1.NewTime(time.Unix(1_800_000_000, 0)),
	}
	return p
}

func TestPastOf(t *testing.T) {
	t.Parallel()
	annotate := func(obj metav1.Object, value string) {
		obj.SetAnnotations(map[string]string{addonsv1.RetryRequestedAtAnnotation: value})
	}
	for name, tc := range map[string]struct {
		change    func(p *releasePass)
		failures  int
		requested bool
	}{
		"as it was":               {func(*releasePass) {}, 2, false},
		"something else wanted":   {func(p *releasePass) { p.desired.ArtifactDigest = "b" }, 0, false},
		"spec changed":            {func(p *releasePass) { p.release.Generation = 3 }, 2, true},
		"request at the release":  {func(p *releasePass) { annotate(p.release, "now") }, 2, true},
		"request at the HelmOp":   {func(p *releasePass) { annotate(p.helmOp, "now") }, 2, true},
		"request already met":     {func(p *releasePass) { annotate(p.release, "now"); p.release.Status.LastRetryRequest = "now" }, 2, false},
		"long request":            {func(p *releasePass) { annotate(p.release, strings.Repeat("n", 100)) }, 2, true},
		"generation is not known": {func(p *releasePass) { p.release.Status.LastAttemptedGeneration = 0; p.release.Generation = 9 }, 2, false},
	} {
		p := triedPass()
		tc.change(p)
		past := pastOf(p)
		if past.Failures != tc.failures || past.RetryRequested != tc.requested || (past.Failures > 0) != !past.FailedAt.IsZero() {
			t.Errorf("%s: %+v", name, past)
		}
		if request := retryRequest(p.releaseScope); len(request) > maxResolveRequest {
			t.Errorf("%s: the request takes %d characters", name, len(request))
		}
	}
}

// After a move of the management cluster, the annotation is there and the status is not: nobody asks anew. What is asked for
// later is heard, also of a release that nothing was tried at since.
func TestLostStatusIsNoRequest(t *testing.T) {
	t.Parallel()
	p := triedPass()
	p.release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "long ago"}
	p.release.Status = addonsv1.HelmOpReleaseStatus{}
	r := &releaseReconciler{}
	for range 2 {
		r.settleRequests(p)
		if pastOf(p).RetryRequested {
			t.Fatal("an old request counts as a new one")
		}
	}
	p.release.Annotations[addonsv1.RetryRequestedAtAnnotation] = "now"
	r.settleRequests(p)
	if !pastOf(p).RetryRequested {
		t.Error("a request is not heard")
	}
	p.release.Annotations[addonsv1.RetryRequestedAtAnnotation] = "long ago"
	p.release.Generation++
	r.settleRequests(p)
	if !pastOf(p).RetryRequested {
		t.Error("a change of the spec is not heard")
	}
}

func TestRecordAttempt(t *testing.T) {
	t.Parallel()
	failed := &helmclient.Error{Message: "no"}
	changed := helmclient.Result{StorageChanged: true, Revision: 3}
	for name, tc := range map[string]struct {
		decision helmclient.Decision
		result   helmclient.Result
		err      error
		failures int32
		history  int
	}{
		"upgrade":                   {helmclient.Decision{Action: helmclient.ActionUpgrade, Failures: 2}, changed, nil, 0, 1},
		"failed upgrade":            {helmclient.Decision{Action: helmclient.ActionUpgrade, Failures: 2}, changed, failed, 3, 1},
		"failed without a change":   {helmclient.Decision{Action: helmclient.ActionUpgrade, Failures: 2}, helmclient.Result{}, failed, 2, 0},
		"rollback keeps the count":  {helmclient.Decision{Action: helmclient.ActionRollback, Failures: 3}, changed, nil, 3, 1},
		"failed rollback as well":   {helmclient.Decision{Action: helmclient.ActionRollback, Failures: 3}, changed, failed, 3, 1},
		"uninstall keeps the count": {helmclient.Decision{Action: helmclient.ActionUninstall, Failures: 1}, changed, nil, 1, 1},
		"failed test":               {helmclient.Decision{Action: helmclient.ActionTest, Failures: 1}, changed, failed, 2, 1},
	} {
		p := triedPass()
		(&releaseReconciler{now: time.Now}).recordAttempt(p, tc.decision, tc.result, tc.err)
		if got := p.release.Status; got.Failures != tc.failures || len(got.History) != tc.history {
			t.Errorf("%s: %d failures, %d entries", name, got.Failures, len(got.History))
		}
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// triedPass returns a pass over a release whose last two attempts at the desired state failed.
func triedPass() *releasePass {
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Name: "one", Generation: 2}}
	p := &releasePass{releaseScope: &releaseScope{release: release, helmOp: &addonsv1.HelmOp{}},
		desired: model.Desired{ArtifactDigest: "a"}}
	release.Status = addonsv1.HelmOpReleaseStatus{
		Failures: 2, LastAttemptedAt: metav1.NewTime(time.Unix(1_800_000_000, 0)),
		ReleaseBookkeeping: addonsv1.ReleaseBookkeeping{LastAttemptedDigest: attemptDigest(p.desired),
			LastAttemptedGeneration: 2},
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
		"unchanged":              {func(*releasePass) {}, 2, false},
		"another desired state":  {func(p *releasePass) { p.desired.ArtifactDigest = "b" }, 0, false},
		"spec changed":           {func(p *releasePass) { p.release.Generation = 3 }, 2, true},
		"request at the release": {func(p *releasePass) { annotate(p.release, "now") }, 2, true},
		"request at the HelmOp":  {func(p *releasePass) { annotate(p.helmOp, "now") }, 2, true},
		"request already met": {func(p *releasePass) {
			annotate(p.release, "now")
			p.release.Status.LastRetryRequest = "now"
		}, 2, false},
		"long request": {func(p *releasePass) { annotate(p.release, strings.Repeat("n", 100)) }, 2, true},
		"generation is not known": {func(p *releasePass) {
			p.release.Status.LastAttemptedGeneration = 0
			p.release.Generation = 9
		}, 2, false},
	} {
		p := triedPass()
		tc.change(p)
		past := pastOf(p)
		if past.Failures != tc.failures || past.RetryRequested != tc.requested ||
			(past.Failures > 0) != !past.FailedAt.IsZero() {
			t.Errorf("%s: %+v", name, past)
		}
		if request := retryRequest(p.releaseScope); len(request) > requeue.MaxResolveRequest {
			t.Errorf("%s: the request takes %d characters", name, len(request))
		}
	}
}

// TestIsUnproven checks that only a revision that was watched after its deployment can be unproven.
func TestIsUnproven(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		memory *addonsv1.HealthStatus
		want   bool
	}{
		"not healthy yet": {&addonsv1.HealthStatus{Revision: 2, Deployed: true}, true},
		"found unhealthy": {&addonsv1.HealthStatus{Revision: 2, Deployed: true, Failed: true}, true},
		"healthy":         {&addonsv1.HealthStatus{Revision: 2, Deployed: true, WasHealthy: true}, false},
		"no more healthy": {&addonsv1.HealthStatus{Revision: 2, Deployed: true, WasHealthy: true, Lost: true},
			false},
		"not watched for some time": {&addonsv1.HealthStatus{Revision: 2, Missed: true}, true},
		"observed healthy later":    {&addonsv1.HealthStatus{Revision: 2, Missed: true, WasHealthy: true}, false},
		"not watched at first":      {&addonsv1.HealthStatus{Revision: 2}, false},
		"of the previous revision":  {&addonsv1.HealthStatus{Revision: 1, Deployed: true}, false},
		"not watched":               {nil, false},
	} {
		p := triedPass()
		p.observation.Records = []model.Record{{Revision: 2}}
		p.release.Status.Health = tc.memory
		if got := pastOf(p).Unproven; got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestLostStatusIsNoRetryRequest checks that the annotation of a release whose status was lost in a move is no new
// retry request, and that a later request counts, also if nothing was tried since.
func TestLostStatusIsNoRetryRequest(t *testing.T) {
	t.Parallel()
	p := triedPass()
	p.release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "long ago"}
	p.release.Status = addonsv1.HelmOpReleaseStatus{}
	r := &Reconciler{}
	for range 2 {
		r.initRetryRequest(p)
		if pastOf(p).RetryRequested {
			t.Fatal("an old request counts as a new one")
		}
	}
	p.release.Annotations[addonsv1.RetryRequestedAtAnnotation] = "now"
	r.initRetryRequest(p)
	if !pastOf(p).RetryRequested {
		t.Error("a later request does not count")
	}
	p.release.Annotations[addonsv1.RetryRequestedAtAnnotation] = "long ago"
	p.release.Generation++
	r.initRetryRequest(p)
	if !pastOf(p).RetryRequested {
		t.Error("a change of the spec does not count")
	}
}

func TestRecordAttempt(t *testing.T) {
	t.Parallel()
	failed := &helmerr.Error{Message: "no"}
	changed := helmclient.Result{StorageChanged: true, Revision: 3}
	for name, tc := range map[string]struct {
		decision decide.Decision
		result   helmclient.Result
		err      error
		failures int32
		history  int
	}{
		"upgrade":        {decide.Decision{Action: model.ActionUpgrade, Failures: 2}, changed, nil, 0, 1},
		"failed upgrade": {decide.Decision{Action: model.ActionUpgrade, Failures: 2}, changed, failed, 3, 1},
		"failed without a change": {decide.Decision{Action: model.ActionUpgrade, Failures: 2}, helmclient.Result{}, failed,
			2, 0},
		"rollback keeps the count": {decide.Decision{Action: model.ActionRollback, Failures: 3}, changed, nil, 3, 1},
		"failed rollback":          {decide.Decision{Action: model.ActionRollback, Failures: 3}, changed, failed, 3, 1},
		"return": {decide.Decision{Action: model.ActionRollback, Returns: true, Failures: 2}, changed, nil,
			0, 1},
		"failed return": {decide.Decision{Action: model.ActionRollback, Returns: true, Failures: 2}, changed,
			failed, 3, 1},
		"uninstall keeps the count": {decide.Decision{Action: model.ActionUninstall, Failures: 1}, changed, nil, 1, 1},
		"failed test":               {decide.Decision{Action: model.ActionTest, Failures: 1}, changed, failed, 2, 1},
	} {
		p := triedPass()
		(&Reconciler{now: time.Now}).recordAttempt(p, tc.decision, tc.result, tc.err)
		if got := p.release.Status; got.Failures != tc.failures || len(got.History) != tc.history {
			t.Errorf("%s: %d failures, %d entries", name, got.Failures, len(got.History))
		}
	}
}

// lostTries simulates an attempt each time that one is due, without a write of the status: the attempt crashes the
// manager, or the management cluster is unreachable. It returns the number of attempts and the waiting time until the
// decision is to stop.
func lostTries(t *testing.T, p *releasePass, records []model.Record, now time.Time,
	end string,
) ([]model.Record, int, time.Duration) {
	t.Helper()
	var waited time.Duration
	tries := 0
	for range 200 {
		decision := decide.Next(model.Observation{Records: records}, p.desired, p.policy, pastOf(p), now.Add(waited))
		made := model.Record{
			Revision: decision.ToRevision, LabelledRevision: decision.ToRevision, Status: end, Owner: p.desired.Owner,
			UID:            p.desired.UID,
			ArtifactDigest: p.desired.ArtifactDigest, Failures: decision.Failures, Interruptions: decision.Interruptions,
			Request: decision.Request, ChangedAt: now.Add(waited),
		}
		switch {
		case decision.Action == model.ActionStall:
			return records, tries, waited
		case decision.Action == model.ActionWait:
			waited += decision.RequeueAfter
			continue
		case decision.Recovery == decide.RecoverReplace:
			records = records[1:]
		}
		tries++
		records = append([]model.Record{made}, records...)
	}
	return records, tries, waited
}

// TestRetryRequestIsMetByNewestRecord checks that attempts upon a retry request are limited, although the status is
// never written.
func TestRetryRequestIsMetByNewestRecord(t *testing.T) {
	t.Parallel()
	none, few := 0, 3
	for name, tc := range map[string]struct {
		end     string
		retries *int
		tries   int
		least   time.Duration
	}{
		"the attempt crashes the manager":      {"pending-upgrade", nil, 1 + 2 + model.DefaultRetries, 50 * time.Minute},
		"a crash with three retries":           {"pending-upgrade", &few, 6, time.Minute},
		"a crash without retries":              {"pending-upgrade", &none, 3, 0},
		"the status cannot be saved":           {"failed", nil, 1 + model.DefaultRetries, 50 * time.Minute},
		"an unsaved status with three retries": {"failed", &few, 4, time.Minute},
		"an unsaved status without retries":    {"failed", &none, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1_800_000_000, 0)
			p := triedPass()
			p.desired = model.Desired{Owner: "fleet.web", UID: "u", ArtifactDigest: "b"}
			p.policy.Upgrade.Retries = tc.retries
			p.release.Generation++
			records := []model.Record{{Revision: 2, LabelledRevision: 2, Status: "deployed", Owner: "fleet.web", UID: "u",
				ArtifactDigest: "a"}}
			// The first request is a change of the spec. The following requests count once each, although the status never has
			// a failure.
			for _, ask := range []func(){func() {}, func() { p.release.Generation++ }, func() {
				p.release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "now"}
				// This failure was before the request, so it must not count.
				p.release.Status.Failures, p.release.Status.LastAttemptedDigest = 99, attemptDigest(p.desired)
			}} {
				ask()
				var tries int
				var waited time.Duration
				records, tries, waited = lostTries(t, p, records, now, tc.end)
				if tries != tc.tries || waited < tc.least {
					t.Fatalf("stalled after %d tries and %s, want %d and at least %s", tries, waited, tc.tries, tc.least)
				}
				now = now.Add(waited)
				if _, tries, _ := lostTries(t, p, records, now, tc.end); tries != 0 {
					t.Fatalf("%d more tries without a request", tries)
				}
			}
		})
	}
}

// TestRequestDigest checks that the digests of different retry requests differ, also if a move resets the generation.
func TestRequestDigest(t *testing.T) {
	t.Parallel()
	p := triedPass()
	p.release.UID = "u"
	seen := map[string]string{requestDigest(p): "at first"}
	for _, change := range []struct {
		name string
		do   func()
	}{
		{"spec changed", func() { p.release.Generation++ }},
		{"asked at the release",
			func() { p.release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "1"} }},
		{"asked at the HelmOp",
			func() { p.helmOp.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "2"} }},
		{"moved", func() { p.release.UID = "v" }},
	} {
		change.do()
		digest := requestDigest(p)
		if before, ok := seen[digest]; ok || len(digest) < 40 {
			t.Errorf("%s: %q, as %q", change.name, digest, before)
		}
		seen[digest] = change.name
	}
	if _, ok := seen[requestDigest(p)]; !ok {
		t.Error("the digest of the same request differs each time")
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package attempts

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// triedSubject returns a release whose last two attempts at the desired state failed.
func triedSubject() *Subject {
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Name: "one", Generation: 2}}
	s := &Subject{Release: release, HelmOp: &addonsv1.HelmOp{}, Desired: model.Desired{ArtifactDigest: "a"}}
	release.Status = addonsv1.HelmOpReleaseStatus{
		Failures: 2, LastAttemptedAt: metav1.NewTime(time.Unix(1_800_000_000, 0)),
		ReleaseBookkeeping: addonsv1.ReleaseBookkeeping{LastAttemptedDigest: attemptDigest(s.Desired),
			LastAttemptedGeneration: 2},
	}
	return s
}

func TestPast(t *testing.T) {
	t.Parallel()
	annotate := func(obj metav1.Object, value string) {
		obj.SetAnnotations(map[string]string{addonsv1.RetryRequestedAtAnnotation: value})
	}
	for name, tc := range map[string]struct {
		change    func(s *Subject)
		failures  int
		requested bool
	}{
		"unchanged":              {func(*Subject) {}, 2, false},
		"another desired state":  {func(s *Subject) { s.Desired.ArtifactDigest = "b" }, 0, false},
		"spec changed":           {func(s *Subject) { s.Release.Generation = 3 }, 2, true},
		"request at the release": {func(s *Subject) { annotate(s.Release, "now") }, 2, true},
		"request at the HelmOp":  {func(s *Subject) { annotate(s.HelmOp, "now") }, 2, true},
		"request already met": {func(s *Subject) {
			annotate(s.Release, "now")
			s.Release.Status.LastRetryRequest = "now"
		}, 2, false},
		"long request": {func(s *Subject) { annotate(s.Release, strings.Repeat("n", 100)) }, 2, true},
		"generation is not known": {func(s *Subject) {
			s.Release.Status.LastAttemptedGeneration = 0
			s.Release.Generation = 9
		}, 2, false},
	} {
		s := triedSubject()
		tc.change(s)
		past := s.Past(Seen{})
		if past.Failures != tc.failures || past.RetryRequested != tc.requested ||
			(past.Failures > 0) != !past.FailedAt.IsZero() {
			t.Errorf("%s: %+v", name, past)
		}
		if request := s.retryRequest(); len(request) > requeue.MaxResolveRequest {
			t.Errorf("%s: the request takes %d characters", name, len(request))
		}
	}
}

// TestPastWorked checks which history shows that the release worked.
func TestPastWorked(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		history []addonsv1.ReleaseAction
		want    bool
	}{
		"nothing": {},
		"failed": {history: []addonsv1.ReleaseAction{{Action: VerbInstall}, {Action: VerbUninstall, Succeeded: true},
			{Action: VerbInstall}}},
		"installed": {history: []addonsv1.ReleaseAction{{Action: VerbInstall}, {Action: VerbInstall, Succeeded: true}},
			want: true},
		"adopted":     {history: []addonsv1.ReleaseAction{{Action: VerbAdopt, Succeeded: true}}, want: true},
		"rolled back": {history: []addonsv1.ReleaseAction{{Action: VerbRollback, Succeeded: true}}, want: true},
	} {
		s := triedSubject()
		s.Release.Status.History = tc.history
		if got := s.Past(Seen{}).Worked; got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
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
		s := triedSubject()
		s.Release.Status.Health = tc.memory
		if got := s.Past(Seen{Newest: 2}).Unproven; got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestLostStatusIsNoRetryRequest checks a release whose status was lost in a move. Its annotation is not a new retry
// request. A later request counts, even if nothing was tried in between.
func TestLostStatusIsNoRetryRequest(t *testing.T) {
	t.Parallel()
	s := triedSubject()
	s.Release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "long ago"}
	s.Release.Status = addonsv1.HelmOpReleaseStatus{}
	for range 2 {
		s.InitRetryRequest()
		if s.Past(Seen{}).RetryRequested {
			t.Fatal("an old request counts as a new one")
		}
	}
	s.Release.Annotations[addonsv1.RetryRequestedAtAnnotation] = "now"
	s.InitRetryRequest()
	if past := s.Past(Seen{}); !past.RetryRequested || !past.RetryAnnotated {
		t.Error("a later request does not count")
	}
	s.Release.Annotations[addonsv1.RetryRequestedAtAnnotation] = "long ago"
	s.Release.Generation++
	s.InitRetryRequest()
	if past := s.Past(Seen{}); !past.RetryRequested || past.RetryAnnotated {
		t.Error("a change of the spec does not count, or counts as a request of a user")
	}
}

// TestNoteLoss checks when a release that another owner has counts as lost. The annotation must have the same effect as
// a status that names a Helm revision, and stay until the release has its owner again or a user requests a retry.
func TestNoteLoss(t *testing.T) {
	t.Parallel()
	record := func(owner, cluster string) model.Record {
		return model.Record{Revision: 2, LabelledRevision: 2, Status: model.StatusDeployed, Owner: owner,
			ManagementCluster: cluster}
	}
	foreign, own := record("fleet.next", "here"), record("fleet.cni", "here")
	uninstalled := foreign
	uninstalled.Status = "uninstalled"
	requestRetry := func(s *Subject) {
		s.InitRetryRequest()
		s.Release.Annotations[addonsv1.RetryRequestedAtAnnotation] = "now"
	}
	for name, tc := range map[string]struct {
		records []model.Record
		known   string
		change  func(s *Subject)
		want    string
		wasOurs bool
		// mayNotTake is true for a release without takeOwnership. A request for it must end.
		mayNotTake bool
	}{
		"lost, with a status": {records: []model.Record{foreign, own}, want: "fleet.next", wasOurs: true,
			change: func(s *Subject) {
				s.InitRetryRequest()
				s.Release.Status.Release = &addonsv1.ReleaseObservation{Revision: 1}
			}},
		"lost, status emptied": {records: []model.Record{foreign}, known: "fleet.next", want: "fleet.next",
			wasOurs: true},
		"lost, and a third owner": {records: []model.Record{foreign}, known: "fleet.old", want: "fleet.next",
			wasOurs: true},
		"never owned": {records: []model.Record{foreign}},
		"lost to the helm command": {records: []model.Record{record("", "")}, known: "fleet.next",
			want: "fleet.next", wasOurs: true},
		"lost to another management cluster": {records: []model.Record{record("fleet.cni", "there")}, known: "x",
			want: "management-cluster/there", wasOurs: true},
		"owned again":   {records: []model.Record{own, foreign}, known: "fleet.next"},
		"not installed": {known: "fleet.next", want: "fleet.next", wasOurs: true},
		"uninstalled": {records: []model.Record{uninstalled}, known: "fleet.next", want: "fleet.next",
			wasOurs: true},
		"retry requested": {records: []model.Record{foreign}, known: "fleet.next", change: requestRetry},
		"retry of the HelmOp requested": {records: []model.Record{foreign}, known: "fleet.next", change: func(s *Subject) {
			s.InitRetryRequest()
			s.HelmOp.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "now"}
		}},
		"retry requested without the right": {records: []model.Record{foreign}, known: "fleet.old", want: "fleet.next",
			wasOurs: true, mayNotTake: true, change: requestRetry},
		"retry requested before the loss is known": {records: []model.Record{foreign}, want: "fleet.next", wasOurs: true,
			mayNotTake: true, change: func(s *Subject) {
				requestRetry(s)
				s.Release.Status.Release = &addonsv1.ReleaseObservation{Revision: 1}
				s.Release.Status.Failures, s.Release.Status.LastError = 11, "failed"
			}},
		"retry requested, never owned":   {records: []model.Record{foreign}, mayNotTake: true, change: requestRetry},
		"retry requested, not installed": {known: "fleet.next", want: "fleet.next", change: requestRetry},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := triedSubject()
			s.Desired.Owner, s.Desired.ManagementCluster = "fleet.cni", "here"
			s.Release.Status = addonsv1.HelmOpReleaseStatus{}
			s.Release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "long ago"}
			if tc.known != "" {
				s.Release.Annotations[addonsv1.LostToAnnotation] = tc.known
			}
			if tc.change != nil {
				tc.change(s)
			}
			s.InitRetryRequest()
			for range 2 {
				s.NoteLoss(model.Observation{Records: tc.records}, !tc.mayNotTake)
				if got := s.Release.Annotations[addonsv1.LostToAnnotation]; got != tc.want {
					t.Errorf("lost to %q, want %q", got, tc.want)
				}
				if got := s.Past(Seen{}).WasOurs; got != tc.wasOurs {
					t.Errorf("was ours: %t", got)
				}
				if status := s.Release.Status; tc.mayNotTake && tc.wasOurs && (status.Failures != 0 || status.LastError != "") {
					t.Errorf("earlier failures are kept: %d, %q", status.Failures, status.LastError)
				}
			}
		})
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
		s := triedSubject()
		s.Record(tc.decision, &model.TestPolicy{}, tc.result, tc.err, time.Now())
		if got := s.Release.Status; got.Failures != tc.failures || len(got.History) != tc.history {
			t.Errorf("%s: %d failures, %d entries", name, got.Failures, len(got.History))
		}
	}
}

// TestRemember checks that the history has at most five actions, and keeps the newest success.
func TestRemember(t *testing.T) {
	t.Parallel()
	upgrade, correction := addonsv1.ReleaseAction{Action: VerbUpgrade, Succeeded: true},
		addonsv1.ReleaseAction{Action: VerbCorrectDrift, Succeeded: true}
	failure := addonsv1.ReleaseAction{Action: VerbUpgrade}
	for name, tc := range map[string]struct {
		// actions happen in this order, and want is the history, newest first.
		actions, want []addonsv1.ReleaseAction
	}{
		"upgrades": {[]addonsv1.ReleaseAction{failure, upgrade, upgrade, upgrade, upgrade, upgrade},
			[]addonsv1.ReleaseAction{upgrade, upgrade, upgrade, upgrade, upgrade}},
		"corrections after an upgrade": {
			[]addonsv1.ReleaseAction{upgrade, correction, correction, correction, correction, correction, correction},
			[]addonsv1.ReleaseAction{correction, correction, correction, correction, upgrade}},
		"failures after an upgrade": {
			[]addonsv1.ReleaseAction{upgrade, failure, failure, failure, failure, failure, failure},
			[]addonsv1.ReleaseAction{failure, failure, failure, failure, upgrade}},
		"failures without a success": {
			[]addonsv1.ReleaseAction{correction, failure, failure, failure, failure, failure},
			[]addonsv1.ReleaseAction{failure, failure, failure, failure, failure}},
	} {
		status := &addonsv1.HelmOpReleaseStatus{}
		for _, action := range tc.actions {
			Remember(status, action)
		}
		if !slices.Equal(status.History, tc.want) {
			t.Errorf("%s: the history is %+v", name, status.History)
		}
	}
}

// TestIsReturning checks when a release has returned to an earlier HelmOp revision.
func TestIsReturning(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(time.Unix(1_800_000_000, 0))
	later := metav1.NewTime(at.Add(2 * time.Hour))
	with := func(change func(*addonsv1.ReleaseAction)) []addonsv1.ReleaseAction {
		action := addonsv1.ReleaseAction{Action: VerbRollback, Succeeded: true, ArtifactDigest: "a", ValuesDigest: "v",
			Time: at}
		change(&action)
		return []addonsv1.ReleaseAction{action}
	}
	returned := with(func(*addonsv1.ReleaseAction) {})
	failed := with(func(a *addonsv1.ReleaseAction) { a.Succeeded = false })
	corrected := with(func(a *addonsv1.ReleaseAction) { a.Action = VerbCorrectDrift })
	otherValues := with(func(a *addonsv1.ReleaseAction) { a.ValuesDigest = "w" })
	otherArtifact := with(func(a *addonsv1.ReleaseAction) { a.ArtifactDigest = "b" })
	for name, tc := range map[string]struct {
		history    []addonsv1.ReleaseAction
		assignedAt metav1.Time
		// releasedAt is the generation at which the condition Released became True. The release has generation 2.
		releasedAt int64
		want       bool
	}{
		"assigned":                       {nil, at, 0, true},
		"Released":                       {nil, at, 2, false},
		"Released with the former state": {nil, at, 1, true},
		"Released, the clock was ahead":  {returned, later, 2, false},
		"returned":                       {returned, at, 0, false},
		"returned before the assignment": {returned, later, 0, true},
		"failed":                         {failed, at, 0, true},
		"corrected":                      {corrected, at, 0, true},
		"a running upgrade to other values ended":  {otherValues, at, 0, true},
		"a running upgrade to another chart ended": {otherArtifact, at, 0, true},
	} {
		for reason, isReturn := range map[addonsv1.ReleaseRolloutReason]bool{addonsv1.ReleaseRolloutReturned: true,
			addonsv1.ReleaseRolloutPinned: true, addonsv1.ReleaseRolloutUpdated: false,
			addonsv1.ReleaseRolloutJoined: false} {
			release := &addonsv1.HelmOpRelease{}
			release.Spec.Artifact.Digest, release.Spec.ValuesDigest = "a", "v"
			release.Spec.Rollout = &addonsv1.ReleaseRollout{Reason: reason, At: tc.assignedAt}
			release.Status.History = tc.history
			if release.Generation = tc.releasedAt; tc.releasedAt > 0 {
				report.SetCondition(release, addonsv1.ReleasedCondition, report.True, addonsv1.ReleasedReason, "")
			}
			release.Generation = 2
			if got := IsReturning(release); got != (isReturn && tc.want) {
				t.Errorf("%s, %s: returning %t", name, reason, got)
			}
			if got := HasReturned(release); got != (isReturn && !tc.want) {
				t.Errorf("%s, %s: has returned %t", name, reason, got)
			}
		}
	}
}

// lostTries simulates an attempt each time that an attempt is due, without a write of the status: the attempt crashes
// the manager, or the management cluster is unreachable. It returns the number of attempts and the total waiting time
// until the decision is to stop.
func lostTries(t *testing.T, s *Subject, policy model.Policy, records []model.Record, now time.Time,
	end string,
) ([]model.Record, int, time.Duration) {
	t.Helper()
	var waited time.Duration
	tries := 0
	for range 200 {
		decision := decide.Next(model.Observation{Records: records}, s.Desired, policy, s.Past(Seen{}), now.Add(waited))
		made := model.Record{
			Revision: decision.ToRevision, LabelledRevision: decision.ToRevision, Status: end, Owner: s.Desired.Owner,
			UID:            s.Desired.UID,
			ArtifactDigest: s.Desired.ArtifactDigest, Failures: decision.Failures, Interruptions: decision.Interruptions,
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

// TestRetryRequestIsMetByNewestRecord checks that the attempts after a retry request are limited, although the status
// is never written.
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
			s := triedSubject()
			s.Desired = model.Desired{Owner: "fleet.web", UID: "u", ArtifactDigest: "b"}
			policy := model.Policy{Upgrade: model.FailurePolicy{Retries: tc.retries}}
			s.Release.Generation++
			records := []model.Record{{Revision: 2, LabelledRevision: 2, Status: "deployed", Owner: "fleet.web", UID: "u",
				ArtifactDigest: "a"}}
			// The first request is a change of the spec. The following requests count once each, although the status never has
			// a failure.
			for _, ask := range []func(){func() {}, func() { s.Release.Generation++ }, func() {
				s.Release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "now"}
				// This failure was before the request, so it must not count.
				s.Release.Status.Failures, s.Release.Status.LastAttemptedDigest = 99, attemptDigest(s.Desired)
			}} {
				ask()
				var tries int
				var waited time.Duration
				records, tries, waited = lostTries(t, s, policy, records, now, tc.end)
				if tries != tc.tries || waited < tc.least {
					t.Fatalf("stalled after %d tries and %s, want %d and at least %s", tries, waited, tc.tries, tc.least)
				}
				now = now.Add(waited)
				if _, tries, _ := lostTries(t, s, policy, records, now, tc.end); tries != 0 {
					t.Fatalf("%d more tries without a request", tries)
				}
			}
		})
	}
}

// TestRequestDigest checks that the digests of different retry requests differ, even if a move resets the generation.
func TestRequestDigest(t *testing.T) {
	t.Parallel()
	s := triedSubject()
	s.Release.UID = "u"
	seen := map[string]string{s.requestDigest(): "at first"}
	for _, change := range []struct {
		name string
		do   func()
	}{
		{"spec changed", func() { s.Release.Generation++ }},
		{"asked at the release",
			func() { s.Release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "1"} }},
		{"asked at the HelmOp",
			func() { s.HelmOp.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "2"} }},
		{"moved", func() { s.Release.UID = "v" }},
	} {
		change.do()
		digest := s.requestDigest()
		if before, ok := seen[digest]; ok || len(digest) < 40 {
			t.Errorf("%s: %q, as %q", change.name, digest, before)
		}
		seen[digest] = change.name
	}
	if _, ok := seen[s.requestDigest()]; !ok {
		t.Error("the digest of the same request differs each time")
	}
}

// TestLimitedRenderingCountsAsAttempt checks that an attempt whose rendering exceeded its limits counts, although
// nothing was changed, and that an attempt for which no memory was free does not count.
func TestLimitedRenderingCountsAsAttempt(t *testing.T) {
	t.Parallel()
	decision := decide.Decision{Action: model.ActionInstall, Failures: 1}
	for _, tc := range []struct {
		kind    error
		changed bool
		want    int32
	}{
		{helmerr.ErrRenderLimit, false, 2},
		{helmerr.ErrInvalidChart, false, 7},
		{helmerr.ErrInvalidChart, true, 2},
		{helmerr.ErrBusy, false, 7},
		{helmerr.ErrBusy, true, 7},
	} {
		s := triedSubject()
		s.Release.Status.Failures = 7
		s.Record(decision, &model.TestPolicy{}, helmclient.Result{StorageChanged: tc.changed},
			&helmerr.Error{Kind: tc.kind}, time.Now())
		if s.Release.Status.Failures != tc.want {
			t.Errorf("%v, changed %t: %d failures, want %d", tc.kind, tc.changed, s.Release.Status.Failures, tc.want)
		}
	}
}

func TestRetryDelay(t *testing.T) {
	failed := func(failures int32, attempt string) *addonsv1.HelmOpRelease {
		return &addonsv1.HelmOpRelease{Status: addonsv1.HelmOpReleaseStatus{
			Failures: failures, ReleaseBookkeeping: addonsv1.ReleaseBookkeeping{LastAttemptedDigest: attempt},
			LastAttemptedAt: metav1.NewTime(controllertest.Noon),
		}}
	}
	backoff := func(failures int) time.Duration {
		return model.Backoff(failures, apiutil.Jitter(&addonsv1.HelmOpRelease{}))
	}
	tests := map[string]struct {
		release *addonsv1.HelmOpRelease
		attempt string
		after   time.Duration
		want    time.Duration
	}{
		"never failed":             {failed(0, "x"), "x", 0, 0},
		"another attempt":          {failed(3, "x"), "y", 0, 0},
		"failed once, just now":    {failed(1, "x"), "x", 0, backoff(1)},
		"failed once, a while ago": {failed(1, "x"), "x", 4 * time.Second, backoff(1) - 4*time.Second},
		"failed once, long ago":    {failed(1, "x"), "x", time.Hour, 0},
		"a clock was ahead":        {failed(1, "x"), "x", -3 * time.Hour, 0},
		"failed thrice":            {failed(3, "x"), "x", 0, backoff(3)},
		"failed very often":        {failed(1<<30, "x"), "x", 0, backoff(100)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := RetryDelay(tc.release, tc.attempt, controllertest.Noon.Add(tc.after)); got != tc.want {
				t.Errorf("wait %s, want %s", got, tc.want)
			}
		})
	}
}

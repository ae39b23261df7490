// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview/fleettest"
)

var noon = metav1.NewTime(time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC))

// TestRequests checks the annotations that requests write, and why they are refused.
func TestRequests(t *testing.T) {
	t.Parallel()
	const (
		promoteKey  = addonsv1.RolloutPromoteAnnotation
		continueKey = addonsv1.RolloutContinueAnnotation
		abortKey    = addonsv1.RolloutAbortAnnotation
		approveKey  = addonsv1.RolloutApproveAnnotation
		deleting    = "it is being deleted"
	)
	set := func(key, value string, also func(*addonsv1.HelmOp)) func(*addonsv1.HelmOp) {
		return func(h *addonsv1.HelmOp) {
			h.Annotations[key] = value
			if also != nil {
				also(h)
			}
		}
	}
	for name, tc := range map[string]struct {
		request request
		change  func(*addonsv1.HelmOp)
		key     string
		want    string
		refused string
	}{
		"promote":            {promote(""), fleettest.Awaiting, promoteKey, "7/one", ""},
		"promote in advance": {promote("two"), nil, promoteKey, "7/two", ""},
		"promote nothing": {promote(""), nil, promoteKey, "",
			"not for a promotion; to promote it in advance, use --wave=one"},
		"promote again":         {promote("one"), set(promoteKey, "7/two", nil), promoteKey, "7/two", ""},
		"promote after another": {promote(""), set(promoteKey, "6/two", fleettest.Awaiting), promoteKey, "7/one", ""},
		"promote the past": {promote("one"), func(h *addonsv1.HelmOp) { h.Status.Rollout.Wave = "two" },
			promoteKey, "", "wave one of HelmOp revision 7 is done"},
		"promote an ended one": {promote("one"), fleettest.Phase(addonsv1.RolloutPhaseComplete), promoteKey, "",
			"is Complete"},
		"promote a paused one": {promote("one"), fleettest.Phase(addonsv1.RolloutPhasePaused), promoteKey, "",
			"a promotion has no effect"},
		"promote the last": {promote(""), func(h *addonsv1.HelmOp) { h.Status.Rollout.Wave = "" },
			promoteKey, "", "all waves of HelmOp revision 7 are done"},
		"promote without status": {promote(""), func(h *addonsv1.HelmOp) { h.Status.Rollout = nil }, promoteKey, "",
			"no rollout yet"},
		"promote a changed one": {promote(""), func(h *addonsv1.HelmOp) { h.Generation = 4 }, promoteKey, "",
			"repeat the command"},
		"promote this revision": {ofRevision(7, promote("one")), fleettest.Awaiting, promoteKey, "7/one", ""},
		"promote a former revision": {ofRevision(6, promote("one")), fleettest.Awaiting, promoteKey, "",
			"its rollout is of HelmOp revision 7, not of HelmOp revision 6"},
		"continue": {continueRollout(""), fleettest.Phase(addonsv1.RolloutPhasePaused), continueKey, "7", ""},
		"continue once more": {continueRollout("7"), set(continueKey, "7", fleettest.Phase(addonsv1.RolloutPhasePaused)),
			continueKey, "7/2", ""},
		"continue after removal": {continueRollout("7"), fleettest.Phase(addonsv1.RolloutPhasePaused), continueKey, "7/2",
			""},
		"continue the third": {continueRollout("7"),
			set(continueKey, "7/2", fleettest.Phase(addonsv1.RolloutPhasePaused)), continueKey, "7/3", ""},
		"continue after abort": {continueRollout(""), set(abortKey, "7", fleettest.Phase(addonsv1.RolloutPhasePaused)),
			abortKey, "", ""},
		"continue, old abort": {continueRollout(""), set(abortKey, "6", fleettest.Phase(addonsv1.RolloutPhasePaused)),
			abortKey, "6", ""},
		"continue nothing": {continueRollout(""), nil, continueKey, "", "nothing to continue"},
		"continue spec.paused": {continueRollout(""), func(h *addonsv1.HelmOp) { h.Spec.Rollout.Paused = true },
			continueKey, "", "use rollout resume"},
		"abort": {abortRollout, nil, abortKey, "7", ""},
		"abort without good": {abortRollout, func(h *addonsv1.HelmOp) { h.Status.Rollout.LastGoodRevision = 0 }, abortKey,
			"", "no last known good revision"},
		"abort an aborted one": {abortRollout, fleettest.Phase(addonsv1.RolloutPhaseAborted), abortKey, "", "is Aborted"},
		"approve":              {approve(7, "abc"), fleettest.AwaitingApproval("abc"), approveKey, "7/abc", ""},
		"approve another digest": {approve(7, "abc"), fleettest.AwaitingApproval("def"), approveKey, "",
			"changed at the same time"},
		"approve another revision": {approve(6, "abc"), fleettest.AwaitingApproval("abc"), approveKey, "",
			"changed at the same time"},
		"approve nothing": {approve(7, "abc"), nil, approveKey, "", "spec.rollout.approval is not Required"},
		"approve again":   {approve(7, "abc"), fleettest.Approved, approveKey, "", "HelmOp revision 7 is approved"},
		"approve without digest": {approve(7, ""), fleettest.AwaitingApproval(""), approveKey, "",
			"no digest to approve yet"},
		"approve a changed one": {approve(7, "abc"), func(h *addonsv1.HelmOp) { h.Generation = 4 }, approveKey, "",
			"repeat the command"},
		"promote a deleted one":   {promote("one"), fleettest.Deleting, promoteKey, "", deleting},
		"continue a deleted one":  {continueRollout(""), fleettest.Deleting, continueKey, "", deleting},
		"abort a deleted one":     {abortRollout, fleettest.Deleting, abortKey, "", deleting},
		"approve a deleted one":   {approve(7, "abc"), fleettest.Deleting, approveKey, "", deleting},
		"pause a deleted rollout": {setRolloutPaused(true), fleettest.Deleting, "", "", deleting},
		"reconcile a paused one": {reconcileNow("x"), func(h *addonsv1.HelmOp) { h.Spec.Paused = true },
			addonsv1.ResolveRequestedAtAnnotation, "", "paused"},
		"confirm": {confirmDeletions("2-a"), func(h *addonsv1.HelmOp) {
			h.Status.Deletions = &addonsv1.DeletionStatus{Waiting: 2, Confirmation: "2-a"}
		}, addonsv1.ConfirmDeletionsAnnotation, "2-a", ""},
		"confirm others": {confirmDeletions("2-a"), func(h *addonsv1.HelmOp) {
			h.Status.Deletions = &addonsv1.DeletionStatus{Waiting: 3, Confirmation: "3-b"}
		}, addonsv1.ConfirmDeletionsAnnotation, "", "changed at the same time"},
	} {
		helmOp := fleettest.Rolling(tc.change)
		_, err := tc.request(helmOp)
		if tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)) ||
			tc.refused == "" && err != nil {
			t.Errorf("%s: got the error %v, want %q", name, err, tc.refused)
		}
		if got := helmOp.Annotations[tc.key]; got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestPromotedWaves checks that the output names all promoted waves.
func TestPromotedWaves(t *testing.T) {
	t.Parallel()
	for wave, want := range map[string]string{"one": "wave one of HelmOp revision 7 promoted",
		"two": "waves one, two of HelmOp revision 7 promoted"} {
		if got, err := promote(wave)(fleettest.Rolling(nil)); err != nil || got != want {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

// TestRequestsStay checks the field manager of requests: Flux removes the fields of managers that begin with "kubectl"
// from objects in its repository.
func TestRequestsStay(t *testing.T) {
	t.Parallel()
	options := (&client.PatchOptions{}).ApplyOptions((&steer{}).patchOptions())
	if options.FieldManager == "" || strings.HasPrefix(options.FieldManager, "kubectl") {
		t.Errorf("the field manager is %q", options.FieldManager)
	}
}

// TestGoals checks what --wait waits for.
func TestGoals(t *testing.T) {
	t.Parallel()
	requested := fleettest.Rolling(func(h *addonsv1.HelmOp) { h.Annotations[addonsv1.RolloutPromoteAnnotation] = "7/one" })
	promoted := isPromoted(requested)
	returnedWith := func(releases ...*addonsv1.HelmOpRelease) goal {
		return isReturned(requested, func() ([]*addonsv1.HelmOpRelease, error) { return releases, nil })
	}
	returned := returnedWith()
	release := func(cluster string, revision int64, reason addonsv1.ReleaseRolloutReason, ready string,
	) *addonsv1.HelmOpRelease {
		r := retriedRelease(cluster, "", ready)
		r.Generation, r.Spec.Rollout = 3, &addonsv1.ReleaseRollout{Revision: revision, Reason: reason, At: noon}
		return r
	}
	const updated, back = addonsv1.ReleaseRolloutUpdated, addonsv1.ReleaseRolloutReturned
	const failed = "Ready=False/UpgradeFailed"
	pinned, leaving, old := release("pinned", 7, updated, failed), release("leaving", 7, updated, failed),
		release("old", 6, back, "Ready=True/Ready")
	pinned.Annotations[addonsv1.PinnedRevisionAnnotation] = "7"
	leaving.DeletionTimestamp, old.Generation = &noon, 4
	earlier := release("earlier", 6, back, failed)
	earlier.Spec.Rollout.At = metav1.NewTime(noon.Add(-time.Hour))
	aborted := func(h *addonsv1.HelmOp) {
		h.Status.Rollout.Phase, h.Status.Rollout.WaitingFor = addonsv1.RolloutPhaseAborted, ""
		h.Status.Rollout.StartedAt = noon
		h.Status.Clusters = &addonsv1.ClusterCounts{Failed: 1, Paused: 1, Unreachable: 1}
	}
	next := func(h *addonsv1.HelmOp) { h.Status.Rollout.Revision = 8 }
	waiting := func(confirmation string) func(*addonsv1.HelmOp) {
		return func(h *addonsv1.HelmOp) {
			h.Status.Deletions = &addonsv1.DeletionStatus{Waiting: 1, Confirmation: confirmation}
		}
	}
	conditions := func(texts ...string) func(*addonsv1.HelmOp) {
		return func(h *addonsv1.HelmOp) {
			h.Status.LastResolveRequest = "x"
			for _, text := range texts {
				h.Status.Conditions = append(h.Status.Conditions, fleettest.Condition(text))
			}
		}
	}
	for name, tc := range map[string]struct {
		goal    goal
		change  func(*addonsv1.HelmOp)
		reached bool
		waits   string
		failed  string
	}{
		"promoted":       {promoted, nil, false, "1 of 2 Clusters of wave one to be ready", ""},
		"the next wave":  {promoted, func(h *addonsv1.HelmOp) { h.Status.Rollout.Wave = "two" }, true, "", ""},
		"the last group": {promoted, func(h *addonsv1.HelmOp) { h.Status.Rollout.Wave = "" }, true, "", ""},
		"complete":       {promoted, fleettest.Phase(addonsv1.RolloutPhaseComplete), true, "", ""},
		"rolled back": {promoted, fleettest.Phase(addonsv1.RolloutPhaseRolledBack), false, "",
			"HelmOp revision 7 is RolledBack"},
		"superseded": {promoted, next, false, "", "HelmOp revision 7 was superseded"},
		"no rollout": {promoted, func(h *addonsv1.HelmOp) { h.Status.Rollout = nil }, false, "",
			"HelmOp revision 7 was superseded"},
		"budget spent": {promoted, fleettest.Phase(addonsv1.RolloutPhasePaused), false, "", "is Paused"},
		"not aborted":  {returned, nil, false, "the manager to abort the rollout", ""},
		"returning": {returned, fleettest.Phase(addonsv1.RolloutPhaseAborted), false,
			"1 of 2 Clusters of wave one to be ready", ""},
		"returned": {returnedWith(release("x", 6, back, "Ready=True/Ready")), aborted, true, "", ""},
		"aborted before it reached the others": {returnedWith(release("failed", 6, updated, failed),
			release("paused", 5, updated, "Paused=True/Paused"), pinned, leaving, earlier, retriedRelease("new", "")), aborted,
			true, "", ""},
		"aborted, not returned": {returnedWith(release("paused", 7, updated, "Ready=True/Ready"), old,
			release("failed", 6, back, failed), release("returned", 6, back, "Ready=True/Ready")), aborted, false, "",
			"HelmOp revision 6 is not Ready in 3 Clusters: failed, old, paused; see status"},
		"aborted too late": {returned, fleettest.Phase(addonsv1.RolloutPhaseComplete), false, "",
			"completed before it was aborted"},
		"superseded, not abort": {returned, next, false, "", "HelmOp revision 7 was superseded"},
		"observed":              {isObserved(requested), func(h *addonsv1.HelmOp) { h.Generation = 4 }, true, "", ""},
		"not observed": {isObserved(requested), func(h *addonsv1.HelmOp) { h.Status.ObservedGeneration = 2 },
			false, "the manager to reconcile the HelmOp", ""},
		"paused": {isPausedAs(true), conditions("Paused=True/Paused"), true, "", ""},
		"paused by an annotation": {isPausedAs(false), func(h *addonsv1.HelmOp) {
			h.Annotations[clusterv1.PausedAnnotation] = ""
		}, false, "", "remove the annotation"},
		"not resumed": {isPausedAs(false), conditions("Paused=True/Paused"), false,
			"the condition Paused, which is True: ", ""},
		"resumed":  {isPausedAs(false), conditions("Paused=False/NotPaused"), true, "", ""},
		"resolved": {isReconciled("x"), conditions("Resolved=True/Resolved"), true, "", ""},
		"resolving": {isReconciled("x"), conditions("Resolved=Unknown/Resolving"), false, "the registry to answer",
			""},
		"another request": {isReconciled("y"), conditions("Resolved=True/Resolved"), false,
			"the manager to resolve the source", ""},
		"replaced request": {isReconciled("y"), func(h *addonsv1.HelmOp) {
			conditions("Resolved=True/Resolved")(h)
			h.Annotations[addonsv1.ResolveRequestedAtAnnotation] = "x"
		}, true, "", ""},
		"withdrawn request": {isReconciled("y"), func(h *addonsv1.HelmOp) {
			h.Status.Conditions = []metav1.Condition{fleettest.Condition("Resolved=True/Resolved")}
		}, false, "the manager to resolve the source", ""},
		"not resolved": {isReconciled("x"), conditions("Resolved=False/NoMatchingTag"), false, "", "NoMatchingTag"},
		"not confirmed yet": {isConfirmed("1-a"), waiting("1-a"), false, "the manager to begin the deletion of 1 release",
			""},
		"confirmed": {isConfirmed("1-a"), nil, true, "", ""},
		"not approved yet": {isApproved(7, "abc"), fleettest.AwaitingApproval("abc"), false,
			"the manager to accept the approval", ""},
		"approved":           {isApproved(7, "abc"), fleettest.Approved, true, "", ""},
		"no longer required": {isApproved(7, "abc"), nil, true, "", ""},
		"another digest":     {isApproved(7, "abc"), fleettest.AwaitingApproval("def"), false, "", "the digest changed to def"},
		"approved too late": {isApproved(6, "abc"), fleettest.AwaitingApproval("abc"), false, "",
			"HelmOp revision 6 was superseded"},
		"others wait": {isConfirmed("1-a"), waiting("1-b"), false, "", "the confirmation has no effect"},
	} {
		reached, waits, err := tc.goal(fleettest.Rolling(tc.change))
		if reached != tc.reached || waits != tc.waits || (err != nil) != (tc.failed != "") ||
			err != nil && !strings.Contains(err.Error(), tc.failed) {
			t.Errorf("%s: got %v, %q, %v", name, reached, waits, err)
		}
	}
}

// TestPauses checks what the requests to pause and to resume report.
func TestPauses(t *testing.T) {
	t.Parallel()
	paused := func(h *addonsv1.HelmOp) { h.Spec.Paused, h.Spec.Rollout.Paused = true, true }
	for name, tc := range map[string]struct {
		request request
		change  func(*addonsv1.HelmOp)
		want    string
	}{
		"pause":            {setPaused(true), nil, "paused"},
		"pause again":      {setPaused(true), paused, "is already paused"},
		"resume":           {setPaused(false), paused, "resumed"},
		"resume again":     {setPaused(false), nil, "is not paused"},
		"pause a rollout":  {setRolloutPaused(true), nil, "rollout paused"},
		"pause it again":   {setRolloutPaused(true), paused, "rollout is already paused"},
		"resume a rollout": {setRolloutPaused(false), paused, "rollout resumed"},
		"resume it again":  {setRolloutPaused(false), nil, "rollout is not paused"},
		"resume, annotated": {setPaused(false), func(h *addonsv1.HelmOp) { h.Annotations[clusterv1.PausedAnnotation] = "" },
			"is still paused by the annotation cluster.x-k8s.io/paused; remove the annotation"},
	} {
		if got, err := tc.request(fleettest.Rolling(tc.change)); err != nil || got != tc.want {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

// TestIsContinued checks when "rollout continue" ends.
func TestIsContinued(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		phase   addonsv1.RolloutPhase
		last    string
		reached bool
		failed  bool
	}{
		"not yet":          {addonsv1.RolloutPhasePaused, "7", false, false},
		"continued":        {addonsv1.RolloutPhaseProgressing, "7/2", true, false},
		"and paused again": {addonsv1.RolloutPhasePaused, "7/2", true, false},
		"superseded":       {addonsv1.RolloutPhaseSuperseded, "7", false, true},
	} {
		revision := &addonsv1.HelmOpRevision{}
		revision.Status.Phase, revision.Status.LastContinueRequest = tc.phase, tc.last
		if reached, waits, err := isContinued(revision, "7/2"); reached != tc.reached || (err != nil) != tc.failed ||
			(waits == "") != (reached || tc.failed) {
			t.Errorf("%s: got %v, %q, %v", name, reached, waits, err)
		}
	}
}

// TestAreObjectsConfirmed checks when "confirm" ends for the management cluster.
func TestAreObjectsConfirmed(t *testing.T) {
	t.Parallel()
	const confirm = "confirm: kubectl -n ns annotate helmops.addons.cluster.x-k8s.io h --overwrite " +
		"addons.cluster.x-k8s.io/confirm-deletions="
	for message, want := range map[string]string{
		"the release is upgraded": "reached", confirm + "1-a": "waits", confirm + "1-b": "failed",
	} {
		release := &addonsv1.HelmOpRelease{}
		ready := fleettest.Condition("Ready=False/ConfirmationRequired")
		ready.Message = message
		release.Status.Conditions = []metav1.Condition{ready}
		reached, waits, err := areObjectsConfirmed(release, "1-a")
		if reached != (want == "reached") || (waits != "") != (want == "waits") || (err != nil) != (want == "failed") {
			t.Errorf("%s: got %v, %q, %v", message, reached, waits, err)
		}
	}
}

// TestIsRolledOut checks when "rollout status" ends.
func TestIsRolledOut(t *testing.T) {
	t.Parallel()
	const complete = addonsv1.RolloutPhaseComplete
	const over, progress = "RollingOut=False/NotRollingOut", "RollingOut=True/RollingOut"
	at := func(phase addonsv1.RolloutPhase, generation int64, texts ...string) func(*addonsv1.HelmOp) {
		return func(h *addonsv1.HelmOp) {
			h.Status.Rollout.Phase = phase
			for _, text := range texts {
				c := fleettest.Condition(text)
				c.ObservedGeneration, c.Message = generation, "why: kubectl -n ns annotate helmops.addons.cluster.x-k8s.io h x=y"
				h.Status.Conditions = append(h.Status.Conditions, c)
			}
		}
	}
	failedLast := func(also func(*addonsv1.HelmOp)) func(*addonsv1.HelmOp) {
		return func(h *addonsv1.HelmOp) {
			at(addonsv1.RolloutPhaseProgressing, 3, progress, "Stalled=True/ReleasesFailed")(h)
			h.Status.Rollout.Wave = ""
			if also != nil {
				also(h)
			}
		}
	}
	for name, tc := range map[string]struct {
		change  func(*addonsv1.HelmOp)
		reached bool
		waits   string
		failed  string
	}{
		"complete":              {at(complete, 3, over), true, "", ""},
		"progressing":           {at(addonsv1.RolloutPhaseProgressing, 3, progress), false, "", ""},
		"Clusters still update": {at(complete, 3, progress), false, "", ""},
		"paused": {func(h *addonsv1.HelmOp) {
			at(complete, 3, over)(h)
			h.Spec.Paused = true
		}, false, "", "it is paused"},
		"deleted": {fleettest.Deleting, false, "", "it is being deleted"},
		"not observed": {func(h *addonsv1.HelmOp) {
			at(complete, 3, over)(h)
			h.Generation = 4
		}, false, "the manager to reconcile the HelmOp", ""},
		"old condition": {at(complete, 2, over), false, "the manager to reconcile the HelmOp", ""},
		"no condition":  {at(complete, 3), false, "the manager to reconcile the HelmOp", ""},
		"not resolved": {at(complete, 3, "RollingOut=Unknown/Resolving"), false,
			"the condition RollingOut, which is Unknown (Resolving): why: kubectl -n ns annotate " +
				"helmops.addons.cluster.x-k8s.io h x=y", ""},
		"stalled": {at(complete, 3, over, "Stalled=True/TemplateFailed"), false, "", "TemplateFailed: why"},
		"stalled before": {at(complete, 2, "Stalled=True/TemplateFailed"), false, "the manager to reconcile the HelmOp",
			""},
		"failed releases": {at(addonsv1.RolloutPhaseProgressing, 3, progress, "Stalled=True/ReleasesFailed"), false, "",
			""},
		"failed at last": {failedLast(nil), false, "", "ReleasesFailed: why"},
		"failed without spec.rollout": {failedLast(func(h *addonsv1.HelmOp) { h.Spec.Rollout = nil }), false, "",
			"ReleasesFailed: why"},
		"failed without a revision": {failedLast(func(h *addonsv1.HelmOp) { h.Status.Rollout = nil }), false, "",
			"ReleasesFailed: why"},
		"failed, and retried": {failedLast(func(h *addonsv1.HelmOp) {
			h.Annotations[addonsv1.RetryRequestedAtAnnotation] = "all"
		}), false, "", ""},
		"failed, and the retry has begun": {failedLast(func(h *addonsv1.HelmOp) {
			h.Status.Clusters = &addonsv1.ClusterCounts{Stalled: 3}
		}), false, "", ""},
		"failed, but maintenance without a time": {failedLast(func(h *addonsv1.HelmOp) {
			h.Status.Clusters = &addonsv1.ClusterCounts{Deferred: 1}
		}), false, "", ""},
		"failed, but maintenance comes": {failedLast(func(h *addonsv1.HelmOp) { h.Status.Rollout.NextMaintenance = noon }),
			false, "", ""},
		"failed, but the rollout is paused": {failedLast(func(h *addonsv1.HelmOp) { h.Spec.Rollout.Paused = true }), false,
			"", ""},
		"complete with failed releases": {func(h *addonsv1.HelmOp) {
			at(complete, 3, over, "Stalled=True/ReleasesFailed")(h)
			h.Status.Rollout.Wave = ""
		}, true, "", ""},
		"not rendered":       {failedLast(fleettest.Phase(complete)), false, "", "ReleasesFailed: why"},
		"held deletions":     {at(complete, 3, over, "Stalled=True/ConfirmationRequired"), true, "", ""},
		"budget spent":       {at(addonsv1.RolloutPhasePaused, 3, progress), false, "", "HelmOp revision 7 is Paused"},
		"rolled back":        {at(addonsv1.RolloutPhaseRolledBack, 3, over), false, "", "HelmOp revision 7 is RolledBack"},
		"aborted":            {at(addonsv1.RolloutPhaseAborted, 3, over), false, "", "HelmOp revision 7 is Aborted"},
		"no Cluster":         {func(h *addonsv1.HelmOp) { at("", 3, over)(h); h.Status.Rollout = nil }, true, "", ""},
		"no revision so far": {func(h *addonsv1.HelmOp) { at("", 3, progress)(h); h.Status.Rollout = nil }, false, "", ""},
	} {
		reached, waits, err := isRolledOut(fleettest.Rolling(tc.change), func() ([]*addonsv1.HelmOpRelease, error) {
			deleting := retriedRelease("deleting", "former", "Stalled=True/RetriesExhausted")
			deleting.DeletionTimestamp = &noon
			return []*addonsv1.HelmOpRelease{
				retriedRelease("stalled", "own", "Ready=False/InstallFailed", "Stalled=True/RetriesExhausted"),
				retriedRelease("paused", "former", "Stalled=True/RetriesExhausted", "Paused=True/Paused"),
				retriedRelease("failed", "former", "Ready=False/InstallFailed"), deleting,
			}, nil
		})
		if reached != tc.reached || waits != tc.waits || (err != nil) != (tc.failed != "") ||
			err != nil && !strings.Contains(err.Error(), tc.failed) {
			t.Errorf("%s: got %v, %q, %v", name, reached, waits, err)
		}
	}
}

// retriedRelease returns a release of a Cluster with conditions and a handled request to retry.
func retriedRelease(cluster, handled string, texts ...string) *addonsv1.HelmOpRelease {
	r := &addonsv1.HelmOpRelease{}
	r.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "own"}
	r.Spec.ClusterRef.Name, r.Status.LastRetryRequest = cluster, handled
	for _, text := range texts {
		r.Status.Conditions = append(r.Status.Conditions, fleettest.Condition(text))
	}
	return r
}

func TestRetryTargets(t *testing.T) {
	t.Parallel()
	helmOp := fleettest.Rolling(func(h *addonsv1.HelmOp) {
		h.Status.Failures = []addonsv1.ClusterFailure{{Cluster: "failed"}, {Cluster: "no release"}}
	})
	targets, others := retryTargets(helmOp, []*addonsv1.HelmOpRelease{
		retriedRelease("failed", "", "Ready=False/InstallFailed"),
		retriedRelease("stalled", "", "Ready=False/InstallFailed", "Stalled=True/RetriesExhausted"),
		retriedRelease("ready", "", "Ready=True/Ready"),
		retriedRelease("paused", "", "Ready=False/InstallFailed", "Paused=True/Paused"),
		retriedRelease("silent", "", "Ready=False/ClusterUnreachable", "ClusterReachable=False/ClusterUnreachable"),
	})
	if !slices.Equal(targets, []string{"failed", "no release", "stalled"}) ||
		!slices.Equal(others, []string{"paused (Paused)", "silent (Unreachable)"}) {
		t.Errorf("got %q, %q", targets, others)
	}
	fleettest.Deleting(helmOp)
	if targets, _ := retryTargets(helmOp, nil); len(targets) > 0 {
		t.Errorf("got the former failures %q of a HelmOp under deletion", targets)
	}
}

// TestRetryKeepsLostReleases checks that a retry of a HelmOp takes no release back that another HelmOp has taken over.
func TestRetryKeepsLostReleases(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	helmOp := fleettest.Rolling(nil)
	lost := retriedRelease("one", "", "Ready=False/ReleaseConflict")
	lost.Namespace, lost.Name, lost.Labels = helmOp.Namespace, "h-one", apiutil.ChildSelector(helmOp)
	lost.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(helmOp,
		addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))}
	lost.Annotations[addonsv1.LostToAnnotation] = "ns.next"
	lost.Spec.Install = &addonsv1.InstallOptions{TakeOwnership: ptr.To(true)}
	c := &kube.Client{Namespace: helmOp.Namespace,
		WithWatch: fake.NewClientBuilder().WithScheme(scheme).WithObjects(helmOp, lost).Build()}
	s := newSteer(kube.Options{Program: "x",
		Streams: genericiooptions.IOStreams{Out: io.Discard, ErrOut: io.Discard}})
	_, err := s.retryHelmOp(t.Context(), c, helmOp.Name)
	if err == nil || !strings.Contains(err.Error(), "the release in 1 Cluster: one.") ||
		!strings.Contains(err.Error(), "x retry h -n ns --cluster CLUSTER") {
		t.Errorf("got %v", err)
	}
	current, err := c.HelmOp(t.Context(), helmOp.Name)
	if err != nil || len(current.Annotations) > 0 {
		t.Errorf("got the annotations %v, %v", current.Annotations, err)
	}
	for name, change := range map[string]func(){
		"not lost":              func() { delete(lost.Annotations, addonsv1.LostToAnnotation) },
		"without takeOwnership": func() { lost.Spec.Install = nil },
	} {
		before := lost.DeepCopy()
		change()
		if err := c.Update(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		if _, err := s.retryHelmOp(t.Context(), c, helmOp.Name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		before.ResourceVersion = lost.ResourceVersion
		lost = before
	}
}

func TestRetryAttempt(t *testing.T) {
	t.Parallel()
	counted := retriedRelease("begun", "own/all", "Ready=False/InstallFailed")
	counted.Status.LastAttemptedAt = noon
	counted.Status.History = []addonsv1.ReleaseAction{{Time: metav1.NewTime(noon.Add(-time.Minute))}}
	acted := retriedRelease("failed", "own/all", "Ready=False/InstallFailed")
	acted.Status.LastAttemptedAt = noon
	acted.Status.History = []addonsv1.ReleaseAction{{Time: noon}}
	pending := retriedRelease("not yet", "all", "Ready=False/InstallFailed")
	pending.Status.LastError = "no space"
	deleted := func(cluster, handled string, texts ...string) *addonsv1.HelmOpRelease {
		r := retriedRelease(cluster, handled, texts...)
		r.DeletionTimestamp, r.Status.LastAttemptedAt = &noon, noon
		r.Status.History = []addonsv1.ReleaseAction{{Time: noon}}
		return r
	}
	attempt := newRetryAttempt(
		[]string{"begun", "deleted", "failed", "missing", "not yet", "paused", "ready", "running", "uninstalled",
			"uninstalling", "uninstalls", "uninstalls not"},
		[]*addonsv1.HelmOpRelease{retriedRelease("failed", "former"), retriedRelease("uninstalled", "")}, "all")
	attempt.observe([]*addonsv1.HelmOpRelease{retriedRelease("deleted", "")})
	attempt.observe([]*addonsv1.HelmOpRelease{
		counted, acted, pending,
		retriedRelease("running", "own/all", "Ready=False/Updating"),
		retriedRelease("ready", "", "Ready=True/Ready"),
		retriedRelease("paused", "", "Ready=False/InstallFailed", "Paused=True/Paused"),
		retriedRelease("another", "all", "Ready=False/InstallFailed"),
		deleted("uninstalling", "former", "Ready=False/UninstallFailed"),
		deleted("uninstalls", "former", "Ready=False/Deleting"),
		deleted("uninstalls not", "own/all", "Ready=False/UninstallFailed"),
	})
	want := []string{"begun (InstallFailed)", "missing (no release)", "not yet (InstallFailed)", "paused (Paused)",
		"running (Updating)", "uninstalling (UninstallFailed)", "uninstalls (Deleting)"}
	if !slices.Equal(attempt.failed, []string{"failed", "uninstalls not"}) || !slices.Equal(attempt.waiting, want) {
		t.Errorf("got %q, %q", attempt.failed, attempt.waiting)
	}
	if attempt.lastError != "not yet: no space" {
		t.Errorf("got %q", attempt.lastError)
	}
	for handled, want := range map[string]bool{"former": false, "own/all": false, "own/other": true} {
		if got := attempt.isReplaced([]*addonsv1.HelmOpRelease{retriedRelease("failed", handled),
			retriedRelease("another", "other")}); got != want {
			t.Errorf("%s: got %v", handled, got)
		}
	}
	if long := attempts.RetryRequestWith(retriedRelease("x", ""), strings.Repeat("x", 64)); len(long) != 64 {
		t.Errorf("%s", long)
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasestatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

// TestRollbackMessageNamesUnhealthyObjects checks the message of a release that was rolled back because of its health.
// It must have the object, the cause and the time.
func TestRollbackMessageNamesUnhealthyObjects(t *testing.T) {
	t.Parallel()
	release := &addonsv1.HelmOpRelease{}
	report.SetCondition(release, addonsv1.HealthyCondition, report.False, addonsv1.HealthTimeoutReason,
		"Deployment a/agent: not all pods are available")
	releasestatus.NoteUnhealthy(release, decide.Decision{Reason: decide.ReasonUpgradeFailed, FromRevision: 4},
		controllertest.Noon)
	if release.Status.LastError != "" {
		t.Fatalf("the last error of a failed upgrade is %q", release.Status.LastError)
	}
	releasestatus.NoteUnhealthy(release, decide.Decision{Reason: decide.ReasonUnhealthy, FromRevision: 4},
		controllertest.Noon)
	p := &releasePass{releaseScope: &releaseScope{release: release}}
	reportWaiting(p, decide.Decision{
		Action: model.ActionWait, State: model.StateRolledBack, Reason: decide.ReasonBackoff, FromRevision: 5,
		Message: "The upgrade failed, and Helm revision 5 rolled it back.",
	})
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	if ready.Reason != addonsv1.RolledBackReason {
		t.Errorf("the reason is %s", ready.Reason)
	}
	for _, part := range []string{"Helm revision 4", "Deployment a/agent: not all pods are available",
		addonsv1.HealthTimeoutReason, controllertest.Noon.UTC().Format(time.RFC3339)} {
		if !strings.Contains(ready.Message, part) {
			t.Errorf("%q does not contain %q", ready.Message, part)
		}
	}
}

// TestReportedFailuresAreNotReturned checks a failure that a user can correct. It must be tried again with growing
// delays, and the controller must not return it as an error.
func TestReportedFailuresAreNotReturned(t *testing.T) {
	t.Parallel()
	r := &Reconciler{recorder: events.NewFakeRecorder(10), budgets: report.NewEventBudgets(time.Now), now: time.Now}
	release := controllertest.UpToDateRelease("one")
	scope := &releaseScope{release: release}
	for name, tc := range map[string]struct {
		err    error
		reason string
	}{
		"the chart's own fail": {&helmerr.Error{Kind: helmerr.ErrChartFailed}, addonsv1.ChartFailedReason},
		"a kind without CRD":   {&helmerr.Error{Kind: helmerr.ErrKindNotServed}, addonsv1.KindNotServedReason},
		"the chart's schema":   {&helmerr.Error{Kind: helmerr.ErrInvalidValues}, addonsv1.ValuesInvalidReason},
		"a conflict":           {&helmerr.Error{Kind: helmerr.ErrConflict}, addonsv1.ReleaseConflictReason},
		"a stale decision":     {&helmerr.Error{Kind: helmerr.ErrStale}, addonsv1.UpdatingReason},
	} {
		for _, about := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			result, err := r.failed(t.Context(), scope, failures.Acting(addonsv1.InstallFailedReason), tc.err)
			if err != nil || (result.RequeueAfter-about).Abs() > about/4 {
				t.Errorf("%s: %+v, %v, want %s", name, result, err, about)
			}
		}
		if ready := conditions.Get(release, addonsv1.ReadyCondition); ready.Reason != tc.reason {
			t.Errorf("%s: the reason is %s, want %s", name, ready.Reason, tc.reason)
		}
	}
}

// linkMadeMeanwhile has a link that connects right after GetRESTConfig failed.
type linkMadeMeanwhile struct {
	clusterview.Clusters
	err      error
	failures int
	cause    clusterlink.Cause
}

func (l linkMadeMeanwhile) GetRESTConfig(context.Context, client.ObjectKey) (*rest.Config, error) {
	if l.err == nil {
		return &rest.Config{}, nil
	}
	return nil, l.err
}

func (l linkMadeMeanwhile) State(client.ObjectKey) clusterlink.State {
	return clusterlink.State{LastTry: time.Now(), LastAnswer: time.Now(), Failures: l.failures, Cause: l.cause}
}

// TestConnectReportsNothingBeforeFirstTry checks that the conditions do not change before the first connection attempt,
// not even if the kubeconfig is refused: the attempt checks the kubeconfig, too.
func TestConnectReportsNothingBeforeFirstTry(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err      error
		failures int
		cause    clusterlink.Cause
		want     metav1.ConditionStatus
		up       bool
		refused  bool
		// isUnprovisioned is true if the infrastructure of the Cluster is not provisioned.
		isUnprovisioned bool
		// hold is the hold of the deletion of the Cluster, for which HelmOp pauses the Cluster. hint is a part of the
		// message.
		hold, hint string
	}{
		"not tried yet":              {err: fmt.Errorf("%w: fleet/one", clusterlink.ErrNotTried), want: report.True},
		"tried, but failed":          {err: fmt.Errorf("%w: fleet/one", clusterlink.ErrNotConnected), want: report.False},
		"one lost probe":             {failures: 1, want: report.True, up: true},
		"silent":                     {failures: 2, want: report.False},
		"refused":                    {failures: 2, cause: clusterlink.CauseCredentials, want: report.False},
		"refused, but not tried yet": {err: clusterlink.ErrNotTried, refused: true, want: report.True},
		"refused kubeconfig":         {err: clusterlink.ErrNotConnected, refused: true, want: report.False},
		"not tried, because there is no infrastructure": {err: clusterlink.ErrNotTried, isUnprovisioned: true,
			want: report.False, hint: "before its infrastructure is provisioned"},
		"refused, and the pause of HelmOp prevents the renewal": {failures: 2, cause: clusterlink.CauseCredentials,
			hold: controllertest.HeldSince, want: report.False,
			hint: "write valid credentials to the Secret ns/c-kubeconfig, or set the annotation " +
				addonsv1.DeletionHoldAnnotation + "=over and remove spec.paused"},
		"no Secret with the label": {err: clusterlink.ErrNotConnected, failures: 1, cause: clusterlink.CauseMissing,
			want: report.False, hint: "or set this label of the Secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := &addonsv1.HelmOpRelease{}
			releasestatus.Reachable(release)
			r := &Reconciler{
				clusters:    linkMadeMeanwhile{err: tc.err, failures: tc.failures, cause: tc.cause},
				kubeconfigs: controllertest.StoreOf(t), watcher: &forgetfulWatcher{},
			}
			if tc.refused {
				r.kubeconfigs = refusedKubeconfig{}
			}
			cluster := controllertest.DeletingCluster(tc.hold, tc.hold != "")
			cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(!tc.isUnprovisioned)
			if _, ok := r.connect(t.Context(), release, cluster); ok != tc.up {
				t.Errorf("there is a connection: %t, want %t", ok, tc.up)
			}
			got := conditions.Get(release, addonsv1.ClusterReachableCondition)
			if got.Status != tc.want || !strings.Contains(got.Message, string(tc.cause)) ||
				!strings.Contains(got.Message, tc.hint) {
				t.Errorf("ClusterReachable is %s: %s, want %s", got.Status, got.Message, tc.want)
			}
		})
	}
}

// refusedKubeconfig is a reader that refuses each kubeconfig.
type refusedKubeconfig struct{ client.Reader }

func (refusedKubeconfig) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return fmt.Errorf("%w: it runs a program", clusterview.ErrKubeconfigRefused)
}

// TestRefusedKubeconfigUnderDeletion checks that a deletion that waits for another kubeconfig says how to end without
// an uninstallation.
func TestRefusedKubeconfigUnderDeletion(t *testing.T) {
	t.Parallel()
	for hint, deletion := range map[string]*metav1.Time{"": nil, report.OrphanHint: new(metav1.Now())} {
		release := &addonsv1.HelmOpRelease{}
		release.DeletionTimestamp = deletion
		r := &Reconciler{clusters: linkMadeMeanwhile{err: clusterlink.ErrNotConnected}, kubeconfigs: refusedKubeconfig{},
			watcher: &forgetfulWatcher{}}
		if _, ok := r.connect(t.Context(), release, nil); ok {
			t.Error("a refused kubeconfig is used")
		}
		for _, condition := range []string{addonsv1.ReadyCondition, addonsv1.ClusterReachableCondition} {
			got := conditions.Get(release, condition)
			if got.Reason != addonsv1.KubeconfigRefusedReason || !strings.HasSuffix(got.Message, "a program"+hint) {
				t.Errorf("%+v", got)
			}
		}
	}
}

// TestReleaseWithoutSlotReportsWaiting has a release that waits for a slot. Its condition Ready must have the wait. The
// reason of a failure stays.
func TestReleaseWithoutSlotReportsWaiting(t *testing.T) {
	t.Parallel()
	taken := newActionSlots(1, 1, &async.Waker{})
	if _, ok := taken.Acquire(slots.Claim{Cluster: "busy", HelmOp: "busy"}); !ok {
		t.Fatal("the only slot is taken")
	}
	r := &Reconciler{slots: taken, images: preflight.New(nil, 1)}
	act := func(release *addonsv1.HelmOpRelease) *metav1.Condition {
		p := &releasePass{releaseScope: &releaseScope{release: release, before: release.DeepCopy()}}
		if result, err := r.act(t.Context(), p, decide.Decision{Action: model.ActionRollback}); err != nil ||
			!result.IsZero() {
			t.Errorf("%+v, %v", result, err)
		}
		return conditions.Get(release, addonsv1.ReadyCondition)
	}
	if ready := act(&addonsv1.HelmOpRelease{}); ready == nil || ready.Status != report.False ||
		ready.Reason != addonsv1.UpdatingReason {
		t.Errorf("Ready of a new release is %+v", ready)
	}
	for _, reason := range []string{addonsv1.ImagesMissingReason, addonsv1.WaitingForDependenciesReason} {
		waited := &addonsv1.HelmOpRelease{}
		report.SetNotReady(waited, reason, "no")
		if ready := act(waited); ready.Reason != addonsv1.UpdatingReason {
			t.Errorf("Ready of a release that had %s is %+v", reason, ready)
		}
	}
	failed := &addonsv1.HelmOpRelease{}
	failed.Status.LastError = "no"
	releasestatus.NotReleased(failed, addonsv1.UpgradeFailedReason, "the next attempt is at 12:00")
	for range 2 {
		if ready := act(failed); ready.Reason != addonsv1.UpgradeFailedReason ||
			ready.Message != "The next try waits for a slot: the concurrency limit of the manager is reached; "+
				"the last error: no" {
			t.Errorf("Ready of a failed release is %+v", ready)
		}
	}
}

// TestNewReleaseInCrowdWaitsInSilence checks that a new release in a long queue for slots does not write that it waits,
// but only for ten minutes. A release that has reported something before writes it at once, and so does a release that
// may adopt a release of another owner or of a lost HelmOpRelease: its wave waits for its state.
func TestNewReleaseInCrowdWaitsInSilence(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	reported := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}}
	report.SetNotReady(reported, addonsv1.FetchingArtifactReason, "it is fetched")
	created := func(age time.Duration) *addonsv1.HelmOpRelease {
		return &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))}}
	}
	adopting := created(0)
	adopting.Spec.Install = &addonsv1.InstallOptions{TakeOwnership: ptr.To(true)}
	assigned := func(reason addonsv1.ReleaseRolloutReason) *addonsv1.HelmOpRelease {
		release := created(0)
		release.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 7, Reason: reason}
		return release
	}
	plain := &addonsv1.HelmOp{}
	withWaves := &addonsv1.HelmOp{Spec: addonsv1.HelmOpSpec{
		Rollout: &addonsv1.Rollout{Waves: []addonsv1.Wave{{Name: "canary"}}}}}
	for name, tc := range map[string]struct {
		// waiting is the number of other releases in the queue.
		waiting int
		release *addonsv1.HelmOpRelease
		// silent is when the next pass is due; 0 if the release reports its wait.
		silent time.Duration
		helmOp *addonsv1.HelmOp
	}{
		"a short queue":            {crowd - 2, created(0), 0, nil},
		"a crowd":                  {crowd, created(0), crowdPatience, nil},
		"a crowd, later":           {crowd, created(crowdPatience / 4), crowdPatience * 3 / 4, nil},
		"a crowd, nine minutes":    {crowd, created(9 * time.Minute), time.Minute, nil},
		"a crowd, ten minutes":     {crowd, created(10 * time.Minute), 0, nil},
		"a crowd, and much later":  {crowd, created(time.Hour), 0, nil},
		"an API server in advance": {crowd, created(-time.Hour), crowdPatience, nil},
		"it has reported before":   {crowd, reported, 0, nil},
		"it may adopt a release":   {crowd, adopting, 0, nil},
		"a new Cluster":            {crowd, assigned(addonsv1.ReleaseRolloutJoined), crowdPatience, plain},
		"and it has waves":         {crowd, assigned(addonsv1.ReleaseRolloutJoined), 0, withWaves},
		"a later HelmOp revision":  {crowd, assigned(addonsv1.ReleaseRolloutUpdated), crowdPatience, withWaves},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			taken := newActionSlots(1, 1, &async.Waker{})
			for i := range tc.waiting + 1 {
				other := types.NamespacedName{Namespace: "other", Name: strconv.Itoa(i)}
				taken.Acquire(slots.Claim{Release: other, Cluster: "busy", HelmOp: "busy"})
			}
			r := &Reconciler{slots: taken, images: preflight.New(nil, 1), now: func() time.Time { return now }}
			p := &releasePass{releaseScope: &releaseScope{release: tc.release, before: tc.release.DeepCopy(),
				helmOp: tc.helmOp}, policy: releasespec.PolicyOf(&tc.release.Spec)}
			// The second pass finds the release itself in the queue.
			for range 2 {
				result, err := r.act(t.Context(), p, decide.Decision{Action: model.ActionRollback})
				if err != nil || result.RequeueAfter != tc.silent || p.leavesStatus != (tc.silent > 0) {
					t.Errorf("%+v, %v, silent %v, want %s", result, err, p.leavesStatus, tc.silent)
				}
			}
		})
	}
}

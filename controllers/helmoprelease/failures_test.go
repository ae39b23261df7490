// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmopstatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
)

// TestRefetchKeepsReportedFailure checks that the failure of the last pull stays reported while the chart is pulled
// again.
func TestRefetchKeepsReportedFailure(t *testing.T) {
	t.Parallel()
	r := &Reconciler{}
	release := &addonsv1.HelmOpRelease{}
	report := func(err error) string {
		t.Helper()
		if _, err := r.failed(t.Context(), &releaseScope{release: release}, failures.Fetching, err); err != nil {
			t.Fatal(err)
		}
		return conditions.GetReason(release, addonsv1.ReleasedCondition)
	}
	if got := report(artifacts.ErrRefetching); got != addonsv1.FetchingArtifactReason {
		t.Errorf("the reason of a release without conditions is %q", got)
	}
	conditions.Set(release, metav1.Condition{Type: addonsv1.ReleasedCondition, Status: metav1.ConditionFalse,
		Reason: addonsv1.RegistryUnreachableReason})
	if got := report(artifacts.ErrRefetching); got != addonsv1.RegistryUnreachableReason {
		t.Errorf("the reason while the chart is pulled again is %q", got)
	}
	if got := report(artifacts.ErrFetching); got != addonsv1.FetchingArtifactReason {
		t.Errorf("the reason while another artifact is pulled is %q", got)
	}
}

// sharedPull is the error of a pull that several releases wait for.
type sharedPull struct{ error }

// Unwrap implements the interface of errors.Is.
func (s sharedPull) Unwrap() []error {
	return []error{s.error, &artifacts.Failure{Wait: time.Minute}}
}

// TestFailureHasTimeOfNextTry checks the time of the next try after failures that changed nothing. Only a release with
// a delay of its own has a time: a time for each try of a shared pull would be a write for each release that waits.
func TestFailureHasTimeOfNextTry(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for name, tc := range map[string]struct {
		stage   failures.Stage
		err     error
		hasTime bool
	}{
		"an action that a quota refuses": {failures.Acting(addonsv1.InstallFailedReason), no, true},
		"unreadable records":             {failures.Observing, no, true},
		"a template":                     {failures.Rendering, no, true},
		"a shared pull":                  {failures.Fetching, sharedPull{no}, false},
		"a pull that is running":         {failures.Fetching, artifacts.ErrFetching, false},
		"no answer":                      {failures.Observing, helmerr.ErrUnreachable, false},
	} {
		r := &Reconciler{recorder: events.NewFakeRecorder(10), budgets: report.NewEventBudgets(time.Now),
			now: func() time.Time { return controllertest.Noon }}
		release := controllertest.UpToDateRelease("one")
		release.Status.NextTryAt = metav1.NewTime(controllertest.Noon.Add(-time.Hour))
		result, err := r.failed(t.Context(), &releaseScope{release: release}, tc.stage, tc.err)
		want := time.Time{}
		if tc.hasTime {
			want = controllertest.Noon.Add(result.RequeueAfter).Round(time.Second)
		}
		if got := release.Status.NextTryAt; err != nil || !got.Time.Equal(want) {
			t.Errorf("%s: %+v, %v: the next try is at %s, want %s", name, result, err, got, want)
		}
	}
}

// TestClusterAnswersAgain reads the records of a release whose Cluster was unreachable. If the API server answers and
// refuses the request, the Cluster has failed for the HelmOp, the plan and the metric. Otherwise, no alert would fire.
func TestClusterAnswersAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want addonsv1.ClusterCounts
		// ready is the reason of the HelmOp. reachable has the values of the metric.
		ready     string
		reachable []float64
		health    rollout.Health
	}{
		"the records are forbidden": {helmerr.ErrForbidden, addonsv1.ClusterCounts{Selected: 1, Failed: 1},
			addonsv1.ReleasesFailedReason, []float64{1}, rollout.HealthFailed},
		"no answer": {helmerr.ErrUnreachable, addonsv1.ClusterCounts{Selected: 1, Unreachable: 1},
			addonsv1.WaitingForClustersReason, []float64{0}, rollout.HealthUnreachable},
		"no memory for the answer": {helmerr.ErrBusy, addonsv1.ClusterCounts{Selected: 1, Unreachable: 1},
			addonsv1.WaitingForClustersReason, nil, rollout.HealthUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Reconciler{recorder: events.NewFakeRecorder(10), budgets: report.NewEventBudgets(time.Now), now: time.Now}
			release := controllertest.UpToDateRelease("one")
			report.Unreachable(release, "no answer")
			scope := &releaseScope{release: release}
			if _, err := r.failed(t.Context(), scope, failures.Observing, &helmerr.Error{Kind: tc.err}); err != nil {
				t.Fatal(err)
			}
			cluster := &clusterv1.Cluster{}
			cluster.Status.Initialization.ControlPlaneInitialized = new(true)
			status := helmopstatus.Of(&helmopstatus.Pass{
				HelmOp: &addonsv1.HelmOp{}, Artifact: &addonsv1.ResolvedArtifact{}, DesiredNumber: 1,
				Revisions: []*addonsv1.HelmOpRevision{{Spec: addonsv1.HelmOpRevisionSpec{Number: 1}}},
				Clusters: []helmopstatus.Cluster{{Name: "one", Selected: true, Cluster: cluster, Child: release,
					Step: rollout.Step{Action: rollout.ActionNone, Assigned: true}}},
			})
			if status.Counts != tc.want || status.Ready.Reason != tc.ready {
				t.Errorf("%+v, Ready is %+v", status.Counts, status.Ready)
			}
			if health, _ := rolloutstate.Health(release); health != tc.health {
				t.Errorf("the health in the plan is %v, want %v", health, tc.health)
			}
			if got := reachableSeries(t, release); !slices.Equal(got, tc.reachable) {
				t.Errorf("the values of the metric are %v, want %v", got, tc.reachable)
			}
		})
	}
}

// reachableSeries returns the values of the metric helmop_cluster_reachable for a release.
func reachableSeries(t *testing.T, release *addonsv1.HelmOpRelease) []float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(monitoring.NewStateCollector(controllertest.StoreOf(t, release)))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var values []float64
	for _, family := range families {
		if family.GetName() != "helmop_cluster_reachable" {
			continue
		}
		for _, metric := range family.GetMetric() {
			values = append(values, metric.GetGauge().GetValue())
		}
	}
	return values
}

// TestUnreachableTryIsExplained checks that a try that counts as failed has its error in the message of the next pass,
// also if the connection to the Cluster broke. The error of an earlier try would mislead the user.
func TestUnreachableTryIsExplained(t *testing.T) {
	t.Parallel()
	r := &Reconciler{}
	release := controllertest.UpToDateRelease("one")
	release.Status.LastError = "an earlier error"
	p := &releasePass{releaseScope: &releaseScope{release: release}}
	cause := &helmerr.Error{Kind: helmerr.ErrUnreachable, Action: model.ActionUpgrade, Message: "connection refused"}
	result, err := r.actionFailed(t.Context(), p, decide.Decision{Action: model.ActionUpgrade},
		helmclient.Result{StorageChanged: true}, cause)
	if err != nil || result.RequeueAfter != requeueAtOnce {
		t.Fatalf("got %+v, %v", result, err)
	}
	reportWaiting(p, decide.Decision{Action: model.ActionWait, Reason: decide.ReasonBackoff,
		Message: "Failures so far: 1."})
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	if !strings.Contains(ready.Message, cause.Error()) || strings.Contains(ready.Message, "earlier") {
		t.Errorf("%+v", ready)
	}
}

// TestPassWithoutTryHasNoTime checks that a pass that waits for something without a time removes the time of the next
// try. A pass that ends before the state of the release is known must keep it: the next pass would write it again.
func TestPassWithoutTryHasNoTime(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*controllertest.ReleaseBench)
		kept   bool
	}{
		"the control plane is not initialized": {func(b *controllertest.ReleaseBench) {
			b.Cluster.Status.Initialization.ControlPlaneInitialized = nil
		}, false},
		"paused": {func(b *controllertest.ReleaseBench) {
			b.Release.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, false},
		"the HelmOp is under deletion": {func(b *controllertest.ReleaseBench) {
			b.HelmOp.Finalizers, b.HelmOp.DeletionTimestamp = []string{addonsv1.HelmOpFinalizer}, new(metav1.Now())
		}, false},
		"no connection was tried yet": {func(*controllertest.ReleaseBench) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			b.Cluster.Namespace, b.Cluster.UID = b.Release.Namespace, "one"
			b.Cluster.Status.Initialization = clusterv1.ClusterInitializationStatus{
				ControlPlaneInitialized: new(true), InfrastructureProvisioned: new(true)}
			b.Release.Spec.ClusterRef.Namespace, b.Release.Status.ClusterUID = "", "one"
			b.Release.Finalizers = []string{addonsv1.HelmOpReleaseFinalizer}
			b.Release.Status.NextTryAt = metav1.NewTime(controllertest.Noon)
			tc.change(b)
			r := benchReconciler(b)
			r.now, r.watcher, r.kubeconfigs = time.Now, forgettingWatcher{forgetting: &forgetting{}}, r.client
			r.clusters = linkMadeMeanwhile{err: clusterlink.ErrNotTried}
			release, key := &addonsv1.HelmOpRelease{}, client.ObjectKeyFromObject(b.Release)
			for range 2 {
				if err := r.client.Get(t.Context(), key, release); err != nil {
					t.Fatal(err)
				}
				if _, err := r.reconcile(t.Context(), ctrl.Request{NamespacedName: key}, release); err != nil {
					t.Fatal(err)
				}
				if got := release.Status.NextTryAt; got.IsZero() == tc.kept {
					t.Errorf("the next try is at %s", got)
				}
			}
		})
	}
}

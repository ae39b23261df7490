// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/assignedvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

// presentEngine is an Engine that only reads what a cluster has: a release that uses a removed API.
type presentEngine struct {
	Engine
	err   error
	reads int
}

func (e *presentEngine) Present(context.Context, model.Target, string, string) (helmclient.Present, error) {
	e.reads++
	budget := &unstructured.Unstructured{}
	budget.SetAPIVersion("policy/v1beta1")
	budget.SetKind("PodDisruptionBudget")
	budget.SetName("web")
	return helmclient.Present{KubeVersion: "v1.36.2", Revision: 1, Objects: []*unstructured.Unstructured{budget},
		Serves: func(schema.GroupVersionKind) bool { return true }}, e.err
}

// upgradeBench is a Reconciler with a release that is checked for an upgrade of Kubernetes.
type upgradeBench struct {
	*controllertest.ReleaseBench
	r        *Reconciler
	engine   *presentEngine
	recorder *events.FakeRecorder
	now      time.Time
}

func newUpgradeBench(t *testing.T) *upgradeBench {
	t.Helper()
	b := &upgradeBench{ReleaseBench: controllertest.NewReleaseBench(t), engine: &presentEngine{}, now: time.Now(),
		recorder: events.NewFakeRecorder(10)}
	b.Release.Generation = 1
	b.request("v1.37")
	b.build()
	return b
}

// build makes the Reconciler with the objects as they are.
func (b *upgradeBench) build() {
	b.r = benchReconciler(b.ReleaseBench)
	b.r.assigned = assignedvalues.Renderer{Client: b.r.client, Live: b.r.live, Renderer: b.r.renderer}
	b.r.engine, b.r.recorder, b.r.now = b.engine, b.recorder, func() time.Time { return b.now }
	b.r.budgets = report.NewEventBudgets(b.r.now)
	b.r.slots = slots.New(slots.Options{Workers: 8, PerCluster: 1, Wake: func(types.NamespacedName) {}})
}

// request requests a check for a version; "" requests none.
func (b *upgradeBench) request(version string) {
	b.Cluster.Annotations = map[string]string{addonsv1.CheckUpgradeAnnotation: version}
}

// pass checks the release as in a pass, and returns the reason of the condition and the number of reads so far.
func (b *upgradeBench) pass(hasActed bool) (reason string, reads int, pass *releasePass) {
	b.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b.Cluster)
	if err != nil {
		b.Fatal(err)
	}
	scope := &releaseScope{release: b.Release, helmOp: b.HelmOp, cluster: b.Cluster,
		object: &unstructured.Unstructured{Object: object}}
	p := &releasePass{releaseScope: scope, target: model.Target{Key: "team/one"}, hasActed: hasActed}
	if end, err := b.r.checkUpgrade(b.Context(), p); end != nil || err != nil {
		b.Fatalf("%v, %v", end, err)
	}
	settleUpgradeCheck(scope)
	return conditions.GetReason(b.Release, addonsv1.KubernetesUpgradeReadyCondition), b.engine.reads, p
}

func (b *upgradeBench) want(what, reason string, reads int) *releasePass {
	b.Helper()
	got, n, p := b.pass(false)
	if got != reason || n != reads {
		b.Errorf("%s: got %s after %d reads, want %s after %d: %s", what, got, n, reason, reads,
			conditions.GetMessage(b.Release, addonsv1.KubernetesUpgradeReadyCondition))
	}
	return p
}

// TestCheckUpgrade checks when a release is checked: once for everything that the result depends on.
func TestCheckUpgrade(t *testing.T) {
	t.Parallel()
	b := newUpgradeBench(t)
	b.Release.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: "1"}
	b.want("requested", addonsv1.APIRemovedReason, 1)
	if got := conditions.GetMessage(b.Release, addonsv1.KubernetesUpgradeReadyCondition); !strings.Contains(got,
		"from v1.37 on: PodDisruptionBudget of policy/v1beta1 is not served since v1.25") ||
		!strings.Contains(got, "unpin it (kubectl helmop unpin)") {
		t.Errorf("message %q", got)
	}
	b.want("unchanged", addonsv1.APIRemovedReason, 1)
	if n := len(b.recorder.Events); n != 2 {
		t.Errorf("%d Events, want one at the release and one at the HelmOp", n)
	}
	b.Release.Generation++
	b.want("another generation", addonsv1.APIRemovedReason, 2)
	b.Release.Status.Release = &addonsv1.ReleaseObservation{Revision: 2}
	b.want("another Helm revision", addonsv1.APIRemovedReason, 3)
	b.Release.Annotations[addonsv1.RetryRequestedAtAnnotation] = "now"
	b.want("a retry", addonsv1.APIRemovedReason, 4)
	if n := len(b.recorder.Events); n != 2 {
		t.Errorf("%d Events for the same result", n)
	}
	b.request("v1.36")
	b.want("the running version", addonsv1.InvalidKubernetesVersionReason, 5)
	b.request("newest")
	b.want("no version", addonsv1.InvalidKubernetesVersionReason, 5)
	b.request("v1.38")
	if reason, reads, p := b.pass(true); reason != addonsv1.UpgradeCheckPendingReason || reads != 5 ||
		p.requeueAfter == 0 {
		t.Errorf("after an action: %s, %d reads, again in %s", reason, reads, p.requeueAfter)
	}
	b.engine.err = &helmerr.Error{Kind: helmerr.ErrUnreachable, Message: "no answer"}
	if p := b.want("unreachable", addonsv1.UpgradeCheckFailedReason, 6); p.requeueAfter < time.Minute {
		t.Errorf("the next try is in %s", p.requeueAfter)
	}
	b.want("unreachable, too early", addonsv1.UpgradeCheckFailedReason, 6)
	b.now = b.now.Add(time.Hour)
	b.engine.err = nil
	b.want("reachable again", addonsv1.APIRemovedReason, 7)
	b.request("")
	b.want("no longer requested", "", 7)
	if b.Release.Status.UpgradeCheck != nil {
		t.Error("the status still has the check")
	}
}

// TestCheckUpgradeWithoutSlot checks that a check waits for a slot, and that an earlier result stays meanwhile.
func TestCheckUpgradeWithoutSlot(t *testing.T) {
	t.Parallel()
	b := newUpgradeBench(t)
	b.Release.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: "1"}
	done, ok := b.r.slots.Acquire(slots.Claim{Release: types.NamespacedName{Name: "other"}, Cluster: "team/one"})
	if !ok {
		t.Fatal("no slot")
	}
	b.want("no slot", addonsv1.UpgradeCheckPendingReason, 0)
	done()
	b.want("a slot", addonsv1.APIRemovedReason, 1)
	done, _ = b.r.slots.Acquire(slots.Claim{Release: types.NamespacedName{Name: "other"}, Cluster: "team/one"})
	defer done()
	b.Release.Generation++
	b.want("no slot for another check", addonsv1.APIRemovedReason, 1)
}

// TestCheckUpgradeWithoutArtifact checks that an artifact that the HelmOp revision does not have is named, and is not
// looked up again.
func TestCheckUpgradeWithoutArtifact(t *testing.T) {
	t.Parallel()
	b := newUpgradeBench(t)
	b.Revisions[0].Spec.HelmOp.RefsByKubernetesVersion = []addonsv1.KubernetesVersionReference{
		{KubernetesVersion: ">=1.37", Ref: controllertest.Tagged("2.0.0")}}
	b.build()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	rendered, _, err := b.r.renderer.Values(t.Context(), b.HelmOp, &unstructured.Unstructured{Object: object},
		b.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	b.Release.Spec.ValuesDigest, b.Release.Spec.PostRenderDigest = rendered.Digest, rendered.PostRenderDigest
	b.want("no artifact", addonsv1.UpgradeCheckFailedReason, 1)
	if got := conditions.GetMessage(b.Release, addonsv1.KubernetesUpgradeReadyCondition); !strings.Contains(got,
		"the artifact with tag 2.0.0, which v1.37.0 would use, is not known") {
		t.Errorf("message %q", got)
	}
	b.want("no artifact, still", addonsv1.UpgradeCheckFailedReason, 1)
}

// TestSettleUpgradeCheck checks what is reported for a pass that ends before the check.
func TestSettleUpgradeCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*upgradeBench)
		want   string // of the message; "" means no condition
	}{
		"paused": {func(b *upgradeBench) { report.SetPaused(b.Release, true, "The Cluster is paused") },
			"The release is not checked for Kubernetes v1.37 yet: The Cluster is paused"},
		"not ready": {func(b *upgradeBench) { report.SetNotReady(b.Release, addonsv1.ClusterUnreachableReason, "no answer") },
			"The release is not checked for Kubernetes v1.37 yet: No answer"},
		"not requested":              {func(b *upgradeBench) { b.request("") }, ""},
		"the release is deleted":     {func(b *upgradeBench) { b.Release.DeletionTimestamp = new(metav1.Now()) }, ""},
		"the Cluster is deleted":     {func(b *upgradeBench) { b.Cluster.DeletionTimestamp = new(metav1.Now()) }, ""},
		"the Cluster does not exist": {func(b *upgradeBench) { b.Cluster = nil }, ""},
	} {
		b := newUpgradeBench(t)
		b.Release.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: "v1.35"}
		report.SetCondition(b.Release, addonsv1.KubernetesUpgradeReadyCondition, report.True,
			addonsv1.KubernetesUpgradeReadyReason, "for another version")
		tc.change(b)
		settleUpgradeCheck(&releaseScope{release: b.Release, cluster: b.Cluster, object: &unstructured.Unstructured{}})
		if got := conditions.GetMessage(b.Release, addonsv1.KubernetesUpgradeReadyCondition); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
		if (clusterlife.CheckedVersion(b.Release) == "") != (tc.want == "") {
			t.Errorf("%s: status %+v", name, b.Release.Status.UpgradeCheck)
		}
	}
}

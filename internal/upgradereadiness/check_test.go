// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgradereadiness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/assignedvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgraderun"
)

// presentEngine is an Engine that only reads the state of a cluster. The cluster has a release that uses a removed API.
type presentEngine struct {
	upgraderun.Engine
	reads int
}

func (e *presentEngine) Present(_ context.Context, _ model.Target, _, _ string,
	use func(objects, hooks []*unstructured.Unstructured),
) (dryrun.Present, error) {
	e.reads++
	budget := &unstructured.Unstructured{}
	budget.SetAPIVersion("policy/v1beta1")
	budget.SetKind("PodDisruptionBudget")
	budget.SetName("web")
	use([]*unstructured.Unstructured{budget}, nil)
	return dryrun.Present{KubeVersion: "v1.36.2", Revision: 1,
		Serves: func(schema.GroupVersionKind) bool { return true }}, nil
}

// bench has a release that is checked for an upgrade of Kubernetes.
type bench struct {
	*controllertest.ReleaseBench
	client  client.Client
	checker *Checker
	engine  *presentEngine
	retry   *Retry
	now     time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{ReleaseBench: controllertest.NewReleaseBench(t), engine: &presentEngine{}, now: time.Now()}
	b.Release.Generation = 1
	b.Cluster.Annotations = map[string]string{addonsv1.CheckUpgradeAnnotation: "v1.37"}
	b.build()
	return b
}

// build starts another manager with the current objects.
func (b *bench) build() {
	b.client = b.Client()
	renderer := render.New(references.NewReader(b.client, b.client), clusterview.NewReader(b.client, b.client))
	b.checker = &Checker{
		Engine: b.engine, Objects: renderer.Objects, Rendered: &attempts.Rendered{},
		Assigned: &assignedvalues.Renderer{Client: b.client, Live: b.client, Renderer: renderer},
		Now:      func() time.Time { return b.now },
	}
	b.retry = &Retry{}
}

// subject returns the release in the form of a pass.
func (b *bench) subject() *Subject {
	b.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b.Cluster)
	if err != nil {
		b.Fatal(err)
	}
	before := b.Release.DeepCopy()
	return &Subject{
		Release: b.Release, Cluster: b.Cluster, Object: &unstructured.Unstructured{Object: object}, HelmOp: b.HelmOp,
		Before: before, Retry: b.retry, Desired: &model.Desired{}, Options: &model.Options{},
		Mark: func(ctx context.Context, changed *addonsv1.HelmOpRelease) error {
			return b.client.Status().Patch(ctx, changed, client.MergeFrom(before))
		},
		Acquire: func() (func(), bool) { return func() {}, true },
	}
}

// want checks the release like a pass does. It compares the reason of the condition and the number of reads so far.
func (b *bench) want(what, reason string, reads int) *Subject {
	b.Helper()
	s := b.subject()
	check, err := b.checker.Due(b.Context(), s)
	if err == nil && check != nil {
		err = b.checker.Run(b.Context(), s, check)
	}
	if err != nil {
		b.Fatal(err)
	}
	Settle(b.Release, b.Cluster, s.Object)
	if got := conditions.GetReason(b.Release, addonsv1.KubernetesUpgradeReadyCondition); got != reason ||
		b.engine.reads != reads {
		b.Errorf("%s: got %s after %d reads, want %s after %d", what, got, b.engine.reads, reason, reads)
	}
	return s
}

// TestUncheckedHidesSecrets checks that the reported error of a check has no values from Secrets.
func TestUncheckedHidesSecrets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	conflict := fmt.Errorf("hunter2-web: %w", apierrors.NewConflict(schema.GroupResource{}, "one", errors.New("changed")))
	for name, err := range map[string]error{"failed": errors.New("cannot read hunter2-web"),
		"pending": fmt.Errorf("hunter2-web: %w", assignedvalues.ErrOutdated), "written meanwhile": conflict} {
		s := b.subject()
		s.Options.SecretValues = []any{"hunter2"}
		check := &Check{UpgradeToCheck: clusterlife.UpgradeToCheck{Version: "v1.37"}, inputs: name}
		if err := b.checker.unchecked(t.Context(), s, check, err); err != nil {
			t.Fatal(err)
		}
		if got := conditions.GetMessage(b.Release, addonsv1.KubernetesUpgradeReadyCondition); strings.Contains(got,
			"hunter2") || !strings.Contains(got, "[redacted]") {
			t.Errorf("%s: message %q", name, got)
		}
		if isPending := conditions.GetReason(b.Release, addonsv1.KubernetesUpgradeReadyCondition) ==
			addonsv1.UpgradeCheckPendingReason; isPending != (name != "failed") {
			t.Errorf("%s: pending %t", name, isPending)
		}
		conditions.Delete(b.Release, addonsv1.KubernetesUpgradeReadyCondition)
	}
}

// TestStopDuringCheck stops a manager during a check and starts another one. The new manager must count the check and
// must not repeat it at once. It must check another spec at once.
func TestStopDuringCheck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Release.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: "1"}
	b.build()
	for count := int64(1); count <= 3; count++ {
		if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(b.Release), b.Release); err != nil {
			t.Fatal(err)
		}
		s := b.subject()
		check, err := b.checker.Due(t.Context(), s)
		if err != nil || check == nil {
			t.Fatalf("%v, %v", check, err)
		}
		for _, digest := range []string{"sha256:a", "sha256:b"} {
			if err := b.checker.mark(t.Context(), s, check, &model.Desired{ArtifactDigest: digest}); err != nil {
				t.Fatal(err)
			}
		}
		// The manager stops here. Only the state in the API server is left.
		if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(b.Release), b.Release); err != nil {
			t.Fatal(err)
		}
		attempt := b.Release.Status.UpgradeCheck.Attempt
		if attempt == nil || attempt.Count != count || attempt.Inputs != check.inputs {
			t.Fatalf("attempt %+v, want the count %d", attempt, count)
		}
		b.build()
		s = b.want("after the stop", addonsv1.UpgradeCheckFailedReason, 0)
		if s.RequeueAfter < time.Minute<<(count-1) {
			t.Errorf("stop %d: the next try is in %s", count, s.RequeueAfter)
		}
		b.now = b.now.Add(s.RequeueAfter + time.Second)
	}
	b.want("after the wait", addonsv1.APIRemovedReason, 1)
	if b.Release.Status.UpgradeCheck.Attempt != nil {
		t.Error("the attempt is still in the status")
	}
}

// TestRenderedArtifactNeedsNoMark checks which checks write their start. A check must write nothing if this process has
// rendered the same artifact and values for the same upgrade, also for another release.
func TestRenderedArtifactNeedsNoMark(t *testing.T) {
	t.Parallel()
	upgrade := clusterlife.UpgradeToCheck{Version: "v1.37.0"}
	rendered := model.Desired{ArtifactDigest: "sha256:a", ValuesDigest: "1"}
	for name, tc := range map[string]struct {
		desired model.Desired
		version string
		isNew   bool
	}{
		"the same":                      {rendered, "v1.37.0", false},
		"the same artifact, new values": {model.Desired{ArtifactDigest: "sha256:a", ValuesDigest: "2"}, "v1.37.0", true},
		"another version of Kubernetes": {rendered, "v1.38.0", true},
	} {
		b := newBench(t)
		// The installed release has the artifact, but its rendering for the new version is not known.
		b.Release.Status.Release = &addonsv1.ReleaseObservation{ArtifactDigest: "sha256:a", ValuesDigest: "2"}
		b.build()
		first := &Check{UpgradeToCheck: upgrade, inputs: "x", isMarked: true}
		if err := b.checker.mark(t.Context(), b.subject(), first, &rendered); err != nil {
			t.Fatal(err)
		}
		for _, rendering := range first.renderings {
			b.checker.Rendered.Add(rendering)
		}
		check := &Check{UpgradeToCheck: clusterlife.UpgradeToCheck{Version: tc.version}, inputs: "y"}
		if err := b.checker.mark(t.Context(), b.subject(), check, &tc.desired); err != nil {
			t.Fatal(err)
		}
		if check.isMarked != tc.isNew {
			t.Errorf("%s: marked %t, want %t", name, check.isMarked, tc.isNew)
		}
	}
}

// TestCheckWaitsForPlan requests a check for an upgrade over two minor versions. Cluster API has processed the request,
// and no plan is published.
func TestCheckWaitsForPlan(t *testing.T) {
	t.Parallel()
	for publishesPlans, want := range map[bool]string{true: clusterlife.PlanPending, false: ""} {
		b := newBench(t)
		controllertest.RequestUpgrade(b.Cluster, "v1.37.0")
		b.Cluster.Annotations = map[string]string{addonsv1.CheckUpgradeAnnotation: "v1.37.0"}
		objects := controllertest.UpgradeClient(t, b.Cluster.Namespace, "v1.35.0", publishesPlans)
		b.checker.Objects = clusterview.NewReader(objects, objects)
		check, err := b.checker.Due(t.Context(), b.subject())
		got := conditions.GetMessage(b.Release, addonsv1.KubernetesUpgradeReadyCondition)
		if err != nil || (check == nil) != publishesPlans || got != want {
			t.Errorf("published %t: %+v, %v, message %q", publishesPlans, check, err, got)
		}
	}
}

// TestSettleUpgradeCheck checks the report of a pass that ends before the check.
func TestSettleUpgradeCheck(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*bench)
		want   string // of the message; "" means no condition
	}{
		"paused": {func(b *bench) { report.SetPaused(b.Release, true, "The Cluster is paused") },
			"The release is not checked for Kubernetes v1.37 yet: The Cluster is paused"},
		"not ready": {func(b *bench) { report.SetNotReady(b.Release, addonsv1.ClusterUnreachableReason, "no answer") },
			"The release is not checked for Kubernetes v1.37 yet: No answer"},
		"not requested":              {func(b *bench) { b.Cluster.Annotations = nil }, ""},
		"the release is deleted":     {func(b *bench) { b.Release.DeletionTimestamp = new(metav1.Now()) }, ""},
		"the Cluster is deleted":     {func(b *bench) { b.Cluster.DeletionTimestamp = new(metav1.Now()) }, ""},
		"the Cluster does not exist": {func(b *bench) { b.Cluster = nil }, ""},
	} {
		b := newBench(t)
		b.Release.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: "v1.35"}
		report.SetCondition(b.Release, addonsv1.KubernetesUpgradeReadyCondition, report.True,
			addonsv1.KubernetesUpgradeReadyReason, "for another version")
		tc.change(b)
		Settle(b.Release, b.Cluster, &unstructured.Unstructured{})
		if got := conditions.GetMessage(b.Release, addonsv1.KubernetesUpgradeReadyCondition); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
		if (clusterlife.CheckedVersion(b.Release) == "") != (tc.want == "") {
			t.Errorf("%s: status %+v", name, b.Release.Status.UpgradeCheck)
		}
	}
}

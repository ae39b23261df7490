// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/assignedvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradereadiness"
)

// presentEngine is an Engine that only reads the state of a cluster. The cluster has a release that uses a removed API,
// unless clean is set. Actions of the engine fail.
type presentEngine struct {
	Engine
	err     error
	acted   helmclient.Result
	reads   int
	isClean bool
}

func (e *presentEngine) Act(context.Context, model.Target, decide.Decision, model.Desired, model.Options, *bundle.Chart,
	map[string]any,
) (helmclient.Result, error) {
	return e.acted, &helmerr.Error{Kind: helmerr.ErrConflict}
}

func (*presentEngine) Access(model.Target) (*model.Access, error) { return &model.Access{}, nil }

func (*presentEngine) Saw(string, string, string, map[inventory.Ref]model.ObjectVersion) {}

func (e *presentEngine) Present(_ context.Context, _ model.Target, _, _ string,
	use func(objects, hooks []*unstructured.Unstructured),
) (dryrun.Present, error) {
	e.reads++
	budget := &unstructured.Unstructured{}
	budget.SetAPIVersion("policy/v1beta1")
	budget.SetKind("PodDisruptionBudget")
	budget.SetName("hunter2-web")
	present := dryrun.Present{KubeVersion: "v1.36.2", Revision: 1,
		Serves: func(schema.GroupVersionKind) bool { return true }}
	if !e.isClean && e.err == nil {
		use([]*unstructured.Unstructured{budget}, nil)
	}
	return present, e.err
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

// build creates the Reconciler with the current objects.
func (b *upgradeBench) build() {
	b.r = benchReconciler(b.ReleaseBench)
	b.r.assigned = assignedvalues.Renderer{Client: b.r.client, Live: b.r.live, Renderer: b.r.renderer}
	b.r.engine, b.r.recorder, b.r.now = b.engine, b.recorder, func() time.Time { return b.now }
	b.r.watcher = forgettingWatcher{forgetting: &forgetting{}}
	b.r.budgets = report.NewEventBudgets(b.r.now)
	b.r.slots = slots.New(slots.Options{Workers: 8, PerCluster: 1, Wake: func(types.NamespacedName) {}})
}

// request requests a check for a version; "" requests none.
func (b *upgradeBench) request(version string) {
	b.Cluster.Annotations = map[string]string{addonsv1.CheckUpgradeAnnotation: version}
}

// newPass returns a pass over the release.
func (b *upgradeBench) newPass() *releasePass {
	b.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b.Cluster)
	if err != nil {
		b.Fatal(err)
	}
	scope := &releaseScope{release: b.Release, before: b.Release.DeepCopy(), helmOp: b.HelmOp, cluster: b.Cluster,
		object: &unstructured.Unstructured{Object: object}}
	return &releasePass{releaseScope: scope, target: model.Target{Key: "team/one"}}
}

// pass checks the release like a pass does. It returns the reason of the condition and the number of reads so far.
func (b *upgradeBench) pass(hasActed bool) (reason string, reads int, pass *releasePass) {
	b.Helper()
	p := b.newPass()
	p.hasActed = hasActed
	if end, err := b.r.checkUpgrade(b.Context(), p); end != nil || err != nil {
		b.Fatalf("%v, %v", end, err)
	}
	upgradereadiness.Settle(p.release, p.cluster, p.object)
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

// TestCheckUpgrade checks when a release is checked: once for each set of inputs.
func TestCheckUpgrade(t *testing.T) {
	t.Parallel()
	b := newUpgradeBench(t)
	b.Release.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: "1"}
	b.want("requested", addonsv1.APIRemovedReason, 1)
	if got := conditions.GetMessage(b.Release, addonsv1.KubernetesUpgradeReadyCondition); !strings.Contains(got,
		"from v1.37 on: PodDisruptionBudget of policy/v1beta1 is not served since v1.25") ||
		!strings.Contains(got, "the release has 1 object;") ||
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
	for _, event := range []string{<-b.recorder.Events, <-b.recorder.Events} {
		if strings.Contains(event, "hunter2") {
			t.Errorf("the Event %q names an object", event)
		}
	}
	b.request("newest")
	b.want("no version", addonsv1.InvalidKubernetesVersionReason, 4)
	for _, version := range []string{"v1.99999999999", "v1.18446744073709551615"} {
		b.request(version)
		b.want(version, addonsv1.InvalidKubernetesVersionReason, 4)
	}
	b.request("v1.200")
	b.want("too many steps", addonsv1.InvalidKubernetesVersionReason, 5)
	b.now = b.now.Add(24 * time.Hour)
	b.want("too many steps, later", addonsv1.InvalidKubernetesVersionReason, 5)
}

// TestCheckUpgradeOfOldVersions checks the results for versions that are not newer than the running version.
func TestCheckUpgradeOfOldVersions(t *testing.T) {
	t.Parallel()
	b := newUpgradeBench(t)
	b.Release.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: "1"}
	b.request("v1.36")
	b.want("the running version", addonsv1.KubernetesUpgradeReadyReason, 1)
	b.request("v1.35")
	b.want("an older version", addonsv1.InvalidKubernetesVersionReason, 2)
}

// TestCheckUpgradeRetries checks that a failed check is repeated with growing delays, and that the condition does not
// change in between.
func TestCheckUpgradeRetries(t *testing.T) {
	const longestRetry = time.Hour
	t.Parallel()
	b := newUpgradeBench(t)
	b.Release.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: "1"}
	b.engine.err = &helmerr.Error{Kind: helmerr.ErrRequestDeadline, Message: "no answer"}
	last := time.Duration(0)
	for i := 1; i <= 8; i++ {
		p := b.want("no answer", addonsv1.UpgradeCheckFailedReason, i)
		if p.requeueAfter < last || p.requeueAfter < time.Minute || p.requeueAfter > 2*longestRetry ||
			i == 2 && p.requeueAfter < last*3/2 {
			t.Errorf("try %d: the next one is in %s, after %s", i, p.requeueAfter, last)
		}
		last = p.requeueAfter
		b.want("no answer, too early", addonsv1.UpgradeCheckFailedReason, i)
		b.now = b.now.Add(last)
	}
	if last < longestRetry/2 {
		t.Errorf("the longest wait is %s", last)
	}
	done, _ := b.r.slots.Acquire(slots.Claim{Release: types.NamespacedName{Name: "other"}, Cluster: "team/one"})
	b.want("no slot for the retry", addonsv1.UpgradeCheckFailedReason, 8)
	done()
	b.Release.Generation++
	b.want("another spec is checked at once", addonsv1.UpgradeCheckFailedReason, 9)
	b.engine.err = nil
	b.request("v1.38")
	if reason, reads, p := b.pass(true); reason != addonsv1.UpgradeCheckPendingReason || reads != 9 ||
		p.requeueAfter == 0 {
		t.Errorf("after an action: %s, %d reads, again in %s", reason, reads, p.requeueAfter)
	}
	b.want("reachable again", addonsv1.APIRemovedReason, 10)
	b.request("")
	b.want("no longer requested", "", 10)
	if b.Release.Status.UpgradeCheck != nil {
		t.Error("the status still has the check")
	}
}

// TestCheckUpgradeWithoutSlot checks that a check waits for a slot, and that an earlier result stays during the wait.
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

// TestCheckUpgradeWithoutArtifact has an artifact that is missing in the HelmOp revision. The message must name it, and
// it must not be looked up again.
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

// TestReadyForAnOldSpecDoesNotStay checks the condition KubernetesUpgradeReady. If the spec or another input changes,
// True must become Unknown.
func TestReadyForAnOldSpecDoesNotStay(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*upgradeBench){
		"another generation": func(b *upgradeBench) { b.Release.Generation++ },
		"another Helm revision": func(b *upgradeBench) {
			b.Release.Status.Release = &addonsv1.ReleaseObservation{Revision: 2}
		},
		"another override": func(b *upgradeBench) { b.Cluster.Labels = map[string]string{"tier": "edge"} },
	} {
		b := newUpgradeBench(t)
		b.engine.isClean = true
		b.Release.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: "1"}
		b.want(name+": checked", addonsv1.KubernetesUpgradeReadyReason, 1)
		done, _ := b.r.slots.Acquire(slots.Claim{Release: types.NamespacedName{Name: "other"}, Cluster: "team/one"})
		change(b)
		b.want(name, addonsv1.UpgradeCheckPendingReason, 1)
		done()
		b.want(name+": checked again", addonsv1.KubernetesUpgradeReadyReason, 2)
		b.Release.Generation++
		p := b.newPass()
		upgradereadiness.Settle(p.release, p.cluster, p.object)
		if got := conditions.GetReason(b.Release, addonsv1.KubernetesUpgradeReadyCondition); got !=
			addonsv1.UpgradeCheckPendingReason {
			t.Errorf("%s: after a pass that ended early: %s", name, got)
		}
	}
}

// TestUnreadableControlPlaneKeepsTheResult checks that a result stays while the control plane cannot be read. There
// must not be another Event.
func TestUnreadableControlPlaneKeepsTheResult(t *testing.T) {
	t.Parallel()
	b := newUpgradeBench(t)
	b.Release.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: "1"}
	b.want("readable", addonsv1.APIRemovedReason, 1)
	sent := len(b.recorder.Events)
	b.Cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "one"}
	if p := b.want("unreadable", addonsv1.APIRemovedReason, 1); p.requeueAfter == 0 {
		t.Error("no retry")
	}
	b.Cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
	b.want("readable again", addonsv1.APIRemovedReason, 1)
	if got := len(b.recorder.Events); got != sent {
		t.Errorf("%d Events after %d", got, sent)
	}
}

// countedClusters are connections to Clusters. They fail if err is set.
type countedClusters struct {
	clusterview.Clusters
	err   error
	tries int
}

func (c *countedClusters) GetRESTConfig(context.Context, client.ObjectKey) (*rest.Config, error) {
	c.tries++
	return &rest.Config{}, c.err
}

func (c *countedClusters) State(client.ObjectKey) clusterlink.State { return clusterlink.State{} }

// TestCheckUpgradeOfDone checks a release that was installed only once. HelmOp must connect only for a check, report
// why a connection fails, and not change the other conditions.
func TestCheckUpgradeOfDone(t *testing.T) {
	t.Parallel()
	b := newUpgradeBench(t)
	b.Cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	b.Cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	b.Release.Spec.ReconcileStrategy = addonsv1.ReconcileStrategyInstallOnce
	b.Release.Annotations = map[string]string{addonsv1.InstalledOnceAnnotation: "true"}
	b.HelmOp.Spec.ClusterNamespaces = nil
	clusters := &countedClusters{err: clusterlink.ErrNotTried}
	b.build()
	if err := b.r.client.Create(t.Context(), controllertest.KubeSystem()); err != nil {
		t.Fatal(err)
	}
	b.r.clusters, b.r.kubeconfigs, b.r.watcher = clusters, b.r.client, forgettingWatcher{forgetting: &forgetting{}}
	pass := func(what, reason, message string, tries int) *releasePass {
		t.Helper()
		p := b.newPass()
		end, err := b.r.checkInstalledOnce(t.Context(), p)
		if err != nil || end == nil {
			t.Fatalf("%s: %v, %v", what, end, err)
		}
		got := conditions.Get(b.Release, addonsv1.KubernetesUpgradeReadyCondition)
		if got == nil || got.Reason != reason || !strings.Contains(got.Message, message) || clusters.tries != tries {
			t.Errorf("%s: %+v after %d connections", what, got, clusters.tries)
		}
		if conditions.GetReason(b.Release, addonsv1.ReadyCondition) != addonsv1.InstalledOnceReason ||
			conditions.Has(b.Release, addonsv1.ClusterReachableCondition) {
			t.Errorf("%s: conditions %+v", what, b.Release.Status.Conditions)
		}
		return p
	}
	for range 2 {
		if p := pass("no access", addonsv1.UpgradeCheckPendingReason, "is in another namespace", 0); p.requeueAfter !=
			selection.DeniedTTL {
			t.Errorf("the next pass without access is in %s", p.requeueAfter)
		}
	}
	if n := len(b.recorder.Events); n != 0 {
		t.Errorf("%d Events", n)
	}
	b.Cluster.Namespace, b.Release.Spec.ClusterRef.Namespace = b.Release.Namespace, ""
	pass("not tried", addonsv1.UpgradeCheckPendingReason, "is connecting to the Cluster", 1)
	clusters.err = errors.New("no route")
	pass("unreachable", addonsv1.UpgradeCheckPendingReason, "The API server of the Cluster cannot be reached", 2)
	clusters.err = nil
	pass("reachable", addonsv1.APIRemovedReason, "the release has 1 object", 3)
	pass("checked already", addonsv1.APIRemovedReason, "change its objects yourself", 3)
	b.Release.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{Preflight: addonsv1.UpgradePreflightRequired}
	b.Release.Generation++
	pass("required", addonsv1.APIRemovedReason, "set spec.beforeClusterUpgrade.preflight to Ignored", 4)
}

// TestCheckUpgradeAfterFailedAction checks that a check waits for another pass only if the action before it changed a
// record. Otherwise, the delay of the failed action would be lost, and the action would be repeated at once.
func TestCheckUpgradeAfterFailedAction(t *testing.T) {
	t.Parallel()
	for _, changed := range []bool{true, false} {
		b := newUpgradeBench(t)
		b.Release.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: "1"}
		b.engine.acted.StorageChanged = changed
		p := b.newPass()
		result, err := b.r.perform(t.Context(), p, decide.Decision{Action: model.ActionUninstall}, &releaseInputs{})
		if err != nil {
			t.Fatal(err)
		}
		p.due(result.RequeueAfter)
		if end, err := b.r.checkUpgrade(t.Context(), p); end != nil || err != nil {
			t.Fatalf("%v, %v", end, err)
		}
		if isAtOnce := p.requeueAfter == requeueAtOnce; isAtOnce != changed {
			t.Errorf("changed %t: the next pass is due after %s", changed, p.requeueAfter)
		}
		if wasRead := b.engine.reads > 0; wasRead == changed {
			t.Errorf("changed %t: %d reads", changed, b.engine.reads)
		}
	}
}

// TestCheckUpgradeInPassThatLeavesStatus checks that a pass that does not write the status makes no check, because it
// would lose the result. A later pass makes the check.
func TestCheckUpgradeInPassThatLeavesStatus(t *testing.T) {
	t.Parallel()
	b := newUpgradeBench(t)
	b.Release.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: "1"}
	p := b.newPass()
	p.leavesStatus = true
	if end, err := b.r.checkUpgrade(t.Context(), p); end != nil || err != nil || b.engine.reads != 0 {
		t.Errorf("%v, %v after %d reads", end, err, b.engine.reads)
	}
	p.settleStatus()
	b.want("later", addonsv1.APIRemovedReason, 1)
}

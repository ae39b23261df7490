// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// movedRecords is an engine with the records of one release, whichever management cluster it serves.
type movedRecords struct {
	Engine
	records []model.Record
	// limit is the number of records that a takeover changes before the manager is killed.
	limit int
}

// newMovedRecords returns two records of a release that name a management cluster.
func newMovedRecords(release *addonsv1.HelmOpRelease, managementCluster string) *movedRecords {
	desired, _ := releasespec.DesiredOf(release)
	record := model.Record{Owner: model.OwnerLabel(desired.Owner), Status: model.StatusDeployed, Revision: 2,
		LabelledRevision: 2, ManagementCluster: model.OwnerLabel(managementCluster)}
	older := record
	older.Status, older.Revision, older.LabelledRevision = model.StatusSuperseded, 1, 1
	return &movedRecords{records: []model.Record{record, older}, limit: 2}
}

func (m *movedRecords) Observe(context.Context, model.Target, string, string) (model.Observation, error) {
	return model.Observation{Records: slices.Clone(m.records), ReadAt: time.Now()}, nil
}

func (m *movedRecords) TakeOver(_ context.Context, _ model.Target, desired model.Desired, _ model.Observation) error {
	changed := 0
	for i := range m.records {
		if changed < m.limit && model.IsFormerRecord(m.records[i], desired) {
			m.records[i].ManagementCluster = model.OwnerLabel(desired.ManagementCluster)
			changed++
		}
	}
	return nil
}

// managedBy returns the management clusters that the records name.
func (m *movedRecords) managedBy() []string {
	var clusters []string
	for _, record := range m.records {
		clusters = append(clusters, record.ManagementCluster)
	}
	return slices.Compact(clusters)
}

// TestMoveDuringTakeover moves a HelmOpRelease from one management cluster to the next. In each of them, the manager is
// killed during or after the takeover, before the end of the pass, so the HelmOpRelease does not have the result. The
// release must still belong to the HelmOpRelease in the next management cluster, also if this is the first one again.
func TestMoveDuringTakeover(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		moves []string
		limit int
	}{
		"back, during the action that follows": {[]string{"two", "one"}, 2},
		"back, during the takeover":            {[]string{"two", "one"}, 1},
		"back, before the takeover":            {[]string{"two", "one"}, 0},
		"to a third management cluster":        {[]string{"two", "three"}, 1},
		"from a third to the first":            {[]string{"two", "three", "one"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := controllertest.UpToDateRelease("r")
			stored.Annotations = map[string]string{addonsv1.ManagementClusterAnnotation: "one"}
			engine := newMovedRecords(stored, "one")
			engine.limit = tc.limit
			// pass makes a pass of a new manager in a management cluster. It is killed if it does not end with the takeover.
			pass := func(uid string) {
				t.Helper()
				if p, end := takeoverPass(t, managerIn(t, uid, engine), stored, time.Now()); end != nil {
					stored = p.release
				}
			}
			for _, uid := range tc.moves {
				pass(uid)
				pass(uid)
			}
			last := tc.moves[len(tc.moves)-1]
			engine.limit = len(engine.records)
			r := managerIn(t, last, engine)
			for _, after := range []time.Duration{0, time.Minute} {
				p, _ := takeoverPass(t, r, stored, time.Now().Add(after))
				stored = p.release
			}
			if got := stored.Annotations[addonsv1.ManagementClusterAnnotation]; got != last ||
				!slices.Equal(engine.managedBy(), []string{last}) {
				t.Errorf("after the takeover, the annotation is %q, and the records name %v", got, engine.managedBy())
			}
		})
	}
}

// managerIn returns a manager in the management cluster with a UID.
func managerIn(t *testing.T, uid string, engine Engine) *Reconciler {
	t.Helper()
	system := controllertest.KubeSystem()
	system.UID = types.UID(uid)
	return &Reconciler{client: controllertest.StoreOf(t, system), engine: engine, now: time.Now}
}

// takeoverPass makes the steps of a pass up to the takeover, with records that are read at a time. end is not nil if
// the pass ends with the takeover.
func takeoverPass(t *testing.T, r *Reconciler, stored *addonsv1.HelmOpRelease, readAt time.Time,
) (p *releasePass, end *ctrl.Result) {
	t.Helper()
	p = &releasePass{releaseScope: &releaseScope{release: stored.DeepCopy()}}
	if _, err := r.readSpec(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p.observation, _ = r.engine.Observe(t.Context(), p.target, "", "")
	p.observation.ReadAt = readAt
	if state := p.observation.State(p.desired); state == model.StateForeign {
		t.Fatalf("in %s, the records are foreign: the annotation is %q", p.desired.ManagementCluster,
			stored.Annotations[addonsv1.ManagementClusterAnnotation])
	}
	end, err := r.takeOverAfterMove(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return p, end
}

// TestTakeoverFindsLateRecords checks that the records which the former manager creates shortly after the takeover
// belong to the release: its action may have checked the records before.
func TestTakeoverFindsLateRecords(t *testing.T) {
	t.Parallel()
	stored := controllertest.UpToDateRelease("r")
	stored.Annotations = map[string]string{addonsv1.ManagementClusterAnnotation: "one"}
	engine := newMovedRecords(stored, "one")
	engine.limit = 3
	r := managerIn(t, "two", engine)
	pass := func(after time.Duration, want string) {
		t.Helper()
		p, _ := takeoverPass(t, r, stored, time.Now().Add(after))
		stored = p.release
		if got := stored.Annotations[addonsv1.ManagementClusterAnnotation]; got != want {
			t.Errorf("after %s, the annotation is %q, want %q", after, got, want)
		}
	}
	pass(0, "two,one")
	pass(0, "two,one")
	record := engine.records[0]
	record.ManagementCluster, record.Revision, record.LabelledRevision = model.OwnerLabel("one"), 3, 3
	engine.records = slices.Insert(engine.records, 0, record)
	pass(0, "two,one")
	if want := []string{"two"}; !slices.Equal(engine.managedBy(), want) {
		t.Errorf("after the first record, the records name %v, want %v", engine.managedBy(), want)
	}
	record.Revision, record.LabelledRevision = 4, 4
	engine.records = slices.Insert(engine.records, 0, record)
	pass(time.Minute, "two")
	if got := engine.managedBy(); !slices.Equal(got, []string{"two"}) {
		t.Errorf("the records name %v", got)
	}
}

// runningAction is how long the action of the former manager in TestTakeoverAwaitsAction may still run.
const runningAction = time.Minute

// TestTakeoverAwaitsAction checks that an action of the former manager that outlives the move can record its outcome:
// the takeover waits for the end of the action. If the former manager has stopped, and the record never changes, the
// takeover comes when the action had to end.
func TestTakeoverAwaitsAction(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"pending-install", "pending-upgrade", "pending-rollback", "uninstalling"} {
		for _, ends := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, ends: %t", status, ends), func(t *testing.T) {
				t.Parallel()
				release := controllertest.UpToDateRelease("r")
				release.Annotations = map[string]string{addonsv1.ManagementClusterAnnotation: "two,one"}
				engine, r, now := newMovedRecords(release, "one"), managerIn(t, "two", nil), controllertest.Noon
				running := &engine.records[0]
				running.Status, running.ChangedAt, running.Deadline = status, now, now.Add(runningAction)
				running.Uninstalling = status == "uninstalling"
				r.engine, r.now = engine, func() time.Time { return now }
				for range 2 {
					p, end := takeoverPass(t, r, release, now)
					release = p.release
					ready := conditions.Get(release, addonsv1.ReadyCondition)
					if end == nil || end.RequeueAfter != decide.OtherProcessRetry || ready.Reason != addonsv1.ReleasePendingReason ||
						!release.Status.NextTryAt.Time.Equal(running.Deadline) {
						t.Errorf("during the action, the pass ends with %+v, Ready is %+v", end, ready)
					}
					if got := engine.managedBy(); !slices.Equal(got, []string{"one"}) ||
						release.Annotations[addonsv1.ManagementClusterAnnotation] != "two,one" {
						t.Fatalf("during the action, the records name %v, annotations %v", got, release.Annotations)
					}
				}
				if ends {
					running.Status, running.Uninstalling, running.Deadline = model.StatusDeployed, false, time.Time{}
				} else {
					now = now.Add(runningAction)
				}
				if _, end := takeoverPass(t, r, release, now); end != nil {
					t.Errorf("after the action, the pass ends with %+v", end)
				}
				if got := engine.managedBy(); !slices.Equal(got, []string{"two"}) {
					t.Errorf("after the action, the records name %v", got)
				}
			})
		}
	}
}

// TestTakeoverOutdatesRecords checks that no later pass uses the records that were read before a takeover, because they
// have the former labels. This includes the pass that follows when the chart is there or a slot is free.
func TestTakeoverOutdatesRecords(t *testing.T) {
	t.Parallel()
	for cluster, want := range map[string]bool{"one": false, "two": true} {
		system := controllertest.KubeSystem()
		system.UID = "two"
		release := controllertest.UpToDateRelease("r")
		release.Annotations = map[string]string{addonsv1.ManagementClusterAnnotation: "two,one"}
		engine := newMovedRecords(release, cluster)
		r := &Reconciler{client: controllertest.StoreOf(t, system), engine: engine, now: time.Now}
		p := &releasePass{releaseScope: &releaseScope{release: release}}
		if _, err := r.readSpec(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		key, records := recordreads.KeyOf(release, p.target, p.desired), &r.memoryOf(release).Records
		p.observation, _ = engine.Observe(t.Context(), p.target, "", "")
		p.observation.ReadAt = time.Now()
		records.KeepFirst(key, p.observation)
		if end, err := r.takeOverAfterMove(t.Context(), p); end != nil || err != nil {
			t.Fatalf("%v, %v", end, err)
		}
		if _, ok := records.Take(key, release); ok {
			t.Errorf("records of management cluster %s: the first result is used", cluster)
		}
		p.mark = records.Outdate()
		r.keepForAction(p)
		if _, ok := records.Take(key, release); ok != want {
			t.Errorf("records of management cluster %s: the result is used for an action: %t", cluster, ok)
		}
	}
}

// TestTakeoverWaitsForOwner restores a HelmOpRelease without its owner reference, as Velero does. Its HelmOp is paused,
// or is restored later, so two passes come before the repair of the reference. The HelmOpRelease must keep the UID of
// the former management cluster until then: otherwise its release would be foreign for ever.
func TestTakeoverWaitsForOwner(t *testing.T) {
	t.Parallel()
	b := controllertest.NewReleaseBench(t)
	release, owners := b.Release, b.Release.OwnerReferences
	release.Annotations = map[string]string{addonsv1.ManagementClusterAnnotation: "former"}
	engine := newMovedRecords(release, "former")
	r := &Reconciler{client: controllertest.StoreOf(t, controllertest.KubeSystem()), engine: engine, now: time.Now}
	pass := func() *releasePass {
		t.Helper()
		observe := func(ctx context.Context, p *releasePass) (_ *ctrl.Result, err error) {
			p.observation, err = engine.Observe(ctx, p.target, "", "")
			return nil, err
		}
		p := &releasePass{releaseScope: &releaseScope{release: release}}
		if _, err := run(t.Context(), p, r.checkOwner, r.readSpec, observe, r.takeOverAfterMove); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, missing := range [][]metav1.OwnerReference{nil, {{Kind: "Other", Name: "calico", Controller: new(true)}}} {
		release.OwnerReferences = missing
		for range 2 {
			pass()
		}
		if got := conditions.GetReason(release, addonsv1.ReadyCondition); got != addonsv1.OwnerNotFoundReason {
			t.Errorf("with the owners %v, Ready has the reason %q", missing, got)
		}
		if got := release.Annotations[addonsv1.ManagementClusterAnnotation]; got != "former" {
			t.Errorf("with the owners %v, the annotation is %q", missing, got)
		}
	}
	release.OwnerReferences = owners
	for range 2 {
		if p := pass(); p.observation.State(p.desired) == model.StateForeign {
			t.Fatalf("the records of %v are foreign", engine.managedBy())
		}
	}
	if got := engine.managedBy(); !slices.Equal(got, []string{"system"}) {
		t.Errorf("after the repair of the owner reference, the records name %v", got)
	}
}

// newMovedBench returns a HelmOpRelease that comes from another management cluster, and its HelmOp, which selects the
// Cluster.
func newMovedBench(t *testing.T) *controllertest.ReleaseBench {
	t.Helper()
	b := controllertest.NewReleaseBench(t)
	b.HelmOp.Spec.ClusterNamespaces, b.Cluster.Namespace, b.Release.Spec.ClusterRef.Namespace = nil, "platform", ""
	for _, revision := range b.Revisions {
		revision.Spec.HelmOp.ClusterNamespaces = nil
	}
	b.Release.UID, b.Release.Finalizers = "uid-1", []string{addonsv1.HelmOpReleaseFinalizer}
	b.Release.Annotations = map[string]string{addonsv1.ManagementClusterAnnotation: "former"}
	return b
}

// deletedAfterMove returns a HelmOpRelease under deletion that comes from another management cluster, and its HelmOp,
// which still selects the Cluster.
func deletedAfterMove(t *testing.T, policy addonsv1.DeletionPolicy) *controllertest.ReleaseBench {
	t.Helper()
	b := newMovedBench(t)
	b.HelmOp.Spec.DeletionPolicy, b.Release.Spec.DeletionPolicy = policy, policy
	b.Release.DeletionTimestamp = new(metav1.NewTime(controllertest.Noon))
	return b
}

// disconnectedReconciler returns a Reconciler without a connection to the Cluster.
func disconnectedReconciler(b *controllertest.ReleaseBench) *Reconciler {
	b.Helper()
	r := benchReconciler(b)
	if err := r.client.Create(b.Context(), controllertest.KubeSystem()); err != nil {
		b.Fatal(err)
	}
	r.recorder, r.budgets = events.NewFakeRecorder(10), report.NewEventBudgets(time.Now)
	r.watcher, r.kubeconfigs = forgettingWatcher{forgetting: &forgetting{}}, controllertest.StoreOf(b.T)
	r.reads, r.slots = recordreads.New(1, clusterlink.New(clusterlink.Options{})), newActionSlots(1, 0, &async.Waker{})
	r.clusters = linkMadeMeanwhile{err: errors.New("no connection"), failures: 1}
	r.now = time.Now
	return r
}

// TestKeptReleaseIsTakenOver deletes a HelmOpRelease that comes from another management cluster, for example by garbage
// collection after a restore. The HelmOp still selects the Cluster, and creates the HelmOpRelease again without the UID
// of the former management cluster. So the records must name this management cluster before, whatever deletionPolicy
// is. While the Cluster is unreachable, the HelmOpRelease waits and says why.
func TestKeptReleaseIsTakenOver(t *testing.T) {
	t.Parallel()
	for _, policy := range []addonsv1.DeletionPolicy{addonsv1.DeletionPolicyUninstall, addonsv1.DeletionPolicyOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			b := deletedAfterMove(t, policy)
			r, engine := disconnectedReconciler(b), newMovedRecords(b.Release, "former")
			r.engine = engine
			pass := func() error {
				_, err := r.reconcileDelete(t.Context(), &releaseScope{release: b.Release, before: b.Release.DeepCopy(),
					cluster: b.Cluster, helmOp: b.HelmOp})
				return err
			}
			if err := pass(); err != nil {
				t.Fatal(err)
			}
			if ready := conditions.Get(b.Release, addonsv1.ReadyCondition); len(b.Release.Finalizers) == 0 || ready == nil ||
				ready.Reason != addonsv1.ClusterUnreachableReason ||
				!strings.Contains(ready.Message, addonsv1.OrphanAnnotation+"=true") {
				t.Fatalf("without a connection, Ready is %+v, and the finalizers are %v", ready, b.Release.Finalizers)
			}

			r.clusters = linkMadeMeanwhile{}
			gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
				g.Expect(pass()).To(gomega.Succeed())
				g.Expect(b.Release.Finalizers).To(gomega.BeEmpty())
			}).Should(gomega.Succeed())
			if got := engine.managedBy(); !slices.Equal(got, []string{"system"}) {
				t.Errorf("the HelmOpRelease is gone, and the records name %v", got)
			}
		})
	}
}

// TestKeptReleaseAwaitsAction checks that a HelmOpRelease under deletion waits for an action of the former manager, and
// no longer than the action may run.
func TestKeptReleaseAwaitsAction(t *testing.T) {
	t.Parallel()
	b := deletedAfterMove(t, addonsv1.DeletionPolicyUninstall)
	r, engine, now := disconnectedReconciler(b), newMovedRecords(b.Release, "former"), controllertest.Noon
	r.engine, r.clusters, r.now = engine, linkMadeMeanwhile{}, func() time.Time { return now }
	running := &engine.records[0]
	running.Status, running.ChangedAt, running.Deadline = "pending-upgrade", now, now.Add(runningAction)
	g := gomega.NewWithT(t)
	pass := func(g gomega.Gomega) time.Duration {
		result, err := r.reconcileDelete(t.Context(), &releaseScope{release: b.Release, before: b.Release.DeepCopy(),
			cluster: b.Cluster, helmOp: b.HelmOp})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		return result.RequeueAfter
	}
	g.Eventually(func(g gomega.Gomega) {
		g.Expect(pass(g)).To(gomega.Equal(decide.OtherProcessRetry))
		g.Expect(conditions.GetReason(b.Release, addonsv1.ReadyCondition)).To(gomega.Equal(addonsv1.ReleasePendingReason))
	}).Should(gomega.Succeed())
	g.Expect(b.Release.Finalizers).NotTo(gomega.BeEmpty())
	g.Expect(engine.managedBy()).To(gomega.Equal([]string{"former"}))

	now = now.Add(runningAction)
	g.Eventually(func(g gomega.Gomega) {
		pass(g)
		g.Expect(b.Release.Finalizers).To(gomega.BeEmpty())
	}).Should(gomega.Succeed())
	g.Expect(engine.managedBy()).To(gomega.Equal([]string{"system"}))
}

// TestPolicyOrphanAfterMove deletes HelmOpReleases with deletionPolicy Orphan that come from another management
// cluster, while their Cluster is unreachable. HelmOp must orphan each release that it does not create again, and must
// wait if the HelmOp may be restored later.
func TestPolicyOrphanAfterMove(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*controllertest.ReleaseBench)
		// waits is the reason for which the HelmOpRelease waits; empty if the release is orphaned.
		waits string
	}{
		"still desired":      {func(*controllertest.ReleaseBench) {}, addonsv1.ClusterUnreachableReason},
		"the HelmOp is gone": {func(b *controllertest.ReleaseBench) { b.HelmOp = nil }, addonsv1.OwnerNotFoundReason},
		"the HelmOp is gone, never moved": {func(b *controllertest.ReleaseBench) {
			b.HelmOp, b.Release.Annotations[addonsv1.ManagementClusterAnnotation] = nil, "system"
		}, ""},
		"the HelmOp is gone, orphaned by annotation": {func(b *controllertest.ReleaseBench) {
			b.HelmOp, b.Release.Annotations[addonsv1.OrphanAnnotation] = nil, "true"
		}, ""},
		"desired, orphaned by annotation": {func(b *controllertest.ReleaseBench) {
			b.Release.Annotations[addonsv1.OrphanAnnotation] = "true"
		}, ""},
		"the HelmOp is under deletion": {func(b *controllertest.ReleaseBench) {
			b.HelmOp.DeletionTimestamp, b.HelmOp.Finalizers = b.Release.DeletionTimestamp, []string{addonsv1.HelmOpFinalizer}
		}, ""},
		"no longer selected": {func(b *controllertest.ReleaseBench) {
			b.HelmOp.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"cni": "other"}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := deletedAfterMove(t, addonsv1.DeletionPolicyOrphan)
			tc.change(b)
			r := disconnectedReconciler(b)
			scope := &releaseScope{release: b.Release, before: b.Release.DeepCopy(), cluster: b.Cluster, helmOp: b.HelmOp}
			if _, err := r.reconcileDelete(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
			got := ""
			if ready := conditions.Get(b.Release, addonsv1.ReadyCondition); ready != nil {
				got = ready.Reason
			}
			if isOrphaned := len(b.Release.Finalizers) == 0; got != tc.waits || isOrphaned != (tc.waits == "") {
				t.Errorf("Ready has the reason %q, and the release is orphaned: %t", got, isOrphaned)
			}
		})
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"maps"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
)

// TestConditionFollowsReleases has two HelmOps that request the same condition of a Cluster.
func TestConditionFollowsReleases(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const conditionType = "HelmOpReady"
	c := f.cluster()
	updateStatus(f, c, func(c *clusterv1.Cluster) {
		conditions.Set(c, metav1.Condition{Type: clusterv1.AvailableCondition, Status: metav1.ConditionTrue,
			Reason: clusterv1.AvailableReason})
	})
	want := func(status metav1.ConditionStatus, message string) {
		t.Helper()
		f.eventually(c, func(g gomega.Gomega) { g.Expect(c).To(haveCondition(conditionType, status, message)) })
	}
	requests := func(s *addonsv1.HelmOpSpec) { s.ClusterCondition = conditionType }

	one := f.helmOp("one", requests)
	want(metav1.ConditionFalse, "HelmOp one: no release yet")
	first := f.release(one)
	want(metav1.ConditionFalse, "HelmOp one: "+addonsv1.ProgressingReason)
	f.report(first, metav1.ConditionTrue, addonsv1.ReadyReason)
	want(metav1.ConditionTrue, "1 HelmOp is Ready")

	two := f.helmOp("two", requests)
	want(metav1.ConditionFalse, "HelmOp two: no release yet")
	second := f.release(two)
	f.report(second, metav1.ConditionTrue, addonsv1.ReadyReason)
	want(metav1.ConditionTrue, "2 HelmOps are Ready")
	f.report(first, metav1.ConditionFalse, addonsv1.UpgradeFailedReason)
	want(metav1.ConditionFalse, "1 of 2 HelmOps is not Ready: HelmOp one: "+addonsv1.UpgradeFailedReason)

	update(f, one, func(h *addonsv1.HelmOp) { h.Spec.ClusterCondition = "" })
	want(metav1.ConditionTrue, "1 HelmOp is Ready")
	f.must(f.Delete(t.Context(), two))
	f.eventually(c, func(g gomega.Gomega) { g.Expect(conditions.Get(c, conditionType)).To(gomega.BeNil()) })
	f.Expect(conditions.IsTrue(c, clusterv1.AvailableCondition)).To(gomega.BeTrue(), "the condition of Cluster API stays")
}

// TestConditionStaysDuringMove checks that HelmOp does not change the condition of a Cluster that has the annotation of
// clusterctl move.
func TestConditionStaysDuringMove(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const conditionType = "HelmOpReady"
	c := f.cluster()
	release := f.release(f.helmOp("one", func(s *addonsv1.HelmOpSpec) { s.ClusterCondition = conditionType }))
	f.eventually(c, func(g gomega.Gomega) {
		g.Expect(c).To(haveCondition(conditionType, metav1.ConditionFalse, "HelmOp one: "+addonsv1.ProgressingReason))
	})
	update(f, c, func(c *clusterv1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterctlv1.DeleteForMoveAnnotation, "")
	})
	f.eventuallyEvent(addonsv1.ClusterBeingMovedEvent, "Warning", "does not change its conditions")
	f.report(release, metav1.ConditionTrue, addonsv1.ReadyReason)
	f.awaitPass(release)
	f.must(f.Get(t.Context(), client.ObjectKeyFromObject(c), c))
	f.Expect(c).To(haveCondition(conditionType, metav1.ConditionFalse, "HelmOp one: "+addonsv1.ProgressingReason))
	update(f, c, func(c *clusterv1.Cluster) { delete(c.Annotations, clusterctlv1.DeleteForMoveAnnotation) })
	f.eventually(c, func(g gomega.Gomega) {
		g.Expect(c).To(haveCondition(conditionType, metav1.ConditionTrue, "1 HelmOp is Ready"))
	})
}

// TestDeletionIsHeldUntilReleasesAreUninstalled deletes a Cluster with two releases. One of them must be uninstalled
// before the Cluster is deleted.
func TestDeletionIsHeldUntilReleasesAreUninstalled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.cluster()
	release := f.release(f.helmOp("cni", func(s *addonsv1.HelmOpSpec) {
		s.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{}
	}))
	bystander := f.release(f.helmOp("bystander", func(s *addonsv1.HelmOpSpec) { s.ClusterCondition = "BystanderReady" }))
	f.eventually(c, func(g gomega.Gomega) {
		g.Expect(c).To(haveCondition("BystanderReady", metav1.ConditionFalse, addonsv1.ProgressingReason))
	})
	f.must(f.Delete(t.Context(), c))
	f.eventually(c, func(g gomega.Gomega) {
		hold := apiutil.HoldOf(c)
		g.Expect(hold.IsOn()).To(gomega.BeTrue())
		g.Expect(hold.Since).To(gomega.BeTemporally("~", time.Now(), time.Minute))
		g.Expect(c.Spec.Paused).To(gomega.HaveValue(gomega.BeTrue()))
	})
	f.eventuallyEvent(addonsv1.ClusterDeletionHeldEvent, "Normal", "1 release with beforeClusterDelete is uninstalled")
	f.Eventually(func(g gomega.Gomega) {
		g.Expect(f.Get(t.Context(), client.ObjectKeyFromObject(release), release)).To(gomega.Succeed())
		g.Expect(release.DeletionTimestamp).NotTo(gomega.BeNil())
	}).Should(gomega.Succeed())
	f.must(f.Get(t.Context(), client.ObjectKeyFromObject(c), c))
	f.Expect(apiutil.HoldOf(c).IsOn()).To(gomega.BeTrue(), "the release still exists")

	f.uninstalled(release)
	f.eventually(c, func(g gomega.Gomega) {
		g.Expect(apiutil.HoldOf(c).Over).To(gomega.BeTrue())
		g.Expect(c.Spec.Paused).To(gomega.BeNil())
	})
	f.eventuallyEvent(addonsv1.ClusterDeletionReleasedEvent, "Normal", "the deletion continues")
	f.awaitPass(bystander)
	f.must(f.Get(t.Context(), client.ObjectKeyFromObject(bystander), bystander))
	f.Expect(bystander.DeletionTimestamp).To(gomega.BeNil())
	f.expectUnwritten(c)
}

// TestAppliedPauseOutlivesHold applies spec.paused during a hold that has set spec.paused. The field had another value
// in an earlier apply of another program, which must not count.
func TestAppliedPauseOutlivesHold(t *testing.T) {
	t.Parallel()
	for name, during := range map[string]bool{"applied before": false, "applied during the hold": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			c := f.cluster()
			apply := func(owner string, paused bool) {
				t.Helper()
				applied := apiutil.NewCluster()
				applied.SetNamespace(c.Namespace)
				applied.SetName(c.Name)
				f.must(unstructured.SetNestedField(applied.Object, paused, "spec", "paused"))
				f.must(f.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(owner)))
			}
			apply("before", false)
			release := f.release(f.helmOp("cni", func(s *addonsv1.HelmOpSpec) {
				s.BeforeClusterDelete, s.ClusterCondition = &addonsv1.BeforeClusterDelete{}, "CNIReady"
			}))
			f.eventually(c, func(g gomega.Gomega) {
				g.Expect(c).To(haveCondition("CNIReady", metav1.ConditionFalse, addonsv1.ProgressingReason))
			})
			f.must(f.Delete(t.Context(), c))
			f.eventually(c, func(g gomega.Gomega) {
				g.Expect(apiutil.HoldOf(c).IsOn()).To(gomega.BeTrue())
				g.Expect(c.Spec.Paused).To(gomega.HaveValue(gomega.BeTrue()))
			})
			if during {
				apply("user", true)
			}
			f.Eventually(func(g gomega.Gomega) {
				g.Expect(f.Get(t.Context(), client.ObjectKeyFromObject(release), release)).To(gomega.Succeed())
				g.Expect(release.DeletionTimestamp).NotTo(gomega.BeNil())
			}).Should(gomega.Succeed())
			f.uninstalled(release)
			f.eventually(c, func(g gomega.Gomega) { g.Expect(apiutil.HoldOf(c).Over).To(gomega.BeTrue()) })
			f.Expect(ptr.Deref(c.Spec.Paused, false)).To(gomega.Equal(during))
			if during {
				f.eventuallyEvent(addonsv1.ClusterDeletionReleasedEvent, "Normal", `the field manager "user"`)
			}
		})
	}
}

// TestUpgradeIsHeldUntilReleaseIsReady follows an upgrade of a Cluster with a control plane, from the creation of the
// Cluster to the end of the upgrade.
func TestUpgradeIsHeldUntilReleaseIsReady(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	helmOp := f.helmOp("cni", func(s *addonsv1.HelmOpSpec) {
		s.BeforeClusterUpgrade, s.ClusterCondition = &addonsv1.BeforeClusterUpgrade{}, "HelmOpReady"
	})
	hold := clusterlife.UpgradeHoldName(client.ObjectKeyFromObject(helmOp))
	released := clusterlife.UpgradeReleasedName(hold)
	c := f.cluster()
	annotated := func(name string, value any) {
		t.Helper()
		f.eventually(c, func(g gomega.Gomega) {
			g.Expect(c.Annotations).To(gomega.And(gomega.HaveLen(1), gomega.HaveKeyWithValue(name, value)))
		})
	}
	annotated(hold, oldVersion)
	controlPlane := f.controlPlane(c)
	release := f.release(helmOp)
	f.report(release, metav1.ConditionTrue, addonsv1.ReadyReason)
	f.eventually(c, func(g gomega.Gomega) { g.Expect(c).To(haveCondition("HelmOpReady", metav1.ConditionTrue, "")) })

	f.planned(c, newVersion)
	update(f, c, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = newVersion })
	annotated(hold, gomega.HavePrefix(newVersion+" since "))
	f.eventuallyEvent(addonsv1.ClusterUpgradeHeldEvent, "Normal", "not rendered for that version yet")
	update(f, release, func(r *addonsv1.HelmOpRelease) { r.Spec.KubernetesVersion = newVersion })
	f.report(release, metav1.ConditionFalse, addonsv1.ProgressingReason)
	f.awaitPass(release)
	annotated(hold, gomega.HavePrefix(newVersion+" since "))

	f.report(release, metav1.ConditionTrue, addonsv1.ReadyReason)
	annotated(released, newVersion)
	f.eventuallyEvent(addonsv1.ClusterUpgradeReleasedEvent, "Normal", "the release is ready for it")
	update(f, controlPlane, func(p *controlplanev1.LocalControlPlane) { p.Spec.Version = newVersion })
	updateStatus(f, controlPlane, func(p *controlplanev1.LocalControlPlane) { p.Status.Version = newVersion })
	annotated(hold, newVersion)
}

// TestUpgradeWaitsForPlan writes the condition of the topology before the plan of an upgrade, like Cluster API does.
// The upgrade is held until the plan is published, although the release is ready for the requested version.
func TestUpgradeWaitsForPlan(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const target = "v1.37.0"
	helmOp := f.helmOp("cni", func(s *addonsv1.HelmOpSpec) {
		s.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
	})
	hold := clusterlife.UpgradeHoldName(client.ObjectKeyFromObject(helmOp))
	c := f.cluster()
	f.controlPlane(c)
	release := f.release(helmOp)
	update(f, release, func(r *addonsv1.HelmOpRelease) { r.Spec.KubernetesVersion = target })
	f.report(release, metav1.ConditionTrue, addonsv1.ReadyReason)
	is := func(name string, value any) {
		t.Helper()
		f.eventually(c, func(g gomega.Gomega) { g.Expect(c.Annotations).To(gomega.HaveKeyWithValue(name, value)) })
	}
	is(hold, oldVersion)
	update(f, c, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = target })
	f.eventuallyEvent(addonsv1.ClusterUpgradeHeldEvent, "Normal", clusterlife.PlanPending)
	updateStatus(f, c, func(c *clusterv1.Cluster) {
		conditions.Set(c, metav1.Condition{Type: clusterv1.ClusterTopologyReconciledCondition,
			Status: metav1.ConditionFalse, Reason: clusterv1.ClusterTopologyReconciledClusterUpgradingReason})
	})
	f.awaitPass(release)
	is(hold, gomega.HavePrefix(target+" since "))

	f.planned(c, newVersion, target)
	f.awaitPass(release)
	is(hold, gomega.HavePrefix(target+" since "))
	update(f, release, func(r *addonsv1.HelmOpRelease) { r.Spec.KubernetesVersion = newVersion })
	f.report(release, metav1.ConditionTrue, addonsv1.ReadyReason)
	is(clusterlife.UpgradeReleasedName(hold), target)
	f.eventuallyEvent(addonsv1.ClusterUpgradeReleasedEvent, "Normal", "with the next step "+newVersion)
}

// planned publishes the plan of an upgrade, like Cluster API does.
func (f *fixture) planned(c *clusterv1.Cluster, steps ...string) {
	f.Helper()
	updateStatus(f, c, func(c *clusterv1.Cluster) {
		plan := make([]clusterv1.StatusUpgradePlanVersion, len(steps))
		for i, step := range steps {
			plan[i].Version = step
		}
		c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{UpgradePlan: plan}
	})
}

// controlPlane creates the control plane of a Cluster, and reports it as initialized, like Cluster API does.
func (f *fixture) controlPlane(c *clusterv1.Cluster) *controlplanev1.LocalControlPlane {
	f.Helper()
	p := &controlplanev1.LocalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: clusterName,
		Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName}}}
	p.Spec.Version = oldVersion
	f.must(f.Create(f.Context(), p))
	updateStatus(f, p, func(p *controlplanev1.LocalControlPlane) { p.Status.Version = oldVersion })
	update(f, c, func(c *clusterv1.Cluster) {
		c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group,
			Kind: "LocalControlPlane", Name: p.Name}
	})
	f.initialized(c)
	return p
}

// TestUpgradeHoldTimesOut holds the upgrade of a Cluster without a control plane: the last known version applies. The
// Cluster has annotations of a HelmOp that no longer exists, and of other programs.
func TestUpgradeHoldTimesOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	helmOp := f.helmOp("cni", func(s *addonsv1.HelmOpSpec) {
		s.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{Timeout: metav1.Duration{Duration: 3 * time.Second}}
	})
	hold := clusterlife.UpgradeHoldName(client.ObjectKeyFromObject(helmOp))
	c := f.cluster()
	f.eventually(c, func(g gomega.Gomega) { g.Expect(c.Annotations).To(gomega.HaveKeyWithValue(hold, oldVersion)) })
	f.initialized(c)
	release := f.release(helmOp)

	foreign := map[string]string{
		"other": "x", clusterlife.UpgradeHoldPrefix + "migration": "",
		clusterlife.UpgradeHoldPrefix + "gone-1234567z": "v1.35.0",
		clusterlife.UpgradeHoldPrefix + "mine-12345678": "until friday",
		clusterlife.UpgradeHoldPrefix + "x-12345678":    "v1.35.0 since ever",
	}
	seen := f.watch(c)
	update(f, c, func(c *clusterv1.Cluster) {
		c.Spec.Topology.Version = newVersion
		maps.Copy(c.Annotations, foreign)
		c.Annotations[clusterlife.UpgradeHoldPrefix+"gone-12345678"] = oldVersion
		c.Annotations[addonsv1.DeletionHoldAnnotation] = time.Now().UTC().Format(time.RFC3339)
	})
	want := func(name string, value any) gomega.OmegaMatcher {
		keys := []any{name}
		for key := range foreign {
			keys = append(keys, key)
		}
		return gomega.And(gomega.HaveLen(len(keys)), gomega.HaveKeyWithValue(name, value),
			gomega.WithTransform(func(all map[string]string) map[string]string {
				all = maps.Clone(all)
				delete(all, name)
				return all
			}, gomega.Equal(foreign)))
	}
	f.Eventually(seen).Should(gomega.Receive(want(hold, gomega.HavePrefix(newVersion+" since "))))
	f.Eventually(seen).Should(gomega.Receive(want(clusterlife.UpgradeReleasedName(hold), newVersion)))
	f.eventuallyEvent(addonsv1.ClusterUpgradeHeldEvent, "Normal", "waits for at most 3s")
	f.eventuallyEvent(addonsv1.ClusterUpgradeReleasedEvent, "Warning", "was held for 3s and continues")
	f.must(f.Get(t.Context(), client.ObjectKeyFromObject(c), c))
	f.awaitPass(release)
	f.expectUnwritten(c)
}

// TestReleasesOfOthersDoNotAffectCluster has releases that no HelmOp in the namespace of the Cluster controls. They
// request a condition and a hold of the Cluster.
func TestReleasesOfOthersDoNotAffectCluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	requests := func(s *addonsv1.HelmOpSpec) {
		s.BeforeClusterUpgrade, s.ClusterCondition = &addonsv1.BeforeClusterUpgrade{}, "TenantReady"
		s.BeforeClusterDelete = &addonsv1.BeforeClusterDelete{}
	}
	tenant, made := f.helmOp("plain", nil), f.helmOp("made", nil)
	tenant.Namespace, tenant.ResourceVersion, tenant.UID = f.newNamespace(), "", ""
	requests(&tenant.Spec)
	f.must(f.Create(t.Context(), tenant))
	requests(&made.Spec)
	made.UID = "made-up"
	c := f.cluster()
	f.initialized(c)
	f.awaitPass(f.release(tenant), f.release(made))
	update(f, c, func(c *clusterv1.Cluster) {
		c.Annotations = map[string]string{
			clusterlife.UpgradeHoldName(client.ObjectKeyFromObject(tenant)): oldVersion,
			clusterlife.UpgradeHoldName(client.ObjectKeyFromObject(made)):   oldVersion,
		}
	})
	f.eventually(c, func(g gomega.Gomega) { g.Expect(c.Annotations).To(gomega.BeEmpty()) })
	f.Expect(c.Status.Conditions).To(gomega.BeEmpty())
}

// TestUnaffectedClusterIsNotWritten has a Cluster whose HelmOp requests no condition and no hold.
func TestUnaffectedClusterIsNotWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.cluster()
	release := f.release(f.helmOp("cni", nil))
	f.report(release, metav1.ConditionTrue, addonsv1.ReadyReason)
	f.report(release, metav1.ConditionFalse, addonsv1.UpgradeFailedReason)
	f.awaitPass(release)
	f.expectUnwritten(c)
	f.initialized(c)
	f.awaitPass(release)
	f.expectUnwritten(c)
}

// expectUnwritten checks that the Cluster has not been written since it was read.
func (f *fixture) expectUnwritten(c *clusterv1.Cluster) {
	f.Helper()
	current := &clusterv1.Cluster{}
	f.must(f.Get(f.Context(), client.ObjectKeyFromObject(c), current))
	f.Expect(current.ResourceVersion).To(gomega.Equal(c.ResourceVersion), "the Cluster was written: %+v", current)
}

// watch returns the annotations of the Cluster after each write.
func (f *fixture) watch(c *clusterv1.Cluster) <-chan map[string]string {
	f.Helper()
	w, err := f.Watch(f.Context(), &clusterv1.ClusterList{}, client.InNamespace(c.Namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: c.ResourceVersion}})
	f.must(err)
	f.Cleanup(w.Stop)
	seen := make(chan map[string]string, 100)
	go func() {
		defer close(seen)
		for event := range w.ResultChan() {
			if cluster, ok := event.Object.(*clusterv1.Cluster); ok {
				seen <- cluster.Annotations
			}
		}
	}()
	return seen
}

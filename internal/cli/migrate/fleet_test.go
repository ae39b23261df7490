// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

const fleetObjects = `
apiVersion: fleet.cattle.io/v1alpha1
kind: HelmOp
metadata: {name: calico, namespace: fleet, uid: helmop, finalizers: [fleet.cattle.io/helmop-finalizer]}
spec:
  helm: {repo: "oci://registry.example/charts/calico", version: 1.0.0}
  defaultNamespace: apps
  targets: [{clusterSelector: {}}]
---
apiVersion: fleet.cattle.io/v1alpha1
kind: Bundle
metadata: {name: calico, namespace: fleet, uid: bundle, finalizers: [fleet.cattle.io/bundle-finalizer]}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: BundleDeployment
metadata:
  name: calico
  namespace: cluster-fleet-one
  uid: deployment
  finalizers: [fleet.cattle.io/bundle-deployment-finalizer]
  labels:
    fleet.cattle.io/bundle-name: calico
    fleet.cattle.io/bundle-namespace: fleet
    fleet.cattle.io/cluster: one
    fleet.cattle.io/cluster-namespace: fleet
spec: {deploymentID: first, stagedDeploymentID: first}
status: {appliedDeploymentID: first, ready: true, nonModified: true, release: "apps/calico:2"}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: Cluster
metadata: {name: one, namespace: fleet}
spec: {kubeConfigSecret: one-kubeconfig}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: ClusterGroup
metadata: {name: all, namespace: fleet}
spec: {selector: {}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: one, namespace: fleet}
`

func TestFleetReport(t *testing.T) {
	w := newWorld(t, "fleet", fleetObjects)
	if err := w.report(t.Context(), w.plan()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Fleet HelmOp fleet/calico\n  HelmOp fleet/calico\n  1 Cluster: one\n",
		"not carried over: spec.deleteCRDResources: "} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, w.out.String())
		}
	}
	if len(w.writes) > 0 {
		t.Errorf("writes: %v", w.writes)
	}
	w.out.Reset()
	if err := w.printHelmOps(w.plan()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# needs the label migrated.addons.cluster.x-k8s.io/calico=true on Cluster one\n",
		"  paused: true\n", "    addons.cluster.x-k8s.io/migrated-from: HelmOp/fleet/calico\n",
		"    addons.cluster.x-k8s.io/migration: Installing calico\n",
		"    addons.cluster.x-k8s.io/migration-source: 1/1\n"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, w.out.String())
		}
	}
}

// TestAcceptInstall has flags that do not fit.
func TestAcceptInstall(t *testing.T) {
	for _, test := range []struct {
		migration
		want string
	}{
		{migration{from: "fleet", apply: true}, "add --accept-install"},
		{migration{from: "flux", apply: true, acceptInstall: true}, "is for --from fleet"},
	} {
		if err := test.validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error: %v", err)
		}
	}
	if err := (&migration{from: "fleet", apply: true, acceptInstall: true}).validate(); err != nil {
		t.Error(err)
	}
}

// fleetWorld is a world with Fleet: its controllers, and its agent in the Cluster "one".
type fleetWorld struct {
	*world

	// record is the newest record of the release in the Cluster; nil if there is none. isUninstalled is true when its
	// objects are deleted.
	record        *migrate.Record
	isUninstalled bool

	// isKept is true when the HelmOp of Fleet has the option keepResources.
	isKept bool

	// agentIsDown is true while the agent does nothing.
	agentIsDown bool
}

func newFleetWorld(t *testing.T) *fleetWorld {
	t.Helper()
	w := &fleetWorld{world: newWorld(t, "fleet", fleetObjects), record: &migrate.Record{Name: "calico", Namespace: "apps",
		Version: "1.0.0", Status: "deployed", Revision: 2, ChartAnnotations: map[string]string{
			"fleet.cattle.io/bundle-id": "calico", "fleet.cattle.io/keep-resources": "false"}}}
	w.tool = fleetTool{interval: time.Millisecond, readRecord: func(context.Context, *kube.Client, types.NamespacedName,
		string, string,
	) (*migrate.Record, error) {
		return w.record, nil
	}}
	w.afterPatch = func(c client.WithWatch, object client.Object) {
		w.generate(c, object)
		w.reconcile(c)
	}
	w.afterDelete = func(c client.WithWatch, object client.Object) { w.reconcile(c) }
	return w
}

// get reads an object of Fleet, or returns nil.
func (w *fleetWorld) get(c client.Client, kind schema.GroupVersionKind, namespace string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err := c.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: "calico"}, object)
	if client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return object
}

// generate does what an API server does: a change of the spec is a new generation.
func (w *fleetWorld) generate(c client.WithWatch, object client.Object) {
	helmOp, ok := object.(*unstructured.Unstructured)
	if !ok || helmOp.GroupVersionKind() != migrate.FleetHelmOpKind || isKept(helmOp) == w.isKept {
		return
	}
	w.isKept = isKept(helmOp)
	helmOp.SetGeneration(helmOp.GetGeneration() + 1)
	if err := c.Update(w.Context(), helmOp); err != nil {
		w.Fatal(err)
	}
}

// change changes the spec of the HelmOp of Fleet.
func (w *fleetWorld) change(c client.Client) {
	helmOp := w.get(c, migrate.FleetHelmOpKind, "fleet")
	helmOp.SetGeneration(helmOp.GetGeneration() + 1)
	err := unstructured.SetNestedField(helmOp.Object, "2.0.0", "spec", "helm", "version")
	if err = errors.Join(err, c.Update(w.Context(), helmOp)); err != nil {
		w.Fatal(err)
	}
}

// reconcile does what Fleet and HelmOp do after a write.
func (w *fleetWorld) reconcile(c client.WithWatch) {
	helmOp := w.get(c, migrate.FleetHelmOpKind, "fleet")
	bundle, deployment := w.get(c, migrate.FleetBundleKind, "fleet"),
		w.get(c, migrate.FleetDeploymentKind, "cluster-fleet-one")
	if helmOp != nil && helmOp.GetDeletionTimestamp() != nil {
		// Fleet deletes the Bundle and the BundleDeployments, and removes its finalizers.
		for _, object := range []*unstructured.Unstructured{helmOp, bundle, deployment} {
			if object == nil {
				continue
			}
			object.SetFinalizers(nil)
			err := c.Update(w.Context(), object)
			if err == nil && object != helmOp {
				err = c.Delete(w.Context(), object)
			}
			if client.IgnoreNotFound(err) != nil {
				w.Fatal(err)
			}
		}
		deployment = nil
	} else if helmOp != nil && deployment != nil {
		w.pass(c, deployment, isKept(helmOp))
	}
	if !w.agentIsDown {
		w.agent(c, deployment)
	}
	w.helmOp(c)
}

// pass passes the option keepResources on to a BundleDeployment.
func (w *fleetWorld) pass(c client.Client, deployment *unstructured.Unstructured, keep bool) {
	id := "first"
	if keep {
		id = "keep"
	}
	for _, path := range [][]string{{"spec", "deploymentID"}, {"spec", "stagedDeploymentID"}} {
		if err := unstructured.SetNestedField(deployment.Object, id, path...); err != nil {
			w.Fatal(err)
		}
	}
	if err := unstructured.SetNestedField(deployment.Object, keep, "spec", "options", "keepResources"); err != nil {
		w.Fatal(err)
	}
	if err := c.Update(w.Context(), deployment); err != nil {
		w.Fatal(err)
	}
}

// agent simulates the agent of Fleet. It deploys a BundleDeployment, and cleans up after the deletion of one.
func (w *fleetWorld) agent(c client.Client, deployment *unstructured.Unstructured) {
	if deployment == nil {
		switch record := w.record; {
		case record == nil || record.ChartAnnotations["fleet.cattle.io/bundle-id"] == "":
		case record.ChartAnnotations["fleet.cattle.io/keep-resources"] != "true":
			w.isUninstalled, w.record = true, nil
			w.Error("the agent has uninstalled the release")
		case record.Name == "calico":
			w.record = nil
		}
		return
	}
	id, _, _ := unstructured.NestedString(deployment.Object, "spec", "deploymentID")
	applied, _, _ := unstructured.NestedString(deployment.Object, "status", "appliedDeploymentID")
	if id == applied {
		return
	}
	keep, _, _ := unstructured.NestedBool(deployment.Object, "spec", "options", "keepResources")
	w.record.Revision++
	w.record.ChartAnnotations["fleet.cattle.io/keep-resources"] = strconv.FormatBool(keep)
	if err := unstructured.SetNestedField(deployment.Object, id, "status", "appliedDeploymentID"); err != nil {
		w.Fatal(err)
	}
	if err := c.Update(w.Context(), deployment); err != nil {
		w.Fatal(err)
	}
}

// helmOp is HelmOp: it installs the chart when its HelmOp is not paused.
func (w *fleetWorld) helmOp(c client.Client) {
	helmOp := &addonsv1.HelmOp{}
	if err := c.Get(w.Context(), client.ObjectKey{Namespace: "fleet", Name: "calico"}, helmOp); err != nil {
		if client.IgnoreNotFound(err) != nil {
			w.Fatal(err)
		}
		return
	}
	if helmOp.Spec.Paused || w.isIdle {
		return
	}
	if w.get(c, migrate.FleetDeploymentKind, "cluster-fleet-one") != nil {
		w.Error("HelmOp and Fleet both have the release")
	}
	if err := w.adopt(w.Context(), c, helmOp, "one"); client.IgnoreAlreadyExists(err) != nil {
		w.Fatal(err)
	}
}

// checkMigrated checks the end of a migration.
func (w *fleetWorld) checkMigrated() {
	w.Helper()
	helmOp := &addonsv1.HelmOp{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: "fleet", Name: "calico"}, helmOp); err != nil {
		w.Fatal(err)
	}
	if helmOp.Spec.Paused || helmOp.Annotations[addonsv1.MigrationAnnotation] != "" ||
		helmOp.Annotations[addonsv1.MigratedFromAnnotation] != "HelmOp/fleet/calico" {
		w.Errorf("HelmOp paused: %t, annotations %v", helmOp.Spec.Paused, helmOp.Annotations)
	}
	for kind, namespace := range map[schema.GroupVersionKind]string{migrate.FleetHelmOpKind: "fleet",
		migrate.FleetBundleKind: "fleet", migrate.FleetDeploymentKind: "cluster-fleet-one"} {
		if w.get(w.client, kind, namespace) != nil {
			w.Errorf("%s exists", kind.Kind)
		}
	}
	if w.isUninstalled {
		w.Error("the release is uninstalled")
	}
	if items := w.plan().Items; len(items) > 0 {
		w.Errorf("%d items are left", len(items))
	}
}

func TestFleetHandOver(t *testing.T) {
	w := newFleetWorld(t)
	if err := w.handOver(t.Context(), w.plan()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch HelmOp calico", "patch Cluster one", "create HelmOp calico", "patch HelmOp calico",
		"delete HelmOp calico", "patch HelmOp calico", "patch HelmOp calico"}, w.writes); diff != "" {
		t.Error(diff)
	}
	const want = `Fleet HelmOp fleet/calico keeps the objects of its releases when it is deleted
HelmOp fleet/calico created
Fleet HelmOp fleet/calico deleted; its releases stay installed
HelmOp fleet/calico has installed 1 release
`
	if diff := cmp.Diff(want, w.out.String()); diff != "" {
		t.Error(diff)
	}
	w.checkMigrated()
}

// TestFleetInterruptions interrupts each write, before and after it is made, and repeats the command.
func TestFleetInterruptions(t *testing.T) {
	interrupted := errors.New("interrupted")
	for _, isMade := range []bool{false, true} {
		for number := 1; number <= 7; number++ {
			t.Run(fmt.Sprintf("%d made %t", number, isMade), func(t *testing.T) {
				w := newFleetWorld(t)
				w.interrupt = func(n int, made bool) error {
					if n == number && made == isMade {
						return interrupted
					}
					return nil
				}
				if err := w.handOver(t.Context(), w.plan()); !errors.Is(err, interrupted) {
					t.Fatalf("error: %v", err)
				}
				w.interrupt = nil
				plan := w.plan()
				if isDone := number == 7 && isMade; isDone != (len(plan.Items) == 0) {
					t.Errorf("%d items", len(plan.Items))
				}
				if err := w.handOver(t.Context(), plan); err != nil {
					t.Fatal(err)
				}
				w.checkMigrated()
			})
		}
	}
}

// TestFleetUndo interrupts each write, and returns to Fleet.
func TestFleetUndo(t *testing.T) {
	interrupted := errors.New("interrupted")
	for _, isMade := range []bool{false, true} {
		for number := 1; number <= 7; number++ {
			t.Run(fmt.Sprintf("%d made %t", number, isMade), func(t *testing.T) {
				w := newFleetWorld(t)
				before, cluster := w.state("HelmOp", "calico"), w.state("Cluster", "one")
				w.interrupt = func(n int, made bool) error {
					if n == number && made == isMade {
						return interrupted
					}
					return nil
				}
				if err := w.handOver(t.Context(), w.plan()); !errors.Is(err, interrupted) {
					t.Fatalf("error: %v", err)
				}
				w.interrupt = nil
				err := w.handBack(t.Context(), w.plan())
				// The fourth write is the step after which the HelmOp of Fleet is deleted.
				if number > 4 || number == 4 && isMade {
					if isDone := number == 7 && isMade; !isDone && !errors.Is(err, errDetaching) {
						t.Errorf("error: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, w.state("HelmOp", "calico")); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(cluster, w.state("Cluster", "one")); diff != "" {
					t.Error(diff)
				}
				helmOps := &addonsv1.HelmOpList{}
				if err := w.client.List(t.Context(), helmOps); err != nil || len(helmOps.Items) > 0 {
					t.Errorf("HelmOps: %v, %v", helmOps.Items, err)
				}
				if keep := w.record.ChartAnnotations["fleet.cattle.io/keep-resources"]; keep != "false" {
					t.Errorf("the record has keepResources: %s", keep)
				}
			})
		}
	}
}

// TestFleetWaits has states in which the HelmOp of Fleet must not be deleted.
func TestFleetWaits(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fleetWorld)
		want   string
	}{
		"no manager reads the HelmOp": {func(w *fleetWorld) { w.isUnserved = true },
			"HelmOp fleet/calico: no manager of HelmOp has reconciled it; check that a manager runs"},
		"the manager of another shard has read the HelmOp": {func(w *fleetWorld) {
			helmOp := w.generated(&w.plan().Items[0])
			w.isUnserved = true
			helmOp.Status.Shard = ptr.To("b")
			if err := w.client.Create(w.Context(), helmOp); err != nil {
				w.Fatal(err)
			}
		}, "no manager of HelmOp has reconciled it"},
		"the agent is down": {func(w *fleetWorld) { w.agentIsDown = true }, "the agent has not deployed the newest options"},
		"the record is another one": {func(w *fleetWorld) {
			stale := *w.record
			stale.ChartAnnotations = maps.Clone(w.record.ChartAnnotations)
			w.tool = fleetTool{interval: time.Millisecond, readRecord: func(context.Context, *kube.Client, types.NamespacedName,
				string, string,
			) (*migrate.Record, error) {
				return &stale, nil
			}}
		}, "does not have the option keepResources"},
		"the record has a newer chart": {func(w *fleetWorld) { w.record.Version = "1.1.0" },
			"the release has version 1.1.0 of the chart, and HelmOp would install 1.0.0"},
		"the Cluster does not answer": {func(w *fleetWorld) {
			w.tool = fleetTool{interval: time.Millisecond, readRecord: func(context.Context, *kube.Client, types.NamespacedName,
				string, string,
			) (*migrate.Record, error) {
				return nil, errors.New("no answer")
			}}
		}, "the records of Helm cannot be read: no answer"},
		"another BundleDeployment": {func(w *fleetWorld) {
			late := w.get(w.client, migrate.FleetDeploymentKind, "cluster-fleet-one").DeepCopy()
			late.SetNamespace("cluster-fleet-two")
			late.SetResourceVersion("")
			created := false
			next := w.afterPatch
			w.afterPatch = func(c client.WithWatch, object client.Object) {
				if !created {
					created = true
					if err := c.Create(w.Context(), late); err != nil {
						w.Error(err)
					}
				}
				next(c, object)
			}
		}, "cluster-fleet-two/calico was created in the meantime"},
		"another BundleDeployment after the check": {func(w *fleetWorld) {
			late := w.get(w.client, migrate.FleetDeploymentKind, "cluster-fleet-one").DeepCopy()
			late.SetNamespace("cluster-fleet-two")
			late.SetResourceVersion("")
			read := w.tool.(fleetTool).readRecord
			w.tool = fleetTool{interval: time.Millisecond, readRecord: func(ctx context.Context, c *kube.Client,
				cluster types.NamespacedName, namespace, name string,
			) (*migrate.Record, error) {
				if err := w.client.WithWatch.Create(ctx, late); err != nil {
					return nil, err
				}
				return read(ctx, c, cluster, namespace, name)
			}}
		}, "cluster-fleet-two/calico was created in the meantime"},
		"the HelmOp is resumed": {func(w *fleetWorld) {
			w.isIdle = true
			read := w.tool.(fleetTool).readRecord
			w.tool = fleetTool{interval: time.Millisecond, readRecord: func(ctx context.Context, c *kube.Client,
				cluster types.NamespacedName, namespace, name string,
			) (*migrate.Record, error) {
				helmOp := &addonsv1.HelmOp{}
				if err := c.Get(ctx, client.ObjectKey{Namespace: "fleet", Name: "calico"}, helmOp); err != nil {
					return nil, err
				}
				helmOp.Spec.Paused = false
				if err := c.Update(ctx, helmOp); err != nil {
					return nil, err
				}
				return read(ctx, c, cluster, namespace, name)
			}}
		}, "is not paused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFleetWorld(t)
				test.change(w)
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				if err := w.handOver(ctx, w.plan()); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error: %v", err)
				}
				if w.isUnserved && !strings.Contains(w.notes.String(), "calico: "+whyUnserved+"\n") {
					t.Errorf("notes: %s", w.notes.String())
				}
				if object := w.get(w.client, migrate.FleetHelmOpKind, "fleet"); object == nil ||
					object.GetDeletionTimestamp() != nil {
					t.Error("the HelmOp of Fleet is deleted")
				}
			})
		})
	}
}

// TestFleetOptionIsRemoved has a HelmOp of Fleet whose keepResources another program removes before the deletion.
func TestFleetOptionIsRemoved(t *testing.T) {
	w := newFleetWorld(t)
	next := w.afterPatch
	w.afterPatch = func(c client.WithWatch, object client.Object) {
		next(c, object)
		helmOp := w.get(c, migrate.FleetHelmOpKind, "fleet")
		if stepOf(helmOp) != migrate.StepDetaching || !isKept(helmOp) {
			return
		}
		unstructured.RemoveNestedField(helmOp.Object, keepResources...)
		if err := c.Update(t.Context(), helmOp); err != nil {
			t.Error(err)
		}
	}
	err := w.handOver(t.Context(), w.plan())
	if err == nil || !strings.Contains(err.Error(), "has no spec.keepResources any more") {
		t.Errorf("error: %v", err)
	}
	if object := w.get(w.client, migrate.FleetHelmOpKind, "fleet"); object == nil || object.GetDeletionTimestamp() != nil {
		t.Error("the HelmOp of Fleet is deleted")
	}
}

// TestFleetSpecChanges has a HelmOp of Fleet whose spec a user changes during the migration.
func TestFleetSpecChanges(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fleetWorld)
		want   string
	}{
		"after the plan": {func(w *fleetWorld) { w.change(w.client) }, "it has changed since the command read it"},
		"between two runs": {func(w *fleetWorld) {
			if _, err := w.begin(w.Context(), &w.plan().Items[0]); err != nil {
				w.Fatal(err)
			}
			w.change(w.client)
		}, "was made from another state of Fleet HelmOp fleet/calico"},
		"before the deletion": {func(w *fleetWorld) {
			next, isChanged := w.afterPatch, false
			w.afterPatch = func(c client.WithWatch, object client.Object) {
				next(c, object)
				if !isChanged && stepOf(w.get(c, migrate.FleetHelmOpKind, "fleet")) == migrate.StepDetaching {
					isChanged = true
					w.change(c)
				}
			}
		}, "has changed since the HelmOp was made from it"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFleetWorld(t)
			plan := w.plan()
			test.change(w)
			if name == "between two runs" {
				plan = w.plan()
			}
			if err := w.handOver(t.Context(), plan); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error: %v", err)
			}
			if object := w.get(w.client, migrate.FleetHelmOpKind, "fleet"); object == nil ||
				object.GetDeletionTimestamp() != nil {
				t.Error("the HelmOp of Fleet is deleted")
			}
		})
	}
}

// TestFleetHelmOpOfUser has HelmOps that a user creates from the output of the command.
func TestFleetHelmOpOfUser(t *testing.T) {
	for name, test := range map[string]struct{ without, want string }{
		"as printed":         {},
		"without the step":   {addonsv1.MigrationAnnotation, "does not have the annotation"},
		"without the source": {addonsv1.MigrationSourceAnnotation, "was made from another state of Fleet HelmOp"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFleetWorld(t)
			helmOp := w.generated(&w.plan().Items[0])
			delete(helmOp.Annotations, test.without)
			if err := w.client.Create(t.Context(), helmOp); err != nil {
				t.Fatal(err)
			}
			err := w.handOver(t.Context(), w.plan())
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				w.checkMigrated()
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error: %v", err)
			}
			if object := w.get(w.client, migrate.FleetHelmOpKind, "fleet"); isKept(object) {
				t.Error("the HelmOp of Fleet is changed")
			}
		})
	}
}

// TestFleetPreviewsHelmOpOfUser has a HelmOp of an earlier run, which a user has corrected: the command previews it.
func TestFleetPreviewsHelmOpOfUser(t *testing.T) {
	w := newFleetWorld(t)
	item := &w.plan().Items[0]
	helmOp, err := w.planned(t.Context(), item)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.generated(item), helmOp); diff != "" {
		t.Error(diff)
	}
	helmOp.Spec.Release.Namespace = "corrected"
	if err := w.client.Create(t.Context(), helmOp); err != nil {
		t.Fatal(err)
	}
	if helmOp, err = w.planned(t.Context(), item); err != nil || helmOp.Spec.Release.Namespace != "corrected" {
		t.Errorf("namespace %q, %v", helmOp.Spec.Release.Namespace, err)
	}
}

// TestFleetClusterLeaves has a Cluster that lost its release between two runs and still has its label.
func TestFleetClusterLeaves(t *testing.T) {
	for name, isPaused := range map[string]bool{"paused": true, "resumed": false} {
		t.Run(name, func(t *testing.T) {
			w := newFleetWorld(t)
			helmOp := w.generated(&w.plan().Items[0])
			helmOp.Annotations[addonsv1.MigrationSourceAnnotation] = "1/2"
			// A HelmOp that is not paused would act.
			helmOp.Spec.Paused, w.isIdle = isPaused, !isPaused
			left := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "two",
				Labels: map[string]string{addonsv1.MigratedClusterLabelPrefix + "/calico": "true", "mine": "true"}}}
			if err := errors.Join(w.client.Create(t.Context(), helmOp), w.client.Create(t.Context(), left)); err != nil {
				t.Fatal(err)
			}
			err := w.handOver(t.Context(), w.plan())
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(left), left); err != nil {
				t.Fatal(err)
			}
			if !isPaused {
				if err == nil || !strings.Contains(err.Error(), "is not paused") || len(left.Labels) != 2 {
					t.Errorf("labels %v, error: %v", left.Labels, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			w.checkMigrated()
			if diff := cmp.Diff(map[string]string{"mine": "true"}, left.Labels); diff != "" {
				t.Error(diff)
			}
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(helmOp), helmOp); err != nil {
				t.Fatal(err)
			}
			if source := helmOp.Annotations[addonsv1.MigrationSourceAnnotation]; source != "1/1" {
				t.Errorf("source %q", source)
			}
		})
	}
}

// TestFleetKeepsSelectedLabels has a Cluster without a release of Fleet whose label another HelmOp selects.
func TestFleetKeepsSelectedLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFleetWorld(t)
		w.isIdle = true
		label := addonsv1.MigratedClusterLabelPrefix + "/calico"
		other := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "two",
			Labels: map[string]string{label: "true"}}}
		if err := errors.Join(w.client.Create(t.Context(), parse(t, selectingHelmOp)),
			w.client.Create(t.Context(), other)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		err := w.handOver(ctx, w.plan())
		if err == nil || !strings.Contains(err.Error(), "HelmOp fleet/cni selects the label "+label) {
			t.Errorf("error: %v", err)
		}
		err = w.client.Get(t.Context(), client.ObjectKeyFromObject(other), other)
		if err != nil || other.Labels[label] == "" {
			t.Errorf("labels %v, %v", other.Labels, err)
		}
	})
}

// TestFleetDeploysDuringDeletion has a BundleDeployment that Fleet creates after the deletion of its HelmOp has begun.
func TestFleetDeploysDuringDeletion(t *testing.T) {
	w := newFleetWorld(t)
	var notes []string
	w.client.Note = func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	late := w.get(w.client, migrate.FleetDeploymentKind, "cluster-fleet-one").DeepCopy()
	late.SetNamespace("cluster-fleet-two")
	late.SetResourceVersion("")
	late.SetFinalizers(nil)
	next := w.afterDelete
	w.afterDelete = func(c client.WithWatch, object client.Object) {
		w.afterDelete = next
		if err := c.Create(t.Context(), late); err != nil {
			t.Error(err)
		}
		next(c, object)
	}
	// The watch of BundleDeployments has begun, so that the deletion of this one ends the wait.
	w.afterWatch = func(options *client.ListOptions) {
		if options.LabelSelector != nil && strings.Contains(options.LabelSelector.String(), migrate.FleetBundleLabel) {
			if err := client.IgnoreNotFound(w.client.WithWatch.Delete(t.Context(), late.DeepCopy())); err != nil {
				t.Error(err)
			}
		}
	}
	if err := w.handOver(t.Context(), w.plan()); err != nil {
		t.Fatal(err)
	}
	w.checkMigrated()
	if len(notes) != 1 || !strings.Contains(notes[0], "created BundleDeployment cluster-fleet-two/calico during") {
		t.Errorf("notes: %q", notes)
	}
}

// TestFleetObjectsReturn has objects of Fleet that another program creates again before the pause ends.
func TestFleetObjectsReturn(t *testing.T) {
	for name, document := range map[string]int{"HelmOp": 0, "Bundle": 1, "BundleDeployment": 2} {
		t.Run(name, func(t *testing.T) {
			w := newFleetWorld(t)
			read, isMade := w.tool.(fleetTool).readRecord, false
			w.tool = fleetTool{interval: time.Millisecond, readRecord: func(ctx context.Context, c *kube.Client,
				cluster types.NamespacedName, namespace, name string,
			) (*migrate.Record, error) {
				record, err := read(ctx, c, cluster, namespace, name)
				if record == nil && !isMade {
					isMade = true
					err = errors.Join(err, w.client.WithWatch.Create(ctx,
						parse(t, strings.Split(fleetObjects, "\n---\n")[document])))
				}
				return record, err
			}}
			err := w.handOver(t.Context(), w.plan())
			if err == nil || !strings.Contains(err.Error(), "Fleet "+name+" ") ||
				!strings.Contains(err.Error(), "exists again") {
				t.Errorf("error: %v", err)
			}
			helmOp := &addonsv1.HelmOp{}
			if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "calico"}, helmOp); err != nil ||
				!helmOp.Spec.Paused {
				t.Errorf("HelmOp paused: %t, %v", helmOp.Spec.Paused, err)
			}
		})
	}
}

// TestFleetDependencyIsMissing has a HelmOp that would wait for a HelmOp that does not exist.
func TestFleetDependencyIsMissing(t *testing.T) {
	w := newFleetWorld(t)
	plan := w.plan()
	plan.Items[0].HelmOp.Spec.DependsOn = []addonsv1.Dependency{{Name: "network"}}
	err := w.handOver(t.Context(), plan)
	if err == nil || !strings.Contains(err.Error(), "depends on HelmOp network") {
		t.Errorf("error: %v", err)
	}
	if items := w.plan().Items; len(items) != 1 || isForgotten(&items[0]) {
		t.Error("the HelmOp of Fleet is deleted")
	}
}

// TestFleetIsGone has a HelmOp of Fleet that is deleted after the plan was made.
func TestFleetIsGone(t *testing.T) {
	w := newFleetWorld(t)
	item := &w.plan().Items[0]
	item.From[0].Name = "gone"
	_, err := w.begin(t.Context(), item)
	if err == nil || !strings.Contains(err.Error(), "was deleted since the command read it") || w.out.Len() > 0 {
		t.Errorf("error: %v\n%s", err, w.out.String())
	}
}

// TestFleetAgentIsLate has an agent that stops before the HelmOp of Fleet is deleted, and starts again later.
func TestFleetAgentIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFleetWorld(t)
		next := w.afterPatch
		w.afterPatch = func(c client.WithWatch, object client.Object) {
			w.agentIsDown = stepOf(w.get(c, migrate.FleetHelmOpKind, "fleet")) == migrate.StepDetaching
			next(c, object)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := w.handOver(ctx, w.plan()); err == nil || !strings.Contains(err.Error(),
			"Cluster one: the agent of Fleet has not deleted its records of the release") {
			t.Errorf("error: %v", err)
		}
		helmOp := &addonsv1.HelmOp{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "calico"}, helmOp); err != nil {
			t.Fatal(err)
		}
		if !helmOp.Spec.Paused || w.record == nil {
			t.Errorf("HelmOp paused: %t, record %v", helmOp.Spec.Paused, w.record)
		}
		w.afterPatch, w.agentIsDown = next, false
		w.reconcile(w.client.WithWatch)
		if err := w.handOver(t.Context(), w.plan()); err != nil {
			t.Fatal(err)
		}
		w.checkMigrated()
	})
}

// TestFleetPartialDeletion has a HelmOp of Fleet under deletion whose BundleDeployments are already deleted.
func TestFleetPartialDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFleetWorld(t)
		w.afterDelete = func(client.WithWatch, client.Object) { w.deletionFails = errors.New("interrupted") }
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := w.handOver(ctx, w.plan()); err == nil {
			t.Fatal("the HelmOp of Fleet is still there")
		}
		deployment := w.get(w.client, migrate.FleetDeploymentKind, "cluster-fleet-one")
		deployment.SetFinalizers(nil)
		c := w.client.WithWatch
		w.deletionFails, w.afterDelete = nil, nil
		if err := errors.Join(c.Update(t.Context(), deployment), c.Delete(t.Context(), deployment)); err != nil {
			t.Fatal(err)
		}
		plan := w.plan()
		if len(plan.Items) != 1 || len(plan.Items[0].Releases) != 1 || len(plan.Items[0].Blocked()) > 0 {
			t.Fatalf("%+v", plan.Items)
		}
		if err := w.handBack(t.Context(), plan); !errors.Is(err, errDetaching) {
			t.Errorf("error: %v", err)
		}
		w.afterDelete = func(c client.WithWatch, object client.Object) { w.reconcile(c) }
		if err := w.handOver(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		w.checkMigrated()
	})
}

// TestFleetUndoOfDeletedHelmOp has a HelmOp of Fleet that a user deletes after its migration has begun. The advice of
// --undo completes the migration.
func TestFleetUndoOfDeletedHelmOp(t *testing.T) {
	w := newFleetWorld(t)
	var c client.WithWatch // After a deletion by this client, Fleet does nothing yet.
	next := w.afterPatch
	w.afterPatch = func(user client.WithWatch, object client.Object) {
		c = user
		next(user, object)
	}
	if _, err := w.begin(t.Context(), &w.plan().Items[0]); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), w.get(c, migrate.FleetHelmOpKind, "fleet")); err != nil {
		t.Fatal(err)
	}
	w.writes = nil
	err := w.handBack(t.Context(), w.plan())
	const want = "wait until it is gone, and complete the migration with --apply"
	if err == nil || !strings.Contains(err.Error(), want) || len(w.writes) > 0 {
		t.Errorf("error: %v, writes %v", err, w.writes)
	}
	w.reconcile(c)
	if err := w.handOver(t.Context(), w.plan()); err != nil {
		t.Fatal(err)
	}
	w.checkMigrated()
}

// TestFleetUndoOfHelmOpDeletedMeanwhile has a HelmOp of Fleet that a user deletes while --undo deletes the HelmOp. The
// advice of --undo, also of a repeated one, must complete the migration.
func TestFleetUndoOfHelmOpDeletedMeanwhile(t *testing.T) {
	w := newFleetWorld(t)
	item := &w.plan().Items[0]
	if _, err := w.begin(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	var c client.WithWatch
	afterPatch, afterDelete := w.afterPatch, w.afterDelete
	w.afterDelete = func(user client.WithWatch, _ client.Object) {
		c, w.afterPatch, w.afterDelete = user, nil, nil // Fleet does nothing yet.
		if err := c.Delete(t.Context(), w.get(c, migrate.FleetHelmOpKind, "fleet")); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		err := w.handBack(t.Context(), w.plan())
		const want = "before it is gone, create the HelmOp that -o yaml prints, and set the labels that it needs; then " +
			"wait until it is gone, and complete the migration with --apply"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("error: %v", err)
		}
	}
	item = &w.plan().Items[0]
	if err := errors.Join(c.Create(t.Context(), w.generated(item)), editMarks(t.Context(), w.client, item.Marks,
		setMark)); err != nil {
		t.Fatal(err)
	}
	w.afterPatch, w.afterDelete = afterPatch, afterDelete
	w.reconcile(c)
	if err := w.handOver(t.Context(), w.plan()); err != nil {
		t.Fatal(err)
	}
	w.checkMigrated()
}

// TestFleetUndoOfGoneHelmOp has a HelmOp of Fleet that is gone before --undo resumes it.
func TestFleetUndoOfGoneHelmOp(t *testing.T) {
	w := newFleetWorld(t)
	if _, err := w.begin(t.Context(), &w.plan().Items[0]); err != nil {
		t.Fatal(err)
	}
	plan := w.plan()
	w.afterDelete = func(c client.WithWatch, _ client.Object) {
		w.afterDelete = nil
		if err := c.Delete(t.Context(), w.get(c, migrate.FleetHelmOpKind, "fleet")); err != nil {
			t.Fatal(err)
		}
		w.reconcile(c)
	}
	err := w.handBack(t.Context(), plan)
	if err == nil || !strings.Contains(err.Error(), "was deleted during --undo") ||
		strings.Contains(w.out.String(), "resumed") {
		t.Errorf("error: %v, output: %s", err, w.out.String())
	}
}

// TestFleetUndoRefusesReleases has a HelmOp that a user resumed, so that it has a release.
func TestFleetUndoRefusesReleases(t *testing.T) {
	w := newFleetWorld(t)
	item := &w.plan().Items[0]
	helmOp, err := w.begin(t.Context(), item)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.adopt(t.Context(), w.client, helmOp, "one"); err != nil {
		t.Fatal(err)
	}
	w.writes = nil
	err = w.handBack(t.Context(), w.plan())
	if err == nil || !strings.Contains(err.Error(), "has a release in Cluster one") {
		t.Errorf("error: %v", err)
	}
	if len(w.writes) > 0 {
		t.Errorf("writes: %v", w.writes)
	}
}

func TestIsFailure(t *testing.T) {
	for name, test := range map[string]struct {
		outcome preview.Outcome
		want    bool
	}{
		"same":    {preview.Outcome{State: preview.StateSame}, false},
		"failed":  {preview.Outcome{State: preview.StateFailed}, true},
		"refused": {preview.Outcome{State: preview.StateDiffers, Action: "Refuse"}, true},
		"changes": {preview.Outcome{State: preview.StateDiffers, Changes: []preview.Change{{Change: "Update"}}}, false},
		"fails":   {preview.Outcome{State: preview.StateDiffers, Changes: []preview.Change{{Fails: true}}}, true},
	} {
		if got := isFailure(&test.outcome); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestFailuresOf has previews that do not show that HelmOp can install the release in both Clusters of an item.
func TestFailuresOf(t *testing.T) {
	item := &migrate.Item{HelmOp: &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "calico"}},
		Releases: []migrate.Release{{Cluster: types.NamespacedName{Namespace: "fleet", Name: "one"}},
			{Cluster: types.NamespacedName{Namespace: "fleet", Name: "two"}}}}
	same, failed := preview.Outcome{State: preview.StateSame}, preview.Outcome{State: preview.StateFailed, Message: "why"}
	for name, test := range map[string]struct {
		groups []preview.Group
		want   []string
	}{
		"both":        {[]preview.Group{{Clusters: []string{"one", "two"}, Outcome: same}}, nil},
		"both, apart": {[]preview.Group{{Clusters: []string{"two"}}, {Clusters: []string{"one"}, Outcome: same}}, nil},
		"one fails": {[]preview.Group{{Clusters: []string{"two"}, Outcome: same}, {Clusters: []string{"one"},
			Outcome: failed}}, []string{"Cluster one: why"}},
		"one is missing": {[]preview.Group{{Clusters: []string{"one"}, Outcome: same}},
			[]string{"Cluster two: " + whyUncovered}},
		"both are missing": {nil, []string{"Cluster one: " + whyUncovered, "Cluster two: " + whyUncovered}},
	} {
		if diff := cmp.Diff(test.want, failuresOf(item, test.groups)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

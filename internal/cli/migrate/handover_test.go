// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
)

const caaphObjects = `
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmChartProxy
metadata: {name: calico, namespace: fleet, uid: chart, finalizers: [helmchartproxy.addons.cluster.x-k8s.io]}
spec: {clusterSelector: {}, chartName: calico, repoURL: "oci://registry.example/charts", version: 1.0.0}
---
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmReleaseProxy
metadata:
  name: calico-one
  namespace: fleet
  uid: release
  finalizers: [helmreleaseproxy.addons.cluster.x-k8s.io]
  labels: {helmreleaseproxy.addons.cluster.x-k8s.io/helmchartproxy-name: calico}
  ownerReferences:
  - {apiVersion: addons.cluster.x-k8s.io/v1alpha1, kind: HelmChartProxy, name: calico, uid: chart, controller: true}
spec: {clusterRef: {name: one, namespace: fleet}, releaseName: calico-1764, namespace: default}
status: {status: deployed, revision: 2}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: one, namespace: fleet}
`

const fluxObjects = `
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: one-calico, namespace: fleet, uid: release}
spec:
  kubeConfig: {secretRef: {name: one-kubeconfig}}
  chartRef: {kind: OCIRepository, name: calico}
status: {storageNamespace: default, history: [{name: one-calico, namespace: default, version: 2, status: deployed}]}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: calico, namespace: fleet}
spec: {url: "oci://registry.example/charts/calico", ref: {tag: 1.0.0}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: one, namespace: fleet}
`

// fluxPair has a HelmRelease in a second Cluster, which becomes a part of the same HelmOp.
var fluxPair = fluxObjects + `
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: two-calico, namespace: fleet, uid: second}
spec:
  kubeConfig: {secretRef: {name: two-kubeconfig}}
  chartRef: {kind: OCIRepository, name: calico}
status: {storageNamespace: default, history: [{name: two-calico, namespace: default, version: 2, status: deployed}]}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: two, namespace: fleet}
`

// world is a management cluster in memory. While HelmOp runs, it adopts all releases at once.
type world struct {
	*testing.T
	migration
	out, notes bytes.Buffer

	// writes are all writes, in their order.
	writes []string
	mutex  sync.Mutex
	// isIdle is true if HelmOp adopts nothing. idleFor is a HelmOp that adopts nothing.
	isIdle  bool
	idleFor string
	// isUnserved is true if no manager reads new HelmOps.
	isUnserved bool
	// creationFails is the error of each dry run of a creation.
	creationFails error
	// deletionFails is the error of each deletion of an object.
	deletionFails error
	// afterDelete is called after each deletion of an object.
	afterDelete func(client.WithWatch, client.Object)
	// afterWatch is called after each start of a watch. The watch of a client in memory misses what happens between the
	// list and the start.
	afterWatch func(*client.ListOptions)
	// afterPatch is called after each patch of an object.
	afterPatch func(client.WithWatch, client.Object)
	// interrupt is the error of a write, before or after it is made.
	interrupt func(number int, isMade bool) error
}

func newWorld(t *testing.T, from string, objects string) *world {
	t.Helper()
	w := &world{T: t}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{addonsv1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: w.create, Patch: w.patch, Delete: w.remove, Watch: w.watch})
	for document := range strings.SplitSeq(objects, "\n---\n") {
		builder = builder.WithObjects(parse(t, document))
	}
	// The API server can select by name without an index.
	release := &unstructured.Unstructured{}
	release.SetGroupVersionKind(migrate.HelmReleaseKind)
	named := []client.Object{&addonsv1.HelmOp{}, release}
	for _, kind := range []schema.GroupVersionKind{migrate.FleetHelmOpKind, migrate.FleetBundleKind} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		named = append(named, object)
	}
	for _, object := range named {
		builder = builder.WithIndex(object, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} })
	}
	w.Base = kube.NewBase(kube.Options{Streams: genericiooptions.IOStreams{Out: &w.out, ErrOut: &w.notes}})
	w.from = from
	w.tool = w.toolOf()
	w.client = &kube.Client{WithWatch: builder.Build(), Namespace: "fleet", Note: w.Note}
	return w
}

func parse(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// write records a write, and makes its request unless the test interrupts it.
func (w *world) write(verb string, object client.Object, request func() error) error {
	number := w.wrote(verb, object)
	if w.interrupt != nil {
		if err := w.interrupt(number, false); err != nil {
			return err
		}
	}
	if err := request(); err != nil || w.interrupt == nil {
		return err
	}
	return w.interrupt(number, true)
}

func (w *world) wrote(verb string, object client.Object) (number int) {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1alpha1.")
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.writes = append(w.writes, verb+" "+kind+" "+object.GetName())
	return len(w.writes)
}

func (w *world) watch(ctx context.Context, c client.WithWatch, list client.ObjectList,
	opts ...client.ListOption,
) (watch.Interface, error) {
	watcher, err := c.Watch(ctx, list, opts...)
	if err == nil && w.afterWatch != nil {
		w.afterWatch((&client.ListOptions{}).ApplyOptions(opts))
	}
	return watcher, err
}

func (w *world) create(ctx context.Context, c client.WithWatch, object client.Object,
	opts ...client.CreateOption,
) error {
	if len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0 {
		if w.creationFails != nil {
			return w.creationFails
		}
		return c.Create(ctx, object, opts...)
	}
	helmOp, ok := object.(*addonsv1.HelmOp)
	if ok && !w.isUnserved {
		helmOp.Status.Shard = ptr.To(helmOp.Labels[addonsv1.ShardLabel])
	}
	return w.write("create", object, func() error {
		if err := c.Create(ctx, object, opts...); err != nil {
			return err
		}
		if ok && !w.isIdle && helmOp.Name != w.idleFor && !helmOp.Spec.Paused {
			return w.adopt(ctx, c, helmOp, "one")
		}
		return nil
	})
}

// adopt creates the HelmOpRelease of a HelmOp, as after an adoption.
func (w *world) adopt(ctx context.Context, c client.Client, helmOp *addonsv1.HelmOp, cluster string) error {
	child := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: helmOp.Namespace,
		Name: apiutil.ChildName(helmOp.Name, cluster), Labels: apiutil.ChildSelector(helmOp),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: addonsv1.GroupVersion.String(), Kind: apiutil.HelmOpKind,
			Name: helmOp.Name, Controller: new(bool)}}}}
	*child.OwnerReferences[0].Controller = true
	child.Spec.ClusterRef = addonsv1.ClusterReference{Name: cluster}
	child.Spec.Release = addonsv1.ReleaseIdentity{Name: helmOp.Name + "-1764", Namespace: "default"}
	switch w.from {
	case "flux":
		child.Spec.Release.Name = cluster + "-calico"
	case "fleet":
		child.Spec.Release = addonsv1.ReleaseIdentity{Name: helmOp.Spec.Release.Name,
			Namespace: helmOp.Spec.Release.Namespace}
	}
	child.Status.Release = &addonsv1.ReleaseObservation{Revision: 2}
	child.Status.Conditions = []metav1.Condition{{Type: addonsv1.ReleasedCondition, Status: metav1.ConditionTrue}}
	return c.Create(ctx, child)
}

func (w *world) patch(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
	opts ...client.PatchOption,
) error {
	return w.write("patch", object, func() error {
		// Flux removes the fields of such field managers from objects in its repository.
		if by := (&client.PatchOptions{}).ApplyOptions(opts).FieldManager; by == "" || strings.HasPrefix(by, "kubectl") {
			w.Errorf("the field manager %q patches %s", by, object.GetName())
		}
		err := c.Patch(ctx, object, patch, opts...)
		if err == nil && w.afterPatch != nil {
			w.afterPatch(c, object)
		}
		return err
	})
}

// remove refuses what would uninstall a release.
func (w *world) remove(ctx context.Context, c client.WithWatch, object client.Object,
	opts ...client.DeleteOption,
) error {
	return w.write("delete", object, func() error { return w.removeNow(ctx, c, object, opts...) })
}

func (w *world) removeNow(ctx context.Context, c client.WithWatch, object client.Object,
	opts ...client.DeleteOption,
) error {
	if w.deletionFails != nil {
		return w.deletionFails
	}
	live := object.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
		return err
	}
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	if live.GetObjectKind().GroupVersionKind() == migrate.HelmReleaseProxyKind {
		p := options.Preconditions
		if p == nil || p.ResourceVersion == nil {
			w.Errorf("%s is deleted whatever its state", object.GetName())
		} else if *p.ResourceVersion == live.GetResourceVersion() &&
			(len(live.GetFinalizers()) > 0 || len(live.GetOwnerReferences()) > 0) {
			w.Errorf("%s is deleted with a finalizer or an owner", object.GetName())
		}
	}
	err := c.Delete(ctx, object, opts...)
	if err == nil && w.afterDelete != nil {
		w.afterDelete(c, object)
	}
	return err
}

func (w *world) plan() *migrate.Plan {
	w.Helper()
	plan, err := w.tool.plan(w.Context(), w.client)
	if err != nil {
		w.Fatal(err)
	}
	return plan
}

// state returns an object without what each write changes.
func (w *world) state(kind, name string) map[string]any {
	w.Helper()
	kinds := map[string]string{"HelmChartProxy": "addons.cluster.x-k8s.io/v1alpha1",
		"HelmReleaseProxy": "addons.cluster.x-k8s.io/v1alpha1", "HelmRelease": "helm.toolkit.fluxcd.io/v2",
		"Cluster": clusterv1.GroupVersion.String()}
	if w.from == "fleet" && kind == "HelmOp" {
		kinds[kind] = migrate.FleetHelmOpKind.GroupVersion().String()
	}
	object := &unstructured.Unstructured{}
	ref := migrate.Object{APIVersion: kinds[kind], Kind: kind, Namespace: "fleet", Name: name}
	if err := read(w.Context(), w.client, ref, object); client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	} else if err != nil {
		return nil
	}
	object.SetResourceVersion("")
	object.SetGeneration(0)
	if len(object.GetAnnotations()) == 0 {
		object.SetAnnotations(nil)
	}
	return object.Object
}

func TestHandOver(t *testing.T) {
	for from, test := range map[string]struct {
		objects string
		writes  []string
		mark    string
	}{
		"caaph": {caaphObjects, []string{
			"patch HelmChartProxy calico", "patch HelmReleaseProxy calico-one", "patch Cluster one", "create HelmOp calico",
			"patch HelmChartProxy calico", "patch HelmReleaseProxy calico-one", "delete HelmReleaseProxy calico-one",
			"patch HelmChartProxy calico", "delete HelmChartProxy calico",
		}, "calico-1764"},
		"flux": {fluxObjects, []string{
			"patch HelmRelease one-calico", "patch Cluster one", "create HelmOp calico", "patch HelmRelease one-calico",
			"delete HelmRelease one-calico",
		}, "true"},
	} {
		t.Run(from, func(t *testing.T) {
			w := newWorld(t, from, test.objects)
			if err := w.handOver(t.Context(), w.plan()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.writes, w.writes); diff != "" {
				t.Error(diff)
			}
			cluster := &clusterv1.Cluster{}
			if err := w.client.Get(t.Context(), types.NamespacedName{Namespace: "fleet", Name: "one"}, cluster); err != nil {
				t.Fatal(err)
			}
			marks := cluster.Annotations[addonsv1.ReleaseNameAnnotationPrefix+"/calico"] +
				cluster.Labels[addonsv1.MigratedClusterLabelPrefix+"/calico"]
			if marks != test.mark {
				t.Errorf("marks of the Cluster: %v, %v", cluster.Annotations, cluster.Labels)
			}
			if len(w.plan().Items) != 0 {
				t.Error("there is still something to migrate")
			}
		})
	}
}

// TestToolAddsItsFinalizerAgain has a tool that adds its finalizer after the command has removed it.
func TestToolAddsItsFinalizerAgain(t *testing.T) {
	w := newWorld(t, "caaph", caaphObjects)
	added := 0
	w.afterPatch = func(c client.WithWatch, object client.Object) {
		if object.GetObjectKind().GroupVersionKind() != migrate.HelmReleaseProxyKind || len(object.GetFinalizers()) > 0 ||
			added == 3 {
			return
		}
		added++
		live := object.DeepCopyObject().(client.Object)
		controllerutil.AddFinalizer(live, migrate.HelmReleaseProxyFinalizer)
		if err := c.Update(t.Context(), live); err != nil {
			t.Error(err)
		}
	}
	if err := w.handOver(t.Context(), w.plan()); err != nil {
		t.Fatal(err)
	}
	if added != 3 || w.state("HelmReleaseProxy", "calico-one") != nil {
		t.Errorf("the finalizer was added %d times", added)
	}
}

func TestUndo(t *testing.T) {
	for from, test := range map[string]struct{ objects, kind, name string }{
		"caaph": {caaphObjects, "HelmChartProxy", "calico"},
		"flux":  {fluxObjects, "HelmRelease", "one-calico"},
	} {
		t.Run(from, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, from, test.objects)
				w.isIdle = true
				before, cluster := w.state(test.kind, test.name), w.state("Cluster", "one")
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				err := w.handOver(ctx, w.plan())
				if err == nil || !strings.Contains(err.Error(), "Cluster one: HelmOp has not assigned the release yet") {
					t.Errorf("error: %v", err)
				}
				plan := w.plan()
				if blocked := plan.Items[0].Blocked(); len(blocked) > 0 {
					t.Errorf("an interrupted migration cannot continue: %v", blocked)
				}
				if err := w.handBack(t.Context(), plan); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, w.state(test.kind, test.name)); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(cluster, w.state("Cluster", "one")); diff != "" {
					t.Error(diff)
				}
				helmOps := &addonsv1.HelmOpList{}
				if err := w.client.List(t.Context(), helmOps); err != nil || len(helmOps.Items) > 0 {
					t.Errorf("HelmOps: %v, %v", helmOps.Items, err)
				}
			})
		})
	}
}

// TestDetachingCannotBeUndone interrupts a migration while objects are being deleted.
func TestDetachingCannotBeUndone(t *testing.T) {
	w := newWorld(t, "caaph", caaphObjects)
	plan := w.plan()
	item := &plan.Items[0]
	if _, err := w.begin(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	if _, err := markDetaching(t.Context(), w.client, item, item.From[0], isPaused); err != nil {
		t.Fatal(err)
	}
	if err := w.handBack(t.Context(), w.plan()); err == nil || !strings.Contains(err.Error(), "cannot be undone") {
		t.Errorf("error: %v", err)
	}
	if err := w.handOver(t.Context(), w.plan()); err != nil {
		t.Error(err)
	}
	if w.state("HelmChartProxy", "calico") != nil {
		t.Error("the HelmChartProxy still exists")
	}
}

// TestForeignHelmOpStays has a HelmOp of the same name that the command did not create.
func TestForeignHelmOpStays(t *testing.T) {
	w := newWorld(t, "caaph", caaphObjects)
	foreign := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "calico"}}
	if err := w.client.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.writes = nil
	if err := w.handOver(t.Context(), w.plan()); err == nil || !strings.Contains(err.Error(), "did not create it") {
		t.Errorf("error: %v", err)
	}
	w.preview = true
	const want = "no preview: HelmOp fleet/calico exists, and this command did not create it"
	if err := w.report(t.Context(), w.plan()); err != nil || !strings.Contains(w.out.String(), want) {
		t.Errorf("report: %v, %s", err, w.out.String())
	}
	if err := w.handBack(t.Context(), w.plan()); err != nil {
		t.Error(err)
	}
	if len(w.writes) > 0 {
		t.Errorf("writes: %v", w.writes)
	}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil {
		t.Error(err)
	}
}

// TestReplacementChangesNoOthers checks that the command advises the deletion of a HelmOp only if its replacement would
// not change releases in other Clusters.
func TestReplacementChangesNoOthers(t *testing.T) {
	const deletion, warning = "with --cascade=orphan", "would change its 1 release in other Clusters: two"
	for cluster, want := range map[string]string{"one": deletion, "two": warning} {
		w := newWorld(t, "caaph", caaphObjects)
		w.isIdle = true
		helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "calico",
			Annotations: map[string]string{addonsv1.MigratedFromAnnotation: "HelmRelease/fleet/two-calico"}}}
		if err := w.client.Create(t.Context(), helmOp); err != nil {
			t.Fatal(err)
		}
		if err := w.adopt(t.Context(), w.client, helmOp, cluster); err != nil {
			t.Fatal(err)
		}
		err := w.handOver(t.Context(), w.plan())
		if err == nil || !strings.Contains(err.Error(), "made it from HelmRelease/fleet/two-calico") {
			t.Fatalf("error: %v", err)
		}
		for _, text := range []string{deletion, warning} {
			if got := strings.Contains(err.Error(), text); got != (text == want) {
				t.Errorf("a release in Cluster %s: %v", cluster, err)
			}
		}
	}
}

// TestHelmOpVanishes has a HelmOp that is deleted or replaced before the objects of the other tool are deleted.
func TestHelmOpVanishes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world, *addonsv1.HelmOp) error
		want   string
	}{
		"deleted": {func(w *world, helmOp *addonsv1.HelmOp) error {
			return w.client.Delete(w.Context(), helmOp)
		}, "was deleted during the migration"},
		"replaced": {func(w *world, helmOp *addonsv1.HelmOp) error {
			other := helmOp.DeepCopy()
			other.UID, other.ResourceVersion = "other", ""
			if err := w.client.Delete(w.Context(), helmOp); err != nil {
				return err
			}
			w.isIdle = true
			return w.client.Create(w.Context(), other)
		}, "was deleted during the migration"},
		"being deleted": {func(w *world, helmOp *addonsv1.HelmOp) error {
			helmOp.Finalizers = []string{"helmop.addons.cluster.x-k8s.io"}
			if err := w.client.Update(w.Context(), helmOp); err != nil {
				return err
			}
			return w.client.Delete(w.Context(), helmOp)
		}, "HelmOp fleet/calico is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "caaph", caaphObjects)
			item := &w.plan().Items[0]
			helmOp, err := w.begin(t.Context(), item)
			if err != nil {
				t.Fatal(err)
			}
			if err := test.change(w, helmOp.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			w.writes = nil
			if err := w.finish(t.Context(), item, helmOp); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error: %v", err)
			}
			if len(w.writes) > 0 {
				t.Errorf("writes: %v", w.writes)
			}
		})
	}
}

// TestRefusedHelmOp has a HelmOp that the API server does not store, for example because of a long timeout. The command
// does not pause the other tool.
func TestRefusedHelmOp(t *testing.T) {
	for from, objects := range map[string]string{"caaph": caaphObjects, "flux": fluxObjects} {
		w := newWorld(t, from, objects)
		w.creationFails = errors.New("timeout must be at most 1h")
		if err := w.handOver(t.Context(), w.plan()); !errors.Is(err, w.creationFails) {
			t.Errorf("error: %v", err)
		}
		if len(w.writes) > 0 {
			t.Errorf("writes: %v", w.writes)
		}
	}
}

// TestHelmOpUnderDeletionIsRefused has a HelmOp of an earlier run that is being deleted.
func TestHelmOpUnderDeletionIsRefused(t *testing.T) {
	w := newWorld(t, "caaph", caaphObjects)
	plan := w.plan()
	helmOp := plan.Items[0].HelmOp.DeepCopy()
	helmOp.Finalizers = []string{"helmop.addons.cluster.x-k8s.io"}
	if err := w.client.Create(t.Context(), helmOp); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(t.Context(), helmOp); err != nil {
		t.Fatal(err)
	}
	w.writes = nil
	if err := w.handOver(t.Context(), plan); err == nil || !strings.Contains(err.Error(), "is being deleted") {
		t.Errorf("error: %v", err)
	}
	if len(w.writes) > 0 {
		t.Errorf("writes: %v", w.writes)
	}
}

// TestUndoRefuses has migrations that have begun, and states in which they cannot be undone.
func TestUndoRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world, *addonsv1.HelmOp) error
		want   string
	}{
		"foreign": {func(w *world, helmOp *addonsv1.HelmOp) error {
			helmOp.Annotations[addonsv1.MigratedFromAnnotation] = "HelmChartProxy/fleet/other"
			return w.client.Update(w.Context(), helmOp)
		}, "made it from HelmChartProxy/fleet/other, not from HelmChartProxy/fleet/calico; to replace it, delete the " +
			"helmops.addons.cluster.x-k8s.io with --cascade=orphan"},
		"without an origin": {func(w *world, helmOp *addonsv1.HelmOp) error {
			helmOp.Annotations = nil
			return w.client.Update(w.Context(), helmOp)
		}, "did not create it; to replace it, delete the helmops.addons.cluster.x-k8s.io with --cascade=orphan"},
		"another Cluster": {func(w *world, helmOp *addonsv1.HelmOp) error {
			return w.adopt(w.Context(), w.client, helmOp, "two")
		}, "has 1 release in other Clusters, which would have no owner: two"},
		"being deleted": {func(w *world, helmOp *addonsv1.HelmOp) error {
			helmOp.Finalizers = []string{"helmop.addons.cluster.x-k8s.io"}
			if err := w.client.Update(w.Context(), helmOp); err != nil {
				return err
			}
			return w.client.Delete(w.Context(), helmOp)
		}, "is being deleted, but not by this command"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "caaph", caaphObjects)
			plan := w.plan()
			if _, err := w.begin(t.Context(), &plan.Items[0]); err != nil {
				t.Fatal(err)
			}
			helmOp := &addonsv1.HelmOp{}
			key := client.ObjectKey{Namespace: "fleet", Name: "calico"}
			if err := w.client.Get(t.Context(), key, helmOp); err != nil {
				t.Fatal(err)
			}
			if err := test.change(w, helmOp); err != nil {
				t.Fatal(err)
			}
			w.writes = nil
			if err := w.handBack(t.Context(), w.plan()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error: %v", err)
			}
			if len(w.writes) > 0 {
				t.Errorf("writes: %v", w.writes)
			}
		})
	}
}

// TestUndoOfDeletedObjects has objects that a user deletes after their migration has begun, before --undo or during it.
// Their tool would uninstall the releases when the pause ends.
func TestUndoOfDeletedObjects(t *testing.T) {
	for _, kind := range []schema.GroupVersionKind{migrate.HelmChartProxyKind, migrate.HelmReleaseProxyKind} {
		for name, isLate := range map[string]bool{"before": false, "during": true} {
			t.Run(kind.Kind+" "+name, func(t *testing.T) {
				w := newWorld(t, "caaph", caaphObjects)
				var user client.Client // The client of the command refuses such deletions.
				w.afterPatch = func(c client.WithWatch, _ client.Object) { user = c }
				item := &w.plan().Items[0]
				if _, err := w.begin(t.Context(), item); err != nil {
					t.Fatal(err)
				}
				var deleted *unstructured.Unstructured
				for _, ref := range objectsOf(item) {
					if ref.Kind == kind.Kind {
						deleted = &unstructured.Unstructured{}
						if err := read(t.Context(), w.client, ref, deleted); err != nil {
							t.Fatal(err)
						}
					}
				}
				remove := func() {
					if err := user.Delete(t.Context(), deleted); err != nil {
						t.Error(err)
					}
				}
				if isLate {
					w.afterDelete = func(client.WithWatch, client.Object) { remove() }
				} else {
					remove()
				}
				w.writes = nil
				err := w.handBack(t.Context(), w.plan())
				if err == nil || !strings.Contains(err.Error(), "is being deleted, so that its tool would uninstall its release") {
					t.Errorf("error: %v", err)
				}
				if !isLate && len(w.writes) > 0 {
					t.Errorf("writes: %v", w.writes)
				}
				if object := w.state(kind.Kind, deleted.GetName()); !isPaused(&unstructured.Unstructured{Object: object}) {
					t.Errorf("the object is resumed: %v", object)
				}
			})
		}
	}
}

// TestDetachNeedsThePause has an object that another run or a user resumes before it is deleted.
func TestDetachNeedsThePause(t *testing.T) {
	for name, test := range map[string]struct {
		key, value string
		afterStep  bool
		want       string
	}{
		"undone":                {addonsv1.MigrationAnnotation, "", false, errNotPaused.Error()},
		"being undone":          {addonsv1.MigrationAnnotation, "Returning calico", false, errReturning.Error()},
		"resumed":               {clusterv1.PausedAnnotation, "", false, errNotPaused.Error()},
		"resumed while deleted": {clusterv1.PausedAnnotation, "", true, errNotPaused.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "caaph", caaphObjects)
			item := &w.plan().Items[0]
			helmOp, err := w.begin(t.Context(), item)
			if err != nil {
				t.Fatal(err)
			}
			change := func() {
				w.afterPatch = nil
				if _, err := edit(t.Context(), w.client, item.From[0], func(object *unstructured.Unstructured) error {
					annotate(object, test.key, test.value)
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
			if test.afterStep {
				w.afterPatch = func(_ client.WithWatch, object client.Object) {
					if stepOf(object) == migrate.StepDetaching {
						change()
					}
				}
			} else {
				change()
			}
			if err := w.finish(t.Context(), item, helmOp); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error: %v", err)
			}
			if w.state("HelmChartProxy", "calico") == nil {
				t.Error("the HelmChartProxy is deleted")
			}
			if !test.afterStep && w.state("HelmReleaseProxy", "calico-one") == nil {
				t.Error("the HelmReleaseProxy is deleted")
			}
		})
	}
}

// twoCharts are two HelmChartProxies for the same Cluster: calico and metrics.
func twoCharts() string {
	proxies, _, _ := strings.Cut(caaphObjects, "\n---\napiVersion: cluster.x-k8s.io")
	return caaphObjects + "\n---\n" + strings.ReplaceAll(proxies, "calico", "metrics")
}

// TestItemsDoNotWaitForEachOther has a HelmOp that adopts its release after the next item is complete.
func TestItemsDoNotWaitForEachOther(t *testing.T) {
	w := newWorld(t, "caaph", twoCharts())
	w.idleFor = "calico"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	watched, began := context.WithCancel(ctx)
	w.afterWatch = func(opts *client.ListOptions) {
		if opts.LabelSelector != nil && strings.Contains(opts.LabelSelector.String(), "calico") {
			began()
		}
	}
	w.afterDelete = func(c client.WithWatch, object client.Object) {
		if object.GetName() != "metrics" {
			return
		}
		<-watched.Done()
		helmOp := &addonsv1.HelmOp{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "calico"}, helmOp); err != nil {
			t.Error(err)
		} else if err := w.adopt(t.Context(), c, helmOp, "one"); err != nil {
			t.Error(err)
		}
	}
	if err := w.handOver(ctx, w.plan()); err != nil {
		t.Fatal(err)
	}
	if items := w.plan().Items; len(items) > 0 {
		t.Errorf("%d items are left", len(items))
	}
}

// TestTimeoutOfOneItem has two HelmOps, and one adopts nothing.
func TestTimeoutOfOneItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "caaph", twoCharts())
		w.idleFor, w.timeout = "calico", 2*time.Second
		err := w.handOver(t.Context(), w.plan())
		if err == nil || !strings.Contains(err.Error(), "timed out after 2s") || strings.Contains(err.Error(), "metrics") {
			t.Errorf("error: %v", err)
		}
		if w.state("HelmChartProxy", "calico") == nil || w.state("HelmChartProxy", "metrics") != nil {
			t.Error("the HelmChartProxy metrics must be deleted, and calico must not")
		}
	})
}

const lateProxy = `
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmReleaseProxy
metadata:
  name: calico-two
  namespace: fleet
  finalizers: [helmreleaseproxy.addons.cluster.x-k8s.io]
  labels: {helmreleaseproxy.addons.cluster.x-k8s.io/helmchartproxy-name: calico}
spec: {clusterRef: {name: two, namespace: fleet}, releaseName: calico-1765, namespace: default}
status: {status: deployed, revision: 1}
`

// TestLateHelmReleaseProxy has a HelmReleaseProxy that CAAPH creates after the command has read all objects.
func TestLateHelmReleaseProxy(t *testing.T) {
	for name, isLater := range map[string]bool{"before the HelmOp": false, "before the deletion": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "caaph", caaphObjects)
			plan := w.plan()
			item := &plan.Items[0]
			appear := func() {
				if err := w.client.Create(t.Context(), parse(t, lateProxy)); err != nil {
					t.Fatal(err)
				}
				w.writes = nil
			}
			var err error
			if isLater {
				helmOp, failed := w.begin(t.Context(), item)
				if failed != nil {
					t.Fatal(failed)
				}
				appear()
				err = w.finish(t.Context(), item, helmOp)
			} else {
				appear()
				err = w.handOver(t.Context(), plan)
			}
			if err == nil || !strings.Contains(err.Error(), "calico-two was created in the meantime; repeat the command") {
				t.Errorf("error: %v", err)
			}
			for _, write := range w.writes {
				if !strings.HasPrefix(write, "patch Helm") {
					t.Errorf("writes: %v", w.writes)
				}
			}
			if releases := w.plan().Items[0].Releases; len(releases) != 2 {
				t.Errorf("the command does not continue with %v", releases)
			}
		})
	}
}

// TestFluxMarksAllBeforeItDeletes interrupts the deletion of two HelmReleases before the first one is deleted.
func TestFluxMarksAllBeforeItDeletes(t *testing.T) {
	w := newWorld(t, "flux", fluxPair)
	item := &w.plan().Items[0]
	if _, err := w.begin(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	w.deletionFails = errors.New("interrupted")
	if err := w.tool.detach(t.Context(), w.client, item); !errors.Is(err, w.deletionFails) {
		t.Errorf("error: %v", err)
	}
	for _, ref := range item.From {
		object := &unstructured.Unstructured{}
		if err := read(t.Context(), w.client, ref, object); err != nil || stepOf(object) != migrate.StepDetaching {
			t.Errorf("%s: step %q, %v", ref, stepOf(object), err)
		}
	}
	if len(item.From) != 2 {
		t.Errorf("objects %v", item.From)
	}
	w.deletionFails, w.writes = nil, nil
	if err := w.handBack(t.Context(), w.plan()); !errors.Is(err, errDetaching) || len(w.writes) > 0 {
		t.Errorf("error: %v, writes %v", err, w.writes)
	}
	if err := w.tool.detach(t.Context(), w.client, item); err != nil || len(w.plan().Items) > 0 {
		t.Errorf("the command does not continue: %v", err)
	}
}

// TestFluxContinuesWithoutTheOrigin interrupts a migration, and then deletes the Cluster or the HelmRelease that the
// HelmOp names.
func TestFluxContinuesWithoutTheOrigin(t *testing.T) {
	for name, ref := range map[string]migrate.Object{
		"the Cluster is deleted": {APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "one"},
		"the HelmRelease is deleted": {APIVersion: migrate.HelmReleaseKind.GroupVersion().String(),
			Kind: migrate.HelmReleaseKind.Kind, Name: "one-calico"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "flux", fluxPair)
			w.isIdle = true
			if _, err := w.begin(t.Context(), &w.plan().Items[0]); err != nil {
				t.Fatal(err)
			}
			object := &unstructured.Unstructured{}
			ref.Namespace = "fleet"
			if err := read(t.Context(), w.client, ref, object); err != nil {
				t.Fatal(err)
			}
			if err := w.client.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			plan := w.plan()
			at := slices.IndexFunc(plan.Items, func(item migrate.Item) bool { return item.HelmOp != nil })
			item := &plan.Items[at]
			w.writes = nil
			if _, err := w.begin(t.Context(), item); err != nil || slices.Contains(w.writes, "create HelmOp calico") {
				t.Errorf("--apply does not continue: %v, writes %v", err, w.writes)
			}
			if err := w.handBackItem(t.Context(), item); err != nil {
				t.Errorf("--undo: %v", err)
			}
			if state := w.state("HelmRelease", "two-calico"); state == nil || len(item.From) != 1 ||
				isSuspended(&unstructured.Unstructured{Object: state}) {
				t.Errorf("the HelmRelease is not resumed: %v, %v", item.From, state)
			}
		})
	}
}

// TestFluxInterruptions interrupts the pause of two HelmReleases of one HelmOp before and after each write.
func TestFluxInterruptions(t *testing.T) {
	for number := 1; number <= 2; number++ {
		for _, isMade := range []bool{false, true} {
			w := newWorld(t, "flux", fluxPair)
			stop := errors.New("interrupted")
			w.interrupt = func(n int, made bool) error {
				if n == number && made == isMade {
					return stop
				}
				return nil
			}
			if _, err := w.begin(t.Context(), &w.plan().Items[0]); !errors.Is(err, stop) {
				t.Errorf("error: %v", err)
			}
			w.interrupt = nil
			plan := w.plan()
			for i := range plan.Items {
				if _, err := w.begin(t.Context(), &plan.Items[i]); err != nil {
					t.Error(err)
				}
			}
			helmOps := &addonsv1.HelmOpList{}
			if err := w.client.List(t.Context(), helmOps); err != nil || len(helmOps.Items) != 1 {
				t.Errorf("interrupted at write %d (made: %t): %d HelmOps, %v", number, isMade, len(helmOps.Items), err)
			}
			if plan := w.plan(); len(plan.Items) != 1 || len(plan.Items[0].From) != 2 {
				t.Errorf("the command does not continue with both HelmReleases: %v", plan.Items)
			}
		}
	}
}

// TestUndoForbidsApply interrupts --undo after its first step.
func TestUndoForbidsApply(t *testing.T) {
	for from, objects := range map[string]string{"caaph": caaphObjects, "flux": fluxObjects} {
		t.Run(from, func(t *testing.T) {
			w := newWorld(t, from, objects)
			item := &w.plan().Items[0]
			helmOp, err := w.begin(t.Context(), item)
			if err != nil {
				t.Fatal(err)
			}
			if err := markReturning(t.Context(), w.client, item, item.From[0]); err != nil {
				t.Fatal(err)
			}
			w.writes = nil
			for _, err := range []error{w.handOver(t.Context(), w.plan()), w.finish(t.Context(), item, helmOp)} {
				if !errors.Is(err, errReturning) {
					t.Errorf("error: %v", err)
				}
			}
			if len(w.writes) > 0 {
				t.Errorf("writes: %v", w.writes)
			}
			if err := w.handBack(t.Context(), w.plan()); err != nil {
				t.Error(err)
			}
			if len(w.writes) == 0 {
				t.Error("--undo does not continue")
			}
		})
	}
}

// TestUndoWithoutMigration has Clusters with the annotation of a HelmOp whose migration is complete or has not begun.
func TestUndoWithoutMigration(t *testing.T) {
	for from, objects := range map[string]string{"caaph": caaphObjects, "flux": fluxObjects} {
		w := newWorld(t, from, objects)
		if err := w.handBack(t.Context(), w.plan()); err != nil {
			t.Error(err)
		}
		if len(w.writes) > 0 || w.out.Len() > 0 {
			t.Errorf("%s: writes %v, output %q", from, w.writes, w.out.String())
		}
	}
}

// selectingHelmOp is the HelmOp of a user that selects the label of the HelmOp "calico".
const selectingHelmOp = `
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmOp
metadata: {name: cni, namespace: fleet}
spec: {clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/calico: "true"}}}
`

// TestUndoKeepsSelectedLabels has another HelmOp that selects the label of a migration. It would uninstall its releases
// if --undo removed the label.
func TestUndoKeepsSelectedLabels(t *testing.T) {
	w := newWorld(t, "flux", fluxObjects+"\n---\n"+selectingHelmOp)
	w.idleFor = "cni"
	if _, err := w.begin(t.Context(), &w.plan().Items[0]); err != nil {
		t.Fatal(err)
	}
	w.writes = nil
	err := w.handBack(t.Context(), w.plan())
	if err == nil || !strings.Contains(err.Error(), "HelmOp fleet/cni selects the label") || len(w.writes) > 0 {
		t.Errorf("error: %v, writes %v", err, w.writes)
	}
	other := &addonsv1.HelmOp{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "cni"}, other); err != nil {
		t.Fatal(err)
	}
	other.Spec.ClusterSelector.MatchLabels = map[string]string{addonsv1.MigratedClusterLabelPrefix + "/calico-2": "true"}
	if err := w.client.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := w.handBack(t.Context(), w.plan()); err != nil {
		t.Error(err)
	}
}

// TestUndoOfPlainReleases has a Cluster with the label of a HelmOp that exists no longer. Another HelmOp may select the
// label.
func TestUndoOfPlainReleases(t *testing.T) {
	const cluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: one, namespace: fleet, labels: {migrated.addons.cluster.x-k8s.io/calico: "true"}}
`
	const left = "its Clusters have labels of a former migration: migrated.addons.cluster.x-k8s.io/calico; if --undo " +
		"was interrupted, "
	for name, objects := range map[string]string{"no HelmOp": cluster,
		"another HelmOp": cluster + "\n---\n" + selectingHelmOp} {
		w := newWorld(t, "helm", objects)
		clusters, err := clusterMetadata(t.Context(), w.client)
		if err != nil {
			t.Fatal(err)
		}
		plan := migrate.FromHelm("calico", "fleet", addonsv1.ArtifactSource{URL: "oci://registry.example/calico"},
			migrate.HelmObjects{Clusters: clusters, Records: []*migrate.Record{{Name: "calico", Namespace: "tigera",
				Cluster: client.ObjectKeyFromObject(clusters[0]), Version: "1.0.0", Status: "deployed"}}})
		err = w.handBack(t.Context(), plan)
		if err != nil || len(w.writes) > 0 || !strings.Contains(w.notes.String(), "HelmOp fleet/calico does not exist") {
			t.Errorf("%s: error %v, writes %v, notes %s", name, err, w.writes, w.notes.String())
		}
		if isLeft := name == "no HelmOp"; strings.Contains(w.notes.String(), left) != isLeft {
			t.Errorf("%s: notes %s", name, w.notes.String())
		}
		if err := w.client.Create(t.Context(), w.generated(&plan.Items[0])); err != nil {
			t.Fatal(err)
		}
		w.writes = nil
		err = w.handBack(t.Context(), plan)
		if isSelected := name != "no HelmOp"; (err != nil) != isSelected || (len(w.writes) == 0) != isSelected {
			t.Errorf("%s: error %v, writes %v", name, err, w.writes)
		}
	}
}

// TestUndoOfUnknownObjects has an object whose migration has begun, and whose Cluster no longer exists.
func TestUndoOfUnknownObjects(t *testing.T) {
	renamed := strings.Replace(fluxObjects, "name: one, namespace: fleet}", "name: other, namespace: fleet}", 1)
	w := newWorld(t, "flux", renamed)
	if err := w.handBack(t.Context(), w.plan()); err != nil {
		t.Errorf("no migration has begun: %v", err)
	}
	ref := w.plan().Items[0].From[0]
	if _, err := edit(t.Context(), w.client, ref, func(object *unstructured.Unstructured) error {
		annotate(object, addonsv1.MigrationAnnotation, "Paused calico")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	err := w.handBack(t.Context(), w.plan())
	if err == nil || !strings.Contains(err.Error(), "its migration has begun") ||
		!strings.Contains(err.Error(), "not the kubeconfig of a Cluster") {
		t.Errorf("error: %v", err)
	}
}

func TestApplyArgs(t *testing.T) {
	for want, m := range map[string]*migration{
		"--from caaph -n fleet --apply":                                  {from: "caaph"},
		"--from flux -n fleet one two --apply":                           {from: "flux", names: []string{"one", "two"}},
		"--from fleet -n fleet --apply --accept-install":                 {from: "fleet"},
		"--from helm -n fleet --release a/b --chart-url oci://c --apply": {from: "helm", release: "a/b", chartURL: "oci://c"},
		"--from helm -n fleet --release a/b --chart-url https://c --chart d --chart-secret e --chart-cert-secret f --apply": {
			from: "helm", release: "a/b", chartURL: "https://c", chart: "d", chartSecret: "e", chartCertSecret: "f"},
	} {
		m.tool, m.client = m.toolOf(), &kube.Client{Namespace: "fleet"}
		if got := strings.Join(m.applyArgs(), " "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	w := newWorld(t, "caaph", caaphObjects)
	plan := w.plan()
	if err := choose(plan, []string{"calico"}); err != nil || len(plan.Items) != 1 {
		t.Errorf("%d items, %v", len(plan.Items), err)
	}
	if err := choose(plan, []string{"other"}); err == nil || len(plan.Items) != 0 {
		t.Errorf("%d items, %v", len(plan.Items), err)
	}
}

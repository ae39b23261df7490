// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// widgets is a custom kind of a test.
type widgets struct {
	b       *bench
	group   string
	crds    apiextensionsclient.CustomResourceDefinitionInterface
	objects dynamic.Interface
}

func newWidgets(b *bench) *widgets {
	b.t.Helper()
	client, err := apiextensions.NewForConfig(b.server.RESTConfig())
	if err != nil {
		b.t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(b.server.RESTConfig())
	if err != nil {
		b.t.Fatal(err)
	}
	return &widgets{
		b: b, group: strings.ReplaceAll(b.namespace, "-", "") + ".example.com",
		crds: client.ApiextensionsV1().CustomResourceDefinitions(), objects: objects,
	}
}

func (w *widgets) name() string { return "widgets." + w.group }

// define defines the kind in some versions. The last version is stored.
func (w *widgets) define(scope apiextensionsv1.ResourceScope, versions ...string) {
	w.b.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: w.name()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: w.group, Scope: scope, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets",
				Kind: "Widget"},
		},
	}
	for i, version := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == len(versions)-1,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: ptr.To(true),
			}},
		})
	}
	if _, err := w.crds.Create(w.b.t.Context(), crd, metav1.CreateOptions{}); err != nil {
		w.b.t.Fatal(err)
	}
}

// serve makes the cluster serve the kind in some of its versions.
func (w *widgets) serve(versions ...string) {
	w.b.t.Helper()
	crd, err := w.crds.Get(w.b.t.Context(), w.name(), metav1.GetOptions{})
	if err != nil {
		w.b.t.Fatal(err)
	}
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Served = strings.Contains(" "+strings.Join(versions, " ")+" ", " "+crd.Spec.Versions[i].Name+" ")
	}
	if _, err := w.crds.Update(w.b.t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		w.b.t.Fatal(err)
	}
}

// remove removes the kind, and waits until the removal is complete.
func (w *widgets) remove() {
	w.b.t.Helper()
	if err := w.crds.Delete(w.b.t.Context(), w.name(), metav1.DeleteOptions{}); err != nil {
		w.b.t.Fatal(err)
	}
	eventually(w.b.t, "the kind to be removed", func() bool {
		_, err := w.crds.Get(w.b.t.Context(), w.name(), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func (w *widgets) in(version, namespace string) dynamic.ResourceInterface {
	return w.objects.Resource(schema.GroupVersionResource{Group: w.group, Version: version,
		Resource: "widgets"}).Namespace(namespace)
}

// create creates a widget as soon as the kind is served.
func (w *widgets) create(version, namespace string) {
	w.b.t.Helper()
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": w.group + "/" + version, "kind": "Widget",
		"metadata": map[string]any{"name": "w",
			"labels": map[string]any{inventory.ManagedByLabel: inventory.ManagedByHelm}},
		"status": map[string]any{"phase": "Broken"},
	}}
	eventually(w.b.t, "the kind to be served", func() bool {
		_, err := w.in(version, namespace).Create(w.b.t.Context(), widget, metav1.CreateOptions{})
		return err == nil
	})
}

func (w *widgets) patch(version, patch string) {
	w.b.t.Helper()
	eventually(w.b.t, "the version to be served", func() bool {
		_, err := w.in(version, "").Patch(w.b.t.Context(), "w", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err == nil
	})
}

func (w *widgets) ref(version, namespace string) inventory.Ref {
	return inventory.Ref{Group: w.group, Version: version, Kind: "Widget", Namespace: namespace, Name: "w"}
}

func TestKindIsRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := newWidgets(b)
	w.define(apiextensionsv1.ClusterScoped, "v1")
	w.create("v1", "")
	release, ref := key("r"), w.ref("v1", "")
	broken := checker(t, health.Check{APIVersion: w.group + "/v1", Kind: "Widget", Failed: "self.status.phase == 'Broken'",
		Current: "true"})
	b.watcher.Follow(release, b.conn, Plan{Objects: []inventory.Ref{ref}, Checker: broken})
	b.status(release, ref, health.Failed)
	w.remove()
	b.status(release, ref, health.NotFound)

	// The kind returns with another version.
	w.define(apiextensionsv1.NamespaceScoped, "v2")
	w.create("v2", b.namespace)
	moved := w.ref("v2", b.namespace)
	b.watcher.Follow(release, b.conn, Plan{Objects: []inventory.Ref{moved}, Checker: checker(t)})
	b.status(release, moved, health.Current)
}

// TestKindChangesScope checks that an object is not read at the path that its kind had before.
func TestKindChangesScope(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := newWidgets(b)
	w.define(apiextensionsv1.ClusterScoped, "v1")
	w.create("v1", "")
	b.watcher.Follow(key("r"), b.conn, Plan{Objects: []inventory.Ref{w.ref("v1", "")}, Checker: checker(t)})
	b.status(key("r"), w.ref("v1", ""), health.Current)
	w.remove()
	w.define(apiextensionsv1.NamespaceScoped, "v1")
	w.create("v1", b.namespace)
	b.watcher.Follow(key("r"), b.conn, Plan{Objects: []inventory.Ref{w.ref("v1", b.namespace)}, Checker: checker(t)})
	b.status(key("r"), w.ref("v1", b.namespace), health.Current)
}

func TestVersionIsRemoved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan func(group string) Plan
		want health.Status
	}{
		"health": {func(string) Plan { return Plan{Checker: checker(t)} }, health.Current},
		"drift":  {func(string) Plan { return Plan{Drift: true} }, health.Current},
		// The check of the former version still applies.
		"check": {func(group string) Plan {
			return Plan{Checker: checker(t, health.Check{APIVersion: group + "/v1beta1", Kind: "Widget",
				Failed: "self.status.phase == 'Broken'", Current: "true"})}
		}, health.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			w := newWidgets(b)
			w.define(apiextensionsv1.ClusterScoped, "v1beta1", "v1")
			w.create("v1", "")
			release, ref := key("r"), w.ref("v1beta1", "")
			plan := tc.plan(w.group)
			plan.Objects = []inventory.Ref{ref}
			b.watcher.Follow(release, b.conn, plan)
			b.status(release, ref, tc.want)
			eventually(t, "the first request", func() bool { return b.asked(release) == 1 })

			for _, version := range []string{"v1", "v1beta1"} {
				before := b.look(release).Objects[ref].Fingerprint
				began := time.Now()
				w.serve(version)
				eventually(t, "to be watched as "+version, func() bool {
					if snapshot := b.look(release); !snapshot.Synced || !snapshot.Objects[ref].Exists || snapshot.Err != nil {
						t.Fatalf("the object exists all the time, got %+v", snapshot)
					}
					return len(b.sent(apiserver.WithVerb("watch"), apiserver.Since(began), func(r apiserver.Request) bool {
						return r.Code < 300 && strings.HasPrefix(r.URI, "/apis/"+w.group+"/"+version+"/")
					})) > 0
				})
				w.patch(version, `{"spec":{"as":"`+version+`"}}`)
				if state := b.becomes(release, ref, "changed",
					func(s State) bool { return s.Exists && s.Fingerprint != before }); state.Health != tc.want {
					t.Errorf("the object is %s in version %s", state.Health, version)
				}
			}
			if err := w.in("v1beta1", "").Delete(t.Context(), "w", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			b.status(release, ref, health.NotFound)
		})
	}
}

func TestResolvesAtOnceForNewPlan(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Kind: "Widget"}
	later := time.Now().Add(absenceInterval)
	for name, test := range map[string]struct {
		before pendingKind
		atOnce bool
	}{
		"new":               {atOnce: true},
		"not served before": {before: pendingKind{due: later, refusals: 8}, atOnce: true},
		"not resolved":      {before: pendingKind{due: later}},
		"outdated":          {before: pendingKind{due: later, outdated: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newPendingReads()
			if !test.before.due.IsZero() {
				c.kinds[kind] = test.before
			}
			c.resolve(kind)
			if atOnce := !c.kinds[kind].due.After(time.Now()); atOnce != test.atOnce {
				t.Errorf("due at %s", c.kinds[kind].due)
			}
		})
	}
}

// stubbornMapper names a resource that the cluster does not serve.
type stubbornMapper struct{ meta.RESTMapper }

// RESTMapping implements meta.RESTMapper.
func (stubbornMapper) RESTMapping(kind schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	return &meta.RESTMapping{
		Resource: schema.GroupVersionResource{Group: kind.Group, Version: "v1", Resource: "nothings"},
		Scope:    meta.RESTScopeRoot,
	}, nil
}

// TestUnservedKindThatDiscoveryNames checks a cluster that names a kind but does not serve it. No object is reported as
// deleted, and requests become rare.
func TestUnservedKindThatDiscoveryNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.watcher.stuckAfter = time.Second
	b.conn.Mapper = stubbornMapper{}
	release, ref := key("r"), inventory.Ref{Group: "example.com", Version: "v1", Kind: "Nothing", Name: "n"}
	b.watcher.Follow(release, b.conn, Plan{Objects: []inventory.Ref{ref}, Checker: checker(t)})
	eventually(t, "a report that the failure lasts", func() bool { return b.asked(release) > 0 })
	first := b.look(release)
	if first.Err == nil || first.Synced || time.Since(first.ErrSince) < time.Second ||
		first.Objects[ref].Health != health.Unknown {
		t.Errorf("got %+v", first)
	}
	never(t, 2*time.Second, "the trouble went on", func() bool { return !b.look(release).ErrSince.Equal(first.ErrSince) })
	if asked, lists := b.asked(release), b.sent(apiserver.WithVerb("list")); asked > 1 || len(lists) > 5 {
		t.Errorf("asked for %d times, lists: %+v", asked, lists)
	}
}

func TestDeletedKindNeedsTwoReports(t *testing.T) {
	t.Parallel()
	w := New(Options{})
	here, missing := inventory.Ref{Version: "v1", Kind: "Widget", Name: "here"},
		inventory.Ref{Version: "v1", Kind: "Widget", Name: "missing"}
	l, err := newLink(w, linkID{}, Connection{Config: &rest.Config{}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRelease(key("r"), 0, Plan{Objects: []inventory.Ref{here, missing}, Drift: true})
	r.link = l
	l.releases[r], w.releases[r.key] = struct{}{}, r
	r.apply(0, finding{exists: true, status: health.Current})

	l.notServedLocked(here.GroupVersionKind())
	snapshot, _ := w.Look(r.key)
	if !snapshot.Synced || !snapshot.Objects[here].Exists || snapshot.Objects[missing].Health != health.NotFound {
		t.Errorf("got %+v", snapshot)
	}
	first := l.pendingReads.kinds[here.GroupVersionKind()]
	l.notServedLocked(here.GroupVersionKind())
	if snapshot, _ = w.Look(r.key); snapshot.Objects[here].Health != health.NotFound {
		t.Errorf("got %+v", snapshot)
	}
	second := l.pendingReads.kinds[here.GroupVersionKind()]
	if wait := time.Until(first.due); wait > refusalPause || time.Until(second.due) <= wait {
		t.Errorf("want pauses that grow, got %s, then %s", first.due, second.due)
	}
	for range 100 {
		l.notServedLocked(here.GroupVersionKind())
	}
	if wait := time.Until(l.pendingReads.kinds[here.GroupVersionKind()].due); wait > absenceInterval ||
		wait < absenceInterval-time.Minute {
		t.Errorf("the pause became %s", wait)
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// TestIntegrationUnlistedInstallation installs a release without an observation. If the action does not create the
// namespace, or must write something before, it lists the records before the first write. It changes nothing if there
// are records.
func TestIntegrationUnlistedInstallation(t *testing.T) {
	values := map[string]any{"cidr": "1"}
	simple := func() *chart.Chart { return helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()) }
	// ofOther makes a change as another process, and then replaces the process.
	ofOther := func(change func(b *bench, run *releaseRun)) func(b *bench, run *releaseRun) {
		return func(b *bench, run *releaseRun) {
			change(b, run)
			b.reconnect(-1)
			run.client, run.target = b.client, b.target
		}
	}
	installed := ofOther(func(b *bench, run *releaseRun) { run.mustSettle(b.t) })
	for name, tc := range map[string]struct {
		// hasCRD adds a CRD to the chart.
		hasCRD bool
		// prepare makes the state before the installation.
		prepare func(b *bench, run *releaseRun)
		lists   int
		// kind is the kind of the error; nil if the release is installed.
		kind error
		// next is the next decision after the error.
		next model.Action
	}{
		"new namespace": {},
		"empty namespace": {lists: 1, prepare: func(b *bench, _ *releaseRun) {
			b.createNamespace()
		}},
		"empty namespace that is known": {lists: 1, prepare: func(b *bench, run *releaseRun) {
			second := b.newRun(helmtest.NewChart("1.0.0", sharedObjects(1, "1")), run.values)
			second.desired.Name = "second"
			second.mustSettle(b.t)
		}},
		"namespace with another release": {lists: 1, prepare: ofOther(func(b *bench, _ *releaseRun) {
			b.humanInstall("second", helmtest.NewChart("1.0.0", sharedObjects(1, "1")))
		})},
		"namespaces may not be created": {lists: 1, prepare: func(b *bench, run *releaseRun) {
			b.createNamespace()
			b.forbid(func(req *http.Request) bool { return req.Method+" "+req.URL.Path == createNamespaceRequest })
		}},
		"namespace that must not be created": {lists: 1, prepare: func(b *bench, run *releaseRun) {
			b.createNamespace()
			run.options.Install.CreateNamespace = new(false)
		}},
		"namespace with labels": {lists: 1, prepare: func(b *bench, run *releaseRun) {
			run.options.Install.NamespaceLabels = map[string]string{"a": "b"}
		}},
		"own release": {lists: 1, kind: helmerr.ErrStale, next: model.ActionNone, prepare: installed},
		"own release with another chart": {lists: 1, kind: helmerr.ErrStale, next: model.ActionUpgrade,
			prepare: func(b *bench, run *releaseRun) {
				installed(b, run)
				run.want("a2", helmtest.NewChart("2.0.0", helmtest.TwoConfigMaps()))
			}},
		"release of the helm command": {lists: 1, kind: helmerr.ErrStale, next: model.ActionRefuse,
			prepare: ofOther(func(b *bench, run *releaseRun) { b.humanInstall("demo", run.chart) })},
		"release of another HelmOp": {lists: 1, kind: helmerr.ErrStale, next: model.ActionRefuse,
			prepare: ofOther(func(b *bench, run *releaseRun) {
				other := b.newRun(run.chart, run.values)
				other.desired.Owner = "default.other"
				other.mustSettle(b.t)
			})},
		"uninstalled release": {lists: 1, kind: helmerr.ErrStale, next: model.ActionInstall,
			prepare: ofOther(func(b *bench, run *releaseRun) {
				b.humanInstall("demo", run.chart)
				uninstall := action.NewUninstall(b.human())
				uninstall.KeepHistory = true
				if _, err := uninstall.Run("demo"); err != nil {
					b.t.Fatal(err)
				}
			})},
		"chart with a CRD": {hasCRD: true, lists: 1},
		"chart with a CRD and the own release": {hasCRD: true, lists: 1, kind: helmerr.ErrStale,
			next: model.ActionNone, prepare: installed},
		"chart with a CRD and a release of helm": {hasCRD: true, lists: 1, kind: helmerr.ErrStale,
			next: model.ActionRefuse, prepare: ofOther(func(b *bench, run *releaseRun) { b.humanInstall("demo", simple()) })},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			run := b.newRun(simple(), values)
			crd := "widgets." + b.namespace + ".test"
			if tc.hasCRD {
				withWidgets(run.chart, strings.TrimPrefix(crd, "widgets."))
			}
			if tc.prepare != nil {
				tc.prepare(b, run)
			}
			before := b.resourceVersions()
			b.cutter.Take()
			decision, _ := run.decideAssumed(t.Context())
			result, err := run.act(t.Context(), decision)
			requests := b.cutter.Take()
			b.wantListFirst(requests, tc.lists)
			if tc.kind == nil {
				if err != nil {
					t.Fatal(err)
				}
				b.wantConfigMap("first", "1")
				b.wantRecords(run.desired, "1 deployed")
				if after, ok := (model.Observation{Assumed: true}).After(result.Changes); !ok || after.Assumed ||
					!slices.Equal(after.Records, b.observe(run.desired).Records) {
					t.Errorf("the action promises the records %+v", after)
				}
				return
			}
			helmtest.WantError(t, err, tc.kind, false)
			if after := b.resourceVersions(); !maps.Equal(after, before) {
				t.Errorf("the namespace has the objects %v, before %v", after, before)
			}
			for _, request := range requests {
				if !strings.HasPrefix(request, http.MethodGet) && request != createNamespaceRequest {
					t.Errorf("the installation sends %s", request)
				}
			}
			next := decide.Next(b.observe(run.desired), run.desired, run.policy, run.past, time.Now())
			if next.Action != tc.next {
				t.Errorf("the next decision is %+v, want %s", next, tc.next)
			}
		})
	}
}

// wantListFirst checks that the requests have a number of lists of the records, and that each write other than the
// creation of the namespace comes after them.
func (b *bench) wantListFirst(requests []string, lists int) {
	b.t.Helper()
	list := http.MethodGet + " /api/v1/namespaces/" + b.namespace + "/secrets"
	found := 0
	for _, request := range requests {
		isRead := strings.HasPrefix(request, http.MethodGet)
		switch {
		case request == list:
			found++
		case !isRead && request != createNamespaceRequest && found < lists:
			b.t.Errorf("%s is sent before the records are listed", request)
		}
	}
	if found != lists {
		b.t.Errorf("the records are listed %d times, want %d: %v", found, lists, requests)
	}
}

// resourceVersions returns the resource versions of the ConfigMaps and Secrets in the namespace.
func (b *bench) resourceVersions() map[string]string {
	b.t.Helper()
	conn, err := New(testRunner).connections.Get(b.target)
	if err != nil {
		b.t.Fatal(err)
	}
	versions := map[string]string{}
	for _, resource := range []string{"configmaps", "secrets"} {
		objects := conn.Metadata.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(b.namespace)
		list, err := objects.List(b.t.Context(), metav1.ListOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
		for i := range list.Items {
			versions[resource+"/"+list.Items[i].Name] = list.Items[i].ResourceVersion
		}
	}
	return versions
}

// TestIntegrationUnlistedInTerminatingNamespace installs a release without an observation into a namespace that is
// being deleted. The records of a release in this namespace still exist.
func TestIntegrationUnlistedInTerminatingNamespace(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	b.reconnect(-1)
	run.client, run.target = b.client, b.target
	// The API server of the tests runs without the controller that deletes the content of namespaces.
	if err := b.kube.CoreV1().Namespaces().Delete(t.Context(), b.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	decision, _ := run.decideAssumed(t.Context())
	_, err := run.act(t.Context(), decision)
	helmtest.WantError(t, err, helmerr.ErrStale, false)
	b.wantListFirst(b.cutter.Take(), 1)
	b.wantRecords(run.desired, "1 deployed")
}

// TestIntegrationUnlistedLosesRace installs a release without an observation while another process installs it, too.
// The other process creates its record right after this process created the namespace.
func TestIntegrationUnlistedLosesRace(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	b.afterwards(func(req *http.Request) bool { return req.Method+" "+req.URL.Path == createNamespaceRequest },
		func() { b.humanInstall("demo", helmtest.NewChart("1.0.0", sharedObjects(1, "human"))) })
	run.client, run.target = b.client, b.target
	decision, _ := run.decideAssumed(t.Context())
	_, err := run.act(t.Context(), decision)
	helmtest.WantError(t, err, helmerr.ErrStale, false)
	b.wantRecords(run.desired, "1 deployed")
	b.wantNoConfigMap("first")
	if next, err := run.decide(t.Context()); err != nil || next.Action != model.ActionRefuse {
		t.Errorf("the next decision is %+v, %v", next, err)
	}
}

// TestIntegrationUnlistedInHangingCluster installs a release without an observation in a cluster that does not respond
// to the creation of the namespace. Nothing else is sent.
func TestIntegrationUnlistedInHangingCluster(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	b.intercept(func(req *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if req.Method+" "+req.URL.Path == createNamespaceRequest {
			return nil, context.DeadlineExceeded
		}
		return send()
	})
	run.client, run.target = b.client, b.target
	decision, _ := run.decideAssumed(t.Context())
	_, err := run.act(t.Context(), decision)
	helmtest.WantError(t, err, helmerr.ErrUnreachable, false)
	for _, request := range b.cutter.Take() {
		if !strings.HasPrefix(request, http.MethodGet) {
			t.Errorf("the installation sends %s", request)
		}
	}
	_, err = b.kube.CoreV1().Namespaces().Get(t.Context(), b.namespace, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the namespace: %v", err)
	}
}

// TestIntegrationObserveCluster checks that a list of all records shows the release and the namespaces with records,
// also those of a namespace that was removed without its content.
func TestIntegrationObserveCluster(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	var limit string
	// respond answers the list of all records; nil if the API server answers.
	var respond func(req *http.Request) (*http.Response, error)
	b.intercept(func(req *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if req.URL.Path != allRecordsPath {
			return send()
		}
		if respond != nil {
			return respond(req)
		}
		// The other tests have many records.
		query := req.URL.Query()
		query.Set("fieldSelector", "metadata.namespace="+b.namespace)
		query.Set("limit", cmp.Or(limit, query.Get("limit")))
		req.URL.RawQuery = query.Encode()
		return send()
	})
	observe := func(what string, isKnown bool, requests int) map[string]bool {
		t.Helper()
		b.cutter.Take()
		got, namespaces, err := b.client.ObserveCluster(t.Context(), b.target, b.namespace, run.desired.Name)
		if sent := b.cutter.Take(); err != nil || len(sent) != requests || (namespaces != nil) != isKnown {
			t.Fatalf("%s: the namespaces %v, %v, after the requests %v", what, namespaces, err, sent)
		}
		if want := b.observe(run.desired).Records; !slices.Equal(got.Records, want) {
			t.Errorf("%s: the records %+v, want %+v", what, got.Records, want)
		}
		return namespaces
	}
	if namespaces := observe("before the installation", true, 1); len(namespaces) > 0 {
		t.Errorf("before the installation: %v", namespaces)
	}
	run.mustSettle(t)
	run.want("a2", helmtest.NewChart("2.0.0", helmtest.TwoConfigMaps()))
	run.mustSettle(t)
	if err := b.kube.CoreV1().Namespaces().Delete(t.Context(), b.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.finalizeNamespace()
	want := map[string]bool{b.namespace: true}
	if namespaces := observe("in a namespace that does not exist", true, 1); !maps.Equal(namespaces, want) {
		t.Errorf("in a namespace that does not exist: %v", namespaces)
	}
	limit = "1"
	observe("with too many records", false, 2)
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		respond = func(req *http.Request) (*http.Response, error) { return responseTo(req, status, ""), nil }
		observe(http.StatusText(status), false, 1)
	}
	respond = func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	observe("without a response", false, 1)
	respond = func(req *http.Request) (*http.Response, error) {
		item := `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"namespace":"a","name":"b"}}`
		return responseTo(req, http.StatusOK, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1",`+
			`"metadata":{"resourceVersion":"1"},"items":[`+strings.Repeat(item+",", records.ObservePageSize)+item+`]}`), nil
	}
	observe("from a server without limits", false, 1)
	respond = func(req *http.Request) (*http.Response, error) {
		return responseTo(req, http.StatusUnauthorized, ""), nil
	}
	b.cutter.Take()
	_, _, err := b.client.ObserveCluster(t.Context(), b.target, b.namespace, run.desired.Name)
	if sent := b.cutter.Take(); !errors.Is(err, helmerr.ErrUnauthorized) || len(sent) != 0 {
		t.Errorf("with refused credentials: %v, after the requests %v", err, sent)
	}
}

// responseTo returns a response with a JSON body.
func responseTo(req *http.Request, status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Request: req, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}}}
}

// allRecordsPath is the path of the list of all records of a cluster.
const allRecordsPath = "/api/v1/secrets"

// finalizeNamespace removes the finalizer of a namespace under deletion. Its content stays.
func (b *bench) finalizeNamespace() {
	b.t.Helper()
	namespaces := b.kube.CoreV1().Namespaces()
	namespace, err := namespaces.Get(b.t.Context(), b.namespace, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	namespace.Spec.Finalizers = nil
	if _, err := namespaces.Finalize(b.t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	err = wait.PollUntilContextCancel(b.t.Context(), 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, b.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestMayBeNew checks which first installations show by the creation of the namespace that there are no records.
func TestMayBeNew(t *testing.T) {
	t.Parallel()
	type change = func(target *model.Target, desired *model.Desired, options *model.InstallOptions)
	with := func(change func(*model.InstallOptions)) change {
		return func(_ *model.Target, _ *model.Desired, options *model.InstallOptions) { change(options) }
	}
	in := func(namespace string) change {
		return func(_ *model.Target, desired *model.Desired, _ *model.InstallOptions) { desired.Namespace = namespace }
	}
	for name, tc := range map[string]struct {
		change change
		known  string
		want   bool
	}{
		"new":             {want: true},
		"must create":     {change: with(func(o *model.InstallOptions) { o.CreateNamespace = new(true) }), want: true},
		"must not create": {change: with(func(o *model.InstallOptions) { o.CreateNamespace = new(false) })},
		"labels":          {change: with(func(o *model.InstallOptions) { o.NamespaceLabels = map[string]string{"a": "b"} })},
		"annotations": {change: with(func(o *model.InstallOptions) {
			o.NamespaceAnnotations = map[string]string{"a": "b"}
		})},
		"other known":   {known: "others", want: true},
		"known":         {known: "apps"},
		"default":       {change: in("default")},
		"of Kubernetes": {change: in("kube-system")},
		"impersonated": {change: func(target *model.Target, _ *model.Desired, o *model.InstallOptions) {
			target.Impersonate, o.CreateNamespace = "system:serviceaccount:a:b", new(true)
		}},
		"refused kubeconfig": {change: func(target *model.Target, _ *model.Desired, _ *model.InstallOptions) {
			target.Config = &rest.Config{Host: target.Config.Host, ExecProvider: &clientcmdapi.ExecConfig{Command: "a"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, desired, options := New(testRunner), helmtest.DesiredFor("apps", "demo", "a", "v"), model.Options{}
			target := model.Target{Key: "a", Config: &rest.Config{Host: "https://127.0.0.1:1"}}
			if tc.known != "" {
				conn, err := client.connections.Get(target)
				if err != nil {
					t.Fatal(err)
				}
				conn.Namespaces.Add(tc.known)
			}
			if tc.change != nil {
				tc.change(&target, &desired, &options.Install)
			}
			if got := client.MayBeNew(target, desired, options); got != tc.want {
				t.Errorf("may be new: %t", got)
			}
		})
	}
}

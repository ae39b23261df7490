// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/cutproxy"
)

// widgetOf returns a template that renders a Widget if the cluster serves the version.
func widgetOf(group, version, name string) string {
	return fmt.Sprintf("{{- if .Capabilities.APIVersions.Has \"%[1]s/%[2]s/Widget\" }}\napiVersion: %[1]s/%[2]s\nkind: "+
		"Widget\nmetadata:\n  name: %[3]s\n{{- end }}\n", group, version, name)
}

// get returns the object at a path. It returns nil if the object does not exist.
func (b *bench) get(path string) *unstructured.Unstructured {
	b.t.Helper()
	data, err := b.kube.Discovery().RESTClient().Get().AbsPath(path).DoRaw(b.t.Context())
	if apierrors.IsNotFound(err) {
		return nil
	}
	object := &unstructured.Unstructured{}
	if err == nil {
		err = object.UnmarshalJSON(data)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return object
}

func (b *bench) crdVersions(group string) (names []string) {
	b.t.Helper()
	crd := b.get(crds.Path + "/widgets." + group)
	if crd == nil {
		return nil
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, version := range versions {
		names = append(names, version.(map[string]any)["name"].(string))
	}
	return names
}

func TestIntegrationCRDPolicies(t *testing.T) {
	for name, test := range map[string]struct {
		install, upgrade model.CRDPolicy
		// installed and upgraded are the versions of the CRD after the installation and the upgrade.
		installed, upgraded []string
	}{
		"create":      {model.CRDsCreate, model.CRDsCreate, []string{"v1"}, []string{"v1"}},
		"replace":     {model.CRDsCreateReplace, model.CRDsCreateReplace, []string{"v1"}, []string{"v1", "v2"}},
		"skip":        {model.CRDsSkip, model.CRDsSkip, nil, nil},
		"create-late": {model.CRDsSkip, model.CRDsCreate, nil, []string{"v1", "v2"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			group := b.group(name)
			b.options.Install.CRDs, b.options.Upgrade.CRDs = test.install, test.upgrade
			desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
			templates := map[string]string{"value.yaml": helmtest.ValueConfigMap, "one.yaml": widgetOf(group, "v1", "one"),
				"two.yaml": widgetOf(group, "v2", "two")}
			b.converge(desired, helmtest.ChartWithCRDs("1.0.0", templates,
				map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1")}), map[string]any{"cidr": "1"})
			if got := b.crdVersions(group); !slices.Equal(got, test.installed) {
				t.Errorf("installed: %v, want %v", got, test.installed)
			}
			if test.installed != nil {
				patch := []byte(`{"metadata":{"labels":{"by":"human"},"annotations":{"also":"human"}}}`)
				if err := b.kube.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(crds.Path + "/widgets." +
					group).Body(patch).Do(t.Context()).Error(); err != nil {
					t.Fatal(err)
				}
			}
			desired.ArtifactDigest = "a2"
			b.converge(desired, helmtest.ChartWithCRDs("2.0.0", templates,
				map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1", "v2")}), map[string]any{"cidr": "1"})
			if got := b.crdVersions(group); !slices.Equal(got, test.upgraded) {
				t.Errorf("upgraded: %v, want %v", got, test.upgraded)
			}
			for version, object := range map[string]string{"v1": "one", "v2": "two"} {
				found := b.get("/apis/"+group+"/"+version+"/namespaces/"+b.namespace+"/widgets/"+object) != nil
				if found != slices.Contains(test.upgraded, version) {
					t.Errorf("widget %s of %s exists: %t", object, version, found)
				}
			}
			if test.installed != nil {
				crd := b.get(crds.Path + "/widgets." + group)
				if crd.GetLabels()["by"] != "human" || crd.GetAnnotations()["also"] != "human" ||
					crd.GetAnnotations()["by"] != "chart" {
					t.Errorf("labels %v, annotations %v", crd.GetLabels(), crd.GetAnnotations())
				}
			}
		})
	}
}

// TestIntegrationNoCRDBeforeCount expects that nothing is written to a cluster if the function that runs before the
// chart refuses the rendering.
func TestIntegrationNoCRDBeforeCount(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.ChartWithCRDs("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap},
		map[string]string{"crd.yaml": helmtest.CrdOf("uncounted.edges.test", "v1")}), map[string]any{"cidr": "1"})
	run.options.BeforeRender = func() error { return errors.New("not counted") }
	b.cutter.Take()
	_, err := run.actNow(t, model.ActionInstall)
	helmtest.WantError(t, err, nil, false, "not counted")
	for _, request := range b.cutter.Take() {
		if !strings.HasPrefix(request, "GET ") {
			t.Error(request)
		}
	}
}

// TestIntegrationCRDReplacementRejected checks that a CRD that cannot be replaced is an error before the release is
// changed.
func TestIntegrationCRDReplacementRejected(t *testing.T) {
	b := newBench(t)
	group := "refused.edges.test"
	b.options.Upgrade.CRDs = model.CRDsCreateReplace
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	templates := map[string]string{"value.yaml": helmtest.ValueConfigMap}
	b.converge(desired, helmtest.ChartWithCRDs("1.0.0", templates,
		map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1")}), map[string]any{"cidr": "1"})
	desired.ArtifactDigest = "a2"
	_, err := b.act(b.decide(desired, model.Policy{}), desired,
		helmtest.ChartWithCRDs("2.0.0", templates, map[string]string{"crd.yaml": helmtest.CrdOf(group, "v2")}),
		map[string]any{"cidr": "2"})
	helmtest.WantError(t, err, nil, false,
		`crds/crd.yaml: replacing the CustomResourceDefinition "widgets.refused.edges.test"`, "storedVersions")
	b.wantRecords(desired, "1 deployed")
	b.wantConfigMap("demo-value", "1")
}

// TestIntegrationExistingCRDsNeedNoRequests checks the number of requests for existing CRDs: many CRDs need no request
// each.
func TestIntegrationExistingCRDsNeedNoRequests(t *testing.T) {
	b := newBench(t)
	folder := map[string]string{}
	for i := range 5 {
		folder[fmt.Sprintf("crd%d.yaml", i)] = helmtest.CrdOf(fmt.Sprintf("many%d.edges.test", i), "v1")
	}
	// Missing objects of other kinds are created after the CRDs.
	folder["other.yaml"] = helmtest.ConfigMap("other", "1") +
		"---\n# nothing\n---\napiVersion: many0.edges.test/v1\nkind: Widget\nmetadata: {name: other}\n"
	chrt := helmtest.ChartWithCRDs("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}, folder)
	b.converge(helmtest.DesiredFor(b.namespace, "first", "a1", "v1"), chrt, map[string]any{"cidr": "1"})
	b.wantConfigMap("other", "1")
	if b.get("/apis/many0.edges.test/v1/namespaces/"+b.namespace+"/widgets/other") == nil {
		t.Error("the widget in the folder crds was not created")
	}
	b.cutter.Take()
	if _, err := b.act(decide.Decision{Action: model.ActionInstall},
		helmtest.DesiredFor(b.namespace, "second", "a1", "v1"), chrt, map[string]any{"cidr": "1"}); err != nil {
		t.Fatal(err)
	}
	var sent []string
	for _, request := range b.cutter.Take() {
		if strings.Contains(request, "/customresourcedefinitions") {
			sent = append(sent, request)
		}
	}
	if len(sent) != 1 || sent[0] != "GET "+crds.Path {
		t.Errorf("for five CRDs that exist: %v", sent)
	}
}

// TestIntegrationCRDForbidden checks a user without the permission to read CRDs. The user can install a chart whose
// CRDs exist, and gets an error if they do not exist.
func TestIntegrationCRDForbidden(t *testing.T) {
	b := newBench(t)
	b.createNamespace()
	group := b.group("forbidden")
	chrt := helmtest.ChartWithCRDs("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap},
		map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1")})
	tenant := b.target
	tenant.Impersonate = b.user("namespace",
		fmt.Sprintf("/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings", b.namespace), "RoleBinding")
	act := func(target model.Target, name string) error {
		_, err := b.client.Act(t.Context(), target, decide.Decision{Action: model.ActionInstall},
			helmtest.DesiredFor(b.namespace, name, "a1", "v1"), b.options, chrt, map[string]any{"cidr": "1"})
		return err
	}
	helmtest.WantError(t, act(tenant, "tenant"), helmerr.ErrForbidden, false,
		`creating the CustomResourceDefinition "widgets.`+group+`"`)
	if err := act(b.target, "admin"); err != nil {
		t.Fatal(err)
	}
	if err := act(tenant, "tenant"); err != nil {
		t.Error(err)
	}
}

func TestIntegrationNamespaceMetadata(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt := helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
	b.options.Install.NamespaceLabels = map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}
	b.options.Install.NamespaceAnnotations = map[string]string{"note": "one"}
	want := func(labels, annotations map[string]string) {
		t.Helper()
		namespace := b.get("/api/v1/namespaces/" + b.namespace)
		for key, value := range labels {
			if namespace.GetLabels()[key] != value {
				t.Errorf("label %s is %q, want %q", key, namespace.GetLabels()[key], value)
			}
		}
		for key, value := range annotations {
			if namespace.GetAnnotations()[key] != value {
				t.Errorf("annotation %s is %q, want %q", key, namespace.GetAnnotations()[key], value)
			}
		}
	}
	b.converge(desired, chrt, map[string]any{"cidr": "1"})
	want(map[string]string{"name": b.namespace, "pod-security.kubernetes.io/enforce": "baseline"},
		map[string]string{"note": "one"})

	patch := []byte(`{"metadata":{"labels":{"by":"human","pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := b.kube.CoreV1().Namespaces().Patch(t.Context(), b.namespace, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	desired.ValuesDigest = "v2"
	b.options.Install.NamespaceAnnotations = map[string]string{"note": "two"}
	b.converge(desired, chrt, map[string]any{"cidr": "2"})
	want(map[string]string{"by": "human", "pod-security.kubernetes.io/enforce": "baseline"},
		map[string]string{"note": "two"})

	// For another release, the namespace exists.
	b.options.Install.NamespaceAnnotations = map[string]string{"note": "three"}
	b.converge(helmtest.DesiredFor(b.namespace, "other", "a1", "v1"),
		helmtest.NewChart("1.0.0", map[string]string{"a.yaml": helmtest.ConfigMap("other", "1")}), nil)
	want(map[string]string{"by": "human"}, map[string]string{"note": "three"})
}

// TestIntegrationMissingNamespaceIsCreatedBeforeRecord checks that an installation that observed a missing namespace
// creates the namespace before it writes the record.
func TestIntegrationMissingNamespaceIsCreatedBeforeRecord(t *testing.T) {
	b := newBench(t)
	proxy, err := cutproxy.Start(sharedServer.Server(t).RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	_, err = New(testRunner).Act(t.Context(), model.Target{Key: b.namespace, Config: proxy.Config()},
		decide.Decision{Action: model.ActionInstall}, desired, b.options,
		helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	requests := proxy.Requests()
	if err := errors.Join(err, proxy.Stop()); err != nil {
		t.Fatal(err)
	}
	records, namespaces := 0, 0
	for _, request := range requests {
		switch fmt.Sprint(request) {
		case "POST /api/v1/namespaces/" + b.namespace + "/secrets":
			records++
		case "POST /api/v1/namespaces":
			namespaces++
		}
	}
	if records != 1 || namespaces != 1 {
		t.Errorf("%d requests create a record, %d a namespace: %v", records, namespaces, requests)
	}
}

// TestIntegrationFailedInstallLeavesNothing checks a chart that cannot be installed. It leaves no namespace, no CRD and
// no record.
func TestIntegrationFailedInstallLeavesNothing(t *testing.T) {
	random := make([]byte, 300<<10)
	rand.New(rand.NewSource(1)).Read(random)
	no := false
	crd := func(group string) map[string]string {
		return map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1")}
	}
	with := func(chrt *chart.Chart, name string, data []byte) *chart.Chart {
		chrt.Files = append(chrt.Files, &chart.File{Name: name, Data: data})
		return chrt
	}
	printing := map[string]string{"big.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: big}\ndata:\n  key: {{ " +
		".Files.Get \"big.bin\" | b64enc }}\n"}
	for name, test := range map[string]struct {
		chart  *chart.Chart
		change func(*model.Options)
		values map[string]any
		kind   error
		want   string
	}{
		"chart": {chart: with(helmtest.ChartWithCRDs("1.0.0", helmtest.TwoConfigMaps(), crd("chart.left.test")),
			"large.bin", random), kind: helmerr.ErrTooLarge, want: "the Secrets of the cluster store at most 256 KiB"},
		"manifest": {chart: with(helmtest.ChartWithCRDs("1.0.0", printing, crd("manifest.left.test")), "big.bin",
			random[:130<<10]), kind: helmerr.ErrTooLarge, want: "split the chart"},
		"values": {chart: helmtest.NewChart("1.0.0",
			map[string]string{"value.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: big}\ndata: {key: {{ " +
				".Values.cidr | b64enc | b64enc | quote }}}\n"}),
			values: map[string]any{"cidr": fmt.Sprintf("%x", random[:175<<10])}, kind: helmerr.ErrTooLarge,
			want: "split the chart"},
		"template": {chart: helmtest.NewChart("1.0.0", map[string]string{"bad.yaml": "{{ fail \"bad\" }}"}),
			kind: helmerr.ErrChartFailed, want: "bad"},
		"kind": {chart: helmtest.NewChart("1.0.0",
			map[string]string{"odd.yaml": "apiVersion: odd.left.test/v1\nkind: Odd\nmetadata: {name: odd}\n"}),
			kind: helmerr.ErrKindNotServed, want: "does not serve Odd of odd.left.test/v1"},
		"patch": {chart: helmtest.ChartWithCRDs("1.0.0", helmtest.TwoConfigMaps(), nil), kind: helmerr.ErrPostRender,
			want: "the patch matches no object",
			change: func(o *model.Options) {
				o.PostRender = &model.PostRender{Patches: []model.Patch{{Patch: "kind: ConfigMap\napiVersion: v1\nmetadata: " +
					"{name: gone}"}}}
			}},
		"patch-form": {chart: helmtest.ChartWithCRDs("1.0.0", helmtest.TwoConfigMaps(), crd("patch-form.left.test")),
			kind: helmerr.ErrPostRender, want: "patch 1: the patch is empty",
			change: func(o *model.Options) { o.PostRender = &model.PostRender{Patches: []model.Patch{{}}} }},
		"namespace": {chart: helmtest.ChartWithCRDs("1.0.0", helmtest.TwoConfigMaps(), crd("namespace.left.test")),
			want:   "does not exist and install.createNamespace is false",
			change: func(o *model.Options) { o.Install.CreateNamespace = &no }},
		"impersonated": {chart: helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()),
			want: "set install.createNamespace to true, which is needed with a service account"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if name == "impersonated" {
				b.target.Impersonate = b.user("admin", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
					"ClusterRoleBinding")
			}
			b.target.Storage = smallRecords
			if test.change != nil {
				test.change(&b.options)
			}
			if test.values == nil {
				test.values = map[string]any{"cidr": "1"}
			}
			desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
			_, err := b.act(b.decide(desired, model.Policy{}), desired, test.chart, test.values)
			helmtest.WantError(t, err, test.kind, false, test.want)
			b.wantRecords(desired)
			if b.get("/api/v1/namespaces/"+b.namespace) != nil {
				t.Error("there is a namespace")
			}
			if got := b.crdVersions(name + ".left.test"); got != nil {
				t.Errorf("there is a CRD: %v", got)
			}
		})
	}
}

// user creates a user with all permissions and returns the name of the user. kind is RoleBinding or ClusterRoleBinding:
// it decides whether the permissions apply to the namespace or to the cluster.
func (b *bench) user(name, path, kind string) string {
	b.t.Helper()
	name = b.namespace + "-" + name
	binding := fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":%q,"metadata":{"name":%q},`+
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},`+
		`"subjects":[{"kind":"ServiceAccount","namespace":"kube-system","name":%q}]}`, kind, name, name)
	err := b.kube.Discovery().RESTClient().Post().AbsPath(path).Body([]byte(binding)).Do(b.t.Context()).Error()
	if err != nil {
		b.t.Fatal(err)
	}
	user := "system:serviceaccount:kube-system:" + name
	b.waitAllowed(user)
	return user
}

func TestIntegrationPostRender(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt := helmtest.NewChart("1.0.0",
		map[string]string{"value.yaml": helmtest.ValueConfigMap, "first.yaml": helmtest.ConfigMap("first", "1"),
			"hook.yaml": hook("ConfigMap", "hook", "pre-install", "data: {key: ran}\n")})
	b.options.PostRender = &model.PostRender{
		Patches: []model.Patch{{Target: &inventory.Selector{Kind: "ConfigMap", Name: "first"},
			Patch: "data: {key: patched}"}},
		Labels: map[string]string{"team": "a"},
	}
	b.converge(desired, chrt, map[string]any{"cidr": "1"})
	b.wantConfigMap("first", "patched")
	b.wantConfigMap("demo-value", "1")
	for name, team := range map[string]string{"first": "a", "demo-value": "a", "hook": ""} {
		if got := b.get("/api/v1/namespaces/" + b.namespace + "/configmaps/" + name).GetLabels()["team"]; got != team {
			t.Errorf("label of %s: %q, want %q", name, got, team)
		}
	}
	// A patch that is no longer desired is reverted.
	b.options.PostRender, desired.PostRenderDigest = nil, "p2"
	b.converge(desired, chrt, map[string]any{"cidr": "1"})
	b.wantConfigMap("first", "1")
	if labels := b.get("/api/v1/namespaces/" + b.namespace + "/configmaps/first").GetLabels(); labels["team"] != "" {
		t.Errorf("labels %v", labels)
	}
}

// TestIntegrationDeletesObjectInServedVersion checks that an object is deleted if the cluster serves its kind in
// another version than the recorded manifest has.
func TestIntegrationDeletesObjectInServedVersion(t *testing.T) {
	for _, action := range []string{"upgrade", "uninstall"} {
		t.Run(action, func(t *testing.T) {
			b := newBench(t)
			group := b.group(action)
			run := b.newRun(helmtest.ChartWithCRDs("1.0.0",
				map[string]string{"value.yaml": helmtest.ValueConfigMap, "one.yaml": widgetOf(group, "v1", "one")},
				map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1", "v2")}), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			widget := "/apis/" + group + "/v2/namespaces/" + b.namespace + "/widgets/one"
			if b.get(widget) == nil {
				t.Fatal("there is no widget")
			}
			b.stopServingV1(group)
			if action == "upgrade" {
				run.want("a2", helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
				run.mustSettle(t)
			} else if err := run.settleUninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			if b.get(widget) != nil {
				t.Error("the widget is still there")
			}
		})
	}
}

// stopServingV1 makes the cluster no longer serve the first version of Widget, v1, and waits until discovery shows it.
func (b *bench) stopServingV1(group string) {
	b.t.Helper()
	patch := []byte(`[{"op":"replace","path":"/spec/versions/0/served","value":false}]`)
	if err := b.kube.Discovery().RESTClient().Patch(types.JSONPatchType).AbsPath(crds.Path + "/widgets." +
		group).Body(patch).Do(b.t.Context()).Error(); err != nil {
		b.t.Fatal(err)
	}
	b.eventually("the version being gone", func(context.Context) (bool, error) {
		groups, err := b.kube.Discovery().ServerGroups()
		if err != nil {
			return false, err
		}
		isListed := slices.ContainsFunc(groups.Groups, func(listed metav1.APIGroup) bool {
			return slices.ContainsFunc(listed.Versions, func(version metav1.GroupVersionForDiscovery) bool {
				return version.GroupVersion == group+"/v1"
			})
		})
		return !isListed && b.get("/apis/"+group+"/v1") == nil, nil
	})
}

// TestIntegrationUnresponsiveAPIService checks that objects of an API service that does not respond do not count as
// deleted.
func TestIntegrationUnresponsiveAPIService(t *testing.T) {
	b := newBench(t)
	const group = "down.edges.test"
	run := b.newRun(helmtest.ChartWithCRDs("1.0.0",
		map[string]string{"value.yaml": helmtest.ValueConfigMap, "one.yaml": widgetOf(group, "v1", "one")},
		map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1")}), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	b.deleteCRD("widgets." + group)
	b.eventually("the API service of the CRD being gone", func(context.Context) (bool, error) {
		return b.get("/apis/apiregistration.k8s.io/v1/apiservices/v1."+group) == nil, nil
	})
	service := fmt.Sprintf(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.%s"},"spec":{"group":%q,"version":"v1",`+
		`"groupPriorityMinimum":100,"versionPriority":10,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"nobody"}}}`, group, group)
	path := "/apis/apiregistration.k8s.io/v1/apiservices"
	err := b.kube.Discovery().RESTClient().Post().AbsPath(path).Body([]byte(service)).Do(t.Context()).Error()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.kube.Discovery().RESTClient().Delete().AbsPath(path + "/v1." + group).Do(context.Background()).Error()
	})
	b.eventually("the API service not answering", func(ctx context.Context) (bool, error) {
		return apierrors.IsServiceUnavailable(b.kube.Discovery().RESTClient().Get().AbsPath("/apis/" + group +
			"/v1").Do(ctx).Error()), nil
	})
	run.want("a2", helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
	// This process has not discovered the kind before.
	b.reconnect(-1)
	run.client, run.target = b.client, b.target
	err = run.settle(t.Context())
	helmtest.WantError(t, err, helmerr.ErrUnreachable, false, "Widget of "+group+"/v1")
	err = run.settleUninstall(t.Context())
	helmtest.WantError(t, err, helmerr.ErrUnreachable, true, "Widget of "+group+"/v1")
	b.wantConfigMap("demo-value", "1")
}

func TestIntegrationProgress(t *testing.T) {
	b := newBench(t)
	var mu sync.Mutex
	var steps []string
	b.options.Progress = func(what string) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, what)
	}
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	b.converge(desired, helmtest.ChartWithCRDs("1.0.0",
		map[string]string{"value.yaml": helmtest.ValueConfigMap, "hook.yaml": hook("ConfigMap", "hook", "pre-install", "")},
		map[string]string{"crd.yaml": helmtest.CrdOf(b.group("progress"), "v1")}), map[string]any{"cidr": "1"})
	want := []string{"checking the chart's CRDs", "applying CRDs",
		"waiting for the cluster to serve the kinds of the CRDs", "rendering",
		"creating hook ConfigMap hook (pre-install)", "waiting for hook ConfigMap hook (pre-install)", "creating 1 object"}
	if !slices.Equal(steps, want) {
		t.Errorf("got %q, want %q", steps, want)
	}
}

// waitAllowed waits until the user has all permissions in the bench's namespace.
func (b *bench) waitAllowed(user string) {
	b.t.Helper()
	all := authorizationv1.ResourceAttributes{Namespace: b.namespace, Verb: "*", Group: "*", Resource: "*"}
	if err := sharedServer.Server(b.t).WaitAllowed(b.t.Context(), user, all); err != nil {
		b.t.Fatal(err)
	}
}

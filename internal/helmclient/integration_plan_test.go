// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// planBench is a bench whose plans must not change the cluster.
type planBench struct {
	*bench
	desired model.Desired
	policy  model.Policy
}

func newPlanBench(t *testing.T) *planBench {
	t.Helper()
	b := newBench(t)
	return &planBench{bench: b, desired: helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")}
}

// plan plans a release, and checks that each request reads or is a dry run.
func (b *planBench) plan(chrt *chart.Chart, values map[string]any) model.Plan {
	b.t.Helper()
	target := b.target
	target.Config = sharedServer.Server(b.t).RESTConfig()
	target.Config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
		return b.cutter.Wrap(helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodGet && req.URL.Query().Get("dryRun") != "All" {
				b.t.Errorf("the plan sent %s %s", req.Method, req.URL)
			}
			if req.Method == http.MethodDelete && req.ContentLength != 0 {
				b.t.Errorf("%s %s has a body", req.Method, req.URL)
			}
			return base.RoundTrip(req)
		}))
	}
	b.cutter.Take()
	plan, err := b.client.Plan(b.t.Context(), target, b.desired, b.policy, model.Past{}, b.options, chrt, values)
	if err != nil {
		b.t.Fatal(err)
	}
	return plan
}

// want checks a plan, in lines such as "Update ConfigMap first Immutable".
func (b *planBench) want(plan model.Plan, unchanged int, want ...string) {
	b.t.Helper()
	var got []string
	for _, change := range plan.Changes {
		name := strings.TrimPrefix(strings.TrimPrefix(change.Ref.String(), change.Ref.Kind+" "), b.namespace+"/")
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", change.Kind, change.Ref.Kind, name, change.Reason)))
	}
	if !slices.Equal(got, want) || plan.Unchanged != unchanged {
		b.t.Errorf("got %q and %d unchanged, want %q and %d", got, plan.Unchanged, want, unchanged)
		for _, change := range plan.Changes {
			b.t.Log(change.Ref, change.Message)
		}
	}
}

// TestIntegrationPlan plans an installation, an upgrade with each kind of change, and a release in sync.
func TestIntegrationPlan(t *testing.T) {
	b := newPlanBench(t)
	values := map[string]any{"cidr": "1"}
	hooks := map[string]string{
		"after.yaml": strings.Replace(helmtest.ConfigMap("after", "1"), "metadata:",
			"metadata:\n  annotations: {helm.sh/hook: post-upgrade}", 1),
		"before.yaml": strings.Replace(helmtest.ConfigMap("before", "1"), "metadata:",
			"metadata:\n  annotations: {helm.sh/hook: \"pre-upgrade,pre-install\"}", 1),
	}
	first := with(with(hooks, "value.yaml", helmtest.ValueConfigMap), "first.yaml", helmtest.ConfigMap("first", "1"))
	chrt := helmtest.NewChart("1.0.0", with(first, "kept.yaml", helmtest.ConfigMap("kept", "1")))
	plan := b.plan(chrt, values)
	b.want(plan, 0, "Create Namespace "+b.namespace, "Create ConfigMap first Unchecked", "Create ConfigMap kept Unchecked",
		"Create ConfigMap demo-value Unchecked")
	if plan.Action != model.ActionInstall || len(plan.Hooks) != 1 || plan.Hooks[0].Event != "pre-install" {
		t.Errorf("got %+v", plan)
	}
	b.createNamespace()
	b.want(b.plan(chrt, values), 0, "Create ConfigMap first", "Create ConfigMap kept", "Create ConfigMap demo-value")
	b.converge(b.desired, chrt, values)
	if plan := b.plan(chrt, values); plan.Action != model.ActionNone || len(plan.Changes) != 0 {
		t.Errorf("in sync: %+v", plan)
	}
	if requests := b.cutter.Take(); len(requests) != 1 {
		t.Errorf("a release in sync takes %q", requests)
	}
	before := b.snapshot()
	b.desired.ArtifactDigest = "a2"
	plan = b.plan(helmtest.NewChart("2.0.0", with(first, "new.yaml", helmtest.ConfigMap("new", "1"))),
		map[string]any{"cidr": "2"})
	b.want(plan, 1, "Create ConfigMap new", "Update ConfigMap demo-value", "Delete ConfigMap kept")
	update := plan.Changes[1]
	if fmt.Sprint(update.Before["data"], update.After["data"]) != "map[key:1] map[key:2]" ||
		plan.PreviousValues["cidr"] != "1" {
		t.Errorf("got %+v", plan)
	}
	if len(plan.Hooks) != 2 || plan.Hooks[0].Ref.Name != "before" || plan.Hooks[1].Event != "post-upgrade" {
		t.Errorf("hooks %+v", plan.Hooks)
	}
	if after := b.snapshot(); before != after {
		t.Errorf("the plan changed the cluster:\n%s\n%s", before, after)
	}
	b.policy.InstallOnce = true
	if plan := b.plan(chrt, values); plan.Action != model.ActionUpgrade {
		t.Errorf("a release of the present object: %+v", plan)
	}
	present := b.desired.UID
	b.desired.UID = "another"
	if plan := b.plan(chrt, values); plan.Action != model.ActionNone || len(plan.Changes) != 0 ||
		!strings.Contains(plan.Message, "InstallOnce") {
		t.Errorf("a release of a lost object: %+v", plan)
	}
	b.policy.InstallOnce, b.desired.UID = false, present
	// The upgrade makes the planned changes.
	b.converge(b.desired, helmtest.NewChart("2.0.0", with(first, "new.yaml", helmtest.ConfigMap("new", "1"))),
		map[string]any{"cidr": "2"})
	b.wantConfigMap("demo-value", "2")
	b.wantNoConfigMap("kept")
}

// snapshot returns the resource versions of everything that the tests create in the namespace.
func (b *planBench) snapshot() string {
	b.t.Helper()
	configMaps, err := b.kube.CoreV1().ConfigMaps(b.namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	secrets, err := b.kube.CoreV1().Secrets(b.namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var text strings.Builder
	for _, object := range configMaps.Items {
		fmt.Fprintln(&text, object.Name, object.ResourceVersion)
	}
	for _, object := range secrets.Items {
		fmt.Fprintln(&text, object.Name, object.ResourceVersion)
	}
	return text.String()
}

// TestIntegrationPlanRefusals plans changes that the cluster would refuse.
func TestIntegrationPlanRefusals(t *testing.T) {
	b := newPlanBench(t)
	b.createNamespace()
	immutable := func(data string) string { return helmtest.ConfigMap("fixed", data) + "immutable: true\n" }
	templates := map[string]string{"fixed.yaml": immutable("1")}
	b.converge(b.desired, helmtest.NewChart("1.0.0", templates), nil)
	b.otherRelease(t, sharedObjects(1, "2"))
	b.desired.ArtifactDigest = "a2"
	templates = map[string]string{
		"fixed.yaml":   immutable("2"),
		"shared.yaml":  helmtest.ConfigMap("shared-0", "1"),
		"missing.yaml": "apiVersion: missing.example.com/v1\nkind: Widget\nmetadata: {name: widget}\n",
		"invalid.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: invalid}\nspec: {clusterIP: 300.0.0.1, ports: " +
			"[{port: 80}]}\n",
		"another.yaml": strings.Replace(helmtest.ConfigMap("another", "1"), "metadata:",
			"metadata:\n  namespace: no-such-namespace", 1),
	}
	chrt := helmtest.NewChart("2.0.0", templates)
	plan := b.plan(chrt, nil)
	want := []string{"Create Widget widget KindNotServed", "Create ConfigMap no-such-namespace/another Rejected",
		"Update ConfigMap fixed Immutable", "Update ConfigMap shared-0 OwnedByOther", "Create Service invalid Rejected"}
	b.want(plan, 0, want...)
	for i, text := range []string{"does not serve Widget of missing.example.com/v1", `"no-such-namespace" does not exist`,
		"immutable", "belongs to release " + b.namespace + "/other", "clusterIP"} {
		if !strings.Contains(plan.Changes[i].Message, text) {
			t.Errorf("got %q, want %q in it", plan.Changes[i].Message, text)
		}
	}
	b.options.Upgrade.Force, b.options.Upgrade.TakeOwnership = true, true
	b.policy.TakeOwnership = true
	want[2], want[3] = "Recreate ConfigMap fixed Unchecked", "Update ConfigMap shared-0 Takeover"
	b.want(b.plan(chrt, nil), 0, want...)

	b.desired.Owner, b.policy.TakeOwnership = "default.another", false
	if plan := b.plan(chrt, nil); plan.Action != model.ActionRefuse ||
		!strings.Contains(plan.Message, `belongs to HelmOp "default.demo"`) {
		t.Errorf("got %+v", plan)
	}
}

// TestIntegrationPlanIgnoresUnservedLeftovers checks that a plan ignores objects of a failed revision if the cluster
// does not serve their kind, as the upgrade does.
func TestIntegrationPlanIgnoresUnservedLeftovers(t *testing.T) {
	b := newPlanBench(t)
	b.converge(b.desired, helmtest.NewChart("1.0.0", map[string]string{"one.yaml": helmtest.ConfigMap("one", "1")}), nil)
	failed := helmtest.Release(2, release.StatusFailed)
	failed.Namespace, failed.Labels = b.namespace, model.DesiredLabels(b.desired)
	failed.Manifest = "apiVersion: missing.example.com/v1\nkind: Widget\nmetadata: {name: widget}\n"
	storage := driver.NewSecrets(b.kube.CoreV1().Secrets(b.namespace))
	if err := storage.Create(records.NameOf(failed.Name, failed.Version), failed); err != nil {
		t.Fatal(err)
	}
	b.desired.ArtifactDigest = "a2"
	chrt := helmtest.NewChart("2.0.0", map[string]string{"one.yaml": helmtest.ConfigMap("one", "2")})
	b.want(b.plan(chrt, nil), 0, "Update ConfigMap one")
}

// TestIntegrationPlanCRDs plans a folder crds whose kind the templates use.
func TestIntegrationPlanCRDs(t *testing.T) {
	b := newPlanBench(t)
	b.createNamespace()
	group := b.namespace + ".test"
	templates := map[string]string{"widget.yaml": fmt.Sprintf("{{ if .Capabilities.APIVersions.Has \"%s/v1\" }}\n"+
		"apiVersion: %s/v1\nkind: Widget\nmetadata: {name: widget}\n{{ end }}\n", group, group)}
	chrt := helmtest.ChartWithCRDs("1.0.0", templates, map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1")})
	b.want(b.plan(chrt, nil), 0, "Create CustomResourceDefinition widgets."+group, "Create Widget widget Unchecked")
	b.converge(b.desired, chrt, nil)
	b.desired.ArtifactDigest = "a2"
	second := helmtest.ChartWithCRDs("2.0.0", templates, map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1", "v2")})
	b.want(b.plan(second, nil), 2)
	b.options.Upgrade.CRDs = model.CRDsCreateReplace
	b.want(b.plan(second, nil), 1, "Update CustomResourceDefinition widgets."+group)
}

// TestIntegrationPlanRequests checks the number of requests for the plan of an upgrade. Objects of one kind are listed.
func TestIntegrationPlanRequests(t *testing.T) {
	b := newPlanBench(t)
	b.createNamespace()
	templates := map[string]string{"value.yaml": helmtest.ValueConfigMap}
	for i := range 20 {
		name := fmt.Sprintf("object-%d", i)
		templates[name+".yaml"] = helmtest.ConfigMap(name, "1")
	}
	b.converge(b.desired, helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "1"})
	b.desired.ValuesDigest = "v2"
	b.want(b.plan(helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "2"}), 20, "Update ConfigMap demo-value")
	requests := slices.DeleteFunc(b.cutter.Take(), func(request string) bool {
		return request == "GET /version" || request == "GET /api" || request == "GET /apis"
	})
	// The four requests are: the records, the record, the list and the dry run.
	if len(requests) != 4 {
		t.Errorf("%d requests: %q", len(requests), requests)
	}
}

// TestIntegrationPlanImpersonates plans with the rights of a service account.
func TestIntegrationPlanImpersonates(t *testing.T) {
	b := newPlanBench(t)
	b.createNamespace()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: b.namespace},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"},
			Verbs: []string{"get", "list"}}}}
	if _, err := b.kube.RbacV1().Roles(b.namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.namespace, Name: "default"}}}
	bindings := b.kube.RbacV1().RoleBindings(b.namespace)
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.target.Impersonate = "system:serviceaccount:" + b.namespace + ":default"
	if err := sharedServer.Server(t).WaitAllowed(t.Context(), b.target.Impersonate, authorizationv1.ResourceAttributes{
		Namespace: b.namespace, Verb: "list", Resource: "secrets"}); err != nil {
		t.Fatal(err)
	}
	chrt := helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
	b.want(b.plan(chrt, map[string]any{"cidr": "1"}), 0, "Create ConfigMap demo-value Forbidden")
}

// TestIntegrationPlanErrors checks that a plan fails if the cluster does not respond. The error contains no secrets.
func TestIntegrationPlanErrors(t *testing.T) {
	b := newPlanBench(t)
	b.createNamespace()
	b.options.SecretValues = []any{"planted"}
	chrt := helmtest.NewChart("1.0.0", map[string]string{"fail.yaml": `{{ fail (print "bad " .Values.password) }}`})
	_, err := b.client.Plan(t.Context(), b.target, b.desired, b.policy, model.Past{}, b.options, chrt,
		map[string]any{"password": "planted"})
	helmtest.WantError(t, err, helmerr.ErrChartFailed, false)
	if strings.Contains(err.Error(), "planted") {
		t.Error(err)
	}
	b.reconnect(0)
	_, err = b.client.Plan(t.Context(), b.target, b.desired, b.policy, model.Past{}, b.options, chrt, nil)
	helmtest.WantError(t, err, helmerr.ErrUnreachable, false)
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/cutproxy"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/sample"
)

// roleChart returns a chart with a ConfigMap, a ClusterRole and a ClusterRoleBinding. The names of the cluster-scoped
// objects are the namespace of the release.
func roleChart() *chart.Chart {
	const meta = "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: {{ .Release.Namespace }}\n" +
		"  labels: {by: chart}\n%s"
	return helmtest.NewChart("1.0.0", map[string]string{
		"value.yaml": helmtest.ValueConfigMap,
		"role.yaml":  fmt.Sprintf(meta, "ClusterRole", "rules: []\n"),
		"binding.yaml": fmt.Sprintf(meta, "ClusterRoleBinding", "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: "+
			"ClusterRole, name: \"{{ .Release.Namespace }}\"}\n"),
	})
}

// The requests that create and read the cluster-scoped objects of roleChart.
const (
	createRoleRequest = "POST /apis/rbac.authorization.k8s.io/v1/clusterroles"
	readRoleRequest   = "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/"
)

// createOther creates the object of roleChart as another client. With annotations, the object belongs to the release.
func createOther(ctx context.Context, kube kubernetes.Interface, kind, name string,
	annotations map[string]string,
) error {
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{"by": "other"}, Annotations: annotations}
	if annotations != nil {
		meta.Labels[inventory.ManagedByLabel] = inventory.ManagedByHelm
	}
	var err error
	switch kind {
	case "ClusterRole":
		_, err = kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta}, metav1.CreateOptions{})
	case "ClusterRoleBinding":
		_, err = kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}}, metav1.CreateOptions{})
	}
	return err
}

// creators returns who created the ClusterRole and the ClusterRoleBinding of roleChart: "chart", "other", or empty if
// the object does not exist.
func creators(ctx context.Context, kube kubernetes.Interface, name string) (role, binding string, err error) {
	roleObject, err := kube.RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		role = roleObject.Labels["by"]
	case !apierrors.IsNotFound(err):
		return "", "", err
	}
	bindingObject, err := kube.RbacV1().ClusterRoleBindings().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		binding = bindingObject.Labels["by"]
	case !apierrors.IsNotFound(err):
		return "", "", err
	}
	return role, binding, nil
}

func (b *bench) wantCreators(role, binding string) {
	b.t.Helper()
	gotRole, gotBinding, err := creators(b.t.Context(), b.kube, b.namespace)
	if err != nil || gotRole != role || gotBinding != binding {
		b.t.Errorf("the ClusterRole is of %q and the ClusterRoleBinding of %q, want %q and %q: %v", gotRole, gotBinding, role,
			binding, err)
	}
}

// TestIntegrationAssumedClusterRoles installs a chart with cluster-scoped objects that may exist already. The
// installation creates the objects without a read. If an object exists, the installation leaves nothing behind, and
// begins again with reads.
func TestIntegrationAssumedClusterRoles(t *testing.T) {
	own := func(b *bench) map[string]string {
		return map[string]string{inventory.HelmReleaseName: "demo", inventory.HelmReleaseNamespace: b.namespace}
	}
	for name, test := range map[string]struct {
		// existing is the kind of an existing object; empty if there is none. isOwn means that it has the annotations of
		// the release.
		existing string
		isOwn    bool
		change   func(b *bench, run *releaseRun)
		// reads and creates are the numbers of requests for the ClusterRole.
		reads, creates int
		// conflicts means that the installation fails and records nothing.
		conflicts bool
		// failure is the kind of another error.
		failure       error
		role, binding string
	}{
		"missing":       {creates: 1, role: "chart", binding: "chart"},
		"a role exists": {existing: "ClusterRole", reads: 1, creates: 1, conflicts: true, role: "other"},
		"a binding exists": {existing: "ClusterRoleBinding", reads: 1, creates: 1, conflicts: true,
			binding: "other"},
		"a role exists, and records have parts": {existing: "ClusterRole", reads: 1, creates: 1, conflicts: true,
			role: "other", change: func(_ *bench, run *releaseRun) { run.target.Storage.SplitAll = true }},
		"an own role exists": {existing: "ClusterRole", isOwn: true, reads: 1, creates: 1, role: "chart", binding: "chart"},
		"ownership is taken": {existing: "ClusterRole", reads: 1, role: "chart", binding: "chart",
			change: func(_ *bench, run *releaseRun) { run.options.Install.TakeOwnership = true }},
		"a hook comes first": {reads: 1, creates: 1, role: "chart", binding: "chart",
			change: func(_ *bench, run *releaseRun) {
				run.chart.Templates = append(run.chart.Templates, &chart.File{Name: "templates/hook.yaml",
					Data: []byte(hook("ConfigMap", "hook", "pre-install", "data: {key: ran}\n"))})
			}},
		"hooks are disabled": {creates: 1, role: "chart", binding: "chart",
			change: func(_ *bench, run *releaseRun) {
				run.options.Install.DisableHooks = true
				run.chart.Templates = append(run.chart.Templates, &chart.File{Name: "templates/hook.yaml",
					Data: []byte(hook("ConfigMap", "hook", "pre-install", "data: {key: ran}\n"))})
			}},
		// After a failure, Helm creates the objects of the other kinds.
		"creation is forbidden": {reads: 1, failure: helmerr.ErrForbidden, binding: "chart",
			change: func(b *bench, _ *releaseRun) {
				b.forbid(func(req *http.Request) bool { return req.Method+" "+req.URL.Path == createRoleRequest })
			}},
	} {
		for place, isUsed := range map[string]bool{"new namespace": false, "used namespace": true} {
			t.Run(name+"/"+place, func(t *testing.T) {
				b := newBench(t)
				if isUsed {
					b.createNamespace()
				}
				run := b.newRun(roleChart(), map[string]any{"cidr": "1"})
				if test.change != nil {
					test.change(b, run)
				}
				if test.existing != "" {
					var annotations map[string]string
					if test.isOwn {
						annotations = own(b)
					}
					if err := createOther(t.Context(), b.kube, test.existing, b.namespace, annotations); err != nil {
						t.Fatal(err)
					}
				}
				_, err := run.actNow(t, model.ActionInstall)
				requests := b.cutter.Take()
				b.wantCreators(test.role, test.binding)
				if reads, creates := countOf(requests, readRoleRequest), countOf(requests, createRoleRequest); reads !=
					test.reads || creates != test.creates {
					t.Errorf("%d reads and %d creations of the ClusterRole, want %d and %d", reads, creates, test.reads,
						test.creates)
				}
				switch {
				case test.conflicts:
					helmtest.WantError(t, err, helmerr.ErrConflict, false, "set install.takeOwnership")
					b.wantNoConfigMap("demo-value")
					if left := b.secrets(); len(left) > 0 {
						t.Errorf("Secrets are left: %v", left)
					}
					b.wantReadsFirst(run)
				case test.failure != nil:
					helmtest.WantError(t, err, test.failure, true)
					b.wantRecords(run.desired, "1 failed")
				default:
					if err != nil {
						t.Fatal(err)
					}
					b.wantConfigMap("demo-value", "1")
					b.wantRecords(run.desired, "1 deployed")
				}
				if err := run.settleUninstall(t.Context()); err != nil {
					t.Fatal(err)
				}
				if test.conflicts {
					b.wantCreators(test.role, test.binding)
				} else {
					b.wantCreators("", "")
				}
				b.wantRecords(run.desired)
			})
		}
	}
}

// secrets returns the names of all Secrets in the namespace, which include parts of records.
func (b *bench) secrets() []string {
	b.t.Helper()
	list, err := b.kube.CoreV1().Secrets(b.namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// wantReadsFirst checks that the next installation of a release reads the objects and creates nothing.
func (b *bench) wantReadsFirst(run *releaseRun) {
	b.t.Helper()
	b.cutter.Take()
	if _, err := run.actNow(b.t, model.ActionInstall); !errors.Is(err, helmerr.ErrConflict) {
		b.t.Errorf("the error of the second installation is %v", err)
	}
	for _, request := range b.cutter.Take() {
		if !strings.HasPrefix(request, http.MethodGet) {
			b.t.Errorf("the second installation sends %s", request)
		}
	}
}

func countOf(requests []string, prefix string) int {
	count := 0
	for _, request := range requests {
		if strings.HasPrefix(request, prefix) {
			count++
		}
	}
	return count
}

// TestIntegrationCutAssumedClusterRoles interrupts the installation of a chart with cluster-scoped objects at each of
// its requests. In some cases, another owner has one of these objects. The next process finishes the installation, or
// uninstalls the release. Then the object of the other owner exists unchanged, and no own object is orphaned.
func TestIntegrationCutAssumedClusterRoles(t *testing.T) {
	b := newBench(t)
	type job struct {
		existing string
		mode     string
		at       int
	}
	var all []job
	for _, existing := range []string{"", "ClusterRole", "ClusterRoleBinding"} {
		for _, mode := range slices.Sorted(maps.Keys(cutModes)) {
			// A refused installation sends 10 requests, and then reads.
			for at := 1; at <= 12; at++ {
				all = append(all, job{existing, mode, at})
			}
		}
	}
	picked := sample.Of(t, all)
	for i, j := range picked {
		t.Run(fmt.Sprintf("%s/%s/%d", j.existing, j.mode, j.at), func(t *testing.T) {
			t.Parallel()
			cut := cutModes[j.mode]
			cut.At = j.at
			r := newCutRun(t.Context(), b, fmt.Sprintf("%s-%d", b.namespace, i))
			r.chart = roleChart()
			if err := createOther(t.Context(), b.kube, j.existing, r.name, nil); err != nil {
				t.Fatal(err)
			}
			if err := r.cutAssumed(cut, j.existing); err != nil {
				t.Errorf("%v\nsent before: %v\ndecided afterwards: %+v", err, r.proxy.Requests(), r.decisions)
			}
		})
	}
}

// cutAssumed interrupts an installation and finishes it, if no object of another owner exists. Then it uninstalls the
// release.
func (r *cutRun) cutAssumed(cut cutproxy.Cut, existing string) error {
	install := cutCase{decide: func(r *cutRun) (decide.Decision, error) { return r.decide(r.ctx) }}
	if err := r.run(install, cut); err != nil {
		return err
	}
	if err := r.proxy.Stop(); err != nil {
		return err
	}
	r.restart()
	if existing == "" {
		if err := r.settle(r.ctx); err != nil {
			return err
		}
		if role, binding, err := creators(r.ctx, r.kube, r.name); err != nil || role != "chart" || binding != "chart" {
			return fmt.Errorf("installed: %q, %q, %w", role, binding, err)
		}
	}
	if err := r.settleUninstall(r.ctx); err != nil {
		return err
	}
	want := map[string]string{existing: "other"}
	role, binding, err := creators(r.ctx, r.kube, r.name)
	if err != nil || role != want["ClusterRole"] || binding != want["ClusterRoleBinding"] {
		return fmt.Errorf("uninstalled: %q, %q, %w", role, binding, err)
	}
	objects, _, err := r.objects()
	if err == nil && len(objects) > 0 {
		err = fmt.Errorf("left: %v", objects)
	}
	return err
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

const (
	// faultPatience is how long a test waits for an event on a busy API server.
	faultPatience = 2 * time.Minute
	faultPoll     = 20 * time.Millisecond
)

// eventually waits until a condition holds.
func (b *bench) eventually(what string, condition func(ctx context.Context) (bool, error)) {
	b.t.Helper()
	if err := wait.PollUntilContextTimeout(b.t.Context(), faultPoll, faultPatience, true, condition); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// endJob waits for a running Job and completes it, as its controller would. It may be called from any goroutine.
func endJob(ctx context.Context, kube kubernetes.Interface, namespace, name string, failed bool) error {
	return wait.PollUntilContextTimeout(ctx, faultPoll, faultPatience, true, func(ctx context.Context) (bool, error) {
		job, err := kube.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && len(job.Status.Conditions) > 0 {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		setJobEnd(&job.Status, failed)
		_, err = kube.BatchV1().Jobs(namespace).UpdateStatus(ctx, job, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// setJobEnd sets the status of a completed Job. The API server requires all of its fields.
func setJobEnd(status *batchv1.JobStatus, failed bool) {
	now := metav1.Now()
	status.StartTime = &now
	types := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	if failed {
		types = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
		status.Failed = 1
	} else {
		status.Succeeded, status.CompletionTime = 1, &now
	}
	for _, conditionType := range types {
		status.Conditions = append(status.Conditions, batchv1.JobCondition{
			Type: conditionType, Status: corev1.ConditionTrue, Reason: "Test", LastTransitionTime: now,
		})
	}
}

// want changes the desired state.
func (r *releaseRun) want(artifact string, chrt *chart.Chart) {
	r.desired.ArtifactDigest, r.chart = artifact, chrt
}

// TestIntegrationFaultHookFails checks that a failing hook fails the upgrade and leaves working objects in place, and
// that a later attempt completes the upgrade.
func TestIntegrationFaultHookFails(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	run.want("a2", helmtest.NewChart("2.0.0",
		map[string]string{"value.yaml": helmtest.ValueConfigMap, "hook.yaml": hook("Job", "job", "pre-upgrade", jobSpec)}))
	run.values = map[string]any{"cidr": "2"}

	ended := make(chan error, 1)
	go func() { ended <- endJob(t.Context(), b.kube, b.namespace, "job", true) }()
	result, err := run.actNow(t, model.ActionUpgrade)
	helmtest.WantError(t, err, nil, true, "pre-upgrade hooks failed", "job")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if result.Revision != 2 || result.Status != "failed" {
		t.Errorf("result %+v", result)
	}
	b.wantConfigMap("demo-value", "1")
	b.wantConfigMap("first", "1")

	go func() { ended <- endJob(t.Context(), b.kube, b.namespace, "job", false) }()
	run.mustSettle(t)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	b.wantConfigMap("demo-value", "2")
	b.wantNoConfigMap("first")
	b.wantRecords(run.desired, "3 deployed", "2 failed", "1 superseded")
}

// TestIntegrationFaultImmutableField checks that the error of the upgrade names the immutable field. Working objects
// stay in the cluster.
func TestIntegrationFaultImmutableField(t *testing.T) {
	b := newBench(t)
	labelled := func(version, app string) *chart.Chart {
		return helmtest.NewChart(version, map[string]string{"value.yaml": helmtest.ValueConfigMap,
			"deployment.yaml": strings.ReplaceAll(cutDeployment(version), "app: a}", "app: "+app+"}")})
	}
	run := b.newRun(labelled("1.0.0", "a"), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	before := b.deploymentUID("deployment")
	run.want("a2", labelled("2.0.0", "b"))
	result, err := run.actNow(t, model.ActionUpgrade)
	helmtest.WantError(t, err, nil, true, "spec.selector", "immutable")
	if result.Status != "failed" || b.deploymentUID("deployment") != before {
		t.Errorf("result %+v; Deployment was %s, is %s", result, before, b.deploymentUID("deployment"))
	}
	run.want("a3", labelled("3.0.0", "a"))
	run.mustSettle(t)
	b.wantRecords(run.desired, "3 deployed", "2 failed", "1 superseded")
}

func (b *bench) deploymentUID(name string) types.UID {
	b.t.Helper()
	deployment, err := b.kube.AppsV1().Deployments(b.namespace).Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return deployment.UID
}

// TestIntegrationFaultQuotaExceeded checks that an exceeded quota is not reported as a missing permission, and that
// working objects stay. The upgrade succeeds after the quota permits it.
func TestIntegrationFaultQuotaExceeded(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}),
		map[string]any{"cidr": "1"})
	run.mustSettle(t)
	b.setQuota(1)
	run.want("a2", helmtest.NewChart("2.0.0", helmtest.TwoConfigMaps()))
	run.values = map[string]any{"cidr": "2"}
	result, err := run.actNow(t, model.ActionUpgrade)
	helmtest.WantError(t, err, nil, true, "exceeded quota", `configmaps "first"`)
	if result.Status != "failed" {
		t.Errorf("result %+v", result)
	}
	if _, ok := b.configMapValue("demo-value"); !ok {
		t.Error("what worked is gone")
	}
	b.setQuota(5)
	run.mustSettle(t)
	b.wantConfigMap("first", "1")
	b.wantConfigMap("demo-value", "2")
	b.wantRecords(run.desired, "3 deployed", "2 failed", "1 superseded")
}

// setQuota limits the ConfigMaps of the namespace, and counts one, as the controller of quotas would.
func (b *bench) setQuota(hard int64) {
	b.t.Helper()
	const countOf = corev1.ResourceName("count/configmaps")
	limit := corev1.ResourceList{countOf: *resource.NewQuantity(hard, resource.DecimalSI)}
	quotas := b.kube.CoreV1().ResourceQuotas(b.namespace)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: limit}}
	_, err := quotas.Create(b.t.Context(), quota, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		b.t.Fatal(err)
	}
	b.eventually("setting the quota", func(ctx context.Context) (bool, error) {
		quota, err := quotas.Get(ctx, "few", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		quota.Spec.Hard = limit
		if quota, err = quotas.Update(ctx, quota, metav1.UpdateOptions{}); err == nil {
			quota.Status = corev1.ResourceQuotaStatus{Hard: limit,
				Used: corev1.ResourceList{countOf: *resource.NewQuantity(1, resource.DecimalSI)}}
			_, err = quotas.UpdateStatus(ctx, quota, metav1.UpdateOptions{})
		}
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return err == nil, err
	})
	// The admission plugin caches quotas.
	b.eventually("the quota being in force", func(ctx context.Context) (bool, error) {
		var refused error
		for i := range hard {
			probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("probe-%d", i)}}
			_, err := b.kube.CoreV1().ConfigMaps(b.namespace).Create(ctx, probe,
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			refused = errors.Join(refused, err)
		}
		return (refused == nil) == (hard > 1), nil
	})
}

// TestIntegrationFaultAdmissionDenied checks that the error contains the message of an admission policy, and that
// working objects stay.
func TestIntegrationFaultAdmissionDenied(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}),
		map[string]any{"cidr": "1"})
	run.mustSettle(t)
	b.deny("no-first", `object.metadata.name != "first"`, "nobody is first here", admissionv1.Create)
	run.want("a2", helmtest.NewChart("2.0.0", helmtest.TwoConfigMaps()))
	result, err := run.actNow(t, model.ActionUpgrade)
	helmtest.WantError(t, err, nil, true, "nobody is first here", `configmaps "first"`)
	if result.Status != "failed" {
		t.Errorf("result %+v", result)
	}
	run.want("a3", helmtest.NewChart("3.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
	run.mustSettle(t)
	b.wantRecords(run.desired, "3 deployed", "2 failed", "1 superseded")
}

// TestIntegrationFaultDeletionDenied checks an object that is no longer in the chart and cannot be deleted. The upgrade
// fails. A later attempt deletes the object.
func TestIntegrationFaultDeletionDenied(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	lift := b.deny("keep-first", `oldObject.metadata.name != "first"`, "first stays", admissionv1.Delete)
	run.want("a2", helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
	_, err := run.actNow(t, model.ActionUpgrade)
	helmtest.WantError(t, err, nil, true, "first stays", `"first"`)
	b.wantConfigMap("first", "1")
	lift()
	run.mustSettle(t)
	b.wantNoConfigMap("first")
	b.wantRecords(run.desired, "3 deployed", "2 failed", "1 superseded")
}

// TestIntegrationFaultUpgradeDeletesLeftovers checks that objects of failed upgrades are deleted once they are no
// longer desired.
func TestIntegrationFaultUpgradeDeletesLeftovers(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}),
		map[string]any{"cidr": "1"})
	run.mustSettle(t)
	for _, version := range []string{"2", "3"} {
		chrt := brokenChart(version + ".0.0")
		chrt.Templates = append(chrt.Templates,
			&chart.File{Name: "templates/left.yaml", Data: []byte(helmtest.ConfigMap("left-"+version, "1"))})
		run.failing(t, "a"+version, chrt, model.ActionUpgrade)
		b.wantConfigMap("left-"+version, "1")
	}
	run.want("a4", helmtest.NewChart("4.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
	run.mustSettle(t)
	b.wantNoConfigMap("left-2")
	b.wantNoConfigMap("left-3")
	b.wantRecords(run.desired, "4 deployed", "3 failed", "2 failed", "1 superseded")
}

// deny adds an admission policy for ConfigMaps of the namespace, and waits until it is active.
func (b *bench) deny(name, expression, message string, operation admissionv1.OperationType) (lift func()) {
	b.t.Helper()
	name = b.namespace + "-" + name
	policies, bindings := b.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies(),
		b.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	rule := admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{operation},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule}},
			Validations:      []admissionv1.Validation{{Expression: expression, Message: message}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: b.namespace}}},
		},
	}
	if _, err := policies.Create(b.t.Context(), policy, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	if _, err := bindings.Create(b.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	inForce := func(want bool) {
		b.t.Helper()
		configMaps := b.kube.CoreV1().ConfigMaps(b.namespace)
		b.eventually("the policy being in force", func(ctx context.Context) (bool, error) {
			probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "first"}}
			_, err := configMaps.Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if operation == admissionv1.Delete {
				err = configMaps.Delete(ctx, "first", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
			}
			return (err != nil && strings.Contains(err.Error(), message)) == want, nil
		})
	}
	inForce(true)
	return func() {
		b.t.Helper()
		if err := bindings.Delete(b.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			b.t.Fatal(err)
		}
		inForce(false)
	}
}

// TestIntegrationFaultNamespaceTerminating checks that an installation in a terminating namespace fails with an error
// about the namespace and writes nothing.
func TestIntegrationFaultNamespaceTerminating(t *testing.T) {
	b := newBench(t)
	b.createNamespace()
	// No controller completes the deletion.
	if err := b.kube.CoreV1().Namespaces().Delete(t.Context(), b.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	_, err := run.actNow(t, model.ActionInstall)
	helmtest.WantError(t, err, nil, false, "being terminated")
	b.wantRecords(run.desired)
	b.wantNoConfigMap("first")
}

// TestIntegrationFaultTwoWriters runs two processes that act at the same time, or on an outdated observation. One of
// them succeeds and the other gets ErrStale. No revision is created twice.
func TestIntegrationFaultTwoWriters(t *testing.T) {
	b := newBench(t)
	chrt := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps())
	first, second := b.newRun(chrt, map[string]any{"cidr": "1"}), b.newRun(chrt, map[string]any{"cidr": "1"})
	second.client = New(testRunner)
	for round := range 4 {
		var decisions [2]decide.Decision
		runs := [2]*releaseRun{first, second}
		for i, run := range runs {
			run.want(fmt.Sprintf("a%d", round), chrt)
			decision, err := run.decide(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			decisions[i] = decision
		}
		errs := [2]error{}
		if round < 3 {
			var group sync.WaitGroup
			for i, run := range runs {
				group.Go(func() { _, errs[i] = run.act(t.Context(), decisions[i]) })
			}
			group.Wait()
		} else {
			for i, run := range runs {
				_, errs[i] = run.act(t.Context(), decisions[i])
			}
		}
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[:]...), helmerr.ErrStale) {
			t.Errorf("round %d, %s: %v and %v, want one ErrStale", round, decisions[0].Action, errs[0], errs[1])
		}
		if newest, _ := b.observe(first.desired).Newest(); newest.Revision != round+1 || newest.Status != "deployed" {
			t.Errorf("round %d: newest revision %+v", round, newest)
		}
	}
}

// TestIntegrationFaultManyObjects installs, upgrades and uninstalls a chart with a thousand objects.
func TestIntegrationFaultManyObjects(t *testing.T) {
	b := newBench(t)
	const objects = 1000
	template := "{{- range $i := until " + fmt.Sprint(objects) + " }}\n---\n" +
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: many-{{ $i }}\n  labels: {one-of: many}\ndata:\n  key: {{ " +
		"$.Values.cidr | quote }}\n{{- end }}\n"
	run := b.newRun(helmtest.NewChart("1.0.0", map[string]string{"many.yaml": template}), map[string]any{"cidr": "1"})
	for i, what := range []string{"install", "upgrade"} {
		run.desired.ValuesDigest, run.values = what, map[string]any{"cidr": what}
		begun := time.Now()
		run.mustSettle(t)
		t.Logf("%s of %d objects: %s, %d requests", what, objects, time.Since(begun).Round(time.Millisecond),
			len(b.cutter.Take()))
		list, err := b.kube.CoreV1().ConfigMaps(b.namespace).List(t.Context(),
			metav1.ListOptions{LabelSelector: "one-of=many"})
		if err != nil {
			t.Fatal(err)
		}
		right := 0
		for j := range list.Items {
			if list.Items[j].Data["key"] == what {
				right++
			}
		}
		if right != objects {
			t.Errorf("%d objects are right, want %d", right, objects)
		}
		if newest, _ := b.observe(run.desired).Newest(); newest.Revision != i+1 {
			t.Errorf("newest %+v", newest)
		}
	}
	begun := time.Now()
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("uninstall of %d objects: %s", objects, time.Since(begun).Round(time.Millisecond))
	b.wantNoConfigMap("many-0")
	b.wantRecords(run.desired)
}

// TestIntegrationFaultKindNoLongerServed checks that a release can be upgraded and uninstalled after the cluster
// stopped serving a kind of its current manifest and of its hooks.
func TestIntegrationFaultKindNoLongerServed(t *testing.T) {
	uninstall := func(t *testing.T, b *bench, run *releaseRun) {
		t.Helper()
		if err := run.settleUninstall(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.wantNoConfigMap("demo-value")
		b.wantRecords(run.desired)
	}
	for name, after := range map[string]func(*testing.T, *bench, *releaseRun){
		"upgrade": func(t *testing.T, b *bench, run *releaseRun) {
			run.want("a2", helmtest.NewChart("2.0.0", helmtest.TwoConfigMaps()))
			run.mustSettle(t)
			b.wantConfigMap("first", "1")
			b.wantRecords(run.desired, "2 deployed", "1 superseded")
		},
		"uninstall": uninstall,
		"reconnect-and-uninstall": func(t *testing.T, b *bench, run *releaseRun) {
			b.reconnect(-1)
			run.client, run.target = b.client, b.target
			uninstall(t, b, run)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			group := name + ".gone.test"
			widget := "apiVersion: " + group + "/v1\nkind: Widget\nmetadata:\n  name: widget\n"
			chrt := helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap, "widget.yaml": widget,
				"hook.yaml": strings.Replace(widget, "name: widget", `name: hook
  annotations: {"helm.sh/hook": "pre-delete,post-delete"}`, 1)})
			chrt.Files = append(chrt.Files,
				&chart.File{Name: "crds/widget.yaml", Data: []byte(strings.ReplaceAll(widgetCRD, "helmclient.test", group))})
			run := b.newRun(chrt, map[string]any{"cidr": "1"})
			run.mustSettle(t)
			b.deleteCRD("widgets." + group)
			after(t, b, run)
		})
	}
}

// TestIntegrationFaultKindListedButNotServed checks that an object does not count as deleted if discovery lists its
// kind, but the path of the object is not found.
func TestIntegrationFaultKindListedButNotServed(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	var isServed atomic.Bool
	b.intercept(func(req *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if !isServed.Load() && strings.HasSuffix(req.URL.Path, "/configmaps/first") {
			return &http.Response{StatusCode: http.StatusNotFound, Request: req,
				Header: http.Header{"Content-Type": {"text/plain"}},
				Body:   io.NopCloser(strings.NewReader("404 page not found\n"))}, nil
		}
		return send()
	})
	run.target = b.target
	helmtest.WantError(t, run.settleUninstall(t.Context()), helmerr.ErrUnreachable, true, "does not serve it at present")
	b.wantRecords(run.desired, "1 uninstalling")
	b.wantConfigMap("first", "1")
	isServed.Store(true)
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantRecords(run.desired)
	b.wantNoConfigMap("first")
}

// deleteCRD deletes a CRD and waits until its kind is no longer served.
func (b *bench) deleteCRD(name string) {
	b.t.Helper()
	_, group, _ := strings.Cut(name, ".")
	crd := b.kube.Discovery().RESTClient().Delete().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" +
		name)
	if err := crd.Do(b.t.Context()).Error(); err != nil {
		b.t.Fatal(err)
	}
	b.eventually("the kind being gone", func(ctx context.Context) (bool, error) {
		err := b.kube.Discovery().RESTClient().Get().AbsPath("/apis/" + group + "/v1").Do(ctx).Error()
		return apierrors.IsNotFound(err), nil
	})
}

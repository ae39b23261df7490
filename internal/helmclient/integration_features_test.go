// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestIntegrationRequestsPerAction checks the number of requests of an action after discovery. An installation reads
// each object once, and each action writes each changed object once. An action also reads the history and the newest
// record, and writes records.
func TestIntegrationRequestsPerAction(t *testing.T) {
	b := newBench(t)
	const objects = 9
	templates := map[string]string{}
	for i := range objects {
		name := fmt.Sprintf("object-%d", i)
		templates[name] = strings.Replace(helmtest.ValueConfigMap, "-value", "-"+name, 1)
	}
	chrt := helmtest.NewChart("1.0.0", templates)
	warm := helmtest.DesiredFor(b.namespace, "warm", "a1", "v1")
	b.converge(warm, chrt, map[string]any{"cidr": "1"})
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	for _, step := range []struct {
		action model.Action
		values string
		want   int
	}{
		{model.ActionInstall, "1", 2*objects + 3},
		// The versions of the objects are known.
		{model.ActionUpgrade, "2", objects + 5},
		// The history is read again after the release is marked as uninstalling. This list also shows parts of records.
		{model.ActionUninstall, "", objects + 6},
	} {
		b.cutter.Take()
		if _, err := b.act(decide.Decision{Action: step.action}, desired, chrt,
			map[string]any{"cidr": step.values}); err != nil {
			t.Fatal(err)
		}
		if requests := b.cutter.Take(); len(requests) != step.want {
			t.Errorf("%s takes %d requests, want %d: %v", step.action, len(requests), step.want, requests)
		}
	}
}

func TestIntegrationObjectConflict(t *testing.T) {
	b := newBench(t)
	b.createNamespace()
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"}
	existing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Data: map[string]string{"key": "theirs"}}
	if _, err := b.kube.CoreV1().ConfigMaps(b.namespace).Create(t.Context(), existing,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := b.act(b.decide(desired, model.Policy{}), desired, chrt, values)
	helmtest.WantError(t, err, helmerr.ErrConflict, false, `ConfigMap "first"`)
	helmtest.WantError(t, err, helmerr.ErrConflict, false, "set install.takeOwnership")
	b.wantConfigMap("first", "theirs")
	b.options.Install.TakeOwnership = true
	b.converge(desired, chrt, values)
	b.wantConfigMap("first", "1")
}

const widgetCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.helmclient.test
spec:
  group: helmclient.test
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const widget = `{{- if .Capabilities.APIVersions.Has "helmclient.test/v1/Widget" }}
apiVersion: helmclient.test/v1
kind: Widget
metadata:
  name: {{ .Release.Name }}
spec:
  key: {{ .Values.cidr | quote }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: knows-widgets
{{- end }}
`

func TestIntegrationCRDs(t *testing.T) {
	b := newBench(t)
	// Another chart is installed first, so that the kinds of the cluster are known.
	plain := helmtest.DesiredFor(b.namespace, "plain", "a1", "v1")
	b.converge(plain, helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}),
		map[string]any{"cidr": "1"})

	desired := helmtest.DesiredFor(b.namespace, "widgets", "a1", "v1")
	chrt := helmtest.NewChart("1.0.0", map[string]string{"widget.yaml": widget})
	chrt.Files = append(chrt.Files, &chart.File{Name: "crds/widget.yaml", Data: []byte(widgetCRD)})
	b.converge(desired, chrt, map[string]any{"cidr": "1"})
	if _, ok := b.configMapValue("knows-widgets"); !ok {
		t.Error("the templates did not see the chart's own CRD")
	}
	desired.ValuesDigest = "v2"
	b.converge(desired, chrt, map[string]any{"cidr": "2"})

	// This chart on the same connection only tests whether the kind exists.
	asking := helmtest.DesiredFor(b.namespace, "asking", "a1", "v1")
	b.converge(asking, helmtest.NewChart("1.0.0", map[string]string{"asking.yaml": `{{- if .Capabilities.APIVersions.Has "helmclient.test/v1/Widget" }}
apiVersion: helmclient.test/v1
kind: Widget
metadata:
  name: {{ .Release.Name }}
{{- end }}`, "value.yaml": helmtest.ValueConfigMap}), map[string]any{"cidr": "1"})
	raw, err := b.kube.CoreV1().RESTClient().Get().
		AbsPath("/apis/helmclient.test/v1/namespaces/" + b.namespace + "/widgets/asking").DoRaw(t.Context())
	if err != nil {
		t.Errorf("the second chart did not see the kind: %v %s", err, raw)
	}
}

func hook(kind, name, events, spec string) string {
	version := map[string]string{"ConfigMap": "v1", "Job": "batch/v1"}[kind]
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n  annotations: {\"helm.sh/hook\": %q}\n%s",
		version, kind, name, events, spec)
}

const jobSpec = "spec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers: [{name: a, image: a}]\n"

func TestIntegrationHooks(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt := helmtest.NewChart("1.0.0", map[string]string{
		"value.yaml": helmtest.ValueConfigMap,
		"hook.yaml":  hook("ConfigMap", "hook", "pre-install,post-upgrade", "data: {key: ran}\n"),
	})
	b.converge(desired, chrt, map[string]any{"cidr": "1"})
	b.wantConfigMap("hook", "ran")

	// Without a controller, a Job never completes.
	desired.ArtifactDigest = "a2"
	hanging := helmtest.NewChart("2.0.0", map[string]string{
		"value.yaml": helmtest.ValueConfigMap, "hook.yaml": hook("Job", "hang", "pre-upgrade", jobSpec),
	})
	var result Result
	var err error
	for _, timeout := range shortTimeouts {
		b.options.Upgrade.Timeout = timeout
		result, err = b.act(b.decide(desired, model.Policy{}), desired, hanging, map[string]any{"cidr": "2"})
		if result.StorageChanged {
			break
		}
	}
	helmtest.WantError(t, err, helmerr.ErrTimeout, true)
	if result.Revision != 2 || result.Status != "failed" {
		t.Errorf("result %+v", result)
	}
	if decision := b.decide(desired, model.Policy{}); decision.State != model.StateFailed ||
		decision.Action != model.ActionUpgrade {
		t.Errorf("after a failed upgrade: %+v", decision)
	}
	b.wantConfigMap("demo-value", "1")
	b.options.Upgrade = model.UpgradeOptions{DisableHooks: true}
	b.converge(desired, hanging, map[string]any{"cidr": "2"})
	b.wantRecords(desired, "3 deployed", "2 failed", "1 superseded")
}

func TestIntegrationKeepHistory(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"}
	b.options.Uninstall.KeepHistory = true
	for range 2 {
		b.converge(desired, chrt, values)
		decision := decide.Uninstall(b.observe(desired), desired, model.Policy{}, time.Now())
		if result, err := b.act(decision, desired, nil, nil); err != nil || result.Status != "uninstalled" {
			t.Fatalf("%+v, %v", result, err)
		}
		b.wantNoConfigMap("first")
		decision = decide.Uninstall(b.observe(desired), desired, model.Policy{}, time.Now())
		if decision.Action != model.ActionNone {
			t.Errorf("uninstalled with history: %+v", decision)
		}
	}
	b.converge(desired, chrt, values)
	newest, _ := b.observe(desired).Newest()
	if newest.Revision != 3 || newest.Status != "deployed" {
		t.Errorf("newest record %+v", newest)
	}
}

func TestIntegrationMaxHistory(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v0")
	two := 2
	b.options.Upgrade.MaxHistory = &two
	for i := range 4 {
		desired.ValuesDigest = fmt.Sprintf("v%d", i)
		b.converge(desired, helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()),
			map[string]any{"cidr": desired.ValuesDigest})
	}
	b.wantRecords(desired, "4 deployed", "3 superseded")
}

// TestIntegrationHistoryKeepsProvenRevision checks that rapid upgrades do not remove the revision that a rollback needs
// from the history.
func TestIntegrationHistoryKeepsProvenRevision(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.policy = helmtest.WithRollback
	two := 2
	run.options.Upgrade.MaxHistory = &two
	run.mustSettle(t)
	for _, artifact := range []string{"a2", "a3", "a4"} {
		run.want(artifact, helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
		run.values = map[string]any{"cidr": artifact}
		run.mustAct(t, run.later(t, 0), model.ActionUpgrade)
		run.past.Unproven = true
	}
	b.wantRecords(run.desired, "4 deployed", "3 superseded", "1 superseded")
	run.past.Unhealthy = true
	run.mustAct(t, run.later(t, 0), model.ActionRollback)
	b.wantConfigMap("demo-value", "1")
	b.wantConfigMap("first", "1")
	run.past = model.Past{}
	run.want("a5", helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()))
	run.mustAct(t, run.later(t, 0), model.ActionUpgrade)
	b.wantRecords(run.desired, "6 deployed", "5 superseded")
}

func TestIntegrationRefusedObject(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt := helmtest.NewChart("1.0.0",
		map[string]string{"service.yaml": "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\n" +
			"spec:\n  clusterIP: {{ .Values.address | quote }}\n  ports: [{port: 80}]\n"})
	result, err := b.act(b.decide(desired, model.Policy{}), desired, chrt, map[string]any{"address": "hunter2"})
	helmtest.WantError(t, err, nil, true, "spec.clusterIP", `Service "s" is invalid`)
	if text := fmt.Sprint(err, helmtest.AsError(t, err).Logs); strings.Contains(text, "hunter2") {
		t.Errorf("%s quotes the value", text)
	}
	if result.Status != "failed" || result.Revision != 1 {
		t.Errorf("result %+v", result)
	}
}

// TestIntegrationUninstallWaitsForFinalizers checks that an uninstallation with Wait waits for finalizers of other
// controllers, within its timeout. It does not wait for objects that it keeps. While objects exist, the record shows
// that the release is being uninstalled.
func TestIntegrationUninstallWaitsForFinalizers(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps())
	uninstall := func(options model.UninstallOptions) (Result, error) {
		options.Wait = true
		decision := decide.Uninstall(b.observe(desired), desired, model.Policy{}, time.Now())
		return b.client.Act(t.Context(), b.target, decision, desired, model.Options{Uninstall: options}, nil, nil)
	}
	b.converge(desired, chrt, map[string]any{"cidr": "10.0.0.0/8"})
	if result, err := uninstall(model.UninstallOptions{}); err != nil || result.Status != "uninstalled" {
		t.Fatalf("nothing to wait for: %+v, %v", result, err)
	}
	for name, options := range map[string]model.UninstallOptions{
		"without history": {}, "with history": {KeepHistory: true},
	} {
		b.converge(desired, chrt, map[string]any{"cidr": "10.0.0.0/8"})
		finish := b.blockDeletion("first")
		var result Result
		var err error
		for _, timeout := range shortTimeouts {
			options.Timeout = timeout
			if result, err = uninstall(options); err == nil || strings.Contains(err.Error(), "still exists") {
				break
			}
		}
		helmtest.WantError(t, err, helmerr.ErrTimeout, true, `ConfigMap "first" still exists`, "test.example/slow")
		if result.Status != "uninstalling" {
			t.Errorf("%s: %+v", name, result)
		}
		b.wantRecords(desired, "1 uninstalling")
		finish()
		if result, err := uninstall(model.UninstallOptions{}); err != nil || result.Status != "uninstalled" {
			t.Errorf("%s: objects are gone: %+v, %v", name, result, err)
		}
		b.wantRecords(desired)
	}
}

// TestIntegrationFailedReadProvesNoDeletion checks that an uninstallation with Wait continues to wait after it failed
// to read an object.
func TestIntegrationFailedReadProvesNoDeletion(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	finish := b.blockDeletion("first")
	var isDeleted, failed atomic.Bool
	b.intercept(func(req *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if !strings.HasSuffix(req.URL.Path, "/configmaps/first") {
			return send()
		}
		switch {
		case isDeleted.Load() && failed.CompareAndSwap(false, true):
			return &http.Response{StatusCode: http.StatusInternalServerError, Request: req, Header: http.Header{},
				Body: io.NopCloser(strings.NewReader("etcdserver: leader changed"))}, nil
		case failed.Load():
			finish()
		}
		resp, err := send()
		// The first request may be refused, because the finalizer has changed the object.
		isDeleted.Store(req.Method == http.MethodDelete && err == nil && resp.StatusCode == http.StatusOK)
		return resp, err
	})
	run.target, run.options.Uninstall.Wait = b.target, true
	if err := run.settleUninstall(t.Context()); err != nil || !failed.Load() {
		t.Errorf("error %v after a failed read: %t", err, failed.Load())
	}
	b.wantRecords(run.desired)
	b.wantNoConfigMap("first")
}

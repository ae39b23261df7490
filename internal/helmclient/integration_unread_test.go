// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// unreadTemplates are objects that an action may update without a read. The ports have the same number, which is hard
// for strategic merge patches.
var unreadTemplates = map[string]string{
	"app.yaml": `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: app
  labels: {app: app, version: "{{ .Values.version }}"}
spec:
  replicas: 2
  selector: {matchLabels: {app: app}}
  {{- with .Values.strategy }}
  strategy: {type: {{ . }}}
  {{- end }}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      - name: one
        image: one:{{ .Values.version }}
        resources: {limits: {cpu: 1000m}}
        {{- if .Values.ports }}
        ports:
        - {name: dns, containerPort: 53, protocol: UDP}
        - {name: dns-tcp, containerPort: 53, protocol: TCP}
        {{- end }}
`,
	"settings.yaml": `
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  version: "{{ .Values.version }}"
  fixed: "1"
`,
	"secret.yaml": `
apiVersion: v1
kind: Secret
metadata:
  name: app
  labels: {version: "{{ .Values.version }}"}
data: {both: WA==}
{{- if eq .Values.version "1" }}
stringData: {both: other}
{{- end }}
`,
	"service.yaml": `
apiVersion: v1
kind: Service
metadata:
  name: app
spec:
  clusterIP: None
  selector: {app: app}
  ports:
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns-tcp, port: 53, protocol: TCP}
`,
	"budget.yaml": `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: app
  labels: {app: app}
spec:
  maxUnavailable: 1
  selector: {matchLabels: {app: app}}
`,
}

// unreadPaths are the paths of the objects in a namespace.
func unreadPaths(namespace string) map[string]string {
	return map[string]string{
		"deployment": "/apis/apps/v1/namespaces/" + namespace + "/deployments/app",
		"configmap":  "/api/v1/namespaces/" + namespace + "/configmaps/settings",
		"secret":     "/api/v1/namespaces/" + namespace + "/secrets/app",
		"service":    "/api/v1/namespaces/" + namespace + "/services/app",
		"budget":     "/apis/policy/v1/namespaces/" + namespace + "/poddisruptionbudgets/app",
	}
}

// TestIntegrationUpdateWithoutReads checks that an upgrade without reads leaves the same objects as an upgrade that
// reads each object, whatever another client does before the upgrade. The watches show the change of the other client
// in time, or too late.
func TestIntegrationUpdateWithoutReads(t *testing.T) {
	for name, test := range map[string]struct {
		// object is the object that another client changes with a patch, or deletes without one.
		object, patch string
		values        map[string]any
		// isUnread means that no object is read that has a changed manifest or is always patched.
		isUnread bool
	}{
		"nothing": {isUnread: true},
		"status": {object: "deployment/status", isUnread: true, patch: `{"metadata":{"annotations":{` +
			`"deployment.kubernetes.io/revision":"3"}},"status":{"observedGeneration":1}}`},
		"labels":          {object: "deployment", patch: `{"metadata":{"labels":{"version":"x","app":null,"more":"1"}}}`},
		"owner":           {object: "deployment", patch: givenAway},
		"replicas":        {object: "deployment", patch: `{"spec":{"replicas":5}}`},
		"deployment gone": {object: "deployment"},
		"data":            {object: "configmap", patch: `{"data":{"version":"other","fixed":null,"more":"1"}}`},
		"owner of data":   {object: "configmap", patch: givenAway},
		"configmap gone":  {object: "configmap"},
		"secret":          {object: "secret", patch: `{"data":{"both":"Wg==","more":"Wg=="}}`},
		"service":         {object: "service", patch: `{"spec":{"selector":{"app":"other"}}}`},
		"service gone":    {object: "service"},
		"selector": {object: "budget",
			patch: `{"spec":{"maxUnavailable":2,"selector":{"matchLabels":{"app":"other","more":"1"}}}}`},
		"owner of budget":   {object: "budget", patch: givenAway},
		"budget gone":       {object: "budget"},
		"strategy":          {values: map[string]any{"strategy": "Recreate"}},
		"ports with number": {values: map[string]any{"ports": true}, isUnread: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, isLate := range []bool{false, true} {
				b := &bench{t: t, namespace: namespaceOf(t), kube: newKube(t)}
				b.reconnect(-1)
				want := b.upgraded(t, "-read", test.object, test.patch, test.values,
					func(run *releaseRun, change func()) {
						change()
						// A new process knows no versions.
						run.client = New(testRunner)
					})
				got := b.upgraded(t, "-unread", test.object, test.patch, test.values,
					func(run *releaseRun, change func()) {
						if !isLate {
							change()
						}
						b.watchedAt(run, slices.Collect(maps.Values(unreadPaths(run.desired.Namespace)))...)
						if isLate {
							change()
						}
						b.cutter.Take()
					})
				reads := 0
				for _, request := range b.cutter.Take() {
					switch requestOf(request) {
					case "GET deployments", "GET configmaps", "GET secrets", "GET poddisruptionbudgets":
						reads++
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("late %t: the upgrade leaves\n%v\nwant\n%v", isLate, got, want)
				}
				if test.isUnread && !isLate && reads > 0 {
					t.Errorf("the upgrade reads %d objects", reads)
				}
			}
		})
	}
}

// upgraded installs a release, calls before, upgrades the release and returns its objects.
func (b *bench) upgraded(t *testing.T, suffix, object, patch string, values map[string]any,
	before func(run *releaseRun, change func()),
) map[string]any {
	t.Helper()
	run := b.newRun(helmtest.NewChart("1.0.0", unreadTemplates), map[string]any{"version": "1"})
	run.desired.Namespace += suffix
	run.mustSettle(t)
	before(run, func() { b.change(unreadPaths(run.desired.Namespace), object, patch) })
	run.values = map[string]any{"version": "2"}
	maps.Copy(run.values, values)
	run.desired.ValuesDigest = "v2"
	if _, err := run.actNow(t, model.ActionUpgrade); err != nil {
		t.Fatal(err)
	}
	objects := map[string]any{}
	for name, path := range unreadPaths(run.desired.Namespace) {
		found := b.get(path)
		if found == nil {
			continue
		}
		annotations := found.GetAnnotations()
		delete(annotations, inventory.HelmReleaseNamespace)
		objects[name] = []any{found.GetLabels(), annotations, found.Object["spec"], found.Object["data"]}
	}
	return objects
}

// change patches an object as another client, or deletes the object if the patch is empty.
func (b *bench) change(paths map[string]string, object, patch string) {
	b.t.Helper()
	if object == "" {
		return
	}
	client := b.kube.CoreV1().RESTClient()
	var err error
	switch path, isPath := paths[object]; {
	case !isPath:
		err = client.Patch(types.MergePatchType).AbsPath(paths["deployment"] + "/status").Body([]byte(patch)).
			Do(b.t.Context()).Error()
	case patch == "":
		err = client.Delete().AbsPath(path).Do(b.t.Context()).Error()
	default:
		err = client.Patch(types.MergePatchType).AbsPath(path).Body([]byte(patch)).Do(b.t.Context()).Error()
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestIntegrationUninstallKeepsCopies checks that an uninstallation keeps a copy of a record with the same labels.
func TestIntegrationUninstallKeepsCopies(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	for _, values := range []string{"v1", "v2", "v3"} {
		run.desired.ValuesDigest = values
		run.mustSettle(t)
	}
	secrets := b.kube.CoreV1().Secrets(b.namespace)
	record, err := secrets.Get(t.Context(), "sh.helm.release.v1.demo.v1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	record.ObjectMeta = metav1.ObjectMeta{Name: "backup", Labels: record.Labels}
	if _, err := secrets.Create(context.WithoutCancel(t.Context()), record, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	decision, err := run.decideUninstall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.act(t.Context(), decision); err != nil {
		t.Fatal(err)
	}
	left, err := secrets.List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 1 || left.Items[0].Name != "backup" {
		t.Errorf("%d Secrets are left, want the copy", len(left.Items))
	}
}

// TestIntegrationForbiddenCollection checks that an uninstallation deletes records one by one if the API server refuses
// to delete several records with one request.
func TestIntegrationForbiddenCollection(t *testing.T) {
	b := newBench(t)
	b.forbid(func(req *http.Request) bool {
		return req.Method == http.MethodDelete && req.URL.Query().Get("labelSelector") != ""
	})
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	for _, values := range []string{"v1", "v2", "v3"} {
		run.desired.ValuesDigest = values
		run.mustSettle(t)
	}
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.refused) != 1 {
		t.Errorf("%v were refused", b.refused)
	}
	b.wantRecords(run.desired)
}

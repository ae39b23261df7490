/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// sharedServer is the API server of all integration tests; each test has a namespace of its own.
var sharedServer struct {
	once   sync.Once
	dir    string
	server *apiserver.Server
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if sharedServer.server != nil {
		if err := sharedServer.server.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
			code = max(code, 1)
		}
	}
	if sharedServer.dir != "" {
		_ = os.RemoveAll(sharedServer.dir)
	}
	os.Exit(code)
}

func startServer() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	set, err := binaries.Ensure(ctx, binaries.Options{Progress: os.Stderr})
	if err != nil {
		sharedServer.err = err
		return
	}
	if sharedServer.dir, sharedServer.err = os.MkdirTemp("", "helmclient-"); sharedServer.err != nil {
		return
	}
	sharedServer.server, sharedServer.err = apiserver.Start(ctx, apiserver.Options{
		Name: "workload", Dir: filepath.Join(sharedServer.dir, "server"), Binaries: set,
	})
}

// bench is one test's view of the API server.
type bench struct {
	t         *testing.T
	namespace string
	kube      kubernetes.Interface
	client    *Client
	target    Target
	cutter    *cutter
	options   Options
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real API server")
	}
	t.Parallel()
	sharedServer.once.Do(startServer)
	if sharedServer.err != nil {
		t.Fatal(sharedServer.err)
	}
	kube, err := kubernetes.NewForConfig(sharedServer.server.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, namespace: strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())), kube: kube}
	b.reconnect(-1)
	return b
}

// reconnect replaces the client, as a restarted process would; its connection breaks after a number of requests.
func (b *bench) reconnect(after int) {
	b.cutter = &cutter{after: after}
	config := sharedServer.server.RESTConfig()
	config.WrapTransport = b.cutter.wrap
	b.client = New()
	b.target = Target{Key: b.namespace, Config: config}
}

func (b *bench) observe(desired Desired) Observation {
	b.t.Helper()
	obs, err := b.client.Observe(b.t.Context(), b.target, desired.Namespace, desired.Name)
	if err != nil {
		b.t.Fatalf("observe: %v", err)
	}
	return obs
}

func (b *bench) decide(desired Desired, policy Policy) Decision {
	b.t.Helper()
	return Decide(b.observe(desired), desired, policy, time.Now())
}

func (b *bench) act(decision Decision, desired Desired, chrt *chart.Chart, values map[string]any) (Result, error) {
	return b.client.Act(b.t.Context(), b.target, decision, desired, b.options, chrt, values)
}

// converge observes, decides and acts until the release is in sync; it returns the actions it took.
func (b *bench) converge(desired Desired, chrt *chart.Chart, values map[string]any) []Action {
	b.t.Helper()
	var actions []Action
	for range 5 {
		decision := b.decide(desired, Policy{})
		if decision.Action == ActionNone {
			return actions
		}
		actions = append(actions, decision.Action)
		if _, err := b.act(decision, desired, chrt, values); err != nil {
			b.t.Fatalf("%s (%s): %v", decision.Action, decision.Message, err)
		}
	}
	b.t.Fatalf("not in sync after %v: %+v", actions, b.observe(desired).Records)
	return nil
}

func (b *bench) configMapValue(name string) (string, bool) {
	b.t.Helper()
	object, err := b.kube.CoreV1().ConfigMaps(b.namespace).Get(b.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", false
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return object.Data["key"], true
}

func (b *bench) wantConfigMap(name, value string) {
	b.t.Helper()
	if got, _ := b.configMapValue(name); got != value {
		b.t.Errorf("ConfigMap %s holds %q, want %q", name, got, value)
	}
}

func (b *bench) wantNoConfigMap(name string) {
	b.t.Helper()
	if _, ok := b.configMapValue(name); ok {
		b.t.Errorf("ConfigMap %s still exists", name)
	}
}

// wantRecords checks Helm's history, newest first, such as "2 deployed".
func (b *bench) wantRecords(desired Desired, want ...string) {
	b.t.Helper()
	var got []string
	for _, record := range b.observe(desired).Records {
		got = append(got, fmt.Sprintf("%d %s", record.Revision, record.Status))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		b.t.Errorf("history %v, want %v", got, want)
	}
}

func (b *bench) createNamespace() {
	b.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}}
	if _, err := b.kube.CoreV1().Namespaces().Create(b.t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// human returns Helm as somebody uses it by hand, without this package's labels.
func (b *bench) human() *action.Configuration {
	b.t.Helper()
	conn, err := newConnection(sharedServer.server.RESTConfig())
	if err != nil {
		b.t.Fatal(err)
	}
	config := &action.Configuration{}
	clients := &getter{conn: conn, config: conn.restConfig(nil)}
	if err := config.Init(clients, b.namespace, "secret", func(string, ...any) {}); err != nil {
		b.t.Fatal(err)
	}
	config.KubeClient = newKubeClient(context.Background(), clients, b.namespace, func(string, ...any) {})
	return config
}

func (b *bench) humanInstall(name string, chrt *chart.Chart) {
	b.t.Helper()
	install := action.NewInstall(b.human())
	install.ReleaseName, install.Namespace, install.CreateNamespace = name, b.namespace, true
	if _, err := install.Run(copyChart(chrt), map[string]any{"cidr": "human"}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) humanUpgrade(name string, chrt *chart.Chart) {
	b.t.Helper()
	upgrade := action.NewUpgrade(b.human())
	upgrade.Namespace = b.namespace
	if _, err := upgrade.Run(name, copyChart(chrt), map[string]any{"cidr": "human"}); err != nil {
		b.t.Fatal(err)
	}
}

func twoConfigMaps() map[string]string {
	return map[string]string{"value.yaml": valueConfigMap, "first.yaml": configMap("first", "1")}
}

func TestIntegrationLifecycle(t *testing.T) {
	b := newBench(t)
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := newChart("1.0.0", twoConfigMaps()), map[string]any{"cidr": "10.0.0.0/8"}

	decision := b.decide(desired, Policy{})
	result, err := b.act(decision, desired, chrt, values)
	if err != nil {
		t.Fatal(err)
	}
	if result.Revision != 1 || result.Status != "deployed" || result.ChartVersion != "1.0.0" ||
		result.AppVersion != "1.1.0.0" || result.FirstDeployed.IsZero() || !result.StorageChanged {
		t.Errorf("result %+v", result)
	}
	b.wantConfigMap("demo-value", "10.0.0.0/8")
	t.Logf("first install on a connection: %d requests", len(b.cutter.take()))

	if got := b.decide(desired, Policy{}); got.Action != ActionNone {
		t.Errorf("after the install: %+v", got)
	}
	if requests := b.cutter.take(); len(requests) != 1 {
		t.Errorf("an observation takes %v", requests)
	}

	desired.ValuesDigest, values = "v2", map[string]any{"cidr": "11.0.0.0/8"}
	if actions := b.converge(desired, chrt, values); len(actions) != 1 || actions[0] != ActionUpgrade {
		t.Errorf("values changed: %v", actions)
	}
	b.wantConfigMap("demo-value", "11.0.0.0/8")
	b.wantRecords(desired, "2 deployed", "1 superseded")
	t.Logf("upgrade and two observations: %d requests", len(b.cutter.take()))

	decision = DecideUninstall(b.observe(desired), desired, Policy{}, time.Now())
	if result, err = b.act(decision, desired, nil, nil); err != nil || result.Status != "uninstalled" {
		t.Errorf("uninstall: %+v, %v", result, err)
	}
	b.wantRecords(desired)
	b.wantNoConfigMap("demo-value")
	if result, err = b.act(decision, desired, nil, nil); err != nil || result.StorageChanged {
		t.Errorf("uninstall of what is gone: %+v, %v", result, err)
	}
}

// TestIntegrationEmptyValues holds that values which became empty are not replaced by the previous ones.
func TestIntegrationEmptyValues(t *testing.T) {
	b := newBench(t)
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	chrt := newChart("1.0.0", twoConfigMaps())
	chrt.Values = map[string]any{"cidr": "default"}
	b.converge(desired, chrt, map[string]any{"cidr": "10.0.0.0/8"})
	desired.ValuesDigest = "v2"
	b.converge(desired, chrt, nil)
	b.wantConfigMap("demo-value", "default")
}

// TestIntegrationCutInstall cuts the connection at each request of an install in turn.
func TestIntegrationCutInstall(t *testing.T) {
	b := newBench(t)
	chrt, values := newChart("1.0.0", twoConfigMaps()), map[string]any{"cidr": "10.0.0.0/8"}
	for after := 0; ; after++ {
		desired := desiredFor(b.namespace, fmt.Sprintf("cut-%d", after), "a1", "v1")
		templates := map[string]string{"value.yaml": valueConfigMap, "first.yaml": configMap(desired.Name+"-first", "1")}
		chrt = newChart("1.0.0", templates)
		b.reconnect(after)
		_, err := b.act(Decision{Action: ActionInstall}, desired, chrt, values)
		if err == nil {
			t.Logf("a whole install takes %d requests: %v", after, b.cutter.take())
			break
		}
		wantError(t, err, ErrUnreachable, err.(*Error).StorageChanged)
		b.reconnect(-1)
		actions := b.converge(desired, chrt, values)
		b.wantRecords(desired, "1 deployed")
		b.wantConfigMap(desired.Name+"-value", "10.0.0.0/8")
		b.wantConfigMap(desired.Name+"-first", "1")
		if len(actions) != 1 {
			t.Errorf("cut after %d: recovered by %v", after, actions)
		}
	}
}

// TestIntegrationCutUpgrade cuts the connection at each request of an upgrade in turn.
func TestIntegrationCutUpgrade(t *testing.T) {
	b := newBench(t)
	first, second := map[string]any{"cidr": "10.0.0.0/8"}, map[string]any{"cidr": "11.0.0.0/8"}
	for after := 0; ; after++ {
		desired := desiredFor(b.namespace, fmt.Sprintf("cut-%d", after), "a1", "v1")
		b.reconnect(-1)
		b.converge(desired, newChart("1.0.0", map[string]string{"value.yaml": valueConfigMap,
			"old.yaml": configMap(desired.Name+"-old", "1")}), first)
		desired.ValuesDigest = "v2"
		chrt := newChart("1.1.0", map[string]string{"value.yaml": valueConfigMap, "new.yaml": configMap(desired.Name+"-new", "1")})
		b.reconnect(after)
		_, err := b.act(Decision{Action: ActionUpgrade}, desired, chrt, second)
		if err == nil {
			t.Logf("a whole upgrade takes %d requests: %v", after, b.cutter.take())
			break
		}
		b.reconnect(-1)
		b.converge(desired, chrt, second)
		b.wantRecords(desired, "2 deployed", "1 superseded")
		b.wantConfigMap(desired.Name+"-value", "11.0.0.0/8")
		b.wantConfigMap(desired.Name+"-new", "1")
		b.wantNoConfigMap(desired.Name + "-old")
	}
}

// TestIntegrationCutUninstall cuts the connection at each request of an uninstall in turn.
func TestIntegrationCutUninstall(t *testing.T) {
	b := newBench(t)
	chrt, values := newChart("1.0.0", twoConfigMaps()), map[string]any{"cidr": "10.0.0.0/8"}
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	for after := 0; ; after++ {
		b.reconnect(-1)
		b.converge(desired, chrt, values)
		b.reconnect(after)
		_, err := b.act(Decision{Action: ActionUninstall}, desired, nil, nil)
		if err == nil {
			t.Logf("a whole uninstall takes %d requests: %v", after, b.cutter.take())
			break
		}
		b.reconnect(-1)
		decision := DecideUninstall(b.observe(desired), desired, Policy{}, time.Now())
		if _, err := b.act(decision, desired, nil, nil); err != nil {
			t.Fatalf("cut after %d: %v", after, err)
		}
		b.wantRecords(desired)
		b.wantNoConfigMap("demo-value")
		b.wantNoConfigMap("first")
	}
}

// cutPending leaves a pending record behind: it cuts the connection right after the record was made.
func (b *bench) cutPending(action Action, desired Desired, chrt *chart.Chart, values map[string]any) {
	b.t.Helper()
	for after := 1; after < 40; after++ {
		b.reconnect(after)
		_, err := b.act(Decision{Action: action}, desired, chrt, values)
		b.reconnect(-1)
		newest, _ := b.observe(desired).Newest()
		if strings.HasPrefix(newest.Status, "pending-") {
			// One request more than the record itself: an object was made, too.
			return
		}
		if err == nil {
			break
		}
	}
	b.t.Fatal("no pending record could be made")
}

func TestIntegrationPendingInstallOtherDesired(t *testing.T) {
	b := newBench(t)
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	b.cutPending(ActionInstall, desired, newChart("1.0.0", twoConfigMaps()), map[string]any{"cidr": "1"})
	desired.ArtifactDigest = "a2"
	actions := b.converge(desired, newChart("2.0.0", map[string]string{"value.yaml": valueConfigMap}), map[string]any{"cidr": "2"})
	if len(actions) != 1 || actions[0] != ActionRecoverThenUpgrade {
		t.Errorf("recovered by %v", actions)
	}
	b.wantRecords(desired, "2 deployed", "1 superseded")
	b.wantConfigMap("demo-value", "2")
	b.wantNoConfigMap("first")
}

// TestIntegrationPendingUpgradeReverted holds that an upgrade which was cut off and is no longer desired is not taken
// for undone: the revision below it has the desired digests, but the objects may be half of another revision.
func TestIntegrationPendingUpgradeReverted(t *testing.T) {
	b := newBench(t)
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	chrt := newChart("1.0.0", twoConfigMaps())
	b.converge(desired, chrt, map[string]any{"cidr": "1"})
	changed := desired
	changed.ValuesDigest = "v2"
	b.cutPending(ActionUpgrade, changed, chrt, map[string]any{"cidr": "2"})
	b.converge(desired, chrt, map[string]any{"cidr": "1"})
	b.wantRecords(desired, "3 deployed", "2 failed", "1 superseded")
	b.wantConfigMap("demo-value", "1")
}

func TestIntegrationPendingOfAnother(t *testing.T) {
	b := newBench(t)
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := newChart("1.0.0", twoConfigMaps()), map[string]any{"cidr": "1"}
	b.cutPending(ActionInstall, desired, chrt, values)
	desired.UID = "uid-after-move"
	decision := b.decide(desired, Policy{})
	if decision.Action != ActionWait || decision.RequeueAfter < 14*time.Minute {
		t.Errorf("young record of another: %+v", decision)
	}
	decision = Decide(b.observe(desired), desired, Policy{}, time.Now().Add(DefaultPendingTimeout))
	if _, err := b.act(decision, desired, chrt, values); err != nil {
		t.Fatal(err)
	}
	b.wantRecords(desired, "1 deployed")
}

func TestIntegrationStaleRecovery(t *testing.T) {
	b := newBench(t)
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := newChart("1.0.0", twoConfigMaps()), map[string]any{"cidr": "1"}
	b.converge(desired, chrt, values)
	stale := Decision{Action: ActionRecoverThenInstall, Recovery: RecoverDelete, FromRevision: 1}
	_, err := b.act(stale, desired, chrt, values)
	wantError(t, err, ErrStale, false, "no longer pending")
	_, err = b.act(Decision{Action: ActionInstall}, desired, chrt, values)
	wantError(t, err, ErrStale, false)
	b.wantRecords(desired, "1 deployed")
}

func TestIntegrationAnotherHand(t *testing.T) {
	b := newBench(t)
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := newChart("1.0.0", twoConfigMaps()), map[string]any{"cidr": "ours"}
	b.converge(desired, chrt, values)
	b.humanUpgrade("demo", chrt)
	b.wantConfigMap("demo-value", "human")
	if decision := b.decide(desired, Policy{}); decision.State != StateUnmanaged {
		t.Errorf("after an upgrade by hand: %+v", decision)
	}
	b.converge(desired, chrt, values)
	b.wantConfigMap("demo-value", "ours")

	rollback := action.NewRollback(b.human())
	rollback.Version = 2
	if err := rollback.Run("demo"); err != nil {
		t.Fatal(err)
	}
	if decision := b.decide(desired, Policy{}); decision.State != StateUnmanaged {
		t.Errorf("after a rollback by hand: %+v", decision)
	}
	b.converge(desired, chrt, values)
	b.wantConfigMap("demo-value", "ours")
	b.wantRecords(desired, "5 deployed", "4 superseded", "3 superseded", "2 superseded", "1 superseded")
}

func TestIntegrationForeign(t *testing.T) {
	b := newBench(t)
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := newChart("1.0.0", twoConfigMaps()), map[string]any{"cidr": "ours"}
	b.humanInstall("demo", chrt)
	decision := b.decide(desired, Policy{})
	if decision.Action != ActionRefuse {
		t.Errorf("a release made by hand: %+v", decision)
	}
	if result, err := b.act(decision, desired, chrt, values); err != nil || result.StorageChanged {
		t.Errorf("refused, yet: %+v, %v", result, err)
	}
	b.wantConfigMap("demo-value", "human")
	if _, err := b.act(b.decide(desired, Policy{TakeOwnership: true}), desired, chrt, values); err != nil {
		t.Fatal(err)
	}
	b.wantConfigMap("demo-value", "ours")
	if decision := b.decide(desired, Policy{}); decision.State != StateInSync {
		t.Errorf("after adoption: %+v", decision)
	}
	other := desired
	other.Owner = "default.second"
	if decision := b.decide(other, Policy{}); decision.Action != ActionRefuse || !strings.Contains(decision.Message, "default.demo") {
		t.Errorf("a second owner: %+v", decision)
	}
}

func TestIntegrationObjectConflict(t *testing.T) {
	b := newBench(t)
	b.createNamespace()
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := newChart("1.0.0", twoConfigMaps()), map[string]any{"cidr": "1"}
	existing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Data: map[string]string{"key": "theirs"}}
	if _, err := b.kube.CoreV1().ConfigMaps(b.namespace).Create(t.Context(), existing, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := b.act(b.decide(desired, Policy{}), desired, chrt, values)
	wantError(t, err, ErrConflict, false, `ConfigMap "first"`)
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
	// Another chart before it, so that what the cluster serves is known already.
	plain := desiredFor(b.namespace, "plain", "a1", "v1")
	b.converge(plain, newChart("1.0.0", map[string]string{"value.yaml": valueConfigMap}), map[string]any{"cidr": "1"})

	desired := desiredFor(b.namespace, "widgets", "a1", "v1")
	chrt := newChart("1.0.0", map[string]string{"widget.yaml": widget})
	chrt.Files = append(chrt.Files, &chart.File{Name: "crds/widget.yaml", Data: []byte(widgetCRD)})
	b.converge(desired, chrt, map[string]any{"cidr": "1"})
	if _, ok := b.configMapValue("knows-widgets"); !ok {
		t.Error("the templates did not see the chart's own CRD")
	}
	desired.ValuesDigest = "v2"
	b.converge(desired, chrt, map[string]any{"cidr": "2"})

	// A chart on the same connection which only asks for the kind.
	asking := desiredFor(b.namespace, "asking", "a1", "v1")
	b.converge(asking, newChart("1.0.0", map[string]string{"asking.yaml": `{{- if .Capabilities.APIVersions.Has "helmclient.test/v1/Widget" }}
apiVersion: helmclient.test/v1
kind: Widget
metadata:
  name: {{ .Release.Name }}
{{- end }}`, "value.yaml": valueConfigMap}), map[string]any{"cidr": "1"})
	raw, err := b.kube.CoreV1().RESTClient().Get().
		AbsPath("/apis/helmclient.test/v1/namespaces/" + b.namespace + "/widgets/asking").DoRaw(t.Context())
	if err != nil {
		t.Errorf("the second chart did not see the kind: %v %s", err, raw)
	}
}

func hook(kind, name, events, spec string) string {
	version := map[string]string{"ConfigMap": "v1", "Job": "batch/v1"}[kind]
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n  annotations: {\"helm.sh/hook\": %q}\n%s", version, kind, name, events, spec)
}

const jobSpec = "spec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers: [{name: a, image: a}]\n"

func TestIntegrationHooks(t *testing.T) {
	b := newBench(t)
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	chrt := newChart("1.0.0", map[string]string{
		"value.yaml": valueConfigMap,
		"hook.yaml":  hook("ConfigMap", "hook", "pre-install,post-upgrade", "data: {key: ran}\n"),
	})
	b.converge(desired, chrt, map[string]any{"cidr": "1"})
	b.wantConfigMap("hook", "ran")

	// A Job never ends where no controller runs it.
	desired.ArtifactDigest = "a2"
	hanging := newChart("2.0.0", map[string]string{
		"value.yaml": valueConfigMap, "hook.yaml": hook("Job", "hang", "pre-upgrade", jobSpec),
	})
	b.options.Upgrade.Timeout = 2 * time.Second
	result, err := b.act(b.decide(desired, Policy{}), desired, hanging, map[string]any{"cidr": "2"})
	wantError(t, err, ErrTimeout, true)
	if result.Revision != 2 || result.Status != "failed" {
		t.Errorf("result %+v", result)
	}
	if decision := b.decide(desired, Policy{}); decision.State != StateFailed || decision.Action != ActionUpgrade {
		t.Errorf("after a failed upgrade: %+v", decision)
	}
	b.wantConfigMap("demo-value", "1")
	b.options.Upgrade = UpgradeOptions{DisableHooks: true}
	b.converge(desired, hanging, map[string]any{"cidr": "2"})
	b.wantRecords(desired, "3 deployed", "2 failed", "1 superseded")
}

func TestIntegrationKeepHistory(t *testing.T) {
	b := newBench(t)
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := newChart("1.0.0", twoConfigMaps()), map[string]any{"cidr": "1"}
	b.options.Uninstall.KeepHistory = true
	for range 2 {
		b.converge(desired, chrt, values)
		decision := DecideUninstall(b.observe(desired), desired, Policy{}, time.Now())
		if result, err := b.act(decision, desired, nil, nil); err != nil || result.Status != "uninstalled" {
			t.Fatalf("%+v, %v", result, err)
		}
		b.wantNoConfigMap("first")
		decision = DecideUninstall(b.observe(desired), desired, Policy{}, time.Now())
		if decision.Action != ActionNone {
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
	desired := desiredFor(b.namespace, "demo", "a1", "v0")
	two := 2
	b.options.Upgrade.MaxHistory = &two
	for i := range 4 {
		desired.ValuesDigest = fmt.Sprintf("v%d", i)
		b.converge(desired, newChart("1.0.0", twoConfigMaps()), map[string]any{"cidr": desired.ValuesDigest})
	}
	b.wantRecords(desired, "4 deployed", "3 superseded")
}

func TestIntegrationTooLarge(t *testing.T) {
	b := newBench(t)
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	chrt := newChart("1.0.0", twoConfigMaps())
	random := make([]byte, 1200<<10)
	rand.New(rand.NewSource(1)).Read(random)
	chrt.Files = append(chrt.Files, &chart.File{Name: "large.bin", Data: random})
	_, err := b.act(b.decide(desired, Policy{}), desired, chrt, map[string]any{"cidr": "1"})
	wantError(t, err, ErrTooLarge, false)
	b.wantNoConfigMap("first")
}

func TestIntegrationRefusedObject(t *testing.T) {
	b := newBench(t)
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	chrt := newChart("1.0.0", map[string]string{"service.yaml": "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\n" +
		"spec:\n  clusterIP: {{ .Values.address | quote }}\n  ports: [{port: 80}]\n"})
	result, err := b.act(b.decide(desired, Policy{}), desired, chrt, map[string]any{"address": "hunter2"})
	wantError(t, err, nil, true, "spec.clusterIP", `Service "s" is invalid`)
	if strings.Contains(fmt.Sprintf("%s %v", err, err.(*Error).Logs), "hunter2") {
		t.Errorf("%s %v quotes the value", err, err.(*Error).Logs)
	}
	if result.Status != "failed" || result.Revision != 1 {
		t.Errorf("result %+v", result)
	}
}

func TestIntegrationMissingNamespace(t *testing.T) {
	b := newBench(t)
	no := false
	b.options.Install.CreateNamespace = &no
	desired := desiredFor(b.namespace, "demo", "a1", "v1")
	_, err := b.act(b.decide(desired, Policy{}), desired, newChart("1.0.0", twoConfigMaps()), map[string]any{"cidr": "1"})
	wantError(t, err, nil, false, fmt.Sprintf("namespaces %q not found", b.namespace))
}

// TestIntegrationSharedChart holds that a chart may be shared between clusters: run it with the race detector.
func TestIntegrationSharedChart(t *testing.T) {
	b := newBench(t)
	chrt := newChart("1.0.0", map[string]string{"value.yaml": valueConfigMap})
	sub := newChart("1.0.0", map[string]string{"value.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}-sub\"}\n"})
	sub.Metadata.Name = "sub"
	sub.Values = map[string]any{"exports": map[string]any{"data": map[string]any{"imported": true}}}
	chrt.AddDependency(sub)
	chrt.Metadata.Dependencies = []*chart.Dependency{{Name: "sub", Version: "1.0.0", Alias: "other", Condition: "other.enabled", ImportValues: []any{"data"}}}
	values := map[string]any{"cidr": "1", "other": map[string]any{"enabled": true}}
	var group sync.WaitGroup
	for i := range 6 {
		group.Go(func() {
			desired := desiredFor(b.namespace, fmt.Sprintf("shared-%d", i), "a1", "v1")
			if _, err := b.act(Decision{Action: ActionInstall}, desired, chrt, values); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if chrt.Metadata.Dependencies[0].Name != "sub" || chrt.Values != nil {
		t.Error("the shared chart was changed")
	}
}

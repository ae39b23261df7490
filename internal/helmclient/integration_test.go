// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// sharedServer is the API server of all integration tests. Each test has its own namespace.
var sharedServer apiserver.Shared

// testRunner renders the charts of all tests.
var testRunner = sandbox.NewPool(sandbox.Options{})

func TestMain(m *testing.M) {
	sandbox.Serve(rendering.Tasks())
	os.Exit(sharedServer.Run(m))
}

// bench is the namespace of a test, with clients of the API server.
type bench struct {
	t         *testing.T
	namespace string
	kube      kubernetes.Interface
	client    *Client
	target    model.Target
	cutter    *helmtest.Cutter
	// refused lists the requests that the test refused, see forbid.
	refused []string
	options model.Options
}

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	b := &bench{t: t, namespace: namespaceOf(t), kube: newKube(t)}
	b.reconnect(-1)
	return b
}

func newKube(t *testing.T) kubernetes.Interface {
	t.Helper()
	kube, err := kubernetes.NewForConfig(sharedServer.Server(t).RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

// benches counts the benches. Two runs of a test therefore have different namespaces.
var benches atomic.Int64

// namespaceOf returns the namespace for a run of a test.
func namespaceOf(t *testing.T) string {
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	return strings.TrimRight(name[:min(len(name), 48)], "-") + fmt.Sprintf("-%d", benches.Add(1))
}

// group returns an API group for CRDs. CRDs stay until the end of the process, so each run of a test has its own group.
func (b *bench) group(name string) string { return name + "." + b.namespace + ".test" }

// reconnect replaces the client, as a restart of the process would. The new connection breaks after a number of
// requests.
func (b *bench) reconnect(after int) {
	b.cutter = &helmtest.Cutter{After: after}
	config := sharedServer.Server(b.t).RESTConfig()
	config.WrapTransport = b.cutter.Wrap
	b.client = New(testRunner)
	b.target = model.Target{Key: b.namespace, Config: config}
}

func (b *bench) observe(desired model.Desired) model.Observation {
	b.t.Helper()
	obs, err := b.client.Observe(b.t.Context(), b.target, desired.Namespace, desired.Name)
	if err != nil {
		b.t.Fatalf("observe: %v", err)
	}
	return obs
}

// decide decides with a clock that is slightly ahead. A test then does not wait until the next attempt is due.
func (b *bench) decide(desired model.Desired, policy model.Policy) decide.Decision {
	b.t.Helper()
	return decide.Next(b.observe(desired), desired, policy, model.Past{}, time.Now().Add(2*model.MinBackoff))
}

func (b *bench) act(decision decide.Decision, desired model.Desired, chrt *chart.Chart,
	values map[string]any,
) (Result, error) {
	return b.client.Act(b.t.Context(), b.target, decision, desired, b.options, chrt, values)
}

// converge observes, decides and acts until the release is in sync. It returns the actions.
func (b *bench) converge(desired model.Desired, chrt *chart.Chart, values map[string]any) []model.Action {
	b.t.Helper()
	var actions []model.Action
	for range 5 {
		decision := b.decide(desired, model.Policy{})
		if decision.Action == model.ActionNone {
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
func (b *bench) wantRecords(desired model.Desired, want ...string) {
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

// human returns Helm as in the helm command, without the labels of this package.
func (b *bench) human() *action.Configuration {
	b.t.Helper()
	return b.humanThrough(nil)
}

// humanThrough returns Helm as human does, with a wrapped transport.
func (b *bench) humanThrough(wrap func(http.RoundTripper) http.RoundTripper) *action.Configuration {
	b.t.Helper()
	server := sharedServer.Server(b.t).RESTConfig()
	server.WrapTransport = wrap
	kept, err := connections.NewCluster("", server, connections.NewSharedState(connections.DefaultMemory()))
	if err != nil {
		b.t.Fatal(err)
	}
	conn := kept.Own
	config := &action.Configuration{}
	clients := &connections.Getter{Conn: conn, Config: conn.RestConfig(context.Background())}
	if err := config.Init(clients, b.namespace, "secret", func(string, ...any) {}); err != nil {
		b.t.Fatal(err)
	}
	config.KubeClient = apply.NewClient(context.Background(), clients, b.namespace, func(string, ...any) {})
	return config
}

func (b *bench) humanInstall(name string, chrt *chart.Chart) {
	b.t.Helper()
	install := action.NewInstall(b.human())
	install.ReleaseName, install.Namespace, install.CreateNamespace = name, b.namespace, true
	if _, err := install.Run(rendering.CopyChart(chrt), map[string]any{"cidr": "human"}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) humanUpgrade(name string, chrt *chart.Chart) {
	b.t.Helper()
	upgrade := action.NewUpgrade(b.human())
	upgrade.Namespace = b.namespace
	if _, err := upgrade.Run(name, rendering.CopyChart(chrt), map[string]any{"cidr": "human"}); err != nil {
		b.t.Fatal(err)
	}
}

func TestIntegrationLifecycle(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt, values := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "10.0.0.0/8"}

	decision := b.decide(desired, model.Policy{})
	result, err := b.act(decision, desired, chrt, values)
	if err != nil {
		t.Fatal(err)
	}
	if result.Revision != 1 || result.Status != "deployed" || result.ChartVersion != "1.0.0" ||
		result.AppVersion != "1.1.0.0" || result.FirstDeployed.IsZero() || !result.StorageChanged {
		t.Errorf("result %+v", result)
	}
	b.wantConfigMap("demo-value", "10.0.0.0/8")
	t.Logf("first install on a connection: %d requests", len(b.cutter.Take()))

	if got := b.decide(desired, model.Policy{}); got.Action != model.ActionNone {
		t.Errorf("after the install: %+v", got)
	}
	if requests := b.cutter.Take(); len(requests) != 1 {
		t.Errorf("an observation takes %v", requests)
	}

	desired.ValuesDigest, values = "v2", map[string]any{"cidr": "11.0.0.0/8"}
	if actions := b.converge(desired, chrt, values); len(actions) != 1 || actions[0] != model.ActionUpgrade {
		t.Errorf("values changed: %v", actions)
	}
	b.wantConfigMap("demo-value", "11.0.0.0/8")
	b.wantRecords(desired, "2 deployed", "1 superseded")
	t.Logf("upgrade and two observations: %d requests", len(b.cutter.Take()))

	decision = decide.Uninstall(b.observe(desired), desired, model.Policy{}, time.Now())
	if result, err = b.act(decision, desired, nil, nil); err != nil || result.Status != "uninstalled" {
		t.Errorf("uninstall: %+v, %v", result, err)
	}
	b.wantRecords(desired)
	b.wantNoConfigMap("demo-value")
	if result, err = b.act(decision, desired, nil, nil); err != nil || result.StorageChanged {
		t.Errorf("uninstall of what is gone: %+v, %v", result, err)
	}
}

// TestIntegrationEmptyValues checks that empty desired values are not replaced by the previous values.
func TestIntegrationEmptyValues(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps())
	chrt.Values = map[string]any{"cidr": "default"}
	b.converge(desired, chrt, map[string]any{"cidr": "10.0.0.0/8"})
	desired.ValuesDigest = "v2"
	b.converge(desired, chrt, nil)
	b.wantConfigMap("demo-value", "default")
}

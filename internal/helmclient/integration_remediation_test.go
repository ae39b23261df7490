// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// hookService returns a hook that the API server rejects.
func hookService(name, events string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata:\n  name: %s\n  annotations: {\"helm.sh/hook\": %q}\n"+
		"spec: {clusterIP: 300.0.0.1, ports: [{port: 80}]}\n", name, events)
}

func (r *releaseRun) record(t *testing.T, revision int) model.Record {
	t.Helper()
	obs, err := r.observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(obs.Records, func(record model.Record) bool { return record.Revision == revision })
	if i < 0 {
		t.Fatalf("there is no Helm revision %d: %+v", revision, obs.Records)
	}
	return obs.Records[i]
}

// later decides with a clock that is ahead.
func (r *releaseRun) later(t *testing.T, by time.Duration) decide.Decision {
	t.Helper()
	obs, err := r.observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return decide.Next(obs, r.desired, r.policy, r.past, time.Now().Add(by))
}

// mustFail carries out a decision. The action must fail and change the storage.
func (r *releaseRun) mustFail(t *testing.T, decision decide.Decision, action model.Action) {
	t.Helper()
	if decision.Action != action {
		t.Fatalf("decided %+v, want %s", decision, action)
	}
	if result, err := r.act(t.Context(), decision); err == nil || !result.StorageChanged {
		t.Fatalf("%s: %+v, %v", action, result, err)
	}
}

// mustAct carries out a decision. The action must succeed.
func (r *releaseRun) mustAct(t *testing.T, decision decide.Decision, action model.Action) Result {
	t.Helper()
	if decision.Action != action {
		t.Fatalf("decided %+v, want %s", decision, action)
	}
	result, err := r.act(t.Context(), decision)
	if err != nil {
		t.Fatalf("%s: %v", action, err)
	}
	return result
}

// TestIntegrationRollbackUntilRetriesExhausted checks a failing upgrade with rollbacks and retries, until the retries
// are exhausted and beyond. All state is in the cluster.
func TestIntegrationRollbackUntilRetriesExhausted(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.policy = helmtest.WithRollback
	run.mustSettle(t)
	good := run.desired

	broken := brokenChart("2.0.0")
	broken.Templates = append(broken.Templates,
		&chart.File{Name: "templates/new.yaml", Data: []byte(helmtest.ConfigMap("new", "1"))})
	run.desired.ArtifactDigest, run.desired.PostRenderDigest, run.chart = "a2", "p2", broken
	run.mustFail(t, run.later(t, 0), model.ActionUpgrade)
	result := run.mustAct(t, run.later(t, 0), model.ActionRollback)
	if result.Revision != 3 || result.Status != "deployed" || result.ChartVersion != "1.0.0" || len(result.Objects) != 2 {
		t.Errorf("result of a rollback: %+v", result)
	}
	b.wantConfigMap("first", "1")
	b.wantNoConfigMap("new")
	want := model.Record{Revision: 3, Status: "deployed", Owner: good.Owner, UID: good.UID,
		ArtifactDigest: good.ArtifactDigest, ValuesDigest: good.ValuesDigest,
		OptionsDigest: model.DigestLabel(good.OptionsDigest), LabelledRevision: 3, Failures: 1,
		RolledBackFrom: model.AttemptLabel(run.desired)}
	got := run.record(t, 3)
	got.ID, got.ChangedAt, got.ServerTime, got.WrittenAt = "", time.Time{}, time.Time{}, time.Time{}
	got.AttemptsSince = time.Time{}
	if got != want {
		t.Errorf("record of the rollback\n got %+v\nwant %+v", got, want)
	}
	if decision := run.later(t, 0); decision.State != model.StateRolledBack || decision.Action != model.ActionWait ||
		decision.Failures != 1 {
		t.Errorf("after the rollback: %+v", decision)
	}

	run.mustFail(t, run.later(t, time.Minute), model.ActionUpgrade)
	if record := run.record(t, 4); record.Failures != 1 || record.RolledBackFrom != "" || record.PostRenderDigest != "p2" {
		t.Errorf("record of the second try: %+v", record)
	}
	// This is another process in another management cluster.
	b.reconnect(-1)
	run.client, run.target, run.desired.UID = b.client, b.target, "uid-moved"
	run.mustAct(t, run.later(t, 0), model.ActionRollback)
	decision := run.later(t, time.Hour)
	if decision.State != model.StateRolledBack || decision.Action != model.ActionStall || decision.Failures != 2 {
		t.Errorf("after two failures: %+v", decision)
	}
	b.wantRecords(run.desired, "5 deployed", "4 failed", "3 superseded", "2 failed", "1 superseded")

	run.past.RetryRequested = true
	run.mustFail(t, run.later(t, 0), model.ActionUpgrade)
	run.past.RetryRequested = false
	if record := run.record(t, 6); record.Failures != 0 {
		t.Errorf("record of a try that was asked for: %+v", record)
	}
	run.mustAct(t, run.later(t, 0), model.ActionRollback)

	run.desired.ArtifactDigest, run.chart = "a3",
		helmtest.NewChart("3.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
	if decision := run.later(t, 0); decision.Action != model.ActionUpgrade || decision.Failures != 0 {
		t.Errorf("something else is desired: %+v", decision)
	}
	run.mustSettle(t)
	b.wantNoConfigMap("first")
}

// TestIntegrationFailedRollbackIsRetried checks that a failed rollback is recorded as failed for all causes, and is
// repeated.
func TestIntegrationFailedRollbackIsRetried(t *testing.T) {
	b := newBench(t)
	templates := helmtest.TwoConfigMaps()
	templates["hook.yaml"] = hookService("refused", "pre-rollback")
	run := b.newRun(helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "1"})
	run.policy = helmtest.WithRollback
	run.mustSettle(t)
	run.desired.ArtifactDigest, run.chart = "a2", brokenChart("2.0.0")
	run.mustFail(t, run.later(t, 0), model.ActionUpgrade)
	run.mustFail(t, run.later(t, 0), model.ActionRollback)
	b.wantRecords(run.desired, "3 failed", "2 failed", "1 deployed")
	if decision := run.later(t, 0); decision.Action != model.ActionWait || decision.State != model.StateFailed ||
		decision.RollbackFailures != 1 || decision.Failures != 1 {
		t.Errorf("after a failed rollback: %+v", decision)
	}
	run.mustFail(t, run.later(t, time.Minute), model.ActionRollback)
	if record := run.record(t, 4); record.RollbackFailures != 1 || record.Failures != 1 {
		t.Errorf("record of the second rollback: %+v", record)
	}
	if decision := run.later(t, time.Hour); decision.Action != model.ActionStall ||
		decision.Reason != decide.ReasonRollbackFailed {
		t.Errorf("after two failed rollbacks: %+v", decision)
	}
	run.options.Rollback.DisableHooks = true
	run.past.RetryRequested = true
	run.mustAct(t, run.later(t, 0), model.ActionRollback)
	run.past.RetryRequested = false
	if decision := run.later(t, 0); decision.State != model.StateRolledBack || decision.Failures != 1 {
		t.Errorf("after the rollback: %+v", decision)
	}
	b.wantConfigMap("first", "1")
}

// TestIntegrationUnhealthyRollbackSkipsFailedRevisions checks that the rollback of an unhealthy revision skips failed
// revisions, although Helm would mark them as superseded.
func TestIntegrationUnhealthyRollbackSkipsFailedRevisions(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.policy = helmtest.WithRollback
	run.mustSettle(t)
	run.want("a2", brokenChart("2.0.0"))
	run.mustFail(t, run.later(t, 0), model.ActionUpgrade)
	run.want("a3", helmtest.NewChart("3.0.0",
		map[string]string{"value.yaml": helmtest.ValueConfigMap, "second.yaml": helmtest.ConfigMap("second", "1")}))
	run.mustSettle(t)
	b.wantRecords(run.desired, "3 deployed", "2 failed", "1 superseded")
	run.past.Unhealthy = true
	decision := run.later(t, 0)
	if decision.RollbackTo != 1 {
		t.Errorf("decided %+v", decision)
	}
	run.mustAct(t, decision, model.ActionRollback)
	b.wantConfigMap("first", "1")
	b.wantNoConfigMap("second")
	run.past = model.Past{}
	if decision := run.later(t, 0); decision.State != model.StateRolledBack || decision.Failures != 1 {
		t.Errorf("after the rollback: %+v", decision)
	}
}

// TestIntegrationRemediateUninstall checks that each failed installation is uninstalled before a retry. The last failed
// installation is kept.
func TestIntegrationRemediateUninstall(t *testing.T) {
	b := newBench(t)
	run := b.newRun(brokenChart("1.0.0"), map[string]any{"cidr": "1"})
	run.policy = helmtest.WithUninstall
	run.mustFail(t, run.later(t, 0), model.ActionInstall)
	b.wantConfigMap("demo-value", "1")
	decision := run.later(t, 0)
	run.mustAct(t, decision, model.ActionUninstall)
	b.wantRecords(run.desired)
	b.wantNoConfigMap("demo-value")
	run.past = model.Past{Failures: decision.Failures, FailedAt: time.Now()}
	if decision := run.later(t, 0); decision.Action != model.ActionWait {
		t.Errorf("after the uninstall: %+v", decision)
	}
	run.mustFail(t, run.later(t, time.Minute), model.ActionInstall)
	run.past = model.Past{}
	if decision := run.later(t, time.Minute); decision.Action != model.ActionStall || decision.Failures != 2 {
		t.Errorf("after the second failure: %+v", decision)
	}
	b.wantConfigMap("demo-value", "1")

	// A person repairs the release between a decision and its action.
	run.policy.Install.Retries = helmtest.Retries(5)
	stale := run.later(t, time.Hour)
	b.humanUpgrade("demo", helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()))
	if _, err := run.act(t.Context(), stale); stale.Action != model.ActionUninstall || !errors.Is(err, helmerr.ErrStale) {
		t.Errorf("%+v: %v", stale, err)
	}
	b.wantConfigMap("first", "1")
}

func TestIntegrationTests(t *testing.T) {
	b := newBench(t)
	templates := map[string]string{
		"value.yaml": helmtest.ValueConfigMap,
		"good.yaml":  hook("ConfigMap", "good", "test", "data: {key: ran}\n"),
		"gone.yaml": strings.Replace(hook("ConfigMap", "gone", "test", ""), "annotations: {",
			"annotations: {\"helm.sh/hook-delete-policy\": \"before-hook-creation,hook-succeeded\", ", 1),
		"bad.yaml":    hookService("zbad", "test"),
		"delete.yaml": hook("ConfigMap", "delete-hook", "post-delete", "data: {key: ran}\n"),
	}
	run := b.newRun(helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "1"})
	run.policy = model.Policy{Test: model.TestPolicy{Enabled: true},
		Install: model.FailurePolicy{Retries: helmtest.Retries(1)}}
	run.mustAct(t, run.later(t, 0), model.ActionInstall)

	decision := run.later(t, 0)
	result, err := run.act(t.Context(), decision)
	if decision.State != model.StateUntested || err == nil || !result.StorageChanged {
		t.Fatalf("%+v: %+v, %v", decision, result, err)
	}
	phases := map[string]string{}
	for _, test := range result.Tests {
		phases[test.Name] = test.Phase
		if test.StartedAt.IsZero() || test.CompletedAt.Before(test.StartedAt) {
			t.Errorf("times of %+v", test)
		}
	}
	if len(phases) != 3 || phases["good"] != "Succeeded" || phases["zbad"] != "Failed" {
		t.Errorf("phases %v", phases)
	}
	if record := run.record(t, 1); record.Tested != model.TestedFailed || record.Failures != 1 ||
		record.Status != "deployed" || !record.MadeFrom(run.desired) {
		t.Errorf("record %+v", record)
	}
	if decision := run.later(t, 0); decision.State != model.StateFailed || decision.Action != model.ActionWait {
		t.Errorf("after the first failure: %+v", decision)
	}
	run.mustFail(t, run.later(t, time.Minute), model.ActionTest)
	if decision := run.later(t, time.Hour); decision.Action != model.ActionStall || decision.Failures != 2 {
		t.Errorf("after the second failure: %+v", decision)
	}

	run.options.Test.Except = []string{"zbad"}
	run.past.RetryRequested = true
	if result := run.mustAct(t, run.later(t, 0), model.ActionTest); len(result.Tests) != 2 || result.Revision != 1 {
		t.Errorf("result %+v", result)
	}
	run.past.RetryRequested = false
	b.wantNoConfigMap("gone")
	if record := run.record(t, 1); record.Tested != model.TestedPassed {
		t.Errorf("record %+v", record)
	}
	if decision := run.later(t, 0); decision.Action != model.ActionNone || decision.State != model.StateInSync {
		t.Errorf("after the tests: %+v", decision)
	}

	run.options.Test = model.TestOptions{Only: []string{"good"}}
	result, err = run.act(t.Context(), decide.Decision{Action: model.ActionTest, FromRevision: 1})
	if err != nil || len(result.Tests) != 1 || result.Tests[0].Name != "good" {
		t.Errorf("one test only: %+v, %v", result, err)
	}
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The selection of tests removed no hook from the record.
	b.wantConfigMap("delete-hook", "ran")
}

func TestIntegrationTestsOfChartWithoutTests(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	// A revision that was created before tests were enabled is tested, too.
	run.policy.Test.Enabled = true
	if result := run.mustAct(t, run.later(t, 0), model.ActionTest); len(result.Tests) != 0 {
		t.Errorf("result %+v", result)
	}
	if record := run.record(t, 1); record.Tested != model.TestedPassed {
		t.Errorf("record %+v", record)
	}
	_, err := run.act(t.Context(), decide.Decision{Action: model.ActionTest, FromRevision: 9})
	helmtest.WantError(t, err, helmerr.ErrStale, false)
	// The next revision does not inherit the result.
	run.want("a2", helmtest.NewChart("2.0.0", helmtest.TwoConfigMaps()))
	run.mustAct(t, run.later(t, 0), model.ActionUpgrade)
	if decision := run.later(t, 0); decision.State != model.StateUntested {
		t.Errorf("after an upgrade: %+v", decision)
	}
}

const allValues = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: values\ndata:\n  key: {{ pick .Values " +
	"\"new\" \"old\" \"given\" \"wanted\" | toJson | quote }}\n"

// TestIntegrationValuesPolicies checks how upgrades use the values of the previous revision.
func TestIntegrationValuesPolicies(t *testing.T) {
	schema := `{"required":["given"],"properties":{"wanted":{"type":"string"}}}`
	for name, test := range map[string]struct {
		policy model.ValuesPolicy
		values map[string]any
		want   map[string]any
	}{
		"reset": {model.ValuesReset, map[string]any{"given": "2", "wanted": "w"},
			map[string]any{"new": "new", "old": "new", "given": "2", "wanted": "w"}},
		"reuse": {model.ValuesReuse, map[string]any{"wanted": "w"},
			map[string]any{"new": "new", "old": "old", "given": "1", "wanted": "w"}},
		"reset-reuse": {model.ValuesResetThenReuse, map[string]any{"wanted": "w"},
			map[string]any{"new": "new", "old": "new", "given": "1", "wanted": "w"}},
		"null": {model.ValuesReuse, map[string]any{"wanted": "w", "old": nil},
			map[string]any{"new": "new", "given": "1", "wanted": "w"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			before := helmtest.NewChart("1.0.0", map[string]string{"values.yaml": allValues})
			before.Values = map[string]any{"old": "old", "given": "default"}
			run := b.newRun(before, map[string]any{"given": "1"})
			run.mustSettle(t)
			after := helmtest.NewChart("2.0.0", map[string]string{"values.yaml": allValues})
			after.Values = map[string]any{"old": "new", "new": "new"}
			after.Schema = []byte(schema)
			run.want("a2", after)
			run.values, run.options.Upgrade.Values = test.values, test.policy
			run.mustSettle(t)
			text, _ := b.configMapValue("values")
			got := map[string]any{}
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("values %v, want %v", got, test.want)
			}
			// The schema applies to the merged values.
			run.want("a3", after)
			run.values = map[string]any{"given": "3", "wanted": 5}
			_, err := run.actNow(t, model.ActionUpgrade)
			helmtest.WantError(t, err, helmerr.ErrInvalidValues, false, "wanted")
			run.options.Upgrade.DisableSchemaValidation = true
			run.mustSettle(t)
		})
	}
}

// TestIntegrationManifest checks that the objects of a manifest have their namespaces, that a manifest that Act applied
// with KeepManifest needs no request, and that another one is read from the record. A manifest that was read is kept
// only on request.
func TestIntegrationManifest(t *testing.T) {
	b := newBench(t)
	templates := helmtest.TwoConfigMaps()
	templates["role.yaml"] = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: {{ " +
		".Release.Namespace }}\nrules: []\n"
	templates["list.yaml"] = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: " +
		"listed}}\n"
	templates["hook.yaml"] = hook("ConfigMap", "hook", "pre-install", "")
	run := b.newRun(helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "1"})
	run.options.KeepManifest = true
	result := run.mustAct(t, run.later(t, 0), model.ActionInstall)
	want := []string{"ClusterRole " + b.namespace, "ConfigMap " + b.namespace + "/demo-value",
		"ConfigMap " + b.namespace + "/first", "ConfigMap " + b.namespace + "/listed"}
	var refs []string
	for _, ref := range result.Objects {
		refs = append(refs, ref.String())
	}
	slices.Sort(refs)
	if !slices.Equal(refs, want) {
		t.Errorf("objects %v, want %v", refs, want)
	}
	manifest := func(revision int) []string {
		t.Helper()
		objects, err := manifestOf(t.Context(), b.client, b.target, b.namespace, "demo", revision)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, object := range objects {
			ref := inventory.Ref{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
			names = append(names, ref.String())
		}
		slices.Sort(names)
		return names
	}
	b.cutter.Take()
	if got := manifest(1); !slices.Equal(got, want) {
		t.Errorf("manifest %v, want %v", got, want)
	}
	if requests := b.cutter.Take(); len(requests) != 0 {
		t.Errorf("a manifest in memory takes %v", requests)
	}
	b.reconnect(-1)
	if got := manifest(1); !slices.Equal(got, want) {
		t.Errorf("manifest read %v, want %v", got, want)
	}
	b.cutter.Take()
	manifest(1)
	if requests := b.cutter.Take(); len(requests) != 0 {
		t.Errorf("a manifest in memory takes %v", requests)
	}
	_, err := manifestOf(t.Context(), b.client, b.target, b.namespace, "demo", 2)
	helmtest.WantError(t, err, helmerr.ErrStale, false)
	run.options.KeepManifest = false
	run.want("a2", helmtest.NewChart("2.0.0", templates))
	run.mustAct(t, run.later(t, 0), model.ActionUpgrade)
	b.cutter.Take()
	for range 2 {
		err := b.client.Manifest(t.Context(), b.target, b.namespace, "demo", 2, false,
			func([]*unstructured.Unstructured) {})
		if requests := b.cutter.Take(); err != nil || len(requests) != 1 {
			t.Errorf("a manifest that is not kept takes %v: %v", requests, err)
		}
	}
	if got := manifest(2); !slices.Equal(got, want) {
		t.Errorf("manifest %v, want %v", got, want)
	}
}

func TestIntegrationPropagation(t *testing.T) {
	b := newBench(t)
	templates := map[string]string{"value.yaml": helmtest.ValueConfigMap, "owner.yaml": helmtest.ConfigMap("owner", "1")}
	run := b.newRun(helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	run.options.Uninstall.Propagation = "Foreground"
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	object, err := b.kube.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), "owner", metav1.GetOptions{})
	if err != nil || !slices.Contains(object.Finalizers, metav1.FinalizerDeleteDependents) {
		t.Errorf("%v, %v", object.Finalizers, err)
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// restart replaces the process. The connection of the new process breaks after a number of requests.
func (b *bench) restart(run *releaseRun, after int) {
	b.reconnect(after)
	run.client, run.target = b.client, b.target
}

// history returns the statuses of all revisions, newest first.
func (b *bench) history(desired model.Desired) []string {
	b.t.Helper()
	var records []string
	for _, record := range b.observe(desired).Records {
		records = append(records, fmt.Sprintf("%d %s", record.Revision, record.Status))
	}
	return records
}

// cutRecovery repeats an interrupted action, and interrupts it after each request until the new record exists.
func (b *bench) cutRecovery(run *releaseRun, want model.Action, history ...string) {
	b.t.Helper()
	for after := 0; ; after++ {
		b.restart(run, -1)
		decision := run.later(b.t, time.Hour)
		if decision.Action != want || decision.Recovery != decide.RecoverReplace || decision.Interruptions != 1 {
			b.t.Fatalf("before request %d: %+v", after, decision)
		}
		b.restart(run, after)
		result, err := run.act(b.t.Context(), decision)
		requests := b.cutter.Take()
		b.restart(run, -1)
		if got := b.history(run.desired); !slices.Equal(got, history) {
			b.t.Fatalf("cut at request %d: history %v (%v)\n%s", after, got, err, strings.Join(requests, "\n"))
		}
		wrote := slices.ContainsFunc(requests[:min(after, len(requests))],
			func(request string) bool { return strings.HasPrefix(request, http.MethodPut) })
		if wrote != result.StorageChanged || err == nil {
			b.t.Fatalf("cut at request %d: %+v, %v\n%s", after, result, err, strings.Join(requests, "\n"))
		}
		if wrote {
			return
		}
	}
}

// cutAtRecord interrupts an action as soon as its record exists.
func (b *bench) cutAtRecord(run *releaseRun, decision decide.Decision) {
	b.t.Helper()
	b.restart(run, -1)
	b.cutter.Last = func(req *http.Request) bool {
		return req.Method != http.MethodGet && strings.Contains(req.URL.Path, "/secrets")
	}
	if result, err := run.act(b.t.Context(), decision); err == nil || !result.StorageChanged {
		b.t.Fatalf("%+v was not cut: %+v, %v", decision, result, err)
	}
	b.restart(run, -1)
}

// TestIntegrationInterruptedUpgradeIsReverted checks that an interrupted upgrade stays in the history during all later
// attempts. A return to the previous state then reverts the upgrade.
func TestIntegrationInterruptedUpgradeIsReverted(t *testing.T) {
	b := newBench(t)
	first := helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
	run := b.newRun(first, map[string]any{"cidr": "1"})
	run.mustSettle(t)
	before := run.desired
	run.want("a2", helmtest.NewChart("2.0.0",
		map[string]string{"value.yaml": helmtest.ValueConfigMap, "new.yaml": helmtest.ConfigMap("new", "2")}))
	b.cutPending(model.ActionUpgrade, run.desired, run.chart, map[string]any{"cidr": "2"})
	b.cutRecovery(run, model.ActionRecoverThenUpgrade, "2 pending-upgrade", "1 deployed")
	if record := run.record(t, 2); record.Interruptions != 1 {
		t.Errorf("record %+v", record)
	}

	run.desired, run.chart = before, first
	run.mustSettle(t)
	b.wantConfigMap("demo-value", "1")
	b.wantNoConfigMap("new")
	b.wantRecords(run.desired, "3 deployed", "2 failed", "1 superseded")
}

// TestIntegrationInterruptedInstallIsUninstalled checks that an uninstallation deletes the objects of an interrupted
// installation.
func TestIntegrationInterruptedInstallIsUninstalled(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}),
		map[string]any{"cidr": "1"})
	b.cutPending(model.ActionInstall, run.desired, run.chart, run.values)
	b.cutRecovery(run, model.ActionRecoverThenInstall, "1 pending-install")
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantNoConfigMap("demo-value")
	b.wantRecords(run.desired)
}

// TestIntegrationRepeatedInterruptionsEnd checks that an upgrade is not repeated forever if each attempt is
// interrupted.
func TestIntegrationRepeatedInterruptionsEnd(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	run.want("a2", helmtest.NewChart("2.0.0",
		map[string]string{"first.yaml": helmtest.ConfigMap("first", "2"), "second.yaml": helmtest.ConfigMap("second", "2")}))
	run.policy = helmtest.RetryOnce
	// The process ends each time before it can save the attempt.
	run.past.RetryRequested, run.past.Request = true, "1"
	for try := range 4 {
		decision := run.later(t, 0)
		if try == 3 {
			if decision.Action != model.ActionWait || decision.Reason != decide.ReasonBackoff {
				t.Errorf("after three tries: %+v", decision)
			}
			decision = run.later(t, time.Minute)
		}
		if decision.Interruptions != try || decision.Failures != 0 {
			t.Fatalf("try %d: %+v", try, decision)
		}
		b.cutAtRecord(run, decision)
	}
	b.wantRecords(run.desired, "2 pending-upgrade", "1 deployed")
	if decision := run.later(t, time.Hour); decision.Action != model.ActionStall || decision.Interruptions != 4 {
		t.Errorf("after four tries: %+v", decision)
	}
	run.past.Request = "2"
	run.mustSettle(t)
	b.wantRecords(run.desired, "2 deployed", "1 superseded")
	if record := run.record(t, 2); record.Request != "2" || record.Interruptions != 0 {
		t.Errorf("record of a try that was asked for: %+v", record)
	}
}

// TestIntegrationKeptHistoryIsNoRollbackTarget checks that a rollback does not return to an uninstalled revision. It
// also checks that an installation over a kept history uses the policy for installations.
func TestIntegrationKeptHistoryIsNoRollbackTarget(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", map[string]string{"old.yaml": helmtest.ConfigMap("old", "1")}),
		map[string]any{"cidr": "1"})
	run.mustSettle(t)
	run.options.Uninstall.KeepHistory = true
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	run.policy = model.Policy{Install: model.FailurePolicy{Remediate: model.RemediateUninstall},
		Upgrade: model.FailurePolicy{Remediate: model.RemediateRollback}}
	run.want("a2", brokenChart("2.0.0"))
	run.mustFail(t, run.later(t, 0), model.ActionInstall)
	b.wantRecords(run.desired, "2 failed", "1 uninstalled")
	run.mustAct(t, run.later(t, 0), model.ActionUninstall)
	b.wantRecords(run.desired, "2 uninstalled", "1 uninstalled")
	b.wantNoConfigMap("demo-value")

	run.want("a3", helmtest.NewChart("3.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
	b.cutAtRecord(run, run.later(t, 0))
	b.wantRecords(run.desired, "3 pending-install", "2 uninstalled", "1 uninstalled")
	run.mustAct(t, run.later(t, 0), model.ActionRecoverThenInstall)
	b.wantRecords(run.desired, "3 deployed", "2 uninstalled", "1 uninstalled")
	b.wantNoConfigMap("old")
}

// TestIntegrationFailedInstallKeepsAdoptedObject checks that objects that existed before a failed installation survive
// its remediation.
func TestIntegrationFailedInstallKeepsAdoptedObject(t *testing.T) {
	b := newBench(t)
	b.createNamespace()
	adopted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "adopted"}, Data: map[string]string{"key": "works"}}
	if _, err := b.kube.CoreV1().ConfigMaps(b.namespace).Create(t.Context(), adopted, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	templates := map[string]string{"adopted.yaml": helmtest.ConfigMap("adopted", "new"),
		"hook.yaml": hookService("refused", "post-install,post-upgrade")}
	run := b.newRun(helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "1"})
	run.policy = helmtest.WithUninstall
	run.policy.TakeOwnership, run.options.Install.TakeOwnership, run.options.Upgrade.TakeOwnership = true, true, true
	run.mustFail(t, run.later(t, 0), model.ActionInstall)
	decision := run.later(t, time.Minute)
	if !strings.Contains(decision.Message, "takes ownership") {
		t.Errorf("message %q", decision.Message)
	}
	run.mustFail(t, decision, model.ActionUpgrade)
	b.wantConfigMap("adopted", "new")
}

// TestIntegrationFailedInstallKeepsSurvivors has a release whose records were lost, for example together with its
// namespace. If the next installation finds objects of the release and fails, its remediation does not delete them.
func TestIntegrationFailedInstallKeepsSurvivors(t *testing.T) {
	for name, tc := range map[string]struct {
		// isKept means that the manifest of the surviving object has the keep policy.
		isKept bool
		// hook has the times at which a hook fails.
		hook string
		want model.Action
	}{
		"objects":                         {hook: "post-install,post-upgrade", want: model.ActionUpgrade},
		"only kept objects":               {isKept: true, hook: "post-install", want: model.ActionUninstall},
		"objects that Helm did not reach": {hook: "pre-install,pre-upgrade", want: model.ActionUpgrade},
		"only kept objects that Helm did not reach": {isKept: true, hook: "pre-install",
			want: model.ActionUninstall},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			crd := helmtest.CrdOf(b.namespace+".test", "v1")
			if tc.isKept {
				crd = strings.Replace(crd, "{by: chart}", "{helm.sh/resource-policy: keep}", 1)
			}
			templates := map[string]string{"crd.yaml": crd, "value.yaml": helmtest.ValueConfigMap}
			run := b.newRun(helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "1"})
			run.policy = helmtest.WithUninstall
			run.mustSettle(t)
			name := "widgets." + b.namespace + ".test"
			before := b.crdUID(name)
			if err := b.kube.CoreV1().Secrets(b.namespace).Delete(t.Context(), records.NameOf("demo", 1),
				metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := b.kube.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), "demo-value",
				metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			templates["hook.yaml"] = hookService("refused", tc.hook)
			run.want("a2", helmtest.NewChart("2.0.0", templates))
			run.mustFail(t, run.later(t, 0), model.ActionInstall)
			decision := run.later(t, time.Minute)
			if decision.Action != tc.want {
				t.Fatalf("decided %+v, want %s", decision, tc.want)
			}
			// The upgrade fails, too.
			if _, err := run.act(t.Context(), decision); (err != nil) != (tc.want == model.ActionUpgrade) {
				t.Errorf("%s: %v", decision.Action, err)
			}
			if after := b.crdUID(name); after != before {
				t.Errorf("the CRD has UID %q, want %q", after, before)
			}
		})
	}
}

// crdUID returns the UID of a CRD that is not being deleted; empty if there is none.
func (b *bench) crdUID(name string) types.UID {
	b.t.Helper()
	client, err := apiextensionsclient.NewForConfig(sharedServer.Server(b.t).RESTConfig())
	if err != nil {
		b.t.Fatal(err)
	}
	crd, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(b.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || crd != nil && !crd.DeletionTimestamp.IsZero() {
		return ""
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return crd.UID
}

// TestIntegrationRollbackSkipsUnhealthyRevision checks that a rollback does not return to an unhealthy revision that
// was itself rolled back. This revision is the newest that was deployed.
func TestIntegrationRollbackSkipsUnhealthyRevision(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0",
		map[string]string{"a.yaml": helmtest.ConfigMap("aa", "good"), "hook.yaml": hookService("refused", "pre-rollback")}),
		map[string]any{"cidr": "1"})
	run.mustSettle(t)
	run.want("a2", helmtest.NewChart("2.0.0", map[string]string{"a.yaml": helmtest.ConfigMap("aa", "unhealthy")}))
	run.mustSettle(t)
	run.policy = model.Policy{Upgrade: model.FailurePolicy{Remediate: model.RemediateRollback}}
	run.past = model.Past{Unhealthy: true, Failures: 1}
	run.mustFail(t, run.later(t, 0), model.ActionRollback)
	run.past = model.Past{}
	run.want("a3", brokenChart("3.0.0"))
	run.mustFail(t, run.later(t, 0), model.ActionUpgrade)
	if decision := run.later(t, 0); decision.Action != model.ActionRollback || decision.RollbackTo != 1 {
		t.Errorf("history %v: %+v", b.history(run.desired), decision)
	}
}

// TestIntegrationTestResultDoesNotOverwriteChanges checks that the result of tests does not overwrite changes that
// another process made while the tests ran.
func TestIntegrationTestResultDoesNotOverwriteChanges(t *testing.T) {
	next := helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
	for name, test := range map[string]struct {
		meanwhile func(*bench)
		history   []string
	}{
		"upgraded": {func(b *bench) { b.humanUpgrade("demo", next) }, []string{"2 deployed", "1 superseded"}},
		"upgrade begun": {func(b *bench) {
			releases := b.human().Releases
			last, err := releases.Last("demo")
			if err != nil {
				b.t.Fatal(err)
			}
			last.Version, last.Info.Status, last.Labels = 2, release.StatusPendingUpgrade, nil
			if err := releases.Create(last); err != nil {
				b.t.Fatal(err)
			}
		}, []string{"2 pending-upgrade", "1 deployed"}},
		"uninstalled": {func(b *bench) {
			if _, err := action.NewUninstall(b.human()).Run("demo"); err != nil {
				b.t.Fatal(err)
			}
		}, nil},
		"re-created": {func(b *bench) {
			if _, err := action.NewUninstall(b.human()).Run("demo"); err != nil {
				b.t.Fatal(err)
			}
			b.humanInstall("demo", next)
		}, []string{"1 deployed"}},
	} {
		for _, passes := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%t", name, passes), func(t *testing.T) {
				b := newBench(t)
				run := b.newRun(testedChart("1.0.0", passes), map[string]any{"cidr": "1"})
				run.mustSettle(t)
				done := false
				run.options.Progress = func(string) {
					if !done {
						done = true
						test.meanwhile(b)
					}
				}
				result, err := run.act(t.Context(), decide.Decision{Action: model.ActionTest, FromRevision: 1})
				if !done || !errors.Is(err, helmerr.ErrStale) || result.StorageChanged {
					t.Errorf("%+v, %v", result, err)
				}
				b.wantRecords(run.desired, test.history...)
				for _, record := range b.observe(run.desired).Records {
					if record.Tested != "" {
						t.Errorf("record %+v", record)
					}
				}
			})
		}
	}
}

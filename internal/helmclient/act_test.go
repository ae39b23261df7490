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
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/client-go/kubernetes/fake"
)

// faultyDriver fails the n-th write of a kind, counted from 1.
type faultyDriver struct {
	driver.Driver
	failCreate, failUpdate int
	creates, updates       int
}

func (d *faultyDriver) Create(key string, rls *release.Release) error {
	if d.creates++; d.creates == d.failCreate {
		return errCut
	}
	return d.Driver.Create(key, rls)
}

func (d *faultyDriver) Update(key string, rls *release.Release) error {
	if d.updates++; d.updates == d.failUpdate {
		return errCut
	}
	return d.Driver.Update(key, rls)
}

// fakeCluster is a Client whose only cluster has no objects but records.
type fakeCluster struct {
	*Client
	driver *faultyDriver
	kube   *kubefake.FailingKubeClient
}

func newFakeCluster() *fakeCluster {
	secrets := driver.NewSecrets(fake.NewClientset().CoreV1().Secrets("apps"))
	c := &fakeCluster{
		Client: New(testRunner),
		driver: &faultyDriver{Driver: secrets},
		kube:   &kubefake.FailingKubeClient{PrintingKubeClient: kubefake.PrintingKubeClient{Out: io.Discard}},
	}
	c.open = func(_ context.Context, _ Target, desired Desired, logs *logBuffer) (*session, error) {
		s := newSession(c.driver, c.kube, desired, logs)
		s.config.Capabilities = chartutil.DefaultCapabilities.Copy()
		return s, nil
	}
	return c
}

// act carries the action out, with a hook that fails on request.
func (c *fakeCluster) act(t *testing.T, decision Decision) (Result, error) {
	t.Helper()
	chrt := newChart("1.0.0", map[string]string{"value.yaml": valueConfigMap})
	return c.Act(t.Context(), Target{}, decision, desiredFor("apps", "demo", "a1", "v1"), Options{}, chrt, map[string]any{"cidr": "1"})
}

func (c *fakeCluster) history(t *testing.T) string {
	t.Helper()
	releases, err := c.driver.Query(map[string]string{"name": "demo", "owner": "helm"})
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, rls := range releases {
		words = append(words, rls.Info.Status.String())
	}
	return strings.Join(words, "/")
}

func TestActStorageFaults(t *testing.T) {
	t.Parallel()
	install, upgrade := Decision{Action: ActionInstall}, Decision{Action: ActionUpgrade}
	rollback := Decision{Action: ActionRollback, FromRevision: 2, RollbackTo: 1}
	tests := map[string]struct {
		before  []Decision
		fault   func(*fakeCluster)
		action  Decision
		kind    error
		changed bool
		history string
	}{
		"install, record not created":   {fault: func(c *fakeCluster) { c.driver.failCreate = 1 }, action: install, kind: ErrUnreachable},
		"install, success not recorded": {fault: func(c *fakeCluster) { c.driver.failUpdate = 1 }, action: install, kind: ErrUnreachable, changed: true, history: "pending-install"},
		"upgrade, record not created": {before: []Decision{install}, fault: func(c *fakeCluster) { c.driver.failCreate = 2 }, action: upgrade, kind: ErrUnreachable,
			history: "deployed"},
		"upgrade, failed": {before: []Decision{install}, fault: func(c *fakeCluster) { c.kube.UpdateError = errors.New("quota exceeded") }, action: upgrade,
			changed: true, history: "deployed/failed"},
		"upgrade, build fails": {before: []Decision{install}, fault: func(c *fakeCluster) { c.kube.BuildError = errors.New("no such kind") }, action: upgrade,
			history: "deployed"},
		"rollback, record not created": {before: []Decision{install, upgrade}, fault: func(c *fakeCluster) { c.driver.failCreate = 3 }, action: rollback, kind: ErrUnreachable,
			history: "superseded/deployed"},
		"rollback, failed": {before: []Decision{install, upgrade}, fault: func(c *fakeCluster) { c.kube.UpdateError = errors.New("quota exceeded") }, action: rollback,
			changed: true, history: "superseded/superseded/failed"},
		"rollback, not built": {before: []Decision{install, upgrade}, fault: func(c *fakeCluster) { c.kube.BuildError = errors.New("no such kind") }, action: rollback,
			changed: true, history: "superseded/deployed/failed"},
		"rollback to nothing": {before: []Decision{install, upgrade}, action: Decision{Action: ActionRollback, FromRevision: 2, RollbackTo: 7}, kind: ErrStale,
			history: "superseded/deployed"},
		"rollback, too late": {before: []Decision{install, upgrade, upgrade}, action: rollback, kind: ErrStale, history: "superseded/superseded/deployed"},
		"upgrade, too late":  {before: []Decision{install, upgrade}, action: Decision{Action: ActionUpgrade, FromRevision: 1}, kind: ErrStale, history: "superseded/deployed"},
		"tests, too late":    {before: []Decision{install, upgrade}, action: Decision{Action: ActionTest, FromRevision: 1}, kind: ErrStale, history: "superseded/deployed"},
		"tests, outcome not saved": {before: []Decision{install}, fault: func(c *fakeCluster) { c.driver.failUpdate = 2 }, action: Decision{Action: ActionTest, FromRevision: 1},
			kind: ErrUnreachable, history: "deployed"},
		"uninstall fails": {before: []Decision{install}, fault: func(c *fakeCluster) { c.kube.BuildError = errors.New("no such kind") }, action: Decision{Action: ActionUninstall},
			changed: true, history: "uninstalling"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFakeCluster()
			for _, decision := range test.before {
				if _, err := c.act(t, decision); err != nil {
					t.Fatal(err)
				}
			}
			if test.fault != nil {
				test.fault(c)
			}
			result, err := c.act(t, test.action)
			wantError(t, err, test.kind, test.changed)
			if result.StorageChanged != test.changed {
				t.Errorf("result %+v, want StorageChanged %t", result, test.changed)
			}
			if got := c.history(t); got != test.history {
				t.Errorf("history %q, want %q", got, test.history)
			}
		})
	}
}

func TestActVerbs(t *testing.T) {
	t.Parallel()
	c := newFakeCluster()
	for _, step := range []struct {
		action   Action
		revision int
		history  string
	}{
		{ActionInstall, 1, "deployed"},
		{ActionUpgrade, 2, "superseded/deployed"},
		{ActionUninstall, 0, ""},
		{ActionUninstall, 0, ""},
	} {
		result, err := c.act(t, Decision{Action: step.action})
		if err != nil || result.Revision != step.revision {
			t.Errorf("%s: %+v, %v", step.action, result, err)
		}
		if got := c.history(t); got != step.history {
			t.Errorf("%s: history %q, want %q", step.action, got, step.history)
		}
	}
}

func TestActWithoutAction(t *testing.T) {
	t.Parallel()
	c := newFakeCluster()
	for _, action := range []Action{ActionNone, ActionWait, ActionRefuse, ActionStall, ActionCorrectDrift, ""} {
		if result, err := c.act(t, Decision{Action: action}); err != nil || result.StorageChanged {
			t.Errorf("%q: %+v, %v", action, result, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Act(ctx, Target{}, Decision{Action: ActionUninstall}, Desired{Name: "demo"}, Options{}, nil, nil)
	wantError(t, err, nil, false, "not begun")
}

func TestActRefusesCharts(t *testing.T) {
	t.Parallel()
	valid := func() *chart.Chart { return newChart("1.0.0", nil) }
	with := func(change func(*chart.Chart)) *chart.Chart {
		chrt := valid()
		change(chrt)
		return chrt
	}
	tests := map[string]struct {
		chrt     *chart.Chart
		kind     error
		contains string
	}{
		"none":               {nil, ErrInvalidChart, "no chart"},
		"no metadata":        {&chart.Chart{}, ErrInvalidChart, "no chart"},
		"no version":         {with(func(c *chart.Chart) { c.Metadata.Version = "" }), ErrInvalidChart, "version"},
		"library":            {with(func(c *chart.Chart) { c.Metadata.Type = "library" }), ErrInvalidChart, `"library"`},
		"missing dependency": {with(func(c *chart.Chart) { c.Metadata.Dependencies = []*chart.Dependency{{Name: "sub"}} }), ErrInvalidChart, "sub"},
		"bad template":       {newChart("1.0.0", map[string]string{"a.yaml": "{{ .Values.a.b.c }}"}), ErrInvalidChart, "a.yaml"},
		"too new":            {with(func(c *chart.Chart) { c.Metadata.KubeVersion = ">=9.0.0" }), ErrInvalidChart, "kubeVersion"},
		"values":             {with(func(c *chart.Chart) { c.Schema = []byte(`{"required":["needed"]}`) }), ErrInvalidValues, "needed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFakeCluster()
			_, err := c.Act(t.Context(), Target{}, Decision{Action: ActionInstall}, desiredFor("apps", "demo", "a", "v"), Options{}, test.chrt, nil)
			wantError(t, err, test.kind, false, test.contains)
		})
	}
}

func TestOptionMapping(t *testing.T) {
	t.Parallel()
	no, zero := false, 0
	desired := desiredFor("apps", "demo", "a1", "v1")
	s := newSession(driver.NewMemory(), &kubefake.PrintingKubeClient{}, desired, &logBuffer{})

	install := s.newInstall(desired, InstallOptions{}, false)
	if install.CreateNamespace || !install.SkipCRDs || install.Timeout != DefaultTimeout || install.Wait || install.Atomic || install.Replace || install.EnableDNS {
		t.Errorf("defaults of an install: %+v", install.Timeout)
	}
	install = s.newInstall(desired, InstallOptions{Timeout: time.Second, DisableHooks: true, CreateNamespace: &no, CRDs: CRDsSkip,
		TakeOwnership: true, DisableOpenAPIValidation: true}, true)
	if install.CreateNamespace || install.Timeout != time.Second || !install.DisableHooks ||
		!install.TakeOwnership || !install.DisableOpenAPIValidation || !install.Replace {
		t.Error("options of an install are lost")
	}
	upgrade := s.newUpgrade(desired, UpgradeOptions{})
	if upgrade.MaxHistory != DefaultMaxHistory || upgrade.Timeout != DefaultTimeout || upgrade.Wait || upgrade.Atomic || !upgrade.ResetValues {
		t.Error("defaults of an upgrade")
	}
	upgrade = s.newUpgrade(desired, UpgradeOptions{Timeout: time.Second, DisableHooks: true, Force: true, MaxHistory: &zero,
		CleanupOnFail: true, TakeOwnership: true, DisableOpenAPIValidation: true})
	if upgrade.MaxHistory != 0 || upgrade.Timeout != time.Second || !upgrade.DisableHooks || !upgrade.Force ||
		!upgrade.CleanupOnFail || !upgrade.TakeOwnership || !upgrade.DisableOpenAPIValidation {
		t.Error("options of an upgrade are lost")
	}
	rollback := s.newRollback(Decision{RollbackTo: 3}, Options{})
	if rollback.Version != 3 || rollback.MaxHistory != DefaultMaxHistory || rollback.Timeout != DefaultTimeout || rollback.Wait || rollback.Recreate {
		t.Error("defaults of a rollback")
	}
	rollback = s.newRollback(Decision{RollbackTo: 3}, Options{Upgrade: UpgradeOptions{MaxHistory: &zero},
		Rollback: RollbackOptions{Timeout: time.Second, DisableHooks: true, Force: true, CleanupOnFail: true}})
	if rollback.MaxHistory != 0 || rollback.Timeout != time.Second || !rollback.DisableHooks || !rollback.Force || !rollback.CleanupOnFail {
		t.Error("options of a rollback are lost")
	}
	tests := s.newTest(desired, TestOptions{})
	if tests.Timeout != DefaultTimeout || tests.Namespace != "apps" || len(tests.Filters["name"])+len(tests.Filters["!name"]) > 0 {
		t.Error("defaults of tests")
	}
	tests = s.newTest(desired, TestOptions{Timeout: time.Second, Only: []string{"a"}, Except: []string{"b"}})
	if tests.Timeout != time.Second || tests.Filters["name"][0] != "a" || tests.Filters["!name"][0] != "b" {
		t.Error("options of tests are lost")
	}
	if s.newUninstall(UninstallOptions{}).DeletionPropagation != "background" || s.newUninstall(UninstallOptions{Propagation: "Orphan"}).DeletionPropagation != "orphan" {
		t.Error("the propagation of deletions is lost")
	}
	uninstall := s.newUninstall(UninstallOptions{DisableHooks: true, KeepHistory: true})
	if !uninstall.DisableHooks || !uninstall.KeepHistory || uninstall.Wait || uninstall.IgnoreNotFound || uninstall.Timeout != DefaultTimeout {
		t.Error("options of an uninstall are lost")
	}
}

var _ action.RESTClientGetter = (*getter)(nil)
var _ kube.Factory = (*getter)(nil)

// TestActHidesPreviousValues holds that the values of other revisions appear in no error either.
func TestActHidesPreviousValues(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-of-before"
	c := newFakeCluster()
	chrt := newChart("1.0.0", map[string]string{"value.yaml": valueConfigMap})
	desired := desiredFor("apps", "demo", "a1", "v1")
	given := map[string]any{"cidr": "1", "password": secret}
	if _, err := c.Act(t.Context(), Target{}, Decision{Action: ActionInstall}, desired, Options{}, chrt, given); err != nil {
		t.Fatal(err)
	}
	c.kube.UpdateError = errors.New("cannot patch with " + secret)
	for name, step := range map[string]struct {
		decision Decision
		options  Options
	}{
		"rollback":       {Decision{Action: ActionRollback, RollbackTo: 1}, Options{}},
		"reuse":          {Decision{Action: ActionUpgrade}, Options{Upgrade: UpgradeOptions{Values: ValuesReuse}}},
		"resetThenReuse": {Decision{Action: ActionUpgrade}, Options{Upgrade: UpgradeOptions{Values: ValuesResetThenReuse}}},
	} {
		_, err := c.Act(t.Context(), Target{}, step.decision, desired, step.options, chrt, map[string]any{"cidr": "2"})
		helmErr := asError(t, err)
		if text := helmErr.Error() + strings.Join(helmErr.Logs, " "); strings.Contains(text, secret) || !strings.Contains(text, redacted) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestActKeepsFailed holds that a failed revision is never called superseded: nothing would tell it from one that worked.
func TestActKeepsFailed(t *testing.T) {
	t.Parallel()
	c := newFakeCluster()
	c.driver.failUpdate = 1
	_, err := c.act(t, Decision{Action: ActionInstall})
	wantError(t, err, ErrUnreachable, true)
	if _, err := c.act(t, Decision{Action: ActionRecoverThenUpgrade, Recovery: RecoverFail, FromRevision: 1}); err != nil {
		t.Fatal(err)
	}
	if got, want := c.history(t), "failed/deployed"; got != want {
		t.Errorf("after an upgrade of a failed install: history %q, want %q", got, want)
	}
	c.kube.UpdateError = errors.New("quota exceeded")
	for _, decision := range []Decision{{Action: ActionUpgrade}, {Action: ActionRollback, FromRevision: 3, RollbackTo: 2}} {
		_, err := c.act(t, decision)
		wantError(t, err, nil, true)
	}
	if got, want := c.history(t), "failed/deployed/failed/failed"; got != want {
		t.Errorf("after a failed rollback: history %q, want %q", got, want)
	}
}

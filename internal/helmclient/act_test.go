// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/hostile"
)

// faultyDriver fails the n-th write of a kind; the first write is 1. Like [records.Store], it commits the memory of the
// session before a write.
type faultyDriver struct {
	driver.Driver
	failCreate, failUpdate int
	creates, updates       int
	session                *session.Session
}

func (d *faultyDriver) Create(key string, rls *release.Release) error {
	if err := d.session.Memory.Commit(); err != nil {
		return err
	}
	if d.creates++; d.creates == d.failCreate {
		return helmtest.ErrCut
	}
	return d.Driver.Create(key, rls)
}

func (d *faultyDriver) Update(key string, rls *release.Release) error {
	if err := d.session.Memory.Commit(); err != nil {
		return err
	}
	if d.updates++; d.updates == d.failUpdate {
		return helmtest.ErrCut
	}
	return d.Driver.Update(key, rls)
}

// fakeCluster is a Client whose only cluster has records and no other objects.
type fakeCluster struct {
	*Client
	driver  *faultyDriver
	kube    *kubefake.FailingKubeClient
	secrets typedcorev1.SecretInterface
	options model.Options
}

func newFakeCluster() *fakeCluster {
	secrets := fake.NewClientset().CoreV1().Secrets("apps")
	c := &fakeCluster{
		Client:  New(testRunner),
		driver:  &faultyDriver{Driver: driver.NewSecrets(secrets)},
		kube:    &kubefake.FailingKubeClient{PrintingKubeClient: kubefake.PrintingKubeClient{Out: io.Discard}},
		secrets: secrets,
	}
	c.open = func(ctx context.Context, _ model.Target, desired model.Desired, logs *helmerr.LogBuffer,
	) (*session.Session, error) {
		s := session.New(ctx, c.driver, c.kube, c.renderer, desired, logs)
		s.Config.Capabilities = chartutil.DefaultCapabilities.Copy()
		c.driver.session = s
		return s, nil
	}
	return c
}

// act carries out the action, with a hook that fails on request.
func (c *fakeCluster) act(t *testing.T, decision decide.Decision) (Result, error) {
	t.Helper()
	chrt := helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
	return c.Act(t.Context(), model.Target{}, decision, helmtest.DesiredFor("apps", "demo", "a1", "v1"), c.options,
		chrt, map[string]any{"cidr": "1"})
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
	install, upgrade := decide.Decision{Action: model.ActionInstall}, decide.Decision{Action: model.ActionUpgrade}
	rollback := decide.Decision{Action: model.ActionRollback, FromRevision: 2, RollbackTo: 1}
	tests := map[string]struct {
		before  []decide.Decision
		fault   func(*fakeCluster)
		action  decide.Decision
		kind    error
		changed bool
		history string
	}{
		"install, record not created": {fault: func(c *fakeCluster) { c.driver.failCreate = 1 }, action: install,
			kind: helmerr.ErrUnreachable},
		"install, success not recorded": {fault: func(c *fakeCluster) { c.driver.failUpdate = 1 }, action: install,
			kind: helmerr.ErrUnreachable, changed: true, history: "pending-install"},
		"upgrade, record not created": {before: []decide.Decision{install},
			fault: func(c *fakeCluster) { c.driver.failCreate = 2 }, action: upgrade, kind: helmerr.ErrUnreachable,
			history: "deployed"},
		"upgrade, failed": {before: []decide.Decision{install},
			fault: func(c *fakeCluster) { c.kube.UpdateError = errors.New("quota exceeded") }, action: upgrade,
			changed: true, history: "deployed/failed"},
		"upgrade, build fails": {before: []decide.Decision{install},
			fault: func(c *fakeCluster) { c.kube.BuildError = errors.New("no such kind") }, action: upgrade,
			history: "deployed"},
		"rollback, record not created": {before: []decide.Decision{install, upgrade},
			fault: func(c *fakeCluster) { c.driver.failCreate = 3 }, action: rollback, kind: helmerr.ErrUnreachable,
			history: "superseded/deployed"},
		"rollback, failed": {before: []decide.Decision{install, upgrade},
			fault: func(c *fakeCluster) { c.kube.UpdateError = errors.New("quota exceeded") }, action: rollback,
			changed: true, history: "superseded/superseded/failed"},
		"rollback, not built": {before: []decide.Decision{install, upgrade},
			fault: func(c *fakeCluster) { c.kube.BuildError = errors.New("no such kind") }, action: rollback,
			changed: true, history: "superseded/deployed/failed"},
		"rollback to nothing": {before: []decide.Decision{install, upgrade},
			action: decide.Decision{Action: model.ActionRollback, FromRevision: 2, RollbackTo: 7}, kind: helmerr.ErrStale,
			history: "superseded/deployed"},
		"rollback, too late": {before: []decide.Decision{install, upgrade, upgrade}, action: rollback, kind: helmerr.ErrStale,
			history: "superseded/superseded/deployed"},
		"upgrade, too late": {before: []decide.Decision{install, upgrade},
			action: decide.Decision{Action: model.ActionUpgrade, FromRevision: 1}, kind: helmerr.ErrStale,
			history: "superseded/deployed"},
		"tests, too late": {before: []decide.Decision{install, upgrade},
			action: decide.Decision{Action: model.ActionTest, FromRevision: 1}, kind: helmerr.ErrStale,
			history: "superseded/deployed"},
		"tests, outcome not saved": {before: []decide.Decision{install},
			fault:  func(c *fakeCluster) { c.driver.failUpdate = 2 },
			action: decide.Decision{Action: model.ActionTest, FromRevision: 1},
			kind:   helmerr.ErrUnreachable, history: "deployed"},
		"uninstall with history, success not recorded": {before: []decide.Decision{install},
			// The first updates are the end of the installation, and the mark that the uninstallation has begun.
			fault:  func(c *fakeCluster) { c.options.Uninstall.KeepHistory, c.driver.failUpdate = true, 3 },
			action: decide.Decision{Action: model.ActionUninstall},
			kind:   helmerr.ErrUnreachable, changed: true, history: "uninstalling"},
		"uninstall fails": {before: []decide.Decision{install},
			fault:   func(c *fakeCluster) { c.kube.BuildError = errors.New("no such kind") },
			action:  decide.Decision{Action: model.ActionUninstall},
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
			helmtest.WantError(t, err, test.kind, test.changed)
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
		action   model.Action
		revision int
		history  string
	}{
		{model.ActionInstall, 1, "deployed"},
		{model.ActionUpgrade, 2, "superseded/deployed"},
		{model.ActionUninstall, 0, ""},
		{model.ActionUninstall, 0, ""},
	} {
		result, err := c.act(t, decide.Decision{Action: step.action})
		if err != nil || result.Revision != step.revision {
			t.Errorf("%s: %+v, %v", step.action, result, err)
		}
		if got := c.history(t); got != step.history {
			t.Errorf("%s: history %q, want %q", step.action, got, step.history)
		}
	}
}

// TestDryRunsUseTheSameSessions expects that dry runs open their sessions as actions do, also if a test replaces open.
func TestDryRunsUseTheSameSessions(t *testing.T) {
	t.Parallel()
	c := New(testRunner)
	errReplaced := errors.New("the replaced open")
	c.open = func(context.Context, model.Target, model.Desired, *helmerr.LogBuffer) (*session.Session, error) {
		return nil, errReplaced
	}
	if _, err := c.Present(t.Context(), model.Target{}, "apps", "demo", nil); err == nil ||
		!strings.Contains(err.Error(), errReplaced.Error()) {
		t.Errorf("got %v", err)
	}
}

// TestPresentHoldsMemory checks that the memory for the objects of a release is reserved while they are used, and only
// then. Without a release, there is nothing to use.
func TestPresentHoldsMemory(t *testing.T) {
	t.Parallel()
	c := newFakeCluster()
	budget := c.connections.Shared.Actions
	var uses []string
	use := func(objects, hooks []*unstructured.Unstructured) {
		uses = append(uses, fmt.Sprint(len(objects), len(hooks), budget.Used() >= 1<<20))
	}
	present, err := c.Present(t.Context(), model.Target{}, "apps", "demo", use)
	if err != nil || len(uses) != 0 {
		t.Errorf("without a release: %+v, %v", present, err)
	}
	chrt := helmtest.NewChart("1.0.0", map[string]string{
		"large.yaml": helmtest.ConfigMap("large", strings.Repeat("x", 1<<20))})
	if _, err := c.Act(t.Context(), model.Target{}, decide.Decision{Action: model.ActionInstall},
		helmtest.DesiredFor("apps", "demo", "a1", "v1"), model.Options{}, chrt, nil); err != nil {
		t.Fatal(err)
	}
	present, err = c.Present(t.Context(), model.Target{}, "apps", "demo", use)
	if err != nil || present.Revision != 1 || !slices.Equal(uses, []string{"1 0 true"}) ||
		budget.Used() != 0 {
		t.Errorf("%+v, used %q, %d bytes are left: %v", present, uses, budget.Used(), err)
	}
}

func TestActWithoutAction(t *testing.T) {
	t.Parallel()
	c := newFakeCluster()
	for _, action := range []model.Action{model.ActionNone, model.ActionWait, model.ActionRefuse, model.ActionStall,
		model.ActionCorrectDrift, ""} {
		if result, err := c.act(t, decide.Decision{Action: action}); err != nil || result.StorageChanged {
			t.Errorf("%q: %+v, %v", action, result, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Act(ctx, model.Target{}, decide.Decision{Action: model.ActionUninstall}, model.Desired{Name: "demo"},
		model.Options{}, nil, nil)
	helmtest.WantError(t, err, nil, false, "nothing was changed")
}

func TestActRefusesCharts(t *testing.T) {
	t.Parallel()
	valid := func() *chart.Chart { return helmtest.NewChart("1.0.0", nil) }
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
		"none":        {nil, helmerr.ErrInvalidChart, "the chart is missing"},
		"no metadata": {&chart.Chart{}, helmerr.ErrInvalidChart, "the chart is missing"},
		"no version":  {with(func(c *chart.Chart) { c.Metadata.Version = "" }), helmerr.ErrInvalidChart, "version"},
		"library": {with(func(c *chart.Chart) { c.Metadata.Type = "library" }), helmerr.ErrInvalidChart,
			`"library"`},
		"missing dependency": {with(func(c *chart.Chart) { c.Metadata.Dependencies = []*chart.Dependency{{Name: "sub"}} }),
			helmerr.ErrInvalidChart, "sub"},
		"bad template": {helmtest.NewChart("1.0.0", map[string]string{"a.yaml": "{{ .Values.a.b.c }}"}),
			helmerr.ErrInvalidChart, "a.yaml"},
		"too new": {with(func(c *chart.Chart) { c.Metadata.KubeVersion = ">=9.0.0" }), helmerr.ErrInvalidChart,
			"kubeVersion"},
		"values": {with(func(c *chart.Chart) { c.Schema = []byte(`{"required":["needed"]}`) }),
			helmerr.ErrInvalidValues, "needed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFakeCluster()
			_, err := c.Act(t.Context(), model.Target{}, decide.Decision{Action: model.ActionInstall},
				helmtest.DesiredFor("apps", "demo", "a", "v"), model.Options{}, test.chrt, nil)
			helmtest.WantError(t, err, test.kind, false, test.contains)
		})
	}
}

// TestActBeforeRender checks that an action calls BeforeRender before code of the chart runs, and can be refused then.
// It is not called if the failure of the same input is kept.
func TestActBeforeRender(t *testing.T) {
	t.Parallel()
	works := helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
	works.Schema = []byte(`{"type": "object"}`)
	fails := helmtest.NewChart("1.0.0", map[string]string{"a.yaml": `{{ fail "because" }}`})
	refusal := errors.New("not counted")
	for name, tc := range map[string]struct {
		chrt    *chart.Chart
		refusal error
		kind    error
		// want is the number of calls in each of two equal attempts.
		want [2]int
		says string
	}{
		// The second attempt does not check the values again.
		"the schema, the templates and the changes": {chrt: works, want: [2]int{3, 2}},
		"refused":           {chrt: works, refusal: refusal, want: [2]int{1, 1}, says: "not counted"},
		"the chart fails":   {chrt: fails, kind: helmerr.ErrChartFailed, want: [2]int{1, 0}, says: "because"},
		"refused, it fails": {chrt: fails, refusal: refusal, want: [2]int{1, 1}, says: "not counted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renderer := newFakeCluster().renderer
			for i, want := range tc.want {
				c := newFakeCluster()
				c.renderer = renderer
				calls := 0
				options := model.Options{PostRender: &model.PostRender{Labels: map[string]string{"a": "b"}},
					BeforeRender: func() error { calls++; return tc.refusal }}
				_, err := c.Act(t.Context(), model.Target{}, decide.Decision{Action: model.ActionInstall},
					helmtest.DesiredFor("apps", "demo", "a", "v"), options, tc.chrt, map[string]any{"cidr": "1"})
				if calls != want {
					t.Errorf("attempt %d: %d calls, want %d", i+1, calls, want)
				}
				if tc.says != "" {
					helmtest.WantError(t, err, tc.kind, false, tc.says)
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

var _ action.RESTClientGetter = (*connections.Getter)(nil)
var _ kube.Factory = (*connections.Getter)(nil)

// TestActErrorsHideValuesOfOtherRevisions checks that errors do not contain the values of other revisions.
func TestActErrorsHideValuesOfOtherRevisions(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-of-before"
	c := newFakeCluster()
	chrt := helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
	desired := helmtest.DesiredFor("apps", "demo", "a1", "v1")
	given := map[string]any{"cidr": "1", "password": secret}
	if _, err := c.Act(t.Context(), model.Target{}, decide.Decision{Action: model.ActionInstall}, desired, model.Options{},
		chrt, given); err != nil {
		t.Fatal(err)
	}
	c.kube.UpdateError = errors.New("cannot patch with " + secret)
	for name, step := range map[string]struct {
		decision decide.Decision
		options  model.Options
	}{
		"rollback": {decide.Decision{Action: model.ActionRollback, RollbackTo: 1}, model.Options{}},
		"reuse": {decide.Decision{Action: model.ActionUpgrade},
			model.Options{Upgrade: model.UpgradeOptions{Values: model.ValuesReuse}}},
		"resetThenReuse": {decide.Decision{Action: model.ActionUpgrade},
			model.Options{Upgrade: model.UpgradeOptions{Values: model.ValuesResetThenReuse}}},
	} {
		_, err := c.Act(t.Context(), model.Target{}, step.decision, desired, step.options, chrt, map[string]any{"cidr": "2"})
		helmErr := helmtest.AsError(t, err)
		if text := helmErr.Error() + strings.Join(helmErr.Logs, " "); strings.Contains(text, secret) ||
			!strings.Contains(text, helmerr.Redacted) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestActErrorsHideSecretsOfRecords checks actions that do not render the values, and upgrades after whose last
// revision the Secret was removed. If the record may have a value from a Secret, errors must not contain its values.
// Otherwise errors must quote them.
func TestActErrorsHideSecretsOfRecords(t *testing.T) {
	t.Parallel()
	secrets := []any{map[string]any{"flavour": "s3cret"}}
	chrt := helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap,
		"test.yaml": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: test\n  annotations:\n    helm.sh/hook: test\n"})
	desired := helmtest.DesiredFor("apps", "demo", "a1", "v1")
	for name, step := range map[string]struct {
		decision decide.Decision
		options  model.Options
	}{
		"rollback":       {decision: decide.Decision{Action: model.ActionRollback, FromRevision: 2, RollbackTo: 1}},
		"test":           {decision: decide.Decision{Action: model.ActionTest, FromRevision: 2}},
		"uninstallation": {decision: decide.Decision{Action: model.ActionUninstall}},
		"upgrade":        {decision: decide.Decision{Action: model.ActionUpgrade}},
		"reuse": {decide.Decision{Action: model.ActionUpgrade},
			model.Options{Upgrade: model.UpgradeOptions{Values: model.ValuesReuse}}},
	} {
		for _, isSecret := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, from a Secret: %t", name, isSecret), func(t *testing.T) {
				t.Parallel()
				c, options := newFakeCluster(), model.Options{}
				if isSecret {
					options.SecretValues = secrets
				}
				for _, action := range []model.Action{model.ActionInstall, model.ActionUpgrade} {
					given := map[string]any{"cidr": "1", "flavour": "s3cret", "mail": map[string]any{"a9@b.example": "x1"}}
					if _, err := c.Act(t.Context(), model.Target{}, decide.Decision{Action: action}, desired, options, chrt,
						given); err != nil {
						t.Fatal(err)
					}
				}
				c.kube.BuildError = errors.New("denied for s3cret of a9@b.example")
				_, err := c.Act(t.Context(), model.Target{}, step.decision, desired, step.options, chrt,
					map[string]any{"cidr": "2"})
				helmErr := helmtest.AsError(t, err)
				want := "denied for s3cret of a9@b.example"
				if isSecret {
					want = "denied for [redacted] of [redacted]"
				}
				text := helmErr.Error() + strings.Join(helmErr.Logs, " ")
				if !strings.Contains(text, want) || isSecret && strings.Contains(text, "s3cret") {
					t.Errorf("got %q, want %q", text, want)
				}
			})
		}
	}
}

// TestSilentWebhookFailsNoTest checks that tests of a release count as failed only if the cluster could run them. A
// webhook that does not answer says nothing about the release.
func TestSilentWebhookFailsNoTest(t *testing.T) {
	t.Parallel()
	chrt := helmtest.NewChart("1.0.0", map[string]string{
		"test.yaml": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: test\n  annotations:\n    helm.sh/hook: test\n"})
	desired := helmtest.DesiredFor("apps", "demo", "a1", "v1")
	for text, want := range map[string]string{
		`Internal error occurred: failed calling webhook "x": Post "https://x": connect: connection refused`: "",
		`admission webhook "x" denied the request: no`:                                                       model.TestedFailed,
	} {
		c := newFakeCluster()
		if _, err := c.Act(t.Context(), model.Target{}, decide.Decision{Action: model.ActionInstall}, desired, c.options,
			chrt, nil); err != nil {
			t.Fatal(err)
		}
		c.kube.CreateError = errors.New(text)
		_, err := c.Act(t.Context(), model.Target{}, decide.Decision{Action: model.ActionTest, FromRevision: 1}, desired,
			c.options, chrt, nil)
		if err == nil {
			t.Fatalf("%s: no error", text)
		}
		if got := c.observe(t).Records[0].Tested; got != want {
			t.Errorf("%s: the result of the tests is %q, want %q", text, got, want)
		}
	}
}

// TestRecordsOfPublicValues checks which records say that their values have no value from a Secret. A rollback has the
// values of its target, and an upgrade may reuse earlier values.
func TestRecordsOfPublicValues(t *testing.T) {
	t.Parallel()
	c := newFakeCluster()
	chrt := helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
	secret := model.Options{SecretValues: []any{"s3cret"}}
	reuse := model.Options{Upgrade: model.UpgradeOptions{Values: model.ValuesReuse}}
	upgrade := decide.Decision{Action: model.ActionUpgrade}
	rollbackTo := func(revision int) decide.Decision {
		return decide.Decision{Action: model.ActionRollback, RollbackTo: revision}
	}
	desired := helmtest.DesiredFor("apps", "demo", "a1", "v1")
	for i, step := range []struct {
		decision decide.Decision
		options  model.Options
		isPublic bool
	}{
		{decide.Decision{Action: model.ActionInstall}, model.Options{}, true},
		{upgrade, reuse, true},
		{upgrade, secret, false},
		{upgrade, reuse, false},
		{rollbackTo(1), model.Options{}, true},
		{rollbackTo(3), model.Options{}, false},
		{upgrade, model.Options{}, true},
		{decide.Decision{Action: model.ActionRollback, RollbackTo: 3, Returns: true}, model.Options{}, false},
		{decide.Decision{Action: model.ActionRollback, RollbackTo: 1, Returns: true}, model.Options{}, true},
	} {
		if _, err := c.Act(t.Context(), model.Target{}, step.decision, desired, step.options, chrt,
			map[string]any{"cidr": "1"}); err != nil {
			t.Fatalf("revision %d: %v", i+1, err)
		}
		rls, err := c.driver.Get(records.NameOf("demo", i+1))
		if err != nil {
			t.Fatal(err)
		}
		if records.HasPublicValues(rls) != step.isPublic {
			t.Errorf("revision %d: labels %v, want public values: %t", i+1, rls.Labels, step.isPublic)
		}
		if rls.Version++; records.HasPublicValues(rls) {
			t.Error("the label is valid for a record of another program that copied it")
		}
	}
}

// TestRecoveryHasItsOwnLease checks that the mark of an interrupted record does not commit the memory of the action
// that follows: the action is refused if it needs more memory than the manager has, and it waits if the memory is not
// free.
func TestRecoveryHasItsOwnLease(t *testing.T) {
	t.Parallel()
	recovery := decide.Decision{Action: model.ActionRecoverThenUpgrade, Recovery: decide.RecoverFail, FromRevision: 1}
	large := helmtest.NewChart("1.0.0", map[string]string{
		"large.yaml": helmtest.ConfigMap("large", strings.Repeat("x", 1<<20))})
	for _, tc := range []struct {
		total   int64
		kind    error
		history string
	}{{5 << 20, helmerr.ErrTooLarge, "failed"}, {32 << 20, nil, "failed/deployed"}} {
		c := newFakeCluster()
		c.driver.failUpdate = 1
		_, err := c.act(t, decide.Decision{Action: model.ActionInstall})
		helmtest.WantError(t, err, helmerr.ErrUnreachable, true)
		budget := actionmemory.NewBudget(tc.total)
		c.connections.Shared.Actions = budget
		other := budget.Lease(actionmemory.Owner{})
		if err := other.Records(tc.total); err != nil {
			t.Fatal(err)
		}
		waited := false
		options := model.Options{Progress: func(string) {
			// The lease of the action that waits is empty, and the record is marked.
			waited = budget.Used() == tc.total && c.history(t) == "failed"
			other.Release()
		}}
		result, err := c.Act(t.Context(), model.Target{}, recovery, helmtest.DesiredFor("apps", "demo", "a1", "v1"), options,
			large, nil)
		if (err != nil) != (tc.kind != nil) || !errors.Is(err, tc.kind) || result.StorageChanged != (err == nil) ||
			waited != (err == nil) || c.history(t) != tc.history {
			t.Errorf("%d bytes: history %s, waited %t: %+v, %v", tc.total, c.history(t), waited, result, err)
		}
	}
}

// TestWaitForMemoryTakesNoTimeOfTheAction checks that an action has its whole timeout after it has waited for memory.
func TestWaitForMemoryTakesNoTimeOfTheAction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster()
		// The clock of the test must not run while the chart is rendered.
		c.renderer = rendering.NewRenderer(sandbox.InProcess(rendering.Tasks()))
		budget := actionmemory.NewBudget(32 << 20)
		c.connections.Shared.Actions = budget
		other := budget.Lease(actionmemory.Owner{})
		if err := other.Records(32 << 20); err != nil {
			t.Fatal(err)
		}
		options := model.Options{Install: model.InstallOptions{Timeout: 10 * time.Second}, Progress: func(string) {
			time.AfterFunc(12*time.Second, other.Release)
		}}
		large := helmtest.NewChart("1.0.0", map[string]string{
			"large.yaml": helmtest.ConfigMap("large", strings.Repeat("x", 1<<20))})
		_, err := c.Act(t.Context(), model.Target{}, decide.Decision{Action: model.ActionInstall},
			helmtest.DesiredFor("apps", "demo", "a1", "v1"), options, large, nil)
		if err != nil {
			t.Error(err)
		}
	})
}

// TestRenderingEndsWithTimeoutOfTheAction checks that the timeout of the action also ends the validation of the values
// and the templates, long before the limit of CPU time ends them.
func TestRenderingEndsWithTimeoutOfTheAction(t *testing.T) {
	t.Parallel()
	pool := sandbox.NewPool(sandbox.Options{Limits: sandbox.Limits{CPU: 20 * time.Second}})
	t.Cleanup(pool.Close)
	loops := helmtest.NewChart("1.0.0", map[string]string{
		"loops.yaml": "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}"})
	schema := helmtest.NewChart("1.0.0", nil)
	schema.Schema = []byte(hostile.Schema())
	for name, chrt := range map[string]*chart.Chart{"template": loops, "schema": schema} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFakeCluster()
			c.renderer = rendering.NewRenderer(pool)
			options := model.Options{Install: model.InstallOptions{Timeout: 8 * time.Second}}
			_, err := c.Act(t.Context(), model.Target{}, decide.Decision{Action: model.ActionInstall},
				helmtest.DesiredFor("apps", "demo", "a1", "v1"), options, chrt, nil)
			helmtest.WantError(t, err, helmerr.ErrRenderLimit, false, "it was not done in time")
			if history := c.history(t); history != "" {
				t.Errorf("the history is %q", history)
			}
		})
	}
}

// TestRefusalStaysReadable checks that the text of a refused deletion is not redacted: a user must be able to run the
// command in the text.
func TestRefusalStaysReadable(t *testing.T) {
	t.Parallel()
	logs := &helmerr.LogBuffer{}
	logs.HideAll(map[string]any{"replicas": int64(3), "cluster": "prod-1"})
	const text = "annotate helmops calico confirm-deletions=3-5e8d for Cluster prod-1"
	err := helmerr.Acting(model.ActionUninstall, helmerr.New(helmerr.ErrRefused, text), nil, logs)
	if !strings.Contains(err.Error(), text) {
		t.Errorf("got %q, want %q", err, text)
	}
	if err := helmerr.Acting(model.ActionUninstall, errors.New(text), nil, logs); strings.Contains(err.Error(), "prod-1") {
		t.Errorf("got %q, want no values", err)
	}
}

// TestActKeepsStatusOfFailedRevision checks that a failed revision is not marked as superseded. Otherwise, it would
// look like a revision that worked.
func TestActKeepsStatusOfFailedRevision(t *testing.T) {
	t.Parallel()
	c := newFakeCluster()
	c.driver.failUpdate = 1
	_, err := c.act(t, decide.Decision{Action: model.ActionInstall})
	helmtest.WantError(t, err, helmerr.ErrUnreachable, true)
	if _, err := c.act(t, decide.Decision{Action: model.ActionRecoverThenUpgrade, Recovery: decide.RecoverFail,
		FromRevision: 1}); err != nil {
		t.Fatal(err)
	}
	if got, want := c.history(t), "failed/deployed"; got != want {
		t.Errorf("after an upgrade of a failed install: history %q, want %q", got, want)
	}
	c.kube.UpdateError = errors.New("quota exceeded")
	for _, decision := range []decide.Decision{{Action: model.ActionUpgrade},
		{Action: model.ActionRollback, FromRevision: 3, RollbackTo: 2}} {
		_, err := c.act(t, decision)
		helmtest.WantError(t, err, nil, true)
	}
	if got, want := c.history(t), "failed/deployed/failed/failed"; got != want {
		t.Errorf("after a failed rollback: history %q, want %q", got, want)
	}
}

// observe returns what Helm's storage has for the release.
func (c *fakeCluster) observe(t *testing.T) model.Observation {
	t.Helper()
	secrets, err := c.secrets.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var obs model.Observation
	for _, secret := range secrets.Items {
		if record, ok := records.FromMetadata(&secret.ObjectMeta); ok {
			obs.Records = append(obs.Records, record)
		}
	}
	slices.SortFunc(obs.Records, func(a, b model.Record) int { return b.Revision - a.Revision })
	return obs
}

// TestActAfterFailedUninstallation checks that a release is kept if it is desired again after its uninstallation
// failed. Its record shows afterwards that the release may have worked, unless the record says that it never did.
func TestActAfterFailedUninstallation(t *testing.T) {
	t.Parallel()
	for _, neverWorked := range []bool{false, true} {
		c := newFakeCluster()
		if _, err := c.act(t, decide.Decision{Action: model.ActionInstall}); err != nil {
			t.Fatal(err)
		}
		c.kube.BuildError = errors.New("no such kind")
		_, err := c.act(t, decide.Decision{Action: model.ActionUninstall})
		helmtest.WantError(t, err, nil, true)
		c.kube.BuildError = nil
		if neverWorked {
			c.relabel(t, 1, model.LabelNeverWorked, "true")
		}
		again := helmtest.DesiredFor("apps", "demo", "a1", "v1")
		again.UID = "uid-again"
		decision := decide.Next(c.observe(t), again, model.Policy{}, model.Past{}, time.Now().Add(time.Hour))
		if decision.Action != model.ActionRecoverThenUpgrade {
			t.Fatalf("never worked: %t: decided %+v", neverWorked, decision)
		}
		if _, err := c.act(t, decision); err != nil {
			t.Fatal(err)
		}
		newest, former := c.observe(t).Records[0], c.observe(t).Records[1]
		if newest.Status != "deployed" || newest.MayHaveWorked || former.Status != "failed" || former.Uninstalling ||
			former.NeverWorked || !former.Interrupted || former.MayHaveWorked == neverWorked {
			t.Errorf("never worked: %t: the records are %+v and %+v", neverWorked, newest, former)
		}
	}
}

// relabel sets a label of a record.
func (c *fakeCluster) relabel(t *testing.T, revision int, label, value string) {
	t.Helper()
	secret, err := c.secrets.Get(t.Context(), records.NameOf("demo", revision), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Labels[label] = value
	if _, err := c.secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

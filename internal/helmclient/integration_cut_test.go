// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/cutproxy"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/sample"
)

const (
	cutWorkers = 4
	// maxCuts limits the requests of an action. The test ends even if an action sends requests without end.
	maxCuts = 60
)

// cutModes are the ways in which a connection breaks at a request.
var cutModes = map[string]cutproxy.Cut{
	"request lost, cluster unreachable":  {},
	"response lost, cluster unreachable": {Forward: true},
	"response lost once":                 {Forward: true, Once: true},
	"request lost once":                  {Once: true},
}

// TestIntegrationCut interrupts each action at each of its requests (see package sample), in every mode. Another
// process must complete the action. Then the objects are correct, no object is orphaned, no working object was ever
// deleted, and no revision was created twice.
func TestIntegrationCut(t *testing.T) {
	b := newBench(t)
	for name, c := range cutCases() {
		t.Run(name, func(t *testing.T) { b.cutEverywhere(t, c) })
	}
}

// cutCase is an action that is interrupted.
type cutCase struct {
	// prepare creates the state before the action. It may be nil.
	prepare func(*cutRun) error
	decide  func(*cutRun) (decide.Decision, error)
	// finish does the steps of the next process.
	finish func(*cutRun) error
	// objects are the objects that must exist in the end, with their content.
	objects map[string]string
	// revisions are the statuses that the history must have in the end, oldest first.
	revisions []string
	// anyHistory means that the history may have any revisions.
	anyHistory bool
	// survivors are objects that must never have been deleted.
	survivors []string
	// also makes further checks in the end. It may be nil.
	also func(*cutRun) error
	// modes are the names of the cutModes for this case. Nil means all.
	modes []string
}

// cutRun is a release with one interrupted action.
type cutRun struct {
	releaseRun
	ctx    context.Context
	server *apiserver.Server
	kube   kubernetes.Interface
	name   string
	proxy  *cutproxy.Proxy
	cut    cutproxy.Cut
	// storage defines where records are stored.
	storage model.Storage
	// before are the UIDs of the objects before the action.
	before map[string]types.UID
}

func newCutRun(ctx context.Context, b *bench, name string) *cutRun {
	r := &cutRun{ctx: ctx, server: sharedServer.Server(b.t), kube: b.kube, name: name, storage: b.target.Storage}
	r.desired, r.chart, r.values = helmtest.DesiredFor(name, "demo", "a1", "v1"), cutChart("1.0.0", "old"),
		map[string]any{"cidr": "1"}
	r.restart()
	return r
}

// restart replaces the process: only the state in the cluster remains.
func (r *cutRun) restart() {
	r.client, r.target = New(testRunner), model.Target{Key: r.name, Config: r.server.RESTConfig(), Storage: r.storage}
}

// cutChart returns a chart with objects of several kinds, a hook, and one object that other versions do not have.
func cutChart(version, own string) *chart.Chart {
	return helmtest.NewChart(version, map[string]string{
		"value.yaml": helmtest.ValueConfigMap,
		"own.yaml":   helmtest.ConfigMap(own, version),
		"account.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: account\n  labels: {version: \"" +
			version + "\"}\n",
		"deployment.yaml": cutDeployment(version),
		"hook.yaml":       hook("ConfigMap", "hook", "pre-install,pre-upgrade", "data: {key: ran}\n"),
	})
}

func cutDeployment(version string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: deployment\n  labels: {version: \"" + version +
		"\"}\nspec:\n" +
		"  selector: {matchLabels: {app: a}}\n  template:\n    metadata: {labels: {app: a}}\n" +
		"    spec: {containers: [{name: a, image: \"registry.invalid/a:" + version + "\"}]}\n"
}

func (r *cutRun) wantSecondVersion() {
	r.desired.ArtifactDigest, r.desired.ValuesDigest = "a2", "v2"
	r.chart, r.values = cutChart("2.0.0", "new"), map[string]any{"cidr": "2"}
}

func cutCases() map[string]cutCase {
	first := map[string]string{"ConfigMap/demo-value": "1", "ConfigMap/old": "1.0.0", "ServiceAccount/account": "1.0.0",
		"Deployment/deployment": "1.0.0 registry.invalid/a:1.0.0", "ConfigMap/hook": "ran"}
	second := map[string]string{"ConfigMap/demo-value": "2", "ConfigMap/new": "2.0.0", "ServiceAccount/account": "2.0.0",
		"Deployment/deployment": "2.0.0 registry.invalid/a:2.0.0", "ConfigMap/hook": "ran"}
	settle := func(r *cutRun) error { return r.settle(r.ctx) }
	next := func(r *cutRun) (decide.Decision, error) { return r.decide(r.ctx) }
	return map[string]cutCase{
		"install": {
			decide:  next,
			finish:  settle,
			objects: first, revisions: []string{"deployed"},
		},
		"install without a list": {
			decide:  func(r *cutRun) (decide.Decision, error) { return r.decideAssumed(r.ctx) },
			finish:  settle,
			objects: first, revisions: []string{"deployed"},
		},
		// The namespace exists, so the action lists the records.
		"install without a list in a namespace": {
			prepare: (*cutRun).createNamespace,
			decide:  func(r *cutRun) (decide.Decision, error) { return r.decideAssumed(r.ctx) },
			finish:  settle,
			objects: first, revisions: []string{"deployed"},
			modes: []string{"response lost, cluster unreachable", "request lost once"},
		},
		// The API server needs seconds for each CRD, so this case has few modes.
		"install with a CRD": {
			prepare: func(r *cutRun) error {
				withWidgets(r.chart, r.name+".test")
				r.chart.Templates = append(r.chart.Templates, &chart.File{Name: "templates/widget.yaml",
					Data: []byte("apiVersion: " + r.name + ".test/v1\nkind: Widget\nmetadata:\n  name: widget\n")})
				return nil
			},
			decide:  next,
			finish:  settle,
			objects: first, revisions: []string{"deployed"},
			also:  (*cutRun).takeWidget,
			modes: []string{"response lost, cluster unreachable", "request lost once"},
		},
		"upgrade": {
			prepare: func(r *cutRun) error {
				defer r.wantSecondVersion()
				return settle(r)
			},
			decide:  next,
			finish:  settle,
			objects: second, revisions: []string{"superseded", "deployed"},
			survivors: []string{"ConfigMap/demo-value", "ServiceAccount/account", "Deployment/deployment"},
		},
		"rollback": {
			prepare: func(r *cutRun) error {
				if err := settle(r); err != nil {
					return err
				}
				r.wantSecondVersion()
				r.chart.Templates = append(r.chart.Templates,
					&chart.File{Name: "templates/broken.yaml", Data: []byte(brokenService)})
				r.policy.Upgrade = model.FailurePolicy{Retries: new(int), Remediate: model.RemediateRollback}
				decision, err := next(r)
				if err != nil {
					return err
				}
				if _, err = r.act(r.ctx, decision); err == nil {
					err = errors.New("an upgrade to a broken chart did not fail")
				}
				return ignoreRefusal(err)
			},
			decide: next,
			// Failed rollbacks are repeated, and failed upgrades are not.
			finish: func(r *cutRun) error {
				r.policy.Upgrade.Retries = nil
				return r.settleRollback(r.ctx)
			},
			objects: first, revisions: []string{"superseded", "failed", "deployed"},
			survivors: []string{"ConfigMap/demo-value", "ConfigMap/old", "ServiceAccount/account", "Deployment/deployment"},
		},
		// There are no chart and values. The rollback above has all modes.
		"return": {
			prepare: func(r *cutRun) error {
				had := r.desired
				if err := settle(r); err != nil {
					return err
				}
				r.wantSecondVersion()
				err := settle(r)
				r.desired, r.chart, r.values = had, nil, nil
				r.desired.Return = true
				return err
			},
			decide:  next,
			finish:  settle,
			objects: first, revisions: []string{"superseded", "superseded", "deployed"},
			survivors: []string{"ConfigMap/demo-value", "ServiceAccount/account", "Deployment/deployment"},
			modes:     []string{"response lost, cluster unreachable", "request lost once"},
		},
		"test": {
			prepare: func(r *cutRun) error {
				r.chart.Templates = append(r.chart.Templates, &chart.File{Name: "templates/test.yaml",
					Data: []byte(hook("ConfigMap", "check", "test", "data: {key: ran}\n"))})
				err := settle(r)
				r.policy.Test.Enabled = true
				return err
			},
			decide:  next,
			finish:  settle,
			objects: with(first, "ConfigMap/check", "ran"), revisions: []string{"deployed"},
			survivors: []string{"ConfigMap/demo-value", "ConfigMap/old", "ServiceAccount/account", "Deployment/deployment"},
		},
		"uninstall": {
			prepare: settle,
			decide:  func(r *cutRun) (decide.Decision, error) { return r.decideUninstall(r.ctx) },
			finish:  func(r *cutRun) error { return r.settleUninstall(r.ctx) },
			// Helm leaves hooks in place.
			objects: map[string]string{"ConfigMap/hook": "ran"},
		},
	}
}

func (r *cutRun) createNamespace() error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.name}}
	_, err := r.kube.CoreV1().Namespaces().Create(r.ctx, namespace, metav1.CreateOptions{})
	return err
}

// takeWidget checks that the Widget of the chart exists, and deletes its CRD, so that the API server has few CRDs.
func (r *cutRun) takeWidget() error {
	raw := r.kube.Discovery().RESTClient()
	group := r.name + ".test"
	if err := raw.Get().AbsPath("/apis/" + group + "/v1/namespaces/" + r.name +
		"/widgets/widget").Do(r.ctx).Error(); err != nil {
		return err
	}
	return raw.Delete().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets." +
		group).Do(r.ctx).Error()
}

// with returns a copy of objects with another object.
func with(objects map[string]string, object, content string) map[string]string {
	objects = maps.Clone(objects)
	objects[object] = content
	return objects
}

// ignoreRefusal returns nil if the cluster rejected the release. It returns any other error.
func ignoreRefusal(err error) error {
	var refusal *helmerr.Error
	if errors.As(err, &refusal) && refusal.Kind == nil {
		return nil
	}
	return err
}

// settleRollback decides and acts until the release is rolled back.
func (r *cutRun) settleRollback(ctx context.Context) error {
	now := time.Now()
	for range maxSteps {
		obs, err := r.observe(ctx)
		if err != nil {
			return err
		}
		decision := decide.Next(obs, r.desired, r.policy, r.past, now)
		r.decisions = append(r.decisions, decision)
		now = now.Add(decision.RequeueAfter)
		switch {
		case decision.State == model.StateRolledBack:
			return nil
		case decision.Action == model.ActionWait:
			continue
		case decision.Action != model.ActionRollback:
			return fmt.Errorf("%s (%s) instead of a rollback", decision.Action, decision.Message)
		}
		if _, err := r.act(ctx, decision); err != nil {
			return fmt.Errorf("%s (%s): %w", decision.Action, decision.Message, err)
		}
	}
	return fmt.Errorf("no end after %+v", r.decisions)
}

// cutEverywhere runs a case once for each request and mode, or for a sample of these.
func (b *bench) cutEverywhere(t *testing.T, c cutCase) {
	begun := time.Now()
	prefix := strings.TrimPrefix(namespaceOf(t), "testintegration")
	n := b.countRequests(t, c, prefix+"-0")
	type job struct {
		k    int
		mode string
	}
	modes := c.modes
	if modes == nil {
		modes = slices.Sorted(maps.Keys(cutModes))
	}
	var all []job
	for k := 1; k <= n; k++ {
		for _, mode := range modes {
			all = append(all, job{k, mode})
		}
	}
	jobs := make(chan job)
	var group sync.WaitGroup
	for range cutWorkers {
		group.Go(func() {
			for j := range jobs {
				cut := cutModes[j.mode]
				cut.At = j.k
				name := fmt.Sprintf("%s-%d-%t-%t", prefix, j.k, cut.Forward, cut.Once)
				if err := b.cutOnce(t.Context(), c, name, cut); err != nil {
					t.Errorf("cut at request %d of %d, %s: %v", j.k, n, j.mode, err)
				}
			}
		})
	}
	picked := sample.Of(t, all)
	for _, j := range picked {
		jobs <- j
	}
	close(jobs)
	group.Wait()
	t.Logf("%d of %d requests × %d ways in %s", len(picked), n, len(modes), time.Since(begun).Round(time.Millisecond))
}

// countRequests returns the number of requests of a case without a cut, and checks its result.
func (b *bench) countRequests(t *testing.T, c cutCase, name string) int {
	t.Helper()
	r := newCutRun(t.Context(), b, name)
	err := r.run(c, cutproxy.Cut{})
	n := 0
	for _, request := range r.proxy.Requests() {
		if request.Counted {
			n++
		}
	}
	if err == nil {
		err = errors.Join(r.proxy.Stop(), c.finish(r), r.check(c))
	}
	if err != nil || n == 0 || n > maxCuts {
		t.Fatalf("without a cut: %d requests, %v", n, err)
	}
	return n
}

// cutOnce runs a case with one cut, and then the steps of the next process.
func (b *bench) cutOnce(ctx context.Context, c cutCase, name string, cut cutproxy.Cut) error {
	r := newCutRun(ctx, b, name)
	if err := r.run(c, cut); err != nil {
		return err
	}
	if !r.proxy.WasCut() {
		return fmt.Errorf("the action sent fewer requests than before: %v", r.proxy.Requests())
	}
	if err := r.proxy.Stop(); err != nil {
		return err
	}
	r.restart()
	if err := c.finish(r); err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	if err := r.check(c); err != nil {
		return fmt.Errorf("%w\nsent before: %v\ndecided afterwards: %+v", err, r.proxy.Requests(), r.decisions)
	}
	return nil
}

// run prepares a release, stores its objects, and begins the action with a proxy that cuts the connection. It ignores
// the result of the action, because the interrupted process would not get it.
func (r *cutRun) run(c cutCase, cut cutproxy.Cut) error {
	if c.prepare != nil {
		if err := c.prepare(r); err != nil {
			return fmt.Errorf("preparing: %w", err)
		}
	}
	var err error
	if _, r.before, err = r.objects(); err != nil {
		return err
	}
	decision, err := c.decide(r)
	if err != nil {
		return err
	}
	if r.proxy, err = cutproxy.Start(r.server.RESTConfig()); err != nil {
		return err
	}
	r.cut = cut
	r.proxy.Cut(cut)
	_, err = New(testRunner).Act(r.ctx, model.Target{Key: r.name, Config: r.proxy.Config(), Storage: r.storage}, decision,
		r.desired, r.options, r.chart, r.values)
	if cut.At == 0 {
		return err
	}
	return nil
}

// check compares objects and history with the expected state.
func (r *cutRun) check(c cutCase) error {
	objects, uids, err := r.objects()
	if err != nil {
		return err
	}
	if !maps.Equal(objects, c.objects) {
		err = fmt.Errorf("objects %v, want %v", objects, c.objects)
	}
	for _, object := range c.survivors {
		if uids[object] != r.before[object] {
			err = errors.Join(err, fmt.Errorf("%s was deleted and re-created", object))
		}
	}
	obs, observeErr := r.observe(r.ctx)
	if observeErr != nil {
		return errors.Join(err, observeErr)
	}
	if c.also != nil {
		err = errors.Join(err, c.also(r))
	}
	if !c.anyHistory {
		err = errors.Join(err, checkHistory(obs, c.revisions, r.cut.Once))
	}
	return err
}

// checkHistory checks that each action has exactly one revision, even if it was started several times. If Helm recorded
// an attempt as failed after the connection was restored, this attempt has its own revision before the last.
func checkHistory(obs model.Observation, want []string, mayFail bool) error {
	var all, statuses []string
	for _, record := range slices.Backward(obs.Records) {
		all = append(all, fmt.Sprintf("%d %s", record.Revision, record.Status))
		statuses = append(statuses, record.Status)
	}
	if tried := len(want) - 1; mayFail && len(statuses) == len(want)+1 && statuses[tried] == "failed" {
		statuses = slices.Delete(statuses, tried, tried+1)
	}
	if numbered := len(all) == 0 || obs.Records[0].Revision == len(all); slices.Equal(statuses, want) && numbered {
		return nil
	}
	return fmt.Errorf("history %v, want %v", all, want)
}

// objects returns the objects of the release by kind and name: the content that distinguishes versions, and the UID.
func (r *cutRun) objects() (contents map[string]string, uids map[string]types.UID, err error) {
	contents, uids = map[string]string{}, map[string]types.UID{}
	note := func(kind string, meta metav1.ObjectMeta, content string) {
		contents[kind+"/"+meta.Name], uids[kind+"/"+meta.Name] = content, meta.UID
	}
	configMaps, err := r.kube.CoreV1().ConfigMaps(r.name).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	for i := range configMaps.Items {
		note("ConfigMap", configMaps.Items[i].ObjectMeta, configMaps.Items[i].Data["key"])
	}
	accounts, err := r.kube.CoreV1().ServiceAccounts(r.name).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	for i := range accounts.Items {
		note("ServiceAccount", accounts.Items[i].ObjectMeta, accounts.Items[i].Labels["version"])
	}
	deployments, err := r.kube.AppsV1().Deployments(r.name).List(r.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		note("Deployment", d.ObjectMeta, d.Labels["version"]+" "+d.Spec.Template.Spec.Containers[0].Image)
	}
	return contents, uids, nil
}

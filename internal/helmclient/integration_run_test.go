// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// maxSteps bounds the decisions until a release has settled.
const maxSteps = 8

// releaseRun is a release that a process of HelmOp manages.
type releaseRun struct {
	client    *Client
	target    model.Target
	desired   model.Desired
	chart     *chart.Chart
	values    map[string]any
	options   model.Options
	policy    model.Policy
	past      model.Past
	decisions []decide.Decision
}

func (r *releaseRun) observe(ctx context.Context) (model.Observation, error) {
	return r.client.Observe(ctx, r.target, r.desired.Namespace, r.desired.Name)
}

// observeAfter observes the release after an action that was based on an earlier observation. It returns an error if
// the result of the action promised other records.
func (r *releaseRun) observeAfter(ctx context.Context, before model.Observation,
	action Result,
) (model.Observation, error) {
	obs, err := r.observe(ctx)
	if err != nil || action.Changes == nil {
		return obs, err
	}
	if promised, ok := before.After(action.Changes); !ok || !slices.Equal(promised.Records, obs.Records) {
		err = fmt.Errorf("the action promised the records\n%+v\nbut left\n%+v", promised.Records, obs.Records)
	}
	return obs, err
}

func (r *releaseRun) decide(ctx context.Context) (decide.Decision, error) {
	obs, err := r.observe(ctx)
	return decide.Next(obs, r.desired, r.policy, r.past, time.Now()), err
}

// decideAssumed decides without an observation: the release is assumed to have no records.
func (r *releaseRun) decideAssumed(context.Context) (decide.Decision, error) {
	return decide.Next(model.Observation{Assumed: true}, r.desired, r.policy, r.past, time.Now()), nil
}

func (r *releaseRun) decideUninstall(ctx context.Context) (decide.Decision, error) {
	obs, err := r.observe(ctx)
	return decide.Uninstall(obs, r.desired, r.policy, time.Now()), err
}

// settle observes, decides and acts until there is nothing to do, or until there is no further attempt. It does not
// wait: it advances its own clock.
func (r *releaseRun) settle(ctx context.Context) error {
	now := time.Now()
	var obs model.Observation
	var last Result
	for range maxSteps {
		var err error
		if obs, err = r.observeAfter(ctx, obs, last); err != nil {
			return err
		}
		last = Result{}
		decision := decide.Next(obs, r.desired, r.policy, r.past, now)
		r.decisions = append(r.decisions, decision)
		switch decision.Action {
		case model.ActionNone, model.ActionStall:
			return nil
		case model.ActionUninstall, model.ActionRefuse:
			return fmt.Errorf("%s of a release that is wanted: %s", decision.Action, decision.Message)
		case model.ActionWait:
			now = now.Add(decision.RequeueAfter)
			continue
		}
		if last, err = r.act(ctx, decision); err != nil {
			return fmt.Errorf("%s (%s): %w", decision.Action, decision.Message, err)
		}
	}
	return fmt.Errorf("no end after %+v", r.decisions)
}

// settleUninstall does the same as settle for a release that is no longer desired.
func (r *releaseRun) settleUninstall(ctx context.Context) error {
	for range maxSteps {
		decision, err := r.decideUninstall(ctx)
		if err != nil {
			return err
		}
		r.decisions = append(r.decisions, decision)
		if decision.Action == model.ActionNone {
			return nil
		}
		if _, err := r.act(ctx, decision); err != nil {
			return fmt.Errorf("%s (%s): %w", decision.Action, decision.Message, err)
		}
	}
	return fmt.Errorf("no end after %+v", r.decisions)
}

func (r *releaseRun) act(ctx context.Context, decision decide.Decision) (Result, error) {
	return r.client.Act(ctx, r.target, decision, r.desired, r.options, r.chart, r.values)
}

// shortTimeouts are timeouts of actions that a test lets time out. On a busy machine, a short timeout ends an action
// before the action reaches what the test checks. Then the test uses the next timeout.
var shortTimeouts = []time.Duration{5 * time.Second, 20 * time.Second, time.Minute}

// newRun returns a release of the test's namespace, with the client of the bench.
func (b *bench) newRun(chrt *chart.Chart, values map[string]any) *releaseRun {
	return &releaseRun{client: b.client, target: b.target, desired: helmtest.DesiredFor(b.namespace, "demo", "a1", "v1"),
		chart: chrt, values: values}
}

// mustSettle fails the test if the release does not settle.
func (r *releaseRun) mustSettle(t *testing.T) {
	t.Helper()
	if err := r.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// actNow decides and acts once. The decision must have the given action.
func (r *releaseRun) actNow(t *testing.T, want model.Action) (Result, error) {
	t.Helper()
	decision, err := r.decide(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if decision.Action != want {
		t.Fatalf("decided %+v, want %s", decision, want)
	}
	return r.act(t.Context(), decision)
}

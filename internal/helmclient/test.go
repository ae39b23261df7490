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
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
)

// test runs the chart's tests on the newest revision and notes how they ended on its record. A chart without tests
// passes.
func (s *session) test(decision Decision, desired Desired, options TestOptions) error {
	if err := s.checkNewest(decision, desired); err != nil {
		return err
	}
	last, err := s.config.Releases.Last(desired.Name)
	if err != nil {
		return fmt.Errorf("reading revision %d: %w", decision.FromRevision, err)
	}
	if last.Info == nil || last.Info.Status != release.StatusDeployed {
		return errorOfKind(ErrStale, "revision %d is no longer deployed", decision.FromRevision)
	}
	s.logs.hide(last.Config)
	hooks := slices.Clone(last.Hooks)
	s.storage.complete = func(rls *release.Release) *release.Release { return withHooks(rls, hooks) }
	began := time.Now()
	tested, failure := s.newTest(desired, options).Run(desired.Name)
	if tested == nil {
		return failure
	}
	s.tests = testResults(tested.Hooks, began)
	if errors.Is(classify(failure), ErrUnreachable) {
		// That tells nothing of the tests: they will run again.
		return failure
	}
	if tested.Labels == nil {
		tested.Labels = map[string]string{}
	}
	tested.Labels[LabelTested] = TestedPassed
	if failure != nil {
		tested.Labels[LabelTested] = TestedFailed
		tested.Labels[LabelFailures] = strconv.Itoa(decision.Failures + 1)
	}
	if err := s.config.Releases.Update(tested); err != nil && failure == nil {
		return fmt.Errorf("the tests passed, but that could not be saved; they will run again: %w", err)
	}
	return failure
}

// newTest maps the options to Helm's.
func (s *session) newTest(desired Desired, options TestOptions) *action.ReleaseTesting {
	tests := action.NewReleaseTesting(s.config)
	tests.Timeout = options.timeout()
	tests.Namespace = desired.Namespace
	tests.Filters = map[string][]string{action.IncludeNameFilter: options.Only, action.ExcludeNameFilter: options.Except}
	return tests
}

// withHooks returns the release with all of its hooks. While Helm runs a choice of the tests it saves the release with
// these alone: after a crash it would have lost the others for good, its delete hooks among them.
func withHooks(rls *release.Release, all []*release.Hook) *release.Release {
	complete := *rls
	complete.Hooks = make([]*release.Hook, 0, len(all))
	for _, hook := range all {
		same := func(other *release.Hook) bool {
			return other.Path == hook.Path && other.Kind == hook.Kind && other.Name == hook.Name
		}
		if i := slices.IndexFunc(rls.Hooks, same); i >= 0 {
			hook = rls.Hooks[i]
		}
		complete.Hooks = append(complete.Hooks, hook)
	}
	return &complete
}

// testResults returns how those tests ended that have run since a time, in the order in which they ran.
func testResults(hooks []*release.Hook, since time.Time) []TestResult {
	var results []TestResult
	for _, hook := range hooks {
		if !slices.Contains(hook.Events, release.HookTest) || hook.LastRun.StartedAt.Time.Before(since) {
			continue
		}
		results = append(results, TestResult{
			Name:        hook.Name,
			Phase:       hook.LastRun.Phase.String(),
			StartedAt:   hook.LastRun.StartedAt.Time,
			CompletedAt: hook.LastRun.CompletedAt.Time,
		})
	}
	slices.SortStableFunc(results, func(a, b TestResult) int { return a.StartedAt.Compare(b.StartedAt) })
	return results
}

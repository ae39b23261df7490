// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

// test runs the tests of the chart on the newest revision. It saves the result in the record of the revision. A chart
// without tests passes.
func (s *verb) test() error {
	decision := s.Decision
	if err := s.checkNewest(); err != nil {
		return err
	}
	last, err := s.Config.Releases.Last(s.Desired.Name)
	if err != nil {
		return fmt.Errorf("reading Helm revision %d: %w", decision.FromRevision, err)
	}
	if last.Info == nil || last.Info.Status != release.StatusDeployed {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d is no longer deployed", decision.FromRevision)
	}
	s.HideValues(last)
	// Helm would report a lack of memory as a failed test.
	if err := s.Memory.Expect(session.HookTexts(last.Hooks)...); err != nil {
		return err
	}
	// Helm would save the record before and after each test. This would overwrite changes of other processes, and drop
	// all hooks except the selected tests. Only the final result must be saved, because interrupted tests run again.
	s.Storage.Hold()
	began := time.Now()
	tested, failure := s.newTest(s.Desired, s.Options.Test).Run(s.Desired.Name)
	if tested == nil {
		return failure
	}
	s.tests = testResults(tested.Hooks, began)
	if errors.Is(helmerr.Classify(failure), helmerr.ErrUnreachable) || helmerr.IsSilentWebhook(failure) {
		// The error proves nothing about the tests, so they will run again.
		return failure
	}
	if tested.Labels == nil {
		tested.Labels = map[string]string{}
	}
	model.SetText(tested.Labels, model.LabelRequest, decision.Request)
	tested.Labels[model.LabelTested] = model.TestedPassed
	if failure != nil {
		tested.Labels[model.LabelTested] = model.TestedFailed
		tested.Labels[model.LabelFailures] = strconv.Itoa(decision.Failures + 1)
	}
	err = s.saveTested(tested)
	switch {
	case errors.Is(helmerr.Classify(err), helmerr.ErrStale):
		return err
	case err != nil && failure == nil:
		return fmt.Errorf("the tests passed, but the result was not saved; they will run again: %w", err)
	default:
		return failure
	}
}

// saveTested saves the result of the tests. It returns an error if the tested revision is no longer the newest, or is
// no longer deployed. This may change while the tests run.
func (s *verb) saveTested(tested *release.Release) error {
	s.Storage.Refresh()
	newest, err := s.Config.Releases.Last(tested.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d no longer exists, so the result of its tests is discarded",
			tested.Version)
	}
	if err != nil {
		return err
	}
	if newest.Version != tested.Version || newest.Info.Status != release.StatusDeployed {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d is %s, so the result of the tests of Helm revision %d is "+
			"discarded",
			newest.Version, newest.Info.Status, tested.Version)
	}
	return s.Storage.Replace(records.NameOf(tested.Name, tested.Version), tested)
}

// newTest returns Helm's test action with the options.
func (s *verb) newTest(desired model.Desired, options model.TestOptions) *action.ReleaseTesting {
	tests := action.NewReleaseTesting(s.Config)
	tests.Timeout = options.ActionTimeout()
	tests.Namespace = desired.Namespace
	tests.Filters = map[string][]string{action.IncludeNameFilter: options.Only, action.ExcludeNameFilter: options.Except}
	return tests
}

// testResults returns the results of the tests that started at since or later, in the order of their start.
func testResults(hooks []*release.Hook, since time.Time) []model.TestResult {
	var results []model.TestResult
	for _, hook := range hooks {
		if !slices.Contains(hook.Events, release.HookTest) || hook.LastRun.StartedAt.Time.Before(since) {
			continue
		}
		results = append(results, model.TestResult{
			Name:        hook.Name,
			Phase:       hook.LastRun.Phase.String(),
			StartedAt:   hook.LastRun.StartedAt.Time,
			CompletedAt: hook.LastRun.CompletedAt.Time,
		})
	}
	slices.SortStableFunc(results, func(a, b model.TestResult) int { return a.StartedAt.Compare(b.StartedAt) })
	return results
}

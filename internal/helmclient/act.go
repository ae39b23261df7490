// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Result is what Helm's storage holds after an action, as far as the action wrote it.
type Result struct {
	// Revision is the newest revision that was saved, zero where none was.
	Revision int
	// Status is Helm's status of that revision; "uninstalled" after an uninstall.
	Status string
	// ChartName, ChartVersion and AppVersion are those of the chart in that revision.
	ChartName, ChartVersion, AppVersion string
	// FirstDeployed and LastDeployed are when the release was first installed, and when this revision was made.
	FirstDeployed, LastDeployed time.Time
	// StorageChanged is true if anything was saved or deleted.
	StorageChanged bool
	// Objects are the objects of the revision's manifest, with namespaces filled in, without hooks, in a fixed order. Set
	// after a successful installation, upgrade or rollback.
	Objects []inventory.Ref
	// Generations are the generations that the API server returned for Objects that the action created, patched or found
	// unchanged.
	Generations map[inventory.Ref]model.Generation
	// Tests are the tests that ran, in the order in which they did. Set by ActionTest, also where they failed.
	Tests []TestResult
	// PayloadsLeft is the minimum number of payloads, and of parts of an uninstalled release in the cluster, that no
	// record names any more and that could not be deleted. PayloadsLeftReason is their place and the cause.
	PayloadsLeft       int
	PayloadsLeftReason string
}

// TestResult is how one of the chart's tests ended.
type TestResult struct {
	// Name is that of the test's object.
	Name string
	// Phase is "Succeeded", "Failed", "Running", where the tests were cut off, or "Unknown".
	Phase string
	// StartedAt and CompletedAt are the times, as far as the test began and ended.
	StartedAt, CompletedAt time.Time
}

// job is what Act is to do.
type job struct {
	decision decide.Decision
	desired  model.Desired
	options  model.Options
	chart    *chart.Chart
	values   map[string]any
}

// Act carries out a decision. The error, if any, is an [*Error]; the Result is valid even with an error.
//
// Chart and values are only read and may be shared between calls. They may be nil for all actions but installations and
// upgrades. Decisions without an action return at once; so does ActionCorrectDrift.
//
// The end of ctx does not stop a running action: the action continues, within its timeout, unless Options.Stop ends it.
func (c *Client) Act(ctx context.Context, target model.Target, decision decide.Decision, desired model.Desired,
	options model.Options,
	chrt *chart.Chart, values map[string]any,
) (Result, error) {
	timeout, ok := actionTimeout(decision.Action, options)
	if !ok {
		return Result{}, nil
	}
	logs := &helmerr.LogBuffer{Redactor: helmerr.NewRedactor(values, options.SecretValues)}
	fail := func(err error, s *session) *helmerr.Error { return newActError(decision.Action, err, s, logs) }
	if err := ctx.Err(); err != nil {
		return Result{}, fail(fmt.Errorf("nothing was changed: %w", err), nil)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()

	j := job{decision: decision, desired: desired, options: options, chart: chrt, values: values}
	if err := j.check(ctx, c.renderer); err != nil {
		return Result{}, fail(err, nil)
	}
	s, err := c.open(ctx, target, desired, logs)
	if err != nil {
		return Result{}, fail(err, nil)
	}
	s.renderer = c.renderer
	end, err := c.begin(s, desired)
	if err != nil {
		return Result{}, fail(err, s)
	}
	defer end()
	s.storage.Deadline = c.now().Add(timeout + decide.ActionMargin)
	s.watch(options.Progress)
	if s.cluster != nil {
		s.cluster.Recorded = func() error { return s.checkRecordExists(desired.Name) }
	}
	if s.cluster != nil && decision.Action != model.ActionUninstall {
		s.cluster.Stop = options.Stop
		s.records.KeepOldRecords()
	}
	late, err := c.performAndFinish(ctx, s, j)
	c.manifests.note(target, desired, s.storage)
	result := s.result(decision.Action)
	if err != nil {
		actErr := fail(err, s)
		if errors.Is(actErr.Kind, helmerr.ErrRefused) {
			// At most, Helm made room in the history for the revision that was refused.
			result.StorageChanged, actErr.StorageChanged = false, false
		}
		if late && (actErr.Kind == nil || errors.Is(actErr.Kind, helmerr.ErrUnreachable)) {
			actErr.Kind = helmerr.ErrTimeout
		}
		return result, actErr
	}
	if s.cluster != nil {
		result.Objects, _ = s.cluster.Objects()
	}
	return result, nil
}

// performAndFinish releases the resources of the action even after a panic. It reports whether the action ran out of
// time; the time for the cleanup does not count.
func (c *Client) performAndFinish(ctx context.Context, s *session, j job) (late bool, err error) {
	isGone := false
	if s.records != nil {
		defer func() { s.records.Finish(j.desired.Name, c.now(), isGone) }()
	}
	err = s.perform(j)
	late = errors.Is(ctx.Err(), context.DeadlineExceeded)
	if s.records == nil {
		return late, err
	}
	if overtaken := s.records.Overtaken(); overtaken != nil {
		// Helm only logs of most records that they were not saved.
		return late, overtaken
	}
	isGone = err == nil && j.decision.Action == model.ActionUninstall
	return late, err
}

// actionTimeout returns how long an action may take; ok is false where there is nothing to act.
func actionTimeout(action model.Action, options model.Options) (timeout time.Duration, ok bool) {
	switch action {
	case model.ActionInstall, model.ActionRecoverThenInstall:
		return options.Install.ActionTimeout(), true
	case model.ActionUpgrade, model.ActionRecoverThenUpgrade:
		return options.Upgrade.ActionTimeout(), true
	case model.ActionRollback:
		return options.Rollback.ActionTimeout(), true
	case model.ActionTest:
		return options.Test.ActionTimeout(), true
	case model.ActionUninstall:
		return options.Uninstall.ActionTimeout(), true
	default:
		return 0, false
	}
}

// perform calls the verbs that the decision asks for.
func (s *session) perform(j job) error {
	if j.decision.Recovery != decide.RecoverNothing {
		if err := s.recoverPending(j.decision, j.desired); err != nil {
			return err
		}
	}
	s.storage.Labels = records.AttemptLabels(j.desired, j.decision)
	if j.decision.Keep > 0 && j.decision.Action != model.ActionUninstall {
		s.storage.Kept = records.NameOf(j.desired.Name, j.decision.Keep)
	}
	var err error
	switch j.decision.Action {
	case model.ActionUninstall:
		return s.uninstall(j.decision, j.desired, j.options.Uninstall)
	case model.ActionInstall, model.ActionRecoverThenInstall:
		err = s.install(j)
	case model.ActionRollback:
		err = s.rollback(j)
	case model.ActionTest:
		err = s.test(j.decision, j.desired, j.options.Test)
	default:
		err = s.upgrade(j)
	}
	if err != nil {
		return err
	}
	return s.checkRecorded()
}

// checkNewest returns an error if the newest revision is not the one that the decision is based on. Helm's lock
// separates two actions, but it does not protect a decision from later changes.
func (s *session) checkNewest(decision decide.Decision, desired model.Desired) error {
	if decision.FromRevision == 0 || decision.Recovery == decide.RecoverReplace {
		// recoverPending saw to it, and hid the newest revision since.
		return nil
	}
	last, err := s.config.Releases.Last(desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return helmerr.New(helmerr.ErrStale, "revision %d no longer exists", decision.FromRevision)
	}
	if err != nil {
		return fmt.Errorf("reading revision %d: %w", decision.FromRevision, err)
	}
	if last.Version != decision.FromRevision {
		return helmerr.New(helmerr.ErrStale, "revision %d was created after revision %d", last.Version, decision.FromRevision)
	}
	if err := s.checkSameRecord(decision, desired); err != nil {
		return err
	}
	return checkNotUninstalled(last)
}

// checkSameRecord returns an error if the record that was just read only has the same number as the record that the
// decision is based on: the release was reinstalled in between.
func (s *session) checkSameRecord(decision decide.Decision, desired model.Desired) error {
	if s.records == nil {
		return nil
	}
	id := s.records.SeenUID(records.NameOf(desired.Name, decision.FromRevision))
	if id != "" && decision.FromID != "" && id != decision.FromID {
		return helmerr.New(helmerr.ErrStale, "revision %d was re-created after it was observed", decision.FromRevision)
	}
	return nil
}

// checkNotUninstalled returns an error if an uninstallation of the release has begun.
func checkNotUninstalled(last *release.Release) error {
	if records.IsUninstalling(last) {
		return helmerr.New(helmerr.ErrStale, "revision %d is being uninstalled", last.Version)
	}
	return nil
}

// checkNeverWorked returns an error unless the newest revision in the cluster is still the failed attempt by HelmOp
// that the decision is based on. A release that works now, or belongs to another owner, must not be uninstalled because
// of an earlier failure.
func (s *session) checkNeverWorked(decision decide.Decision, desired model.Desired) error {
	if s.cluster != nil {
		conn := s.cluster.Clients.Conn
		conn.Observations.Drop(conn.ObservationKey(desired.Namespace, desired.Name))
	}
	if err := s.checkNewest(decision, desired); err != nil {
		return err
	}
	last, err := s.config.Releases.Last(desired.Name)
	if err != nil {
		return fmt.Errorf("reading revision %d: %w", decision.FromRevision, err)
	}
	switch {
	case last.Info == nil || last.Info.Status != release.StatusFailed:
		return helmerr.New(helmerr.ErrStale, "revision %d is no longer marked as failed", last.Version)
	case last.Labels[model.LabelRevision] != strconv.Itoa(last.Version), desired.UID == "",
		last.Labels[model.LabelReleaseUID] != desired.UID:
		return helmerr.New(helmerr.ErrStale, "revision %d was not made by HelmOp", last.Version)
	}
	return nil
}

// checkRecorded returns an error where Helm claims success but could not save it, which it only logs.
func (s *session) checkRecorded() error {
	if newest := s.storage.Newest(); newest == nil || newest.Info.Status != release.StatusDeployed {
		return helmerr.New(helmerr.ErrUnreachable,
			"the release was applied, but its record was not saved: the next reconciliation recovers the release")
	}
	return nil
}

func (s *session) result(action model.Action) Result {
	result := Result{StorageChanged: s.storage.StorageChanged(), Tests: s.tests}
	if s.records != nil {
		result.PayloadsLeft, result.PayloadsLeftReason = s.records.LeftBehind()
	}
	newest := s.storage.Newest()
	if newest == nil {
		if action == model.ActionUninstall && result.StorageChanged {
			result.Status = release.StatusUninstalled.String()
		}
		return result
	}
	if s.cluster != nil {
		_, result.Generations = s.cluster.Objects()
	}
	result.Revision = newest.Version
	if newest.Info != nil {
		result.Status = newest.Info.Status.String()
		result.FirstDeployed = newest.Info.FirstDeployed.Time
		result.LastDeployed = newest.Info.LastDeployed.Time
	}
	if newest.Chart != nil && newest.Chart.Metadata != nil {
		result.ChartName = newest.Chart.Metadata.Name
		result.ChartVersion = newest.Chart.Metadata.Version
		result.AppVersion = newest.Chart.Metadata.AppVersion
	}
	return result
}

func newActError(action model.Action, err error, s *session, logs *helmerr.LogBuffer) *helmerr.Error {
	kind := helmerr.Classify(err)
	text := err.Error()
	if errors.Is(kind, helmerr.ErrConflict) {
		text = helmerr.Explain(err).Error()
	}
	storageChanged := false
	if s != nil {
		storageChanged = s.storage.StorageChanged()
		if cause := s.deletions(); cause != nil {
			text += ": " + cause.Error()
			if kind == nil {
				kind = helmerr.Classify(cause)
			}
		}
	}
	return &helmerr.Error{
		Kind:           kind,
		Action:         action,
		StorageChanged: storageChanged,
		Message:        logs.Text(text),
		Logs:           logs.Last(),
	}
}

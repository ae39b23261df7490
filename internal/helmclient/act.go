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

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Result describes the records that an action wrote to Helm's storage.
type Result struct {
	// Revision is the newest revision that the action saved; zero if it saved none.
	Revision int
	// Status is Helm's status of Revision; "uninstalled" after an uninstallation.
	Status string
	// ChartName, ChartVersion and AppVersion describe the chart of Revision.
	ChartName, ChartVersion, AppVersion string
	// FirstDeployed is when the release was first installed; LastDeployed is when Revision was created.
	FirstDeployed, LastDeployed time.Time
	// StorageChanged is true if the action saved or deleted a record.
	StorageChanged bool
	// Objects are the objects of the revision's manifest, with namespaces filled in, without hooks, in a fixed order. They
	// are set after a successful installation, upgrade or rollback.
	Objects []inventory.Ref
	// Generations are the generations that the API server returned for Objects that the action created, patched or found
	// unchanged.
	Generations map[inventory.Ref]model.Generation
	// Tests are the results of the tests that ran, in the order of their start. ActionTest sets them, also if tests
	// failed.
	Tests []TestResult
	// PayloadsLeft is the minimum number of payloads that no record names any more and that could not be deleted. For an
	// uninstalled release, it includes parts of payloads in the cluster.
	PayloadsLeft int
	// PayloadsLeftReason is the place of the payloads left, and the cause.
	PayloadsLeftReason string
}

// TestResult is the result of one of the chart's tests.
type TestResult struct {
	// Name is the name of the test's object.
	Name string
	// Phase is "Succeeded", "Failed", "Unknown", or "Running" if the tests were interrupted.
	Phase string
	// StartedAt and CompletedAt are when the test started and ended; zero if it did not.
	StartedAt, CompletedAt time.Time
}

// job is the input of an action.
type job struct {
	decision decide.Decision
	desired  model.Desired
	options  model.Options
	chart    *chart.Chart
	values   map[string]any
}

// Act carries out a decision. The error, if any, is an [*helmerr.Error]; the Result is valid even with an error.
//
// Act only reads chart and values, so calls may share them. Only installations and upgrades need them; for other
// actions they may be nil. Act does nothing for a decision without an action and for ActionCorrectDrift.
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
	s.reportTo(options.Progress)
	if s.cluster != nil {
		s.cluster.Recorded = func() error { return s.checkRecordExists(desired.Name) }
		s.cluster.Known, s.knownSince = c.versions.Get(target.Key, s.cluster.Owner)
	}
	if s.cluster != nil && decision.Action != model.ActionUninstall {
		s.cluster.Stop = options.Stop
		s.records.KeepOldRecords()
	}
	late, err := c.performAndFinish(ctx, s, j)
	c.manifests.note(target, desired, s.storage)
	c.noteVersions(target, s, decision.Action == model.ActionUninstall && err == nil)
	result := s.result(decision.Action)
	if err != nil {
		actErr := fail(err, s)
		if errors.Is(actErr.Kind, helmerr.ErrRefused) {
			// The only change is that Helm may have deleted old records to make room for the refused revision.
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

// Saw adds versions of objects that belong to a release, for example from a watch. An uninstallation then deletes the
// objects in these versions without reading them. It sends no request; cluster is the Key of a [model.Target].
func (c *Client) Saw(cluster, namespace, name string, versions map[inventory.Ref]model.ObjectVersion) {
	seen := apply.Versions{}
	for ref, version := range versions {
		seen.Add(ref, version)
	}
	release := apply.ReleaseName{Name: name, Namespace: namespace}
	_, now := c.versions.Get(cluster, release)
	c.versions.Add(cluster, release, seen, now)
}

// noteVersions caches the versions of the objects that an action applied. It drops them if the release is gone.
func (c *Client) noteVersions(target model.Target, s *session, isGone bool) {
	switch {
	case s.cluster == nil:
	case isGone:
		c.versions.Remove(target.Key, s.cluster.Owner)
	default:
		c.versions.Add(target.Key, s.cluster.Owner, s.cluster.AppliedVersions(), s.knownSince)
	}
}

// performAndFinish performs the action and releases its resources, even after a panic. It reports whether the action
// timed out; the time for the cleanup does not count.
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
		// For most records, Helm only logs that it could not save them.
		return late, overtaken
	}
	isGone = err == nil && j.decision.Action == model.ActionUninstall
	return late, err
}

// actionTimeout returns how long an action may take; ok is false if Act has nothing to do for it.
func actionTimeout(action model.Action, options model.Options) (timeout time.Duration, ok bool) {
	switch action {
	case model.ActionInstall, model.ActionRecoverThenInstall:
		return options.Install.ActionTimeout(), true
	case model.ActionUpgrade, model.ActionRecoverThenUpgrade, model.ActionAdopt:
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

// perform carries out the recovery and the action of the decision.
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
	case model.ActionAdopt:
		err = s.adopt(j)
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
		// recoverPending checked the newest revision and has hidden it since.
		return nil
	}
	last, err := s.config.Releases.Last(desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d no longer exists", decision.FromRevision)
	}
	if err != nil {
		return fmt.Errorf("reading Helm revision %d: %w", decision.FromRevision, err)
	}
	if last.Version != decision.FromRevision {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d was created after Helm revision "+
			"%d", last.Version, decision.FromRevision)
	}
	if err := s.checkSameRecord(decision, desired); err != nil {
		return err
	}
	return checkNotUninstalled(last)
}

// checkSameRecord returns an error if the record that was just read is not the record that the decision is based on. A
// reinstalled release has another record of the same number.
func (s *session) checkSameRecord(decision decide.Decision, desired model.Desired) error {
	if s.records == nil {
		return nil
	}
	id := s.records.SeenUID(records.NameOf(desired.Name, decision.FromRevision))
	if id != "" && decision.FromID != "" && id != decision.FromID {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d was re-created after it was observed", decision.FromRevision)
	}
	return nil
}

// checkNotUninstalled returns an error if an uninstallation of the release has begun, according to its newest record.
func checkNotUninstalled(last *release.Release) error {
	if records.IsUninstalling(last) {
		return helmerr.New(helmerr.ErrStale, "Helm revision %d is being uninstalled", last.Version)
	}
	return nil
}

// checkNeverWorked returns an error unless the newest revision in the cluster is still the failed attempt by HelmOp
// that the decision is based on. An earlier failure is no reason to uninstall a release that works now or belongs to
// another owner.
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
		return fmt.Errorf("reading Helm revision %d: %w", decision.FromRevision, err)
	}
	switch {
	case last.Info == nil || last.Info.Status != release.StatusFailed:
		return helmerr.New(helmerr.ErrStale, "Helm revision %d is no longer marked as failed", last.Version)
	case last.Labels[model.LabelRevision] != strconv.Itoa(last.Version), desired.UID == "",
		last.Labels[model.LabelReleaseUID] != desired.UID:
		return helmerr.New(helmerr.ErrStale, "Helm revision %d was not made by HelmOp", last.Version)
	}
	return nil
}

// checkRecorded returns an error if the deployed revision was not saved. Helm only logs this failure and returns
// success.
func (s *session) checkRecorded() error {
	if newest := s.storage.Newest(); newest == nil || newest.Info.Status != release.StatusDeployed {
		return helmerr.New(helmerr.ErrUnreachable,
			"the release was applied, but its record was not saved: the next reconciliation recovers the release")
	}
	return nil
}

// result returns the records that the action wrote, and the objects that it applied.
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

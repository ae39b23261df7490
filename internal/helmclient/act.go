// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/knownobjects"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/verbs"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Result describes the records that an action wrote to Helm's storage.
type Result struct {
	// Revision is the newest Helm revision that the action saved. It is zero if the action saved none.
	Revision int
	// Status is Helm's status of Revision. After an uninstallation, it is "uninstalled".
	Status string
	// ChartName, ChartVersion and AppVersion describe the chart of Revision.
	ChartName, ChartVersion, AppVersion string
	// FirstDeployed is the time of the first installation of the release. LastDeployed is the time when Revision was
	// created.
	FirstDeployed, LastDeployed time.Time
	// StorageChanged is true if the action saved or deleted a record.
	StorageChanged bool
	// Objects are the objects in the manifest of Revision, with their namespaces, without hooks, in a fixed order. Act
	// sets them after a successful installation, upgrade or rollback.
	Objects []inventory.Ref
	// Generations has the generations of objects in Objects. The API server returned a generation when the action
	// created or patched the object, or found the object unchanged.
	Generations map[inventory.Ref]model.Generation
	// Tests are the results of the tests that ran, in the order of their start. Act sets them for ActionTest, also if
	// tests failed.
	Tests []model.TestResult
	// Changes are the changes to the records of the release; nil if they are not known. Act sets them after a successful
	// action.
	Changes *model.RecordChanges
	// RecordsLeft is the number of known records that no release needs and that could not be deleted: old records of the
	// history, and payloads that no record uses. There may be more. For an uninstalled release, it includes parts of
	// payloads in the cluster.
	RecordsLeft int
	// RecordsLeftReason has the place of these records and the cause of the failure.
	RecordsLeftReason string
}

// Act carries out a decision. The error is an [*helmerr.Error]. The Result is valid even with an error.
//
// Act does not change chart and values, so several calls may share them. Only installations and upgrades use them. For
// other actions they may be nil. Act does nothing for a decision without an action and for ActionCorrectDrift.
//
// The end of ctx does not stop a running action. Only the timeout of the action and Options.Stop end the action. But
// the end of ctx ends a wait for memory. The timeout does not include waits for memory.
func (c *Client) Act(ctx context.Context, target model.Target, decision decide.Decision, desired model.Desired,
	options model.Options,
	chrt *chart.Chart, values map[string]any,
) (Result, error) {
	timeout, ok := actionTimeout(decision.Action, options)
	if !ok {
		return Result{}, nil
	}
	logs := &helmerr.LogBuffer{Redactor: helmerr.NewRedactor(values, options.SecretValues)}
	fail := func(err error) (Result, error) { return Result{}, helmerr.Acting(decision.Action, err, nil, logs) }
	if err := ctx.Err(); err != nil {
		return fail(fmt.Errorf("nothing was changed: %w", err))
	}
	// An action that waited for memory begins again, with the whole timeout.
	end := context.CancelFunc(func() {})
	defer func() { end() }()
	within := func() (acting context.Context) {
		end()
		acting, end = context.WithTimeout(context.WithoutCancel(ctx), timeout)
		return acting
	}

	j := session.Job{Decision: decision, Desired: desired, Options: options, Chart: chrt, Values: values}
	if err := verbs.Check(within(), c.renderer, j); err != nil {
		return fail(err)
	}
	ended, err := c.running.begin(target, desired)
	if err != nil {
		return fail(err)
	}
	defer ended()
	waiting, stopWaiting := waitsOf(ctx, j)
	defer stopWaiting()
	open := func(_ context.Context, target model.Target, desired model.Desired, logs *helmerr.LogBuffer,
	) (*session.Session, error) {
		target.AnyKinds = decision.Action == model.ActionUninstall
		return c.open(within(), target, desired, logs)
	}
	inSession := func(use func(*session.Session) error) error {
		return session.Use(ctx, c.connections.Shared.Actions, waiting, open, target, desired, logs, use)
	}
	if decision.Recovery == decide.RecoverFail {
		if err := inSession(func(s *session.Session) error { return verbs.MarkFailed(s, j) }); err != nil {
			return fail(err)
		}
	}
	var result Result
	var last error
	err = inSession(func(s *session.Session) error {
		result, last = c.actIn(s, target, j, timeout)
		return last
	})
	if err != nil && err != last { //nolint:errorlint // It is the same error if an action returned it.
		return fail(err)
	}
	return result, err
}

// waitsOf returns the waits for memory of an action. An action that waits has changed nothing. So its waits also end
// with the context of the caller, and when it should stop.
func waitsOf(ctx context.Context, j session.Job) (waits actionmemory.Waits, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	keepStop := func() bool { return true }
	if j.Options.Stop != nil && j.Decision.Action != model.ActionUninstall {
		keepStop = context.AfterFunc(j.Options.Stop, func() { cancel(context.Cause(j.Options.Stop)) })
	}
	waits = actionmemory.Waits{Context: ctx, Begin: func() {
		if j.Options.Progress != nil {
			j.Options.Progress("waiting for memory, because other large releases use it")
		}
	}}
	return waits, func() {
		keepStop()
		cancel(nil)
	}
}

// actIn carries out a job in a session.
func (c *Client) actIn(s *session.Session, target model.Target, j session.Job,
	timeout time.Duration,
) (Result, error) {
	action := j.Decision.Action
	s.Storage.Deadline = c.now().Add(timeout + decide.ActionMargin)
	var since knownobjects.Since
	if s.Cluster != nil {
		s.Cluster.Known, since = c.versions.Get(target.Key, s.Cluster.Owner)
	}
	tests, late, err := c.performAndFinish(s.Ctx, s, j)
	c.manifests.Note(releaseKey(target, j.Desired.Namespace, j.Desired.Name), s.Storage, j.Options.KeepManifest)
	c.noteVersions(target, s, since, action == model.ActionUninstall && err == nil)
	result := resultOf(s, action)
	result.Tests = tests
	if err != nil {
		actErr := s.Error(action, err)
		if errors.Is(actErr.Kind, helmerr.ErrRefused) {
			// Helm may have deleted old records to make room for the refused revision. There is no other change.
			result.StorageChanged, actErr.StorageChanged = false, false
		}
		if late && (actErr.Kind == nil || errors.Is(actErr.Kind, helmerr.ErrUnreachable)) {
			actErr.Kind = helmerr.ErrTimeout
		}
		return result, actErr
	}
	if s.Cluster != nil {
		result.Objects, _ = s.Cluster.Objects()
	}
	// To mark a record as failed, Act has used another session.
	if s.Records != nil && j.Decision.Recovery != decide.RecoverFail {
		result.Changes = s.Records.Changes()
	}
	return result, nil
}

// Saw caches versions of objects that belong to a release, for example from a watch. A later action changes or deletes
// objects in a cached version without a read. cluster is the Key of a [model.Target]. Saw sends no request.
func (c *Client) Saw(cluster, namespace, name string, observed map[inventory.Ref]model.ObjectVersion) {
	seen := knownobjects.Versions{}
	for ref, version := range observed {
		seen.Add(ref, version)
	}
	release := objectinfo.ReleaseName{Name: name, Namespace: namespace}
	_, now := c.versions.Get(cluster, release)
	c.versions.Add(cluster, release, seen, now)
}

// noteVersions caches the versions of the objects that an action applied. It drops the versions if the release no
// longer exists.
func (c *Client) noteVersions(target model.Target, s *session.Session, since knownobjects.Since, isGone bool) {
	switch {
	case s.Cluster == nil:
	case isGone:
		c.versions.Remove(target.Key, s.Cluster.Owner)
	default:
		c.versions.Add(target.Key, s.Cluster.Owner, s.Cluster.AppliedVersions(), since)
	}
}

// performAndFinish performs the action and deletes what it left behind, even after a panic. It returns the results of
// tests.
// late is true if the action timed out before the resources were released.
func (c *Client) performAndFinish(ctx context.Context, s *session.Session, j session.Job) (tests []model.TestResult,
	late bool, err error,
) {
	isGone := false
	if s.Records != nil {
		defer func() { s.Records.Finish(j.Desired.Name, c.now(), isGone) }()
	}
	tests, err = verbs.Perform(s, j)
	late = errors.Is(ctx.Err(), context.DeadlineExceeded)
	if s.Records == nil {
		return tests, late, err
	}
	if overtaken := s.Records.Overtaken(); overtaken != nil {
		// Helm returns no error for most records that it could not save. It only logs the failure.
		return tests, late, overtaken
	}
	isGone = err == nil && j.Decision.Action == model.ActionUninstall
	return tests, late, err
}

// actionTimeout returns the timeout of an action. ok is false if Act does nothing for the action.
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

// resultOf returns the Result for the records that an action wrote and the objects that it applied.
func resultOf(s *session.Session, action model.Action) Result {
	result := Result{StorageChanged: s.Storage.StorageChanged()}
	if s.Records != nil {
		result.RecordsLeft, result.RecordsLeftReason = s.Records.LeftBehind()
	}
	newest := s.Storage.Newest()
	if newest == nil {
		if action == model.ActionUninstall && result.StorageChanged {
			result.Status = release.StatusUninstalled.String()
		}
		return result
	}
	if s.Cluster != nil {
		_, result.Generations = s.Cluster.Objects()
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

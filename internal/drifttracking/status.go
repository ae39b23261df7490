// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drifttracking

import (
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releaseinventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// maxDriftedObjects is the largest number of objects in status.drift. maxDriftPaths is the largest number of paths for
	// each object.
	maxDriftedObjects = 10
	maxDriftPaths     = 10
)

// IsDrifted reports whether the status has differences.
func IsDrifted(release *addonsv1.HelmOpRelease) bool {
	return release.Status.Drift != nil && release.Status.Drift.Differing > 0
}

// isDenied reports whether permissions to watch an object are missing.
func isDenied(snapshot *objectwatch.Snapshot) bool {
	return snapshot != nil && errors.Is(snapshot.Err, objectwatch.ErrForbidden)
}

// stuckError returns the error for which watches have failed for objectwatch.StuckAfter; nil if there is none.
// Temporary errors do not last as long. If all objects are known, a failed watch of Helm's records does not count: it
// hides no drift.
func stuckError(snapshot *objectwatch.Snapshot, now time.Time) error {
	if snapshot == nil || snapshot.Err == nil {
		return nil
	}
	err, since := snapshot.Err, snapshot.ErrSince
	if snapshot.Synced {
		err, since = nil, now
		for _, state := range snapshot.Objects {
			if failed := state.WatchError; failed != nil && (err == nil || failed.Since.Before(since)) {
				err, since = failed.Err, failed.Since
			}
		}
	}
	if now.Sub(since) < objectwatch.StuckAfter {
		return nil
	}
	return err
}

// reportUnwatched reports in the condition Drifted that the objects cannot be watched. Known differences remain in the
// message.
func reportUnwatched(release *addonsv1.HelmOpRelease, err error) {
	message := "The objects of the release cannot be watched: " + err.Error()
	status := metav1.ConditionUnknown
	if IsDrifted(release) {
		status, message = report.True, fmt.Sprintf("%s differed at the last comparison, see status.drift. %s",
			plural.Count(release.Status.Drift.Differing, "object", "objects"), message)
	}
	report.SetCondition(release, addonsv1.DriftedCondition, status, addonsv1.DriftCheckFailedReason, message)
}

// Forget drops the differences from another Helm revision.
func Forget(release *addonsv1.HelmOpRelease) {
	if status := release.Status.Drift; status != nil {
		status.Differing, status.Objects, status.Fingerprint = 0, nil, ""
	}
	if conditions.IsTrue(release, addonsv1.DriftedCondition) {
		report.SetCondition(release, addonsv1.DriftedCondition, metav1.ConditionUnknown, addonsv1.DriftCheckPendingReason,
			"The objects of the release are about to be compared with its current Helm revision")
	}
}

// report writes the result of drift detection into the status. Drifted is True if objects differ. Otherwise it is
// Unknown if objects could not be compared or if a watch has failed for long, and False if all are equal. left is the
// number of objects that are not compared yet. err means that the ignore rules are not valid.
func (p *Pass) report(left int, err error) {
	status := p.Release.Status.Drift
	if status == nil {
		status = &addonsv1.DriftStatus{}
		p.Release.Status.Drift = status
	}
	// The interval may have ended meanwhile.
	p.due(max(time.Millisecond, status.LastCheckedAt.Add(driftmemory.Interval(p.Release)).Sub(p.Now())))
	p.due(p.Memory.RetryIn(p.Snapshot, p.IsCorrecting, p.Now()))
	differences := p.Memory.Differences()
	status.Differing = int32(len(differences)) //nolint:gosec // bounded by releaseinventory.MaxObjects
	status.Objects = p.driftedObjects(differences)
	status.Fingerprint = ""
	if len(differences)+len(p.Memory.Uncompared)+p.Memory.Left(p.Snapshot) == 0 {
		status.Fingerprint = p.Memory.Fingerprint(p.Snapshot)
	}
	problems := p.problems(left, err)
	switch {
	case len(differences) > 0:
		reason, message := p.describe(differences)
		if problems != "" {
			message += ". " + problems
		}
		report.SetCondition(p.Release, addonsv1.DriftedCondition, report.True, reason, message)
	case err == nil && len(p.Memory.Uncompared) == 0 && left > 0 && stuckError(p.Snapshot, p.Now()) == nil &&
		conditions.IsFalse(p.Release, addonsv1.DriftedCondition):
		// The check takes several passes. The condition keeps the result of the last check until this check is complete.
		report.ConfirmCondition(p.Release, addonsv1.DriftedCondition)
	case problems != "":
		report.SetCondition(p.Release, addonsv1.DriftedCondition, metav1.ConditionUnknown, driftErrorReason(err), problems)
	default:
		report.SetCondition(p.Release, addonsv1.DriftedCondition, report.False, addonsv1.NoDriftReason,
			"All objects are as the release installed them")
	}
}

// problems returns which objects could not be compared, and why. If a watch has failed for long, it also returns why
// HelmOp notices changes late. The result is empty if all objects were compared and are watched.
func (p *Pass) problems(left int, err error) string {
	var texts []string
	if err != nil {
		texts = append(texts, err.Error())
	}
	if len(p.Memory.Uncompared) > 0 {
		texts = append(texts, "Objects cannot be compared: "+p.Memory.Uncompared.String())
	}
	if left > 0 {
		texts = append(texts, "Still to compare: "+plural.Count(left, "object", "objects"))
	}
	if stuck := stuckError(p.Snapshot, p.Now()); stuck != nil {
		texts = append(texts, "HelmOp notices changes only at the comparison of all objects, see "+
			"spec.driftDetection.interval: "+stuck.Error())
	}
	return strings.Join(texts, ". ")
}

// describe returns the reason and the message for differences. If drift correction is enabled, the message says
// why drift was not corrected.
func (p *Pass) describe(differences []drift.Difference,
) (reason, message string) {
	reason, message = addonsv1.DriftDetectedReason, List(differences)
	if p.WhyDeferred != "" {
		message += ". The correction waits for maintenance: " + p.WhyDeferred
	}
	if !p.IsCorrecting {
		return reason, message
	}
	for _, d := range differences {
		if until, held := p.Memory.Corrections.HeldUntil(d.Ref, p.Now()); held {
			reason = addonsv1.DriftContestedReason
			message = fmt.Sprintf("%s. %s reverts the corrections of %s again and again: HelmOp does not correct the object "+
				"until %s; stop the other client, or add a rule to spec.driftDetection.ignore", message,
				managerTitle(d.Manager), d.Ref, until.UTC().Format(time.RFC3339))
			break
		}
	}
	if len(p.Memory.Uncorrected) > 0 {
		// A failed correction takes precedence over a contested object, because a user must resolve its cause.
		reason, message = addonsv1.DriftCorrectionFailedReason,
			"Objects cannot be corrected: "+p.Memory.Uncorrected.String()+". "+message
	}
	return reason, message
}

// managerTitle describes a field manager, for the start of a sentence.
func managerTitle(manager string) string {
	if manager == "" {
		return "Another program"
	}
	return fmt.Sprintf("Field manager %q", manager)
}

// driftedObjects returns the first differences in the form of the status.
func (p *Pass) driftedObjects(differences []drift.Difference,
) []addonsv1.DriftedObject {
	short := func(text string) string { return apiutil.Truncate(text, releaseinventory.MaxText) }
	var objects []addonsv1.DriftedObject
	for _, d := range differences[:min(len(differences), maxDriftedObjects)] {
		object := addonsv1.DriftedObject{
			APIVersion: short(d.Ref.APIVersion()), Kind: short(d.Ref.Kind), Namespace: short(d.Ref.Namespace),
			Name: short(d.Ref.Name), Missing: d.Missing, Manager: apiutil.Truncate(d.Manager, 256),
		}
		for _, path := range d.Paths[:min(len(d.Paths), maxDriftPaths)] {
			object.Paths = append(object.Paths, apiutil.Truncate(path, 512))
		}
		if until, held := p.Memory.Corrections.HeldUntil(d.Ref, p.Now()); held && p.IsCorrecting {
			object.HeldUntil = metav1.NewTime(until)
		}
		objects = append(objects, object)
	}
	return objects
}

// List returns the first differences for a message, without the contents of the fields.
func List(differences []drift.Difference) string {
	return apiutil.ListObjects(differences, "; ")
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// driftTimeout is the timeout of a comparison, and of a correction, in one pass. The objects that are left are handled
	// in the next pass, which is due after driftContinues.
	driftTimeout   = 30 * time.Second
	driftContinues = 2 * time.Second

	// maxDriftedObjects is the number of objects in status.drift, maxDriftPaths is the number of paths for each.
	maxDriftedObjects = 10
	maxDriftPaths     = 10
)

// assessDrift reports whether objects differ from what the release installed. It sends requests only for objects that
// changed since their last comparison.
func (r *Reconciler) assessDrift(ctx context.Context, p *releasePass) {
	r.compareObjects(ctx, p)
	// Known differences count also in a pass that compares nothing, but only if the release is in sync: otherwise its
	// state is worse than drifted.
	p.drifted = isDrifted(p.release) && (len(p.differences) > 0 || p.release.Status.State == string(model.StateInSync))
}

// isDrifted reports whether the status has differences.
func isDrifted(release *addonsv1.HelmOpRelease) bool {
	return release.Status.Drift != nil && release.Status.Drift.Differing > 0
}

// compareObjects compares objects that changed, and updates status.drift and the condition Drifted.
func (r *Reconciler) compareObjects(ctx context.Context, p *releasePass) {
	release := p.release
	memory := &r.memoryOf(release).drift
	switch {
	case releasespec.DriftModeOf(&release.Spec) == addonsv1.DriftModeDisabled:
		conditions.Delete(release, addonsv1.DriftedCondition)
		release.Status.Drift = nil
		*memory = driftmemory.Memory{}
		return
	case isDenied(p.snapshot) || isStuck(p.snapshot, r.now()):
		reportUnwatched(release, p.snapshot.Err)
		return
	case p.snapshot == nil || !p.snapshot.Synced || !isInventoryOf(release, newestDeployed(p)):
		return
	}
	ignored, err := apiutil.DigestOf(release.Spec.DriftDetection.Ignore)
	if err != nil {
		report.SetCondition(release, addonsv1.DriftedCondition, metav1Unknown, addonsv1.DriftCheckFailedReason, err.Error())
		return
	}
	memory.Begin(newestDeployed(p), ignored, release.Status.Drift, p.snapshot)
	if driftmemory.IsFullCheckDue(release, r.now()) {
		memory.BeginCheck()
		if release.Status.Drift == nil {
			release.Status.Drift = &addonsv1.DriftStatus{}
		}
		release.Status.Drift.LastCheckedAt = metav1.NewTime(r.now())
	}
	if suspects := memory.Suspects(p.snapshot, p.policy.CorrectDrift, r.now()); len(suspects) > 0 {
		done, ok := r.slot(p)
		if !ok {
			return
		}
		defer done()
		known := len(memory.Differing)
		if err = r.compare(ctx, p, memory, suspects); ctx.Err() != nil {
			return
		}
		r.announceDrift(p, memory, known)
	}
	r.reportDrift(p, memory, memory.Left(p.snapshot), err)
}

// isDenied reports whether permissions to watch an object are missing.
func isDenied(snapshot *objectwatch.Snapshot) bool {
	return snapshot != nil && errors.Is(snapshot.Err, objectwatch.ErrForbidden)
}

// isStuck reports whether watches have failed for objectwatch.StuckAfter, which is longer than temporary errors last.
func isStuck(snapshot *objectwatch.Snapshot, now time.Time) bool {
	return snapshot != nil && !snapshot.Synced && snapshot.Err != nil &&
		now.Sub(snapshot.ErrSince) >= objectwatch.StuckAfter
}

// reportUnwatched reports in the condition Drifted that the objects cannot be watched. Known differences stay reported.
func reportUnwatched(release *addonsv1.HelmOpRelease, err error) {
	message := "The objects of the release cannot be watched: " + err.Error()
	status := metav1Unknown
	if isDrifted(release) {
		status, message = report.True, fmt.Sprintf("%s differed at the last comparison, see status.drift. %s",
			plural.Count(release.Status.Drift.Differing, "object", "objects"), message)
	}
	report.SetCondition(release, addonsv1.DriftedCondition, status, addonsv1.DriftCheckFailedReason, message)
}

// forgetDrift drops the differences from another Helm revision.
func forgetDrift(release *addonsv1.HelmOpRelease) {
	if status := release.Status.Drift; status != nil {
		status.Differing, status.Objects, status.Fingerprint = 0, nil, ""
	}
	if conditions.IsTrue(release, addonsv1.DriftedCondition) {
		report.SetCondition(release, addonsv1.DriftedCondition, metav1Unknown, addonsv1.DriftCheckPendingReason,
			"The objects of the release are about to be compared with its current Helm revision")
	}
}

// newestDeployed returns the number of the newest Helm revision if it is deployed; 0 otherwise.
func newestDeployed(p *releasePass) int {
	newest, ok := p.observation.Newest()
	if !ok || newest.Status != statusDeployed {
		return 0
	}
	return newest.Revision
}

var errInvalidDriftRule = errors.New("spec.driftDetection.ignore")

func driftErrorReason(err error) string {
	if errors.Is(err, errInvalidDriftRule) {
		return addonsv1.InvalidDriftRuleReason
	}
	return addonsv1.DriftCheckFailedReason
}

// compare compares objects with what the release installed. It records failed comparisons in the memory. The error
// means that the ignore rules are not valid.
func (r *Reconciler) compare(ctx context.Context, p *releasePass, memory *driftmemory.Memory,
	suspects map[inventory.Ref]bool,
) error {
	rules, err := driftRules(p.release.Spec.DriftDetection)
	if err != nil {
		return fmt.Errorf("%w: %w", errInvalidDriftRule, err)
	}
	ctx, cancel := context.WithTimeout(ctx, driftTimeout)
	defer cancel()
	objects, found, err := r.compareSuspects(ctx, p, memory, suspects, rules)
	if err != nil {
		memory.Uncompared.Add(inventory.Ref{}, 0, err, r.now())
		return nil
	}
	memory.Update(suspects, objects, found, p.snapshot, r.now())
	p.differences = found.Differences
	if memory.Left(p.snapshot) > 0 {
		p.due(driftmemory.Retry)
		if len(found.Compared) > 0 {
			// The timeout ended the comparison, which made progress: continue soon.
			p.due(driftContinues)
		}
	}
	return nil
}

// compareSuspects returns the objects to compare and the result of their comparison. The error means that no object
// could be compared.
func (r *Reconciler) compareSuspects(ctx context.Context, p *releasePass, memory *driftmemory.Memory,
	suspects map[inventory.Ref]bool,
	rules *drift.Rules,
) ([]*unstructured.Unstructured, drift.Comparison, error) {
	manifest, err := r.engine.Manifest(ctx, p.target, p.desired.Namespace, p.desired.Name, memory.Revision)
	if err != nil {
		return nil, drift.Comparison{}, err
	}
	access, err := r.engine.Access(p.target)
	if err != nil {
		return nil, drift.Comparison{}, err
	}
	objects := memory.ToCompare(manifest, suspects)
	cluster := drift.Cluster{Config: access.Config, Mapper: access.Mapper}
	found, err := drift.Compare(ctx, cluster, drift.Release{Namespace: p.desired.Namespace, Name: p.desired.Name}, rules,
		objects)
	return objects, found, err
}

func driftRules(spec *addonsv1.DriftDetectionOptions) (*drift.Rules, error) {
	rules := make([]drift.Rule, 0, len(spec.Ignore))
	for _, rule := range spec.Ignore {
		rules = append(rules, drift.Rule{Paths: rule.Paths, Target: releasespec.ObjectSelector(rule.Target)})
	}
	return drift.NewRules(rules)
}

// announceDrift records an Event if there are more differences than before.
func (r *Reconciler) announceDrift(p *releasePass, memory *driftmemory.Memory, known int) {
	if len(memory.Differing) <= known {
		return
	}
	r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.DriftDetectedEvent, verbCorrectDrift, fmt.Sprintf(
		"Cluster %s, release %s: %s", apiutil.ClusterTitle(p.release), describe(p.release),
		listDifferences(memory.Differences())))
}

// reportDrift writes the result of drift detection into the status. Drifted is True if objects differ; otherwise
// Unknown if objects could not be compared; otherwise False. left is the number of objects that are not compared yet;
// err means that the ignore rules are not valid.
func (r *Reconciler) reportDrift(p *releasePass, memory *driftmemory.Memory, left int, err error) {
	status := p.release.Status.Drift
	if status == nil {
		status = &addonsv1.DriftStatus{}
		p.release.Status.Drift = status
	}
	// The interval may have ended meanwhile.
	p.due(max(requeueAtOnce, status.LastCheckedAt.Add(driftmemory.Interval(p.release)).Sub(r.now())))
	p.due(memory.RetryIn(p.snapshot, p.policy.CorrectDrift, r.now()))
	differences := memory.Differences()
	status.Differing = int32(len(differences)) //nolint:gosec // bounded by maxInventory
	status.Objects = r.driftedObjects(p, memory, differences)
	status.Fingerprint = ""
	if len(differences)+len(memory.Uncompared)+memory.Left(p.snapshot) == 0 {
		status.Fingerprint = p.snapshot.Fingerprint
	}
	problems := driftProblems(memory, left, err)
	switch {
	case len(differences) > 0:
		reason, message := r.describeDrift(p, memory, differences)
		if problems != "" {
			message += ". " + problems
		}
		report.SetCondition(p.release, addonsv1.DriftedCondition, report.True, reason, message)
	case err == nil && len(memory.Uncompared) == 0 && left > 0 && conditions.IsFalse(p.release, addonsv1.DriftedCondition):
		// The check takes several passes. The result of the last check stays until this one is complete.
		report.ConfirmCondition(p.release, addonsv1.DriftedCondition)
	case problems != "":
		report.SetCondition(p.release, addonsv1.DriftedCondition, metav1Unknown, driftErrorReason(err), problems)
	default:
		report.SetCondition(p.release, addonsv1.DriftedCondition, report.False, addonsv1.NoDriftReason,
			"All objects are as the release installed them")
	}
}

// driftProblems returns which objects could not be compared, and why; empty if all were compared.
func driftProblems(memory *driftmemory.Memory, left int, err error) string {
	var texts []string
	if err != nil {
		texts = append(texts, err.Error())
	}
	if len(memory.Uncompared) > 0 {
		texts = append(texts, "Objects cannot be compared: "+memory.Uncompared.String())
	}
	if left > 0 {
		texts = append(texts, "Still to compare: "+plural.Count(left, "object", "objects"))
	}
	return strings.Join(texts, ". ")
}

// describeDrift returns the reason and the message for differences. If drift correction is enabled, the message says
// why drift was not corrected.
func (r *Reconciler) describeDrift(p *releasePass, memory *driftmemory.Memory,
	differences []drift.Difference,
) (reason, message string) {
	reason, message = addonsv1.DriftDetectedReason, listDifferences(differences)
	if !p.policy.CorrectDrift {
		return reason, message
	}
	for _, d := range differences {
		if until, held := memory.Corrections.HeldUntil(d.Ref, r.now()); held {
			reason = addonsv1.DriftContestedReason
			message = fmt.Sprintf("%s. %s changes %s back again and again: HelmOp does not correct the object until %s; stop "+
				"the other program, or add a rule to spec.driftDetection.ignore", message, managerTitle(d.Manager), d.Ref,
				until.UTC().Format(time.RFC3339))
			break
		}
	}
	if len(memory.Uncorrected) > 0 {
		// A failed correction is reported rather than a contest, because a user must correct its cause.
		reason, message = addonsv1.DriftCorrectionFailedReason,
			"Objects cannot be corrected: "+memory.Uncorrected.String()+". "+message
	}
	return reason, message
}

// managerTitle returns a field manager as the subject of a sentence.
func managerTitle(manager string) string {
	if manager == "" {
		return "Another program"
	}
	return fmt.Sprintf("Field manager %q", manager)
}

func (r *Reconciler) driftedObjects(p *releasePass, memory *driftmemory.Memory,
	differences []drift.Difference,
) []addonsv1.DriftedObject {
	var objects []addonsv1.DriftedObject
	for _, d := range differences[:min(len(differences), maxDriftedObjects)] {
		object := addonsv1.DriftedObject{
			APIVersion: apiutil.Truncate(d.Ref.APIVersion(), maxRefText), Kind: apiutil.Truncate(d.Ref.Kind, maxRefText),
			Namespace: apiutil.Truncate(d.Ref.Namespace, maxRefText), Name: apiutil.Truncate(d.Ref.Name, maxRefText),
			Missing: d.Missing, Manager: apiutil.Truncate(d.Manager, 256),
		}
		for _, path := range d.Paths[:min(len(d.Paths), maxDriftPaths)] {
			object.Paths = append(object.Paths, apiutil.Truncate(path, 512))
		}
		if until, held := memory.Corrections.HeldUntil(d.Ref, r.now()); held && p.policy.CorrectDrift {
			object.HeldUntil = metav1.NewTime(until)
		}
		objects = append(objects, object)
	}
	return objects
}

// listDifferences returns the first differences for a message, without the contents of the fields.
func listDifferences(differences []drift.Difference) string {
	return listFew(differences, "; ")
}

// listFew joins the first apiutil.MaxNamedObjects items, and adds the number of the others.
func listFew[T fmt.Stringer](all []T, separator string) string {
	texts := make([]string, 0, apiutil.MaxNamedObjects)
	for _, item := range all[:min(len(all), apiutil.MaxNamedObjects)] {
		texts = append(texts, item.String())
	}
	list := strings.Join(texts, separator)
	if more := len(all) - apiutil.MaxNamedObjects; more > 0 {
		list += separator + "and " + plural.Count(more, "more object", "more objects")
	}
	return list
}

// correctDrift corrects the differences that this pass found. Objects that another program changes again and again, and
// objects whose correction failed, are not corrected for a while.
func (r *Reconciler) correctDrift(ctx context.Context, p *releasePass, decision decide.Decision) {
	memory := &r.memoryOf(p.release).drift
	defer func() {
		p.differences = nil
		r.updateState(p)
	}()
	var due []drift.Difference
	for _, d := range p.differences {
		// A missing object may have been moved. The watch shows whether it was moved when it shows the deletion, which starts
		// the next pass.
		isDeletionUnseen := d.Missing && p.snapshot.Objects[d.Ref].Exists
		if !isDeletionUnseen && memory.Hold(d.Ref, p.snapshot, r.now()) == 0 {
			due = append(due, d)
		}
	}
	if len(due) == 0 {
		return
	}
	done, ok := r.slot(p)
	if !ok {
		return
	}
	defer done()
	// Count before the correction: corrected objects were compared, and are about to be compared again.
	left := memory.Left(p.snapshot)
	corrected, failed := r.correct(ctx, p, memory, due)
	r.reportCorrected(p, decision, corrected, failed)
	before := conditions.GetReason(p.release, addonsv1.DriftedCondition)
	r.reportDrift(p, memory, left, nil)
	after := conditions.Get(p.release, addonsv1.DriftedCondition)
	if failed && after.Reason == addonsv1.DriftCorrectionFailedReason && before != after.Reason {
		r.event(p.releaseScope, corev1.EventTypeWarning, after.Reason, verbCorrectDrift, fmt.Sprintf(
			"Cluster %s, release %s: %s", apiutil.ClusterTitle(p.release), describe(p.release), after.Message))
	}
}

// updateState sets the state of the release after a correction: the state without drift or, if the release is in sync
// but objects still differ, Drifted.
func (r *Reconciler) updateState(p *releasePass) {
	p.drifted = false
	if r.decide(p); p.decision.State == model.StateInSync && isDrifted(p.release) {
		p.drifted = true
		r.decide(p)
	}
}

// correct corrects differences and returns the corrected ones. It stops if this manager does not serve the release any
// more, or if the release is under deletion. failed is true if a correction failed. A conflict or the timeout is not a
// failure: the correction continues in another pass.
func (r *Reconciler) correct(ctx context.Context, p *releasePass, memory *driftmemory.Memory,
	due []drift.Difference,
) (corrected []drift.Difference, failed bool) {
	access, err := r.engine.Access(p.target)
	if err != nil {
		for _, d := range due {
			memory.Uncorrected.Add(d.Ref, driftmemory.FingerprintOf(p.snapshot.Objects[d.Ref]), err, r.now())
		}
		return nil, true
	}
	bounded, cancel := context.WithTimeout(ctx, driftTimeout)
	defer cancel()
	cluster := drift.Cluster{Config: access.Config, Mapper: access.Mapper}
	for _, d := range due {
		if bounded.Err() != nil {
			p.due(driftContinues)
			break
		}
		if ok, err := r.mayBegin(ctx, p.releaseScope); !ok {
			if err != nil {
				p.due(driftmemory.Retry)
			}
			break
		}
		err := drift.Correct(bounded, cluster, d)
		if ctx.Err() != nil {
			break
		}
		monitoring.ObserveCorrection(err)
		switch {
		case err == nil:
			memory.Corrected(d.Ref, r.now())
			corrected = append(corrected, d)
		case apierrors.IsConflict(err):
			p.due(driftmemory.Retry)
		default:
			memory.Uncorrected.Add(d.Ref, driftmemory.FingerprintOf(p.snapshot.Objects[d.Ref]), err, r.now())
			failed = true
		}
	}
	return corrected, failed
}

// reportCorrected adds a correction to the history and records an Event.
func (r *Reconciler) reportCorrected(p *releasePass, decision decide.Decision, corrected []drift.Difference,
	failed bool,
) {
	if len(corrected) == 0 {
		return
	}
	revision := int64(decision.FromRevision)
	remember(&p.release.Status, addonsv1.ReleaseAction{
		Action: verbCorrectDrift, Reason: decision.Reason, FromRevision: revision, Revision: revision,
		Succeeded: !failed, Time: metav1.NewTime(r.now()),
	})
	r.event(p.releaseScope, corev1.EventTypeNormal, addonsv1.DriftCorrectedEvent, verbCorrectDrift, fmt.Sprintf(
		"Cluster %s, release %s: corrected %s", apiutil.ClusterTitle(p.release), describe(p.release),
		listDifferences(corrected)))
}

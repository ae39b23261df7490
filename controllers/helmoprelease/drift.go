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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

const (
	// driftTimeout bounds a comparison, and a correction, of a release. What it did not come to is done in the next pass,
	// which comes after driftContinues.
	driftTimeout   = 30 * time.Second
	driftContinues = 2 * time.Second

	// maxDriftedObjects and maxDriftPaths bound status.drift.
	maxDriftedObjects = 10
	maxDriftPaths     = 10
)

// assessDrift says whether something differs from what the release installed. Only objects that changed since they were
// last compared cost requests.
func (r *Reconciler) assessDrift(ctx context.Context, p *releasePass) {
	r.compareObjects(ctx, p)
	// What is known counts also in a pass that compares nothing. There, a release that is not in sync is more than
	// drifted.
	p.drifted = isDrifted(p.release) && (len(p.differences) > 0 || p.release.Status.State == string(model.StateInSync))
}

// isDrifted tells whether something is known to differ.
func isDrifted(release *addonsv1.HelmOpRelease) bool {
	return release.Status.Drift != nil && release.Status.Drift.Differing > 0
}

// compareObjects is assessDrift, as far as the status is concerned.
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

// isDenied tells whether something that is followed cannot be watched for lack of rights.
func isDenied(snapshot *objectwatch.Snapshot) bool {
	return snapshot != nil && errors.Is(snapshot.Err, objectwatch.ErrForbidden)
}

// isStuck tells whether objects have not been seen for longer than an error that passes by itself takes.
func isStuck(snapshot *objectwatch.Snapshot, now time.Time) bool {
	return snapshot != nil && !snapshot.Synced && snapshot.Err != nil &&
		now.Sub(snapshot.ErrSince) >= objectwatch.StuckAfter
}

// reportUnwatched says that it cannot be seen whether something differs.
func reportUnwatched(release *addonsv1.HelmOpRelease, err error) {
	message := "the objects of the release cannot be watched: " + err.Error()
	status := metav1Unknown
	if isDrifted(release) {
		status, message = report.True, fmt.Sprintf("%d objects differed when they were last compared, see status.drift; %s",
			release.Status.Drift.Differing, message)
	}
	report.SetCondition(release, addonsv1.DriftedCondition, status, addonsv1.DriftCheckFailedReason, message)
}

// forgetDrift drops what was found to differ from another revision.
func forgetDrift(release *addonsv1.HelmOpRelease) {
	if status := release.Status.Drift; status != nil {
		status.Differing, status.Objects, status.Fingerprint = 0, nil, ""
	}
	if conditions.IsTrue(release, addonsv1.DriftedCondition) {
		report.SetCondition(release, addonsv1.DriftedCondition, metav1Unknown, addonsv1.DriftCheckPendingReason,
			"the objects of the release are about to be compared with what it installed")
	}
}

// newestDeployed is the newest revision if it is the deployed one; 0 otherwise.
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

// compare compares objects with what the release installed. What fails is remembered; the error is that of the rules.
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
			// The time was up. There is more to do, and it can be done.
			p.due(driftContinues)
		}
	}
	return nil
}

// compareSuspects returns what was to be compared and what came of it. The error is that nothing could be.
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

// announceDrift tells people of differences that were not known before.
func (r *Reconciler) announceDrift(p *releasePass, memory *driftmemory.Memory, known int) {
	if len(memory.Differing) <= known {
		return
	}
	r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.DriftDetectedEvent, verbCorrectDrift, fmt.Sprintf(
		"Cluster %s, release %s: %s", apiutil.ClusterTitle(p.release), describe(p.release),
		listDifferences(memory.Differences())))
}

// reportDrift writes what is known of the drift into the status: that something differs, else that it cannot be told,
// else that nothing does. left is the number of objects that are yet to be compared, err is what is wrong with the
// rules.
func (r *Reconciler) reportDrift(p *releasePass, memory *driftmemory.Memory, left int, err error) {
	status := p.release.Status.Drift
	if status == nil {
		status = &addonsv1.DriftStatus{}
		p.release.Status.Drift = status
	}
	// The interval may have ended meanwhile.
	p.due(max(lookAgain, status.LastCheckedAt.Add(driftmemory.Interval(p.release)).Sub(r.now())))
	p.due(memory.RetryIn(p.snapshot, p.policy.CorrectDrift, r.now()))
	differences := memory.Differences()
	status.Differing = int32(len(differences)) //nolint:gosec // bounded by maxInventory
	status.Objects = r.driftedObjects(p, memory, differences)
	status.Fingerprint = ""
	if len(differences)+len(memory.Uncompared)+memory.Left(p.snapshot) == 0 {
		status.Fingerprint = p.snapshot.Fingerprint
	}
	trouble := driftTrouble(memory, left, err)
	switch {
	case len(differences) > 0:
		reason, message := r.describeDrift(p, memory, differences)
		if trouble != "" {
			message += "; " + trouble
		}
		report.SetCondition(p.release, addonsv1.DriftedCondition, report.True, reason, message)
	case err == nil && len(memory.Uncompared) == 0 && left > 0 && conditions.IsFalse(p.release, addonsv1.DriftedCondition):
		// It takes more than one pass. What the last check found stands until this one is over.
		report.ConfirmCondition(p.release, addonsv1.DriftedCondition)
	case trouble != "":
		report.SetCondition(p.release, addonsv1.DriftedCondition, metav1Unknown, driftErrorReason(err), trouble)
	default:
		report.SetCondition(p.release, addonsv1.DriftedCondition, report.False, addonsv1.NoDriftReason,
			"nothing differs from what the release installed")
	}
}

// driftTrouble tells what could not be compared, and why; empty if all was.
func driftTrouble(memory *driftmemory.Memory, left int, err error) string {
	var texts []string
	if err != nil {
		texts = append(texts, err.Error())
	}
	if len(memory.Uncompared) > 0 {
		texts = append(texts, "cannot be compared: "+memory.Uncompared.String())
	}
	if left > 0 {
		texts = append(texts, fmt.Sprintf("%d objects are yet to be compared", left))
	}
	return strings.Join(texts, "; ")
}

// describeDrift tells what differs and, if it is to be put right, why that did not help.
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
			message = fmt.Sprintf("%s; %s changes %s back again and again: it is left alone until %s", message,
				orSomebody(d.Manager), d.Ref, until.UTC().Format(time.RFC3339))
			break
		}
	}
	if len(memory.Uncorrected) > 0 {
		// Nobody fights: this is what somebody has to do something about.
		reason, message = addonsv1.DriftCorrectionFailedReason,
			"cannot be put right: "+memory.Uncorrected.String()+"; "+message
	}
	return reason, message
}

func orSomebody(manager string) string {
	if manager == "" {
		return "somebody"
	}
	return manager
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

// listDifferences tells a few of the differences, without what is in them.
func listDifferences(differences []drift.Difference) string {
	return listFew(differences, "; ")
}

// listFew names a few of many.
func listFew[T fmt.Stringer](all []T, separator string) string {
	texts := make([]string, 0, apiutil.MaxNamedObjects)
	for _, one := range all[:min(len(all), apiutil.MaxNamedObjects)] {
		texts = append(texts, one.String())
	}
	list := strings.Join(texts, separator)
	if more := len(all) - apiutil.MaxNamedObjects; more > 0 {
		list += fmt.Sprintf("%sand %d more objects", separator, more)
	}
	return list
}

// correctDrift puts right what was found to differ in this pass. What somebody changes back again and again, and what
// cannot be put right, is left alone for a while.
func (r *Reconciler) correctDrift(ctx context.Context, p *releasePass, decision decide.Decision) {
	memory := &r.memoryOf(p.release).drift
	defer func() {
		p.differences = nil
		r.settleState(p)
	}()
	var due []drift.Difference
	for _, d := range p.differences {
		// What is missing may have been moved. That shows in the watch, whose news of its end brings the next pass.
		isUnseen := d.Missing && p.snapshot.Objects[d.Ref].Exists
		if !isUnseen && memory.Hold(d.Ref, p.snapshot, r.now()) == 0 {
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
	// What is put right was compared, and is about to be again.
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

// settleState gives the release the state of after a correction: that of what it was corrected beside, or Drifted if it
// is in sync but for what still differs.
func (r *Reconciler) settleState(p *releasePass) {
	p.drifted = false
	if r.decide(p); p.decision.State == model.StateInSync && isDrifted(p.release) {
		p.drifted = true
		r.decide(p)
	}
}

// correct puts differences right and returns those that are, as long as the release is this manager's and not under
// deletion. It is a failure if one cannot be put right; that an object changed once more, or that the time was up, only
// means another pass.
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

// reportCorrected tells what was put right.
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
		"Cluster %s, release %s: put right %s", apiutil.ClusterTitle(p.release), describe(p.release),
		listDifferences(corrected)))
}

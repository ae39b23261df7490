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

package controllers

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
)

const (
	// driftTimeout bounds a comparison, and a correction, of a release. What it did not come to is done in the next pass, which
	// comes after driftContinues.
	driftTimeout   = 30 * time.Second
	driftContinues = 2 * time.Second

	// maxDriftedObjects and maxDriftPaths bound status.drift.
	maxDriftedObjects = 10
	maxDriftPaths     = 10

	// maxNamedObjects is how many objects a message names.
	maxNamedObjects = 3
)

// assessDrift says whether something differs from what the release installed. Only objects that changed since they were last
// compared cost requests.
func (r *releaseReconciler) assessDrift(ctx context.Context, p *releasePass) {
	r.checkDrift(ctx, p)
	// What is known counts also in a pass that compares nothing. There, a release that is not in sync is more than drifted.
	p.drifted = isDrifted(p.release) && (len(p.differences) > 0 || p.release.Status.State == string(model.StateInSync))
}

// isDrifted tells whether something is known to differ.
func isDrifted(release *addonsv1.HelmOpRelease) bool {
	return release.Status.Drift != nil && release.Status.Drift.Differing > 0
}

// checkDrift is assessDrift, as far as the status is concerned.
func (r *releaseReconciler) checkDrift(ctx context.Context, p *releasePass) {
	release := p.release
	key := client.ObjectKeyFromObject(release)
	switch {
	case driftMode(&release.Spec) == addonsv1.DriftModeDisabled:
		conditions.Delete(release, addonsv1.DriftedCondition)
		release.Status.Drift = nil
		r.drifts.forget(key)
		return
	case isDenied(p.snapshot) || isStuck(p.snapshot, r.now()):
		reportUnwatched(release, p.snapshot.Err)
		return
	case p.snapshot == nil || !p.snapshot.Synced || !isInventoryOf(release, newestDeployed(p)):
		return
	}
	ignored, err := digestOf(release.Spec.DriftDetection.Ignore)
	if err != nil {
		setCondition(release, addonsv1.DriftedCondition, metav1Unknown, addonsv1.DriftCheckFailedReason, err.Error())
		return
	}
	memory := r.drifts.of(key)
	memory.begin(newestDeployed(p), ignored, release.Status.Drift, p.snapshot)
	if isFullCheckDue(release, r.now()) {
		memory.beginCheck()
		if release.Status.Drift == nil {
			release.Status.Drift = &addonsv1.DriftStatus{}
		}
		release.Status.Drift.LastCheckedAt = metav1.NewTime(r.now())
	}
	if suspects := memory.suspects(p.snapshot, p.policy.CorrectDrift, r.now()); len(suspects) > 0 {
		done, ok := r.slot(p)
		if !ok {
			return
		}
		defer done()
		known := len(memory.standing)
		if err = r.compare(ctx, p, memory, suspects); ctx.Err() != nil {
			return
		}
		r.announceDrift(p, memory, known)
	}
	r.reportDrift(p, memory, memory.left(p.snapshot), err)
}

// isDenied tells whether something that is followed cannot be watched for lack of rights.
func isDenied(snapshot *objectwatch.Snapshot) bool {
	return snapshot != nil && errors.Is(snapshot.Err, objectwatch.ErrForbidden)
}

// isStuck tells whether objects have not been seen for longer than an error that passes by itself takes.
func isStuck(snapshot *objectwatch.Snapshot, now time.Time) bool {
	return snapshot != nil && !snapshot.Synced && snapshot.Err != nil && now.Sub(snapshot.ErrSince) >= objectwatch.StuckAfter
}

// reportUnwatched says that it cannot be seen whether something differs.
func reportUnwatched(release *addonsv1.HelmOpRelease, err error) {
	message := "the objects of the release cannot be watched: " + err.Error()
	status := metav1Unknown
	if isDrifted(release) {
		status, message = metav1True, fmt.Sprintf("%d objects differed when they were last compared, see status.drift; %s",
			release.Status.Drift.Differing, message)
	}
	setCondition(release, addonsv1.DriftedCondition, status, addonsv1.DriftCheckFailedReason, message)
}

// forgetDrift drops what was found to differ from another revision.
func forgetDrift(release *addonsv1.HelmOpRelease) {
	if status := release.Status.Drift; status != nil {
		status.Differing, status.Objects, status.Fingerprint = 0, nil, ""
	}
	if conditions.IsTrue(release, addonsv1.DriftedCondition) {
		setCondition(release, addonsv1.DriftedCondition, metav1Unknown, addonsv1.DriftCheckPendingReason,
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
func (r *releaseReconciler) compare(ctx context.Context, p *releasePass, memory *driftMemory, suspects map[inventory.Ref]bool) error {
	rules, err := driftRules(p.release.Spec.DriftDetection)
	if err != nil {
		return fmt.Errorf("%w: %w", errInvalidDriftRule, err)
	}
	ctx, cancel := context.WithTimeout(ctx, driftTimeout)
	defer cancel()
	objects, found, err := r.compareSuspects(ctx, p, memory, suspects, rules)
	if err != nil {
		memory.uncompared.add(inventory.Ref{}, 0, err, r.now())
		return nil
	}
	memory.learn(suspects, objects, found, p.snapshot, r.now())
	p.differences = found.Differences
	if memory.left(p.snapshot) > 0 {
		p.due(driftRetry)
		if len(found.Compared) > 0 {
			// The time was up. There is more to do, and it can be done.
			p.due(driftContinues)
		}
	}
	return nil
}

// compareSuspects returns what was to be compared and what came of it. The error is that nothing could be.
func (r *releaseReconciler) compareSuspects(ctx context.Context, p *releasePass, memory *driftMemory, suspects map[inventory.Ref]bool,
	rules *drift.Rules,
) ([]*unstructured.Unstructured, drift.Comparison, error) {
	manifest, err := r.engine.Manifest(ctx, p.target, p.desired.Namespace, p.desired.Name, memory.revision)
	if err != nil {
		return nil, drift.Comparison{}, err
	}
	access, err := r.engine.Access(p.target)
	if err != nil {
		return nil, drift.Comparison{}, err
	}
	objects := memory.toCompare(manifest, suspects)
	cluster := drift.Cluster{Config: access.Config, Mapper: access.Mapper}
	found, err := drift.Compare(ctx, cluster, drift.Release{Namespace: p.desired.Namespace, Name: p.desired.Name}, rules, objects)
	return objects, found, err
}

func driftRules(spec *addonsv1.DriftDetectionOptions) (*drift.Rules, error) {
	rules := make([]drift.Rule, 0, len(spec.Ignore))
	for _, rule := range spec.Ignore {
		rules = append(rules, drift.Rule{Paths: rule.Paths, Target: objectSelector(rule.Target)})
	}
	return drift.NewRules(rules)
}

// announceDrift tells people of differences that were not known before.
func (r *releaseReconciler) announceDrift(p *releasePass, memory *driftMemory, known int) {
	if len(memory.standing) <= known {
		return
	}
	r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.DriftDetectedEvent, verbCorrectDrift, fmt.Sprintf(
		"Cluster %s, release %s: %s", clusterTitle(p.release), describe(p.release), listDifferences(memory.differences())))
}

// reportDrift writes what is known of the drift into the status: that something differs, else that it cannot be told, else that
// nothing does. left is the number of objects that are yet to be compared, err is what is wrong with the rules.
func (r *releaseReconciler) reportDrift(p *releasePass, memory *driftMemory, left int, err error) {
	status := p.release.Status.Drift
	if status == nil {
		status = &addonsv1.DriftStatus{}
		p.release.Status.Drift = status
	}
	// The interval may have ended meanwhile.
	p.due(max(lookAgain, status.LastCheckedAt.Add(driftInterval(p.release)).Sub(r.now())))
	p.due(memory.retryIn(p.snapshot, p.policy.CorrectDrift, r.now()))
	differences := memory.differences()
	status.Differing = int32(len(differences)) //nolint:gosec // bounded by maxInventory
	status.Objects = r.driftedObjects(p, memory, differences)
	status.Fingerprint = ""
	if len(differences)+len(memory.uncompared)+memory.left(p.snapshot) == 0 {
		status.Fingerprint = p.snapshot.Fingerprint
	}
	trouble := driftTrouble(memory, left, err)
	switch {
	case len(differences) > 0:
		reason, message := r.describeDrift(p, memory, differences)
		if trouble != "" {
			message += "; " + trouble
		}
		setCondition(p.release, addonsv1.DriftedCondition, metav1True, reason, message)
	case err == nil && len(memory.uncompared) == 0 && left > 0 && conditions.IsFalse(p.release, addonsv1.DriftedCondition):
		// It takes more than one pass. What the last check found stands until this one is over.
		confirmCondition(p.release, addonsv1.DriftedCondition)
	case trouble != "":
		setCondition(p.release, addonsv1.DriftedCondition, metav1Unknown, driftErrorReason(err), trouble)
	default:
		setCondition(p.release, addonsv1.DriftedCondition, metav1False, addonsv1.NoDriftReason, "nothing differs from what the release installed")
	}
}

// driftTrouble tells what could not be compared, and why; empty if all was.
func driftTrouble(memory *driftMemory, left int, err error) string {
	var texts []string
	if err != nil {
		texts = append(texts, err.Error())
	}
	if len(memory.uncompared) > 0 {
		texts = append(texts, "cannot be compared: "+memory.uncompared.String())
	}
	if left > 0 {
		texts = append(texts, fmt.Sprintf("%d objects are yet to be compared", left))
	}
	return strings.Join(texts, "; ")
}

// describeDrift tells what differs and, if it is to be put right, why that did not help.
func (r *releaseReconciler) describeDrift(p *releasePass, memory *driftMemory, differences []drift.Difference) (reason, message string) {
	reason, message = addonsv1.DriftDetectedReason, listDifferences(differences)
	if !p.policy.CorrectDrift {
		return reason, message
	}
	for _, d := range differences {
		if until, held := memory.corrections.HeldUntil(d.Ref, r.now()); held {
			reason = addonsv1.DriftContestedReason
			message = fmt.Sprintf("%s; %s changes %s back again and again: it is left alone until %s", message,
				orSomebody(d.Manager), d.Ref, until.UTC().Format(time.RFC3339))
			break
		}
	}
	if len(memory.uncorrected) > 0 {
		// Nobody fights: this is what somebody has to do something about.
		reason, message = addonsv1.DriftCorrectionFailedReason, "cannot be put right: "+memory.uncorrected.String()+"; "+message
	}
	return reason, message
}

func orSomebody(manager string) string {
	if manager == "" {
		return "somebody"
	}
	return manager
}

func (r *releaseReconciler) driftedObjects(p *releasePass, memory *driftMemory, differences []drift.Difference) []addonsv1.DriftedObject {
	var objects []addonsv1.DriftedObject
	for _, d := range differences[:min(len(differences), maxDriftedObjects)] {
		object := addonsv1.DriftedObject{
			APIVersion: truncate(d.Ref.APIVersion(), maxRefText), Kind: truncate(d.Ref.Kind, maxRefText),
			Namespace: truncate(d.Ref.Namespace, maxRefText), Name: truncate(d.Ref.Name, maxRefText),
			Missing: d.Missing, Manager: truncate(d.Manager, 256),
		}
		for _, path := range d.Paths[:min(len(d.Paths), maxDriftPaths)] {
			object.Paths = append(object.Paths, truncate(path, 512))
		}
		if until, held := memory.corrections.HeldUntil(d.Ref, r.now()); held && p.policy.CorrectDrift {
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
	texts := make([]string, 0, maxNamedObjects)
	for _, one := range all[:min(len(all), maxNamedObjects)] {
		texts = append(texts, one.String())
	}
	list := strings.Join(texts, separator)
	if more := len(all) - maxNamedObjects; more > 0 {
		list += fmt.Sprintf("%sand %d more objects", separator, more)
	}
	return list
}

// correctDrift puts right what was found to differ in this pass. What somebody changes back again and again, and what cannot be
// put right, is left alone for a while.
func (r *releaseReconciler) correctDrift(ctx context.Context, p *releasePass, decision decide.Decision) {
	memory := r.drifts.of(client.ObjectKeyFromObject(p.release))
	defer func() {
		p.differences = nil
		r.settleState(p)
	}()
	var due []drift.Difference
	for _, d := range p.differences {
		// What is missing may have been moved. That shows in the watch, whose news of its end brings the next pass.
		isUnseen := d.Missing && p.snapshot.Objects[d.Ref].Exists
		if !isUnseen && memory.hold(d.Ref, p.snapshot, r.now()) == 0 {
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
	left := memory.left(p.snapshot)
	corrected, failed := r.correct(ctx, p, memory, due)
	r.reportCorrected(p, decision, corrected, failed)
	before := conditions.GetReason(p.release, addonsv1.DriftedCondition)
	r.reportDrift(p, memory, left, nil)
	after := conditions.Get(p.release, addonsv1.DriftedCondition)
	if failed && after.Reason == addonsv1.DriftCorrectionFailedReason && before != after.Reason {
		r.event(p.releaseScope, corev1.EventTypeWarning, after.Reason, verbCorrectDrift, fmt.Sprintf(
			"Cluster %s, release %s: %s", clusterTitle(p.release), describe(p.release), after.Message))
	}
}

// settleState gives the release the state of after a correction: that of what it was corrected beside, or Drifted if it is in
// sync but for what still differs.
func (r *releaseReconciler) settleState(p *releasePass) {
	p.drifted = false
	if r.decide(p).State == model.StateInSync && isDrifted(p.release) {
		p.drifted = true
		r.decide(p)
	}
}

// correct puts differences right and returns those that are, as long as the release is this manager's and not under deletion. It is a failure if
// one cannot be put right; that an object changed once more, or that the time was up, only means another pass.
func (r *releaseReconciler) correct(ctx context.Context, p *releasePass, memory *driftMemory, due []drift.Difference) (corrected []drift.Difference, failed bool) {
	access, err := r.engine.Access(p.target)
	if err != nil {
		for _, d := range due {
			memory.uncorrected.add(d.Ref, fingerprintOf(p.snapshot.Objects[d.Ref]), err, r.now())
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
				p.due(driftRetry)
			}
			break
		}
		err := drift.Correct(bounded, cluster, d)
		if ctx.Err() != nil {
			break
		}
		observeCorrection(err)
		switch {
		case err == nil:
			memory.corrected(d.Ref, r.now())
			corrected = append(corrected, d)
		case apierrors.IsConflict(err):
			p.due(driftRetry)
		default:
			memory.uncorrected.add(d.Ref, fingerprintOf(p.snapshot.Objects[d.Ref]), err, r.now())
			failed = true
		}
	}
	return corrected, failed
}

// reportCorrected tells what was put right.
func (r *releaseReconciler) reportCorrected(p *releasePass, decision decide.Decision, corrected []drift.Difference, failed bool) {
	if len(corrected) == 0 {
		return
	}
	revision := int64(decision.FromRevision)
	remember(&p.release.Status, addonsv1.ReleaseAction{
		Action: verbCorrectDrift, Reason: decision.Reason, FromRevision: revision, Revision: revision,
		Succeeded: !failed, Time: metav1.NewTime(r.now()),
	})
	r.event(p.releaseScope, corev1.EventTypeNormal, addonsv1.DriftCorrectedEvent, verbCorrectDrift, fmt.Sprintf(
		"Cluster %s, release %s: put right %s", clusterTitle(p.release), describe(p.release), listDifferences(corrected)))
}

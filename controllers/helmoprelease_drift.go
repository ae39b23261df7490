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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const (
	// driftTimeout bounds a comparison, and a correction, of a release. What it did not come to is done in the next pass.
	driftTimeout = 30 * time.Second

	// driftRetry is when a comparison or correction that failed is tried again.
	driftRetry = time.Minute

	// maxDriftedObjects and maxDriftPaths bound status.drift.
	maxDriftedObjects = 10
	maxDriftPaths     = 10

	// maxNamedObjects is how many objects a message names.
	maxNamedObjects = 3
)

// assessDrift says whether something differs from what the release installed. Only objects that changed since they were last
// compared cost requests.
func (r *releaseReconciler) assessDrift(ctx context.Context, p *releasePass) {
	release := p.release
	key := client.ObjectKeyFromObject(release)
	switch {
	case driftMode(&release.Spec) == addonsv1.DriftModeDisabled:
		conditions.Delete(release, addonsv1.DriftedCondition)
		release.Status.Drift = nil
		r.drifts.forget(key)
		return
	case isDenied(p.snapshot):
		setCondition(release, addonsv1.DriftedCondition, metav1Unknown, addonsv1.DriftCheckFailedReason,
			"the objects of the release cannot be watched: "+p.snapshot.Err.Error())
		return
	case p.snapshot == nil || !p.snapshot.Synced || !isInventoryOf(release, newestDeployed(p)):
		return
	}
	memory := r.drifts.of(key)
	memory.begin(newestDeployed(p), release.Status.Drift, p.snapshot)
	whole := isFullCheckDue(release, r.now())
	if suspects := memory.suspects(p.snapshot, whole, p.policy.CorrectDrift, r.now()); len(suspects) > 0 {
		known := len(memory.standing)
		if err := r.compare(ctx, p, memory, suspects); err != nil {
			setCondition(release, addonsv1.DriftedCondition, metav1Unknown, driftErrorReason(err), err.Error())
			p.due(driftRetry)
			return
		}
		r.announceDrift(p, memory, known)
	}
	r.reportDrift(p, memory, whole)
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

// compare compares objects with what the release installed.
func (r *releaseReconciler) compare(ctx context.Context, p *releasePass, memory *driftMemory, suspects map[inventory.Ref]bool) error {
	rules, err := driftRules(p.release.Spec.DriftDetection)
	if err != nil {
		return fmt.Errorf("%w: %w", errInvalidDriftRule, err)
	}
	ctx, cancel := context.WithTimeout(ctx, driftTimeout)
	defer cancel()
	manifest, err := r.engine.Manifest(ctx, p.target, p.desired.Namespace, p.desired.Name, memory.revision)
	if err != nil {
		return err
	}
	access, err := r.engine.Access(p.target)
	if err != nil {
		return err
	}
	var compared []*unstructured.Unstructured
	for _, object := range manifest {
		if suspects[inventory.Of(object)] {
			compared = append(compared, object)
		}
	}
	cluster := drift.Cluster{Config: access.Config, Mapper: access.Mapper}
	found, err := drift.Compare(ctx, cluster, drift.Release{Namespace: p.desired.Namespace, Name: p.desired.Name}, rules, compared)
	var failures *drift.Errors
	if err != nil && (!errors.As(err, &failures) || failures.More+failures.NotCompared > 0) {
		return err
	}
	failed := map[inventory.Ref]bool{}
	if failures != nil {
		for _, failure := range failures.Objects {
			failed[failure.Ref] = true
		}
	}
	memory.learn(suspects, found, failed, p.snapshot)
	p.differences = found
	p.drifted = len(found) > 0
	return err
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
		"Cluster %s, release %s: %s", p.release.Spec.ClusterRef.Name, describe(p.release), listDifferences(memory.differences())))
}

// reportDrift writes what is known of the drift into the status.
func (r *releaseReconciler) reportDrift(p *releasePass, memory *driftMemory, whole bool) {
	status := p.release.Status.Drift
	if status == nil {
		status = &addonsv1.DriftStatus{}
		p.release.Status.Drift = status
	}
	if whole {
		status.LastCheckedAt = metav1.NewTime(r.now())
	}
	p.due(status.LastCheckedAt.Add(driftInterval(p.release)).Sub(r.now()))
	p.due(memory.heldFor(r.now()))
	differences := memory.differences()
	status.Differing = int32(len(differences)) //nolint:gosec // bounded by maxInventory
	status.Objects = r.driftedObjects(memory, differences)
	status.Fingerprint = ""
	if len(differences) == 0 {
		status.Fingerprint = p.snapshot.Fingerprint
		setCondition(p.release, addonsv1.DriftedCondition, metav1False, addonsv1.NoDriftReason, "nothing differs from what the release installed")
		return
	}
	reason, message := addonsv1.DriftDetectedReason, listDifferences(differences)
	for _, object := range status.Objects {
		if !object.HeldUntil.IsZero() {
			reason = addonsv1.DriftContestedReason
			message = fmt.Sprintf("%s; %s changes it back again and again: it is left alone until %s", message,
				orSomebody(object.Manager), object.HeldUntil.UTC().Format(time.RFC3339))
			break
		}
	}
	setCondition(p.release, addonsv1.DriftedCondition, metav1True, reason, message)
}

func orSomebody(manager string) string {
	if manager == "" {
		return "somebody"
	}
	return manager
}

func (r *releaseReconciler) driftedObjects(memory *driftMemory, differences []drift.Difference) []addonsv1.DriftedObject {
	var objects []addonsv1.DriftedObject
	for _, d := range differences[:min(len(differences), maxDriftedObjects)] {
		object := addonsv1.DriftedObject{
			APIVersion: d.Ref.APIVersion(), Kind: d.Ref.Kind, Namespace: d.Ref.Namespace, Name: d.Ref.Name,
			Missing: d.Missing, Paths: d.Paths[:min(len(d.Paths), maxDriftPaths)], Manager: truncate(d.Manager, 256),
		}
		if until, held := memory.corrections.HeldUntil(d.Ref, r.now()); held {
			object.HeldUntil = metav1.NewTime(until)
		}
		objects = append(objects, object)
	}
	return objects
}

// listDifferences tells a few of the differences, without what is in them.
func listDifferences(differences []drift.Difference) string {
	texts := make([]string, 0, maxNamedObjects)
	for _, d := range differences[:min(len(differences), maxNamedObjects)] {
		texts = append(texts, d.String())
	}
	list := strings.Join(texts, "; ")
	if more := len(differences) - maxNamedObjects; more > 0 {
		list += fmt.Sprintf("; and %d more objects", more)
	}
	return list
}

// correctDrift puts right what was found to differ in this pass. What somebody changes back again and again is left alone for a
// while.
func (r *releaseReconciler) correctDrift(ctx context.Context, p *releasePass, decision helmclient.Decision) {
	memory := r.drifts.of(client.ObjectKeyFromObject(p.release))
	access, err := r.engine.Access(p.target)
	if err != nil {
		setCondition(p.release, addonsv1.DriftedCondition, metav1True, addonsv1.DriftCorrectionFailedReason, err.Error())
		p.due(driftRetry)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, driftTimeout)
	defer cancel()
	cluster := drift.Cluster{Config: access.Config, Mapper: access.Mapper}
	var corrected []drift.Difference
	var failures []string
	for _, d := range p.differences {
		if _, held := memory.corrections.HeldUntil(d.Ref, r.now()); held {
			continue
		}
		err := d.Refused
		if err == nil && d.Owner == "" {
			err = drift.Correct(ctx, cluster, d)
		}
		memory.corrections.Corrected(d.Ref, r.now())
		observeCorrection(err)
		if err != nil || d.Owner != "" {
			failures = append(failures, correctionFailure(d, err))
			p.due(driftRetry)
			continue
		}
		delete(memory.standing, d.Ref)
		delete(memory.seen, d.Ref)
		corrected = append(corrected, d)
	}
	r.reportCorrected(p, memory, decision, corrected, failures)
}

func correctionFailure(d drift.Difference, err error) string {
	if err == nil {
		return d.String()
	}
	return fmt.Sprintf("%s cannot be put right: %v", d.Ref, err)
}

// reportCorrected tells what was put right and what was not.
func (r *releaseReconciler) reportCorrected(p *releasePass, memory *driftMemory, decision helmclient.Decision,
	corrected []drift.Difference, failures []string,
) {
	r.reportDrift(p, memory, false)
	if len(corrected) > 0 {
		revision := int64(decision.FromRevision)
		remember(&p.release.Status, addonsv1.ReleaseAction{
			Action: verbCorrectDrift, Reason: decision.Reason, FromRevision: revision, Revision: revision,
			Succeeded: len(failures) == 0, Time: metav1.NewTime(r.now()),
		})
		r.event(p.releaseScope, corev1.EventTypeNormal, addonsv1.DriftCorrectedEvent, verbCorrectDrift, fmt.Sprintf(
			"Cluster %s, release %s: put right %s", p.release.Spec.ClusterRef.Name, describe(p.release), listDifferences(corrected)))
	}
	if len(failures) == 0 {
		return
	}
	message := strings.Join(failures[:min(len(failures), maxNamedObjects)], "; ")
	if setCondition(p.release, addonsv1.DriftedCondition, metav1True, addonsv1.DriftCorrectionFailedReason, message) {
		r.event(p.releaseScope, corev1.EventTypeWarning, addonsv1.DriftCorrectionFailedReason, verbCorrectDrift, message)
	}
}

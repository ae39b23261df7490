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
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
)

// assessHealth says how the objects of a release are, by what is seen of them. It sends no request.
func (r *releaseReconciler) assessHealth(p *releasePass) {
	release := p.release
	if !followsHealth(&release.Spec) {
		conditions.Delete(release, addonsv1.HealthyCondition)
		release.Status.Health = nil
		return
	}
	if release.Status.Inventory == nil {
		return
	}
	if _, err := r.checkers.get(release.Spec.Health); err != nil {
		r.setHealthy(p, metav1False, addonsv1.InvalidHealthCheckReason, err.Error())
		return
	}
	refs := healthRefs(release)
	switch {
	case len(refs) > 0 && isDenied(p.snapshot):
		r.setHealthy(p, metav1Unknown, addonsv1.HealthUnknownReason, "the objects of the release cannot be watched; permit it, or set health.mode to Disabled: "+
			p.snapshot.Err.Error())
	case len(refs) > 0 && (p.snapshot == nil || !p.snapshot.Synced):
		if known := release.Status.Health; known == nil || known.Revision != release.Status.Inventory.Revision {
			r.setHealthy(p, metav1Unknown, addonsv1.HealthProgressingReason, "the objects of the release are about to be looked at")
		}
	default:
		r.summarizeHealth(p, refs)
	}
}

// isDenied tells whether the objects cannot be watched for lack of rights. Other errors pass, and what was seen before stands.
func isDenied(snapshot *objectwatch.Snapshot) bool {
	return snapshot != nil && errors.Is(snapshot.Err, objectwatch.ErrForbidden)
}

// healthRefs are the followed objects whose health is more than that they exist.
func healthRefs(release *addonsv1.HelmOpRelease) []inventory.Ref {
	var refs []inventory.Ref
	for _, ref := range refsOf(release.Status.Inventory) {
		if hasHealth(&release.Spec, ref) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// summarizeHealth adds up what is seen of the objects.
func (r *releaseReconciler) summarizeHealth(p *releasePass, refs []inventory.Ref) {
	release := p.release
	summary := health.Summarize(r.seen(p, refs), healthPolicy(&release.Spec), healthPast(p), r.now())
	wasHealthy := release.Status.Health != nil && release.Status.Health.WasHealthy
	release.Status.Health = &addonsv1.HealthStatus{
		Revision: summary.Past.Revision, WasHealthy: summary.Past.Healthy, Lost: summary.Past.Lost,
		ProgressingSince: metav1.NewTime(summary.Past.ProgressingSince),
	}
	p.due(summary.RequeueAfter)
	switch summary.State {
	case health.StateHealthy:
		r.setHealthy(p, metav1True, addonsv1.HealthyReason, summary.Message)
	case health.StateProgressing:
		r.setHealthy(p, metav1Unknown, addonsv1.HealthProgressingReason, summary.Message)
	case health.StateTimedOut:
		r.setHealthy(p, metav1False, addonsv1.HealthTimeoutReason, summary.Message)
	default:
		r.setHealthy(p, metav1False, addonsv1.HealthFailedReason, summary.Message)
	}
	newest, ok := p.observation.Newest()
	p.unhealthy = ok && !wasHealthy && int64(newest.Revision) == summary.Past.Revision && conditions.IsFalse(release, addonsv1.HealthyCondition)
}

// seen is what the watches show of objects, as far as it is not older than the last action.
func (r *releaseReconciler) seen(p *releasePass, refs []inventory.Ref) []health.Object {
	objects := make([]health.Object, 0, len(refs))
	key := client.ObjectKeyFromObject(p.release)
	for _, ref := range refs {
		state := p.snapshot.Objects[ref]
		object := health.Object{Ref: ref, Verdict: state.Verdict, Message: state.Message}
		if !r.written.isSeen(key, ref, state) {
			object.Verdict, object.Message = health.InProgress, "its last change is yet to be seen"
		}
		objects = append(objects, object)
	}
	return objects
}

func healthPolicy(spec *addonsv1.HelmOpReleaseSpec) health.Policy {
	policy := health.Policy{FailFast: true}
	if spec.Health != nil {
		policy.Timeout = duration(spec.Health.Timeout)
		policy.FailFast = ptr.Deref(spec.Health.FailFast, true)
	}
	return policy
}

// healthPast is what the status remembers of the health of the revision that is followed.
func healthPast(p *releasePass) health.Past {
	release := p.release
	past := health.Past{Revision: release.Status.Inventory.Revision}
	newest, _ := p.observation.Newest()
	switch known := release.Status.Release; {
	case known != nil:
		past.DeployedAt = known.LastDeployed.Time
	default:
		past.DeployedAt = newest.ChangedAt
	}
	if known := release.Status.Health; known != nil && known.Revision == past.Revision {
		past.Healthy, past.Lost, past.ProgressingSince = known.WasHealthy, known.Lost, known.ProgressingSince.Time
	}
	return past
}

// setHealthy says how the release is, and tells people when that becomes worse or better.
func (r *releaseReconciler) setHealthy(p *releasePass, status metav1.ConditionStatus, reason, message string) {
	before := conditions.Get(p.release, addonsv1.HealthyCondition)
	wasFalse := before != nil && before.Status == metav1False
	changed := setCondition(p.release, addonsv1.HealthyCondition, status, reason, message)
	switch {
	case changed && status == metav1False:
		r.event(p.releaseScope, corev1.EventTypeWarning, reason, "Watch",
			fmt.Sprintf("Cluster %s, release %s: %s", p.release.Spec.ClusterRef.Name, describe(p.release), message))
	case wasFalse && status == metav1True:
		r.event(p.releaseScope, corev1.EventTypeNormal, reason, "Watch",
			fmt.Sprintf("Cluster %s, release %s is healthy again", p.release.Spec.ClusterRef.Name, describe(p.release)))
	}
}

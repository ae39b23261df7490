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
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

const (
	// intervalJitter spreads the checks of many HelmOps: each waits up to this share longer than its interval.
	intervalJitter = 0.1

	// minResolveRetry and maxResolveRetry bound the wait after a failed resolution. It doubles with each failure, up to
	// the interval. A registry that is down for hours is asked every 5 minutes at least and found again within them.
	minResolveRetry = 5 * time.Second
	maxResolveRetry = 5 * time.Minute
)

// resolutionSchedule remembers when each HelmOp is to be resolved again. It is kept in memory, not in the status: an
// unchanged fleet writes nothing. After a restart each HelmOp is checked once.
type resolutionSchedule struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]resolutionEntry
}

type resolutionEntry struct {
	// source and access tell what was asked, and with what; a change of either is asked at once.
	source, access string
	failures       int
	next           time.Time
	// fixed is true if the answer can never change.
	fixed bool
	// artifact is the last answer for this source; nil if there was none.
	artifact *addonsv1.ArtifactStatus
}

func newResolutionSchedule() *resolutionSchedule {
	return &resolutionSchedule{entries: map[types.NamespacedName]resolutionEntry{}}
}

// due tells how long a HelmOp needs not be resolved again; 0 or less is now. Known tells whether its status has what the
// source stands for: a success that could not be written down is no success.
func (s *resolutionSchedule) due(key types.NamespacedName, source, access string, known bool, now time.Time) (wait time.Duration, never bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.entries[key]
	switch {
	case !ok, entry.source != source, entry.access != access:
		return 0, false
	case entry.failures == 0 && !known:
		return 0, false
	default:
		return entry.next.Sub(now), entry.fixed
	}
}

// record notes an attempt and returns how long to wait before the next; 0 is for ever.
func (s *resolutionSchedule) record(key types.NamespacedName, entry resolutionEntry, interval time.Duration, now time.Time, failed bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.entries[key]
	if before.source == entry.source {
		entry.artifact = before.artifact
	}
	var delay time.Duration
	switch {
	case failed:
		entry.fixed = false
		entry.failures = 1
		if before.source == entry.source && before.access == entry.access {
			entry.failures = before.failures + 1
		}
		// Nobody is to wait longer for a registry that is back than for one that was never away.
		delay = min(resolveRetry(entry.failures), max(interval, minResolveRetry))
	case !entry.fixed:
		delay = wait.Jitter(interval, intervalJitter)
	}
	entry.next = now.Add(delay)
	s.entries[key] = entry
	return delay
}

// remember notes the answer to what was asked last.
func (s *resolutionSchedule) remember(key types.NamespacedName, artifact *addonsv1.ArtifactStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.entries[key]
	entry.artifact = artifact.DeepCopy()
	s.entries[key] = entry
}

// answer returns the last answer for a source, nil if there is none, and whether asking has failed since.
func (s *resolutionSchedule) answer(key types.NamespacedName, source string) (artifact *addonsv1.ArtifactStatus, failing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.entries[key]
	if entry.source != source {
		return nil, false
	}
	return entry.artifact.DeepCopy(), entry.failures > 0
}

func (s *resolutionSchedule) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, key)
}

// resolveRetry is the wait after a number of failures in a row: 5 s, 10 s, 20 s and so on, up to 5 min.
func resolveRetry(failures int) time.Duration {
	delay := minResolveRetry
	for range min(failures, 10) - 1 {
		delay *= 2
	}
	return min(delay, maxResolveRetry)
}

// resolve finds out what the source stands for, if it is time to. A registry that fails takes nothing away: what the
// same source stood for before stays valid.
func (r *helmOpReconciler) resolve(ctx context.Context, scope *helmOpScope) error {
	helmOp := scope.helmOp
	key := client.ObjectKeyFromObject(helmOp)
	source, err := sourceDigest(&helmOp.Spec.Source)
	if err != nil {
		return err
	}
	r.recall(helmOp, key, source)
	if known := helmOp.Status.Artifact; known != nil && known.SourceDigest == source {
		scope.artifact = &known.ResolvedArtifact
	}
	access, accessErr := r.references.access(ctx, helmOp)
	// A changed interval counts from now, not from the end of the one before.
	accessDigest, err := digestOf(access, accessErr != nil, helmOp.Spec.Source.Interval)
	if err != nil {
		return err
	}
	// Known and not yet due: nothing is asked, and the condition stands as it is.
	delay, never := r.resolution.due(key, source, accessDigest, scope.artifact != nil, r.now())
	if never {
		confirmCondition(helmOp, addonsv1.ResolvedCondition)
		return nil
	}
	if delay > 0 {
		confirmCondition(helmOp, addonsv1.ResolvedCondition)
		scope.requeueAfter = delay
		return nil
	}

	entry := resolutionEntry{source: source, access: accessDigest, fixed: helmOp.Spec.Source.Ref.Digest != ""}
	var artifact oci.Artifact
	resolveErr := accessErr
	if resolveErr == nil {
		artifact, resolveErr = r.registry.Resolve(ctx, ociSource(helmOp, access))
	}
	if resolveErr == nil {
		// The manifest tells what the artifact is: what is no chart is refused before anything is pulled.
		resolveErr = bundle.Supported(artifact.ConfigMediaType, artifact.ArtifactType, artifact.LayerMediaTypes, "")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	scope.requeueAfter = r.resolution.record(key, entry, helmOp.Spec.Source.Interval.Duration, r.now(), resolveErr != nil)
	if resolveErr != nil {
		r.reportUnresolved(helmOp, resolveErr)
		return nil
	}
	r.reportResolved(helmOp, artifact, source)
	r.resolution.remember(key, helmOp.Status.Artifact)
	scope.artifact = &helmOp.Status.Artifact.ResolvedArtifact
	return nil
}

// recall writes an answer into the status that an earlier pass got. The status that says so may not have reached the cache
// yet; going by an older one would ask again, or send every Cluster back to what a tag stood for before.
func (r *helmOpReconciler) recall(helmOp *addonsv1.HelmOp, key types.NamespacedName, source string) {
	answer, failing := r.resolution.answer(key, source)
	known := helmOp.Status.Artifact
	if answer == nil {
		return
	}
	if known != nil && known.SourceDigest == source &&
		(known.ResolvedArtifact == answer.ResolvedArtifact || known.ResolvedAt.After(answer.ResolvedAt.Time)) {
		// Known already, or another manager has found out something newer.
		return
	}
	helmOp.Status.Artifact = answer
	if failing {
		return
	}
	setCondition(helmOp, addonsv1.ResolvedCondition, metav1.ConditionTrue, addonsv1.ResolvedReason, describeArtifact(&answer.ResolvedArtifact))
}

func (r *helmOpReconciler) reportUnresolved(helmOp *addonsv1.HelmOp, err error) {
	reason := reasonFor(err, registryErrors, addonsv1.RegistryErrorReason)
	message := err.Error()
	if setCondition(helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, reason, message) {
		r.warn(helmOp, reason, "Resolve", message)
	}
}

func (r *helmOpReconciler) reportResolved(helmOp *addonsv1.HelmOp, artifact oci.Artifact, source string) {
	resolved := addonsv1.ResolvedArtifact{URL: artifact.URL, Digest: artifact.Digest, Tag: artifact.Tag, Version: artifact.Version}
	message := describeArtifact(&resolved)
	known := helmOp.Status.Artifact
	if known == nil || known.ResolvedArtifact != resolved || known.SourceDigest != source {
		helmOp.Status.Artifact = &addonsv1.ArtifactStatus{
			ResolvedArtifact: resolved, ResolvedAt: metav1.NewTime(r.now()), SourceDigest: source,
		}
		r.event(helmOp, corev1.EventTypeNormal, addonsv1.ArtifactResolvedEvent, "Resolve", message)
	}
	setCondition(helmOp, addonsv1.ResolvedCondition, metav1.ConditionTrue, addonsv1.ResolvedReason, message)
}

// sourceDigest identifies what is asked of a registry. How often and with which credentials does not belong to it.
func sourceDigest(source *addonsv1.ArtifactSource) (string, error) {
	return digestOf(source.URL, source.Ref, source.Insecure)
}

func describeArtifact(artifact *addonsv1.ResolvedArtifact) string {
	subject := artifact.URL
	if artifact.Tag != "" {
		subject += ":" + artifact.Tag
	}
	if artifact.Version != "" && artifact.Version != artifact.Tag {
		return fmt.Sprintf("%s is version %s, %s", subject, artifact.Version, artifact.Digest)
	}
	return fmt.Sprintf("%s is %s", subject, artifact.Digest)
}

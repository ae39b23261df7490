// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package resolution

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/dependencies"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
)

// newVaried returns a controller whose registry has a digest for each tag, and a HelmOp that refers to three tags.
func newVaried(t *testing.T, objects ...client.Object) (*resolver, *addonsv1.HelmOp) {
	t.Helper()
	r := newResolver(t, objects...)
	for _, tag := range []string{"source", "edge", "next"} {
		r.registry.set(tag, tagDouble{digest: "sha256:" + tag})
	}
	helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{Ref: controllertest.Tagged("source"),
		Interval: metav1.Duration{Duration: 10 * time.Minute}})
	helmOp.Spec.Overrides = []addonsv1.Override{
		{Name: "edge", ClusterSelector: controllertest.Labelled("site", "edge"), Ref: ptr.To(controllertest.Tagged("edge"))},
		{Name: "back", ClusterSelector: controllertest.Labelled("back", "true"),
			Ref: ptr.To(controllertest.Tagged("source"))},
	}
	helmOp.Spec.RefsByKubernetesVersion = []addonsv1.KubernetesVersionReference{
		{KubernetesVersion: ">=1.36", Ref: controllertest.Tagged("edge")},
		{KubernetesVersion: ">=1.35", Ref: controllertest.Tagged("next")},
	}
	return r, helmOp
}

// known returns the digests of the artifacts of a pass, by tag.
func (o *Outcome) known() map[string]string {
	known := map[string]string{}
	for ref, artifact := range o.artifacts {
		known[ref.Tag] = artifact.Digest
	}
	return known
}

// others returns the digests of the references other than spec.source in the status, by tag.
func others(helmOp *addonsv1.HelmOp) map[string]string {
	digests := map[string]string{}
	for _, artifact := range helmOp.Status.Artifacts {
		digests[artifact.Reference.Tag] = artifact.Digest
	}
	return digests
}

func expectEqual[V comparable](t *testing.T, what string, got, want map[string]V) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func expectMessage(t *testing.T, helmOp *addonsv1.HelmOp, conditionType string, parts ...string) {
	t.Helper()
	message := conditions.GetMessage(helmOp, conditionType)
	for _, part := range parts {
		if !strings.Contains(message, part) {
			t.Errorf("%s says %q, want %q in it", conditionType, message, part)
		}
	}
}

var allKnown = map[string]string{"source": "sha256:source", "edge": "sha256:edge", "next": "sha256:next"}

// TestResolveLooksUpEachReferenceOncePerInterval checks that the number of lookups of a reference does not depend on
// the number of passes and Clusters.
func TestResolveLooksUpEachReferenceOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, helmOp := newVaried(t)
		for interval := 1; interval <= 5; interval++ {
			for range 20 {
				outcome := r.pass(t, helmOp)
				expectEqual(t, "known", outcome.known(), allKnown)
				if outcome.Artifact == nil || outcome.Artifact.Digest != "sha256:source" {
					t.Errorf("the source is %v", outcome.Artifact)
				}
				if left := outcome.RequeueAfter; left <= 0 || left > 11*time.Minute {
					t.Errorf("the next pass is in %s", left)
				}
			}
			expectEqual(t, "requests", r.registry.requestsByTag(),
				map[string]int{"source": interval, "edge": interval, "next": interval})
			r.clock.Step(12 * time.Minute)
		}
		expectEqual(t, "status", others(helmOp), map[string]string{"edge": "sha256:edge", "next": "sha256:next"})
		expectCondition(t, helmOp, addonsv1.ResolvedCondition, metav1.ConditionTrue, addonsv1.ResolvedReason)
		expectMessage(t, helmOp, addonsv1.ResolvedCondition, "sha256:source", "2 other references are resolved")
	})
}

// TestResolveRetriesFailedReferenceAlone checks that the condition names a failed reference, and that the failed
// reference is retried without a lookup of the others.
func TestResolveRetriesFailedReferenceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, helmOp := newVaried(t)
		r.registry.set("next", tagDouble{err: &ocierr.Error{Op: "resolve", Kind: ocierr.ErrNotFound}})
		outcome := r.pass(t, helmOp)
		expectEqual(t, "known", outcome.known(), map[string]string{"source": "sha256:source", "edge": "sha256:edge"})
		expectCondition(t, helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.ArtifactNotFoundReason)
		expectMessage(t, helmOp, addonsv1.ResolvedCondition, "spec.refsByKubernetesVersion[1].ref: ")
		var unresolved *reasons.UnresolvedError
		if _, err := outcome.ArtifactOf(controllertest.Tagged("next")); !errors.As(err, &unresolved) ||
			unresolved.Reason != addonsv1.ArtifactNotFoundReason ||
			!strings.HasPrefix(err.Error(), "spec.refsByKubernetesVersion[1].ref: ") {
			t.Errorf("a Cluster that needs the failed reference gets %v", err)
		}
		artifact, err := outcome.ArtifactOf(controllertest.Tagged("edge"))
		if err != nil || artifact.Digest != "sha256:edge" {
			t.Errorf("a Cluster that needs another reference gets %v, %v", artifact, err)
		}
		if outcome.RequeueAfter > 6*time.Second {
			t.Errorf("the next pass is in %s, want the time of the retry", outcome.RequeueAfter)
		}
		r.pass(t, helmOp)
		r.clock.Step(6 * time.Second)
		r.pass(t, helmOp)
		expectEqual(t, "requests", r.registry.requestsByTag(), map[string]int{"source": 1, "edge": 1, "next": 2})

		r.registry.set("next", tagDouble{digest: "sha256:next"})
		r.clock.Step(time.Minute)
		expectEqual(t, "mended", r.pass(t, helmOp).known(), allKnown)
		expectCondition(t, helmOp, addonsv1.ResolvedCondition, metav1.ConditionTrue, addonsv1.ResolvedReason)

		// The known artifacts stay while the registry fails.
		for tag := range allKnown {
			r.registry.set(tag, tagDouble{err: &ocierr.Error{Op: "resolve", Kind: ocierr.ErrUnreachable}})
		}
		r.clock.Step(time.Hour)
		expectEqual(t, "while the registry fails", r.pass(t, helmOp).known(), allKnown)
		expectCondition(t, helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.RegistryUnreachableReason)
		expectMessage(t, helmOp, addonsv1.ResolvedCondition, "; 2 other references are not resolved, either")
	})
}

// TestResolveReferencesInParallel checks that several unresponsive lookups hold a worker no longer than one, and do not
// affect successful lookups.
func TestResolveReferencesInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, helmOp := newVaried(t)
		for i := range 30 {
			tag := fmt.Sprintf("slow-%d", i)
			r.registry.set(tag, tagDouble{hangs: true})
			helmOp.Spec.Overrides = append(helmOp.Spec.Overrides,
				addonsv1.Override{Name: tag, Ref: ptr.To(controllertest.Tagged(tag))})
		}
		begun := time.Now()
		outcome := r.pass(t, helmOp)
		if held := time.Since(begun); held != async.Grace {
			t.Errorf("held the worker for %s, want %s", held, async.Grace)
		}
		expectEqual(t, "known", outcome.known(), allKnown)
		expectCondition(t, helmOp, addonsv1.ResolvedCondition, metav1.ConditionUnknown, addonsv1.ResolvingReason)
		expectMessage(t, helmOp, addonsv1.ResolvedCondition, "spec.overrides[2] (slow-0).ref: ")
		begun = time.Now()
		r.pass(t, helmOp)
		if held := time.Since(begun); held != 0 {
			t.Errorf("held the worker again for %s", held)
		}
		if times := r.registry.requestsByTag(); times["source"] != 1 || times["slow-7"] != 1 {
			t.Errorf("lookups %v", times)
		}
	})
}

// TestResolvedUnknownWhileReferenceIsResolving checks that dependents wait while a reference is resolved for the first
// time, even if another reference has failed: no new revision is created meanwhile.
func TestResolvedUnknownWhileReferenceIsResolving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, helmOp := newVaried(t)
		r.registry.set("edge", tagDouble{err: &ocierr.Error{Op: "resolve", Kind: ocierr.ErrNotFound}})
		r.registry.set("next", tagDouble{hangs: true})
		report.SetCondition(helmOp, addonsv1.RollingOutCondition, metav1.ConditionFalse, addonsv1.NotRollingOutReason, "")
		if outcome := r.pass(t, helmOp); !outcome.IsResolving() {
			t.Error("no reference is being resolved")
		}
		if why := dependencies.Unsettled(helmOp); why != "is not resolved yet" {
			t.Errorf("dependents get %q", why)
		}
		r, helmOp = newVaried(t)
		r.registry.set("edge", tagDouble{err: &ocierr.Error{Op: "resolve", Kind: ocierr.ErrNotFound}})
		report.SetCondition(helmOp, addonsv1.RollingOutCondition, metav1.ConditionFalse, addonsv1.NotRollingOutReason, "")
		r.pass(t, helmOp)
		if why := dependencies.Unsettled(helmOp); why != "" {
			t.Errorf("after all lookups, dependents get %q", why)
		}
	})
}

// TestResolveForgetsRemovedReferences checks that a removed reference is dropped, and that a reference that was moved
// to another field is not looked up again.
func TestResolveForgetsRemovedReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, helmOp := newVaried(t)
		r.pass(t, helmOp)

		helmOp.Spec.RefsByKubernetesVersion = nil
		expectEqual(t, "known", r.pass(t, helmOp).known(),
			map[string]string{"source": "sha256:source", "edge": "sha256:edge"})
		expectEqual(t, "status", others(helmOp), map[string]string{"edge": "sha256:edge"})
		if n := len(r.schedule.entries[client.ObjectKeyFromObject(helmOp)]); n != 2 {
			t.Errorf("%d references are stored, want 2", n)
		}

		// The reference of an override becomes the reference of the source, while the registry is unresponsive, or fails
		// after a restart.
		after, _ := newVaried(t)
		after.registry.set("edge", tagDouble{err: &ocierr.Error{Op: "resolve", Kind: ocierr.ErrUnreachable}})
		changed := helmOp.DeepCopy()
		changed.Spec.Source.Ref = controllertest.Tagged("edge")
		if outcome := after.pass(t, changed); digestKnown(outcome) != "sha256:edge" {
			t.Errorf("the source is %q after a restart", digestKnown(outcome))
		}
		r.registry.hangs.Store(true)
		helmOp.Spec.Source.Ref, helmOp.Spec.Overrides = controllertest.Tagged("edge"), nil
		outcome := r.pass(t, helmOp)
		if digestKnown(outcome) != "sha256:edge" || helmOp.Status.Artifact.Digest != "sha256:edge" ||
			len(helmOp.Status.Artifacts) != 0 {
			t.Errorf("the source is %q, the status says %v and %v", digestKnown(outcome), helmOp.Status.Artifact,
				helmOp.Status.Artifacts)
		}
		expectEqual(t, "requests", r.registry.requestsByTag(), map[string]int{"source": 1, "edge": 1, "next": 1})
		expectCondition(t, helmOp, addonsv1.ResolvedCondition, metav1.ConditionTrue, addonsv1.ResolvedReason)
		expectMessage(t, helmOp, addonsv1.ResolvedCondition, "sha256:edge")

		r.Forget(client.ObjectKeyFromObject(helmOp))
		if len(r.schedule.entries) != 0 {
			t.Error("a deleted HelmOp is still stored")
		}
	})
}

// TestResolveAfterChangeOfRepository checks that artifacts of the previous repository are not used for a new revision,
// and that the status keeps the artifacts in use.
func TestResolveAfterChangeOfRepository(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, helmOp := newVaried(t)
		r.pass(t, helmOp)
		for tag := range allKnown {
			r.registry.set(tag, tagDouble{err: &ocierr.Error{Op: "resolve", Kind: ocierr.ErrNotFound}})
		}
		helmOp.Spec.Source.URL = "oci://registry.example/charts/other"
		outcome := r.pass(t, helmOp)
		if len(outcome.artifacts) != 0 || outcome.Artifact != nil {
			t.Errorf("the artifacts are %v", outcome.known())
		}
		expectEqual(t, "status", others(helmOp), map[string]string{"edge": "sha256:edge", "next": "sha256:next"})
		if helmOp.Status.Artifact.Digest != "sha256:source" {
			t.Errorf("the status says %v", helmOp.Status.Artifact)
		}
	})
}

// TestResolveWithInvalidVariants checks that invalid variants do not affect the known artifacts, and are not looked up.
func TestResolveWithInvalidVariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, helmOp := newVaried(t)
		r.pass(t, helmOp)
		helmOp.Spec.RefsByKubernetesVersion[0].KubernetesVersion = "new"
		r.clock.Step(time.Hour)
		if outcome := r.pass(t, helmOp); digestKnown(outcome) != "sha256:source" {
			t.Errorf("got %q", digestKnown(outcome))
		}
		expectEqual(t, "requests", r.registry.requestsByTag(), map[string]int{"source": 2, "edge": 1, "next": 1})
		expectEqual(t, "status", others(helmOp), map[string]string{"edge": "sha256:edge", "next": "sha256:next"})
	})
}

// TestResolvePrefersNewerResultToStaleStatus checks a pass over a status that is older than the last results.
func TestResolvePrefersNewerResultToStaleStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, helmOp := newVaried(t)
		stale := helmOp.DeepCopy()
		r.pass(t, helmOp)
		expectEqual(t, "after the first results", r.pass(t, stale.DeepCopy()).known(), allKnown)

		before := helmOp.DeepCopy()
		r.registry.set("edge", tagDouble{digest: "sha256:moved"})
		r.clock.Step(time.Hour)
		moved := map[string]string{"source": "sha256:source", "edge": "sha256:moved", "next": "sha256:next"}
		expectEqual(t, "after a tag moved", r.pass(t, helmOp).known(), moved)
		expectEqual(t, "over the status from before", r.pass(t, before).known(), moved)
		expectEqual(t, "requests", r.registry.requestsByTag(), map[string]int{"source": 2, "edge": 2, "next": 2})
	})
}

// TestResolvePrefersNewerRevisionToStaleStatus checks a new manager whose predecessor created a revision of a moved
// tag, and then stopped before it wrote the status. The registry does not answer.
func TestResolvePrefersNewerRevisionToStaleStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tc := range map[string]struct {
			started time.Duration
			want    string
		}{
			"the revision is newer": {started: time.Minute, want: "sha256:moved"},
			"the status is newer":   {started: -time.Minute, want: "sha256:1"},
		} {
			r := newResolver(t)
			r.registry.set("source", tagDouble{hangs: true})
			helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{Ref: controllertest.Tagged("source")})
			digest, err := apiutil.SourceDigest(&helmOp.Spec.Source)
			if err != nil {
				t.Fatal(err)
			}
			helmOp.Status.Artifact = &addonsv1.ArtifactStatus{SourceDigest: digest, ResolvedAt: metav1.NewTime(r.clock.Now()),
				ResolvedArtifact: addonsv1.ResolvedArtifact{Digest: "sha256:1"}}
			newest := &addonsv1.HelmOpRevision{}
			newest.Spec.HelmOp.Source = helmOp.Spec.Source
			newest.Spec.Artifact = &addonsv1.ResolvedArtifact{Digest: "sha256:moved"}
			newest.Status.StartedAt = metav1.NewTime(r.clock.Now().Add(tc.started))
			outcome, err := r.Resolve(t.Context(), helmOp, Input{IsComplete: true, Newest: newest})
			if err != nil {
				t.Fatal(err)
			}
			if got := digestKnown(outcome); got != tc.want {
				t.Errorf("%s: the artifact is %s, want %s", name, got, tc.want)
			}
		}
	})
}

// TestResolveRequestIsForAllReferences checks that a request is done when the lookups of all references have ended.
func TestResolveRequestIsForAllReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, helmOp := newVaried(t)
		r.pass(t, helmOp)
		r.registry.set("next", tagDouble{hangs: true})
		helmOp.Annotations = map[string]string{addonsv1.ResolveRequestedAtAnnotation: "now"}
		r.pass(t, helmOp)
		if helmOp.Status.LastResolveRequest != "" {
			t.Error("the request is done while a reference is being resolved")
		}
		expectEqual(t, "requests", r.registry.requestsByTag(), map[string]int{"source": 2, "edge": 2, "next": 2})

		// A restart with a responsive registry completes the request.
		after, _ := newVaried(t)
		after.pass(t, helmOp)
		after.pass(t, helmOp)
		if helmOp.Status.LastResolveRequest != "now" {
			t.Errorf("the status says %q", helmOp.Status.LastResolveRequest)
		}
		expectEqual(t, "requests after a restart", after.registry.requestsByTag(),
			map[string]int{"source": 1, "edge": 1, "next": 1})
	})
}

func TestResolveVerifiesAllReferences(t *testing.T) {
	t.Parallel()
	keys := controllertest.Opaque("keys", map[string]string{"cosign.pub": controllertest.PublicKey})
	signed := func(t *testing.T, digests ...string) (*resolver, *addonsv1.HelmOp) {
		t.Helper()
		r, helmOp := newVaried(t, keys)
		helmOp.Spec.Source.Verify = &addonsv1.Verification{SecretRef: controllertest.SecretRef("keys")}
		for _, digest := range digests {
			r.verifier.trust(digest)
		}
		return r, helmOp
	}
	all := slices.Collect(maps.Values(allKnown))

	inBubble(t, "all are signed", func(t *testing.T) {
		r, helmOp := signed(t, all...)
		expectEqual(t, "known", r.pass(t, helmOp).known(), allKnown)
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionTrue, addonsv1.VerifiedReason)
		expectMessage(t, helmOp, addonsv1.VerifiedCondition, "sha256:source is signed by", "2 other artifacts are signed")
		policy, err := r.options.References.Policy(t.Context(), helmOp)
		if err != nil {
			t.Fatal(err)
		}
		artifact := addonsv1.ResolvedArtifact{URL: "oci://registry.example/charts/hello", Digest: "sha256:next"}
		if !verify.IsVerified(&verifierDouble{}, apiutil.KnownArtifacts(&helmOp.Status), &artifact, policy) {
			t.Error("a release does not treat the artifact as verified")
		}
		// A restart causes no verification.
		after, _ := newVaried(t, keys)
		expectEqual(t, "after a restart", after.pass(t, helmOp).known(), allKnown)
		if after.verifier.count() != 0 {
			t.Errorf("verified again %d times", after.verifier.count())
		}
	})
	inBubble(t, "one is not", func(t *testing.T) {
		r, helmOp := signed(t, "sha256:source", "sha256:next")
		expectEqual(t, "known", r.pass(t, helmOp).known(),
			map[string]string{"source": "sha256:source", "next": "sha256:next"})
		for _, name := range []string{addonsv1.VerifiedCondition, addonsv1.ResolvedCondition} {
			expectCondition(t, helmOp, name, metav1.ConditionFalse, addonsv1.SignatureUntrustedReason)
			expectMessage(t, helmOp, name, "spec.overrides[0] (edge).ref: ")
		}
		// The refusal stays after a restart with an unresponsive registry, until the signatures are checked again.
		after, _ := newVaried(t, keys)
		after.verifier.fail(verification.ErrUntrusted)
		after.registry.set("edge", tagDouble{err: &ocierr.Error{Op: "resolve", Kind: ocierr.ErrUnreachable}})
		after.pass(t, helmOp)
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionFalse, addonsv1.SignatureUntrustedReason)
		after.registry.set("edge", tagDouble{digest: "sha256:edge"})
		after.verifier.trust("sha256:edge")
		after.clock.Step(time.Minute)
		after.pass(t, helmOp)
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionTrue, addonsv1.VerifiedReason)
	})
}

// TestResolveSharesResultsOfReferences checks that HelmOps with the same references share the results of all
// references.
func TestResolveSharesResultsOfReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, first := newVaried(t)
		second := first.DeepCopy()
		second.Name = "second"
		r.pass(t, first)
		r.pass(t, second)
		r.clock.Step(12 * time.Minute)
		r.pass(t, first)
		r.pass(t, second)
		expectEqual(t, "requests", r.registry.requestsByTag(), map[string]int{"source": 3, "edge": 3, "next": 3})
	})
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package resolution

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
)

// registryDouble is a registry that answers at once or is unresponsive. It counts requests.
type registryDouble struct {
	hangs    atomic.Bool
	requests atomic.Int32

	// mu guards all other fields. tags holds the results of tags that have their own result: all others have artifact
	// and err. times holds the number of requests for each tag.
	mu       sync.Mutex
	artifact oci.Artifact
	err      error
	tags     map[string]tagDouble
	times    map[string]int
}

// tagDouble is the result of a registry for one tag.
type tagDouble struct {
	digest string
	err    error
	hangs  bool
}

func (r *registryDouble) Resolve(ctx context.Context, source oci.Source) (oci.Artifact, error) {
	r.requests.Add(1)
	r.mu.Lock()
	tag, isOwn := r.tags[source.Ref.Tag]
	r.times[source.Ref.Tag]++
	artifact, err := r.artifact, r.err
	r.mu.Unlock()
	if r.hangs.Load() || tag.hangs {
		<-ctx.Done()
		return oci.Artifact{}, ctx.Err()
	}
	if isOwn {
		artifact, err = chartArtifact(tag.digest), tag.err
		artifact.Tag, artifact.Version = source.Ref.Tag, source.Ref.Tag
	}
	return artifact, err
}

// move sets the digest of the tags without their own result.
func (r *registryDouble) move(digest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.artifact = chartArtifact(digest)
}

// fail sets the error of the tags without their own result.
func (r *registryDouble) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// set sets the result for one tag.
func (r *registryDouble) set(tag string, double tagDouble) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tags[tag] = double
}

// requestsByTag returns the number of requests for each tag.
func (r *registryDouble) requestsByTag() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.times)
}

// verifierDouble trusts a set of digests. It counts verifications.
type verifierDouble struct {
	remembered map[string]bool

	// mu guards the fields below.
	mu            sync.Mutex
	trusted       map[string]bool
	err           error
	verifications int
}

func (v *verifierDouble) Verify(_ context.Context, _, digest string, _ oci.Access,
	_ verification.Policy,
) (verification.Result, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.verifications++
	if v.trusted[digest] {
		return verification.Result{Signers: []string{"key cosign.pub"}}, nil
	}
	return verification.Result{}, v.err
}

// trust makes the verifier trust a digest.
func (v *verifierDouble) trust(digest string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.trusted[digest] = true
}

// fail sets the error for the digests that the verifier does not trust.
func (v *verifierDouble) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.err = err
}

// count returns the number of verifications.
func (v *verifierDouble) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.verifications
}

func (v *verifierDouble) Cached(_, digest, _ string) (verification.Result, bool) {
	return verification.Result{}, v.remembered[digest]
}

// resolver is a Resolver with a registry and a clock of the test.
type resolver struct {
	*Resolver
	registry *registryDouble
	verifier *verifierDouble
	releases []*addonsv1.HelmOpRelease
	queue    workqueue.TypedRateLimitingInterface[ctrl.Request]
	clock    *clocktesting.FakeClock
}

func newResolver(t *testing.T, objects ...client.Object) *resolver {
	t.Helper()
	referred := controllertest.ClientOf(objects...)
	references := references.NewReader(referred, referred)
	r := &resolver{
		registry: &registryDouble{artifact: chartArtifact("sha256:1"), tags: map[string]tagDouble{}, times: map[string]int{}},
		verifier: &verifierDouble{err: verification.ErrUntrusted, trusted: map[string]bool{}},
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]()),
		clock:    clocktesting.NewFakeClock(controllertest.Noon),
	}
	r.Resolver = New(Options{Registry: r.registry, Verifier: r.verifier, References: references, Concurrency: 4,
		Now: r.clock.Now})
	ctx, cancel := context.WithCancel(context.Background())
	if err := r.Source().Start(ctx, r.queue); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); r.queue.ShutDown() })
	return r
}

func chartArtifact(digest string) oci.Artifact {
	return oci.Artifact{
		URL: "oci://registry.example/charts/hello", Tag: "1.0.0", Version: "1.0.0", Digest: digest,
		MediaType: bundle.ChartConfigMediaType, Layers: []oci.Layer{{MediaType: bundle.ChartLayerMediaType}},
		Annotations: map[string]string{"org.opencontainers.image.source": "https://me:token@git.example", "other": "x"},
	}
}

// pass resolves the references of a HelmOp, and writes the outcome into the HelmOp. It must run with a fake time.
func (r *resolver) pass(t *testing.T, helmOp *addonsv1.HelmOp) *Outcome {
	t.Helper()
	input := Input{Releases: func() ([]*addonsv1.HelmOpRelease, error) { return r.releases, nil }}
	if variants, err := render.NewVariants(&helmOp.Spec); err == nil {
		input.Others, input.IsComplete = variants.References(), true
	}
	outcome, err := r.Resolve(t.Context(), helmOp, input)
	if err != nil {
		t.Fatal(err)
	}
	outcome.WriteTo(helmOp)
	return outcome
}

// inBubble runs a subtest with a fake time: a registry that answers then never takes longer than a worker waits.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
}

func expectCondition(t *testing.T, helmOp *addonsv1.HelmOp, conditionType string, status metav1.ConditionStatus,
	reason string,
) {
	t.Helper()
	got := conditions.Get(helmOp, conditionType)
	if got == nil || got.Status != status || got.Reason != reason {
		t.Errorf("%s is %+v, want %s, %s", conditionType, got, status, reason)
	}
}

func digestKnown(outcome *Outcome) string {
	if outcome.Artifact == nil {
		return ""
	}
	return outcome.Artifact.Digest
}

func TestResolveReportsProvenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResolver(t)
		helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{Interval: metav1.Duration{Duration: time.Hour}})
		r.pass(t, helmOp)
		artifact := helmOp.Status.Artifact
		if artifact.MediaType != bundle.ChartConfigMediaType ||
			*artifact.Provenance != (addonsv1.Provenance{Source: "https://git.example"}) {
			t.Errorf("got %+v", artifact)
		}
		if conditions.Has(helmOp, addonsv1.VerifiedCondition) {
			t.Error("a HelmOp without verify has the condition Verified")
		}
		r.clock.SetTime(controllertest.Noon.Add(2 * time.Hour))
		r.pass(t, helmOp)
		if !helmOp.Status.Artifact.ResolvedAt.Time.Equal(controllertest.Noon) || r.registry.requests.Load() != 2 {
			t.Errorf("after %d requests, the same artifact has another time: %v", r.registry.requests.Load(),
				helmOp.Status.Artifact.ResolvedAt)
		}
	})
}

func TestResolveRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResolver(t)
		helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{Interval: metav1.Duration{Duration: time.Hour}})
		r.pass(t, helmOp)
		for i, value := range []string{"2026-11-21T10:00:00Z", strings.Repeat("long", 100)} {
			helmOp.Annotations = map[string]string{addonsv1.ResolveRequestedAtAnnotation: value}
			r.pass(t, helmOp)
			r.pass(t, helmOp)
			if int(r.registry.requests.Load()) != i+2 {
				t.Errorf("%d requests, want %d", r.registry.requests.Load(), i+2)
			}
			if request := helmOp.Status.LastResolveRequest; request == "" || len(request) > requeue.MaxResolveRequest {
				t.Errorf("the status says %q", request)
			}
		}
		helmOp.Annotations = nil
		r.pass(t, helmOp)
		if r.registry.requests.Load() != 3 {
			t.Error("a removed annotation caused a request")
		}
	})
}

// TestResolveRequestAfterFailedWrite checks that the next pass reports a request as done if the write of the status
// failed. The digest of the reference never needs another lookup.
func TestResolveRequestAfterFailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResolver(t)
		helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{
			Ref: addonsv1.ArtifactReference{Digest: "sha256:" + strings.Repeat("1", 64)}})
		helmOp.Annotations = map[string]string{addonsv1.ResolveRequestedAtAnnotation: "now"}
		r.pass(t, helmOp.DeepCopy()) // the status of the copy is lost
		r.pass(t, helmOp)
		if request := helmOp.Status.LastResolveRequest; request != "now" || r.registry.requests.Load() != 1 {
			t.Errorf("the status says %q after %d requests, want one request", request, r.registry.requests.Load())
		}
	})
}

// TestResolveIntervalHasMinimum checks that the minimum of the manager replaces a shorter interval, and that the
// condition reports this.
func TestResolveIntervalHasMinimum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResolver(t)
		r.options.MinInterval = 30 * time.Second
		helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{Interval: metav1.Duration{Duration: time.Second}})
		r.pass(t, helmOp)
		for range 29 {
			r.clock.Step(time.Second)
			r.pass(t, helmOp)
		}
		if requests := r.registry.requests.Load(); requests != 1 {
			t.Errorf("%d requests in half a minute, want 1", requests)
		}
		const note = "; HelmOp looks up the source every 30s (--min-source-interval of the manager), not every 1s " +
			"(spec.source.interval)"
		if message := conditions.GetMessage(helmOp, addonsv1.ResolvedCondition); strings.Count(message, note) != 1 {
			t.Errorf("Resolved says %q", message)
		}
		r.clock.Step(5 * time.Second)
		r.pass(t, helmOp)
		if requests := r.registry.requests.Load(); requests != 2 {
			t.Errorf("%d requests, want a second request after the minimum", requests)
		}
		long := controllertest.HelmOpWith(addonsv1.ArtifactSource{Interval: metav1.Duration{Duration: time.Minute}})
		r.pass(t, long)
		if message := conditions.GetMessage(long, addonsv1.ResolvedCondition); strings.Contains(message, "minimum") {
			t.Errorf("Resolved says %q of an interval above the minimum", message)
		}
	})
}

// TestResolveSharesResults checks that fifty HelmOps with one reference send as many requests as one HelmOp. Only a
// first lookup and a requested lookup send their own request.
func TestResolveSharesResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResolver(t)
		interval := 10 * time.Minute
		var helmOps []*addonsv1.HelmOp
		for i := range 50 {
			helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{Interval: metav1.Duration{Duration: interval}})
			helmOp.Name = fmt.Sprintf("h%d", i)
			helmOps = append(helmOps, helmOp)
			r.pass(t, helmOp)
		}
		if r.registry.requests.Load() != 50 {
			t.Fatalf("%d requests at first, want a request of each HelmOp", r.registry.requests.Load())
		}
		next := map[int]time.Time{}
		for i := range helmOps {
			next[i] = controllertest.Noon
		}
		r.registry.requests.Store(0)
		for elapsed := time.Duration(0); elapsed < 10*interval; elapsed += time.Second {
			r.clock.SetTime(controllertest.Noon.Add(elapsed))
			for i, helmOp := range helmOps {
				if r.clock.Now().Before(next[i]) {
					continue
				}
				next[i] = r.clock.Now().Add(r.pass(t, helmOp).RequeueAfter)
			}
		}
		if r.registry.requests.Load() < 9 || r.registry.requests.Load() > 11 {
			t.Errorf("%d requests in ten intervals, want about ten", r.registry.requests.Load())
		}
		r.registry.requests.Store(0)
		helmOps[7].Annotations = map[string]string{addonsv1.ResolveRequestedAtAnnotation: "now"}
		r.pass(t, helmOps[7])
		fresh := controllertest.HelmOpWith(addonsv1.ArtifactSource{Interval: metav1.Duration{Duration: interval}})
		fresh.Name = "fresh"
		r.pass(t, fresh)
		if r.registry.requests.Load() != 2 {
			t.Errorf("%d requests, want a request of the HelmOp with a request annotation and of the new HelmOp",
				r.registry.requests.Load())
		}
	})
}

// TestResolveWithUnresponsiveRegistry checks that an unresponsive registry does not block a worker, that the known
// artifact stays, and that the HelmOp is enqueued when the lookup ends.
func TestResolveWithUnresponsiveRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResolver(t)
		helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{Interval: metav1.Duration{Duration: time.Minute}})
		r.registry.hangs.Store(true)
		begun := time.Now()
		if outcome := r.pass(t, helmOp); outcome.Artifact != nil {
			t.Error("an artifact is known before the first result")
		}
		expectCondition(t, helmOp, addonsv1.ResolvedCondition, metav1.ConditionUnknown, addonsv1.ResolvingReason)
		if held := time.Since(begun); held > async.Grace {
			t.Errorf("held the worker for %s", held)
		}
		r.registry.hangs.Store(false)
		other := controllertest.HelmOpWith(addonsv1.ArtifactSource{Interval: metav1.Duration{Duration: time.Minute}})
		other.Name = "other"
		if outcome := r.pass(t, other); digestKnown(outcome) != "sha256:1" {
			t.Error("another HelmOp is blocked, too")
		}
		r.registry.hangs.Store(true)
		r.clock.SetTime(controllertest.Noon.Add(time.Hour))
		if outcome := r.pass(t, other); digestKnown(outcome) != "sha256:1" {
			t.Error("the known artifact is dropped while the registry is unresponsive")
		}
		expectCondition(t, other, addonsv1.ResolvedCondition, metav1.ConditionTrue, addonsv1.ResolvedReason)
	})
}

// TestResolveKeepsConditionWhileRetrying checks that a condition does not change with each try if a registry fails
// slowly.
func TestResolveKeepsConditionWhileRetrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResolver(t)
		helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{Interval: metav1.Duration{Duration: time.Minute}})
		r.registry.fail(&ocierr.Error{Op: "resolve", Kind: ocierr.ErrUnreachable})
		r.pass(t, helmOp)
		expectCondition(t, helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.RegistryUnreachableReason)
		r.registry.hangs.Store(true)
		r.clock.Step(time.Minute)
		r.pass(t, helmOp)
		expectCondition(t, helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.RegistryUnreachableReason)
	})
}

// resolvedSigned returns a HelmOp whose artifact, sha256:1, was verified.
func resolvedSigned(t *testing.T, source addonsv1.ArtifactSource, keys client.Object) (*resolver, *addonsv1.HelmOp) {
	t.Helper()
	r := newResolver(t, keys)
	r.verifier.trust("sha256:1")
	helmOp := controllertest.HelmOpWith(source)
	r.pass(t, helmOp)
	return r, helmOp
}

// refuseAnother moves the tag to sha256:2, which is not signed, and checks that the artifact is refused.
func (r *resolver) refuseAnother(t *testing.T, helmOp *addonsv1.HelmOp) {
	t.Helper()
	r.registry.move("sha256:2")
	r.clock.Step(time.Hour)
	r.pass(t, helmOp)
	expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionFalse, addonsv1.SignatureUntrustedReason)
}

func TestResolveVerifies(t *testing.T) {
	t.Parallel()
	keys := controllertest.Opaque("keys", map[string]string{"cosign.pub": controllertest.PublicKey})
	source := addonsv1.ArtifactSource{
		Interval: metav1.Duration{Duration: time.Minute},
		Verify:   &addonsv1.Verification{SecretRef: controllertest.SecretRef("keys")},
	}
	inBubble(t, "signed, then moved to something that is not", func(t *testing.T) {
		r, helmOp := resolvedSigned(t, source, keys)
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionTrue, addonsv1.VerifiedReason)
		if signed := helmOp.Status.Artifact.Verification; signed.Signers[0] != "key cosign.pub" || signed.PolicyDigest == "" {
			t.Errorf("the status says %+v", signed)
		}
		r.registry.move("sha256:2")
		r.clock.SetTime(controllertest.Noon.Add(time.Hour))
		if outcome := r.pass(t, helmOp); digestKnown(outcome) != "sha256:1" {
			t.Errorf("the releases get %q", digestKnown(outcome))
		}
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionFalse, addonsv1.SignatureUntrustedReason)
		expectCondition(t, helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.SignatureUntrustedReason)
	})
	inBubble(t, "never signed", func(t *testing.T) {
		r := newResolver(t, keys)
		r.verifier.fail(verification.ErrUnsigned)
		helmOp := controllertest.HelmOpWith(source)
		if outcome := r.pass(t, helmOp); outcome.Artifact != nil || helmOp.Status.Artifact != nil {
			t.Error("an unsigned artifact is used")
		}
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionFalse, addonsv1.SignatureNotFoundReason)
	})
	inBubble(t, "the signatures cannot be had", func(t *testing.T) {
		r := newResolver(t, keys)
		r.verifier.fail(&ocierr.Error{Op: "list", Kind: ocierr.ErrUnreachable})
		helmOp := controllertest.HelmOpWith(source)
		r.pass(t, helmOp)
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionUnknown, addonsv1.RegistryUnreachableReason)
		expectCondition(t, helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, addonsv1.RegistryUnreachableReason)
	})
	inBubble(t, "a key that is none", func(t *testing.T) {
		r := newResolver(t, controllertest.Opaque("keys", map[string]string{"cosign.pub": "none"}))
		helmOp := controllertest.HelmOpWith(source)
		r.pass(t, helmOp)
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionFalse,
			addonsv1.InvalidVerificationPolicyReason)
		if r.registry.requests.Load() != 0 {
			t.Error("the registry got a request although the policy is invalid")
		}
	})
	inBubble(t, "a restart remembers who signed", func(t *testing.T) {
		_, helmOp := resolvedSigned(t, source, keys)
		after := newResolver(t, keys)
		after.pass(t, helmOp)
		if after.verifier.count() != 0 {
			t.Error("an artifact that was verified before a restart is verified again")
		}
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionTrue, addonsv1.VerifiedReason)
	})
	inBubble(t, "another key, while the registry is down", func(t *testing.T) {
		_, helmOp := resolvedSigned(t, source, keys)
		after := newResolver(t, controllertest.Opaque("keys", map[string]string{"other.pub": controllertest.PublicKey}))
		after.registry.fail(&ocierr.Error{Op: "resolve", Kind: ocierr.ErrUnreachable})
		if outcome := after.pass(t, helmOp); digestKnown(outcome) != "sha256:1" {
			t.Error("the artifact of the releases is dropped")
		}
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionUnknown, addonsv1.RegistryUnreachableReason)
		if known := helmOp.Status.Artifact; verify.IsKnownSigned(known, known.URL, known.Digest, &verification.Policy{}) {
			t.Error("a verification under another policy counts")
		}
	})
	inBubble(t, "the registry goes down after a digest was refused", func(t *testing.T) {
		r, helmOp := resolvedSigned(t, source, keys)
		r.refuseAnother(t, helmOp)
		r.registry.fail(&ocierr.Error{Op: "resolve", Kind: ocierr.ErrUnreachable})
		r.clock.Step(time.Hour)
		r.pass(t, helmOp)
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionFalse, addonsv1.SignatureUntrustedReason)
	})
	inBubble(t, "the status of one HelmOp vouches for no other", func(t *testing.T) {
		r := newResolver(t, keys)
		r.verifier.trust("sha256:1")
		forger, victim := controllertest.HelmOpWith(source), controllertest.HelmOpWith(source)
		victim.Name = "victim"
		r.pass(t, victim)
		r.pass(t, forger)
		r.registry.move("sha256:evil")
		forger.Status.Artifact.Digest = "sha256:evil"
		r.clock.Step(time.Hour)
		r.pass(t, forger)
		r.clock.Step(time.Second)
		if outcome := r.pass(t, victim); digestKnown(outcome) != "sha256:1" {
			t.Errorf("the other HelmOp gets %s", digestKnown(outcome))
		}
		expectCondition(t, victim, addonsv1.VerifiedCondition, metav1.ConditionFalse, addonsv1.SignatureUntrustedReason)
	})
	inBubble(t, "a refusal stays while the registry is unresponsive, and after a restart", func(t *testing.T) {
		r, helmOp := resolvedSigned(t, source, keys)
		r.refuseAnother(t, helmOp)
		helmOp.Annotations = map[string]string{addonsv1.ResolveRequestedAtAnnotation: "now"}
		r.registry.hangs.Store(true)
		r.pass(t, helmOp)
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionFalse, addonsv1.SignatureUntrustedReason)
		after := newResolver(t, keys)
		after.registry.fail(&ocierr.Error{Op: "resolve", Kind: ocierr.ErrUnreachable})
		after.pass(t, helmOp)
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionFalse, addonsv1.SignatureUntrustedReason)
	})
	inBubble(t, "a cache that lags behind", func(t *testing.T) {
		r := newResolver(t, keys)
		r.verifier.trust("sha256:1")
		helmOp := controllertest.HelmOpWith(source)
		conditions.Set(helmOp, metav1.Condition{Type: addonsv1.VerifiedCondition, Status: metav1.ConditionUnknown,
			Reason: addonsv1.ResolvingReason})
		stale := helmOp.DeepCopy()
		r.pass(t, helmOp)
		r.pass(t, stale)
		expectCondition(t, stale, addonsv1.VerifiedCondition, metav1.ConditionTrue, addonsv1.VerifiedReason)
		expectCondition(t, stale, addonsv1.ResolvedCondition, metav1.ConditionTrue, addonsv1.ResolvedReason)
	})
	inBubble(t, "the keys do not exist", func(t *testing.T) {
		r := newResolver(t)
		helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{Interval: source.Interval})
		r.pass(t, helmOp)
		helmOp.Spec.Source.Verify = source.Verify
		r.pass(t, helmOp)
		expectCondition(t, helmOp, addonsv1.VerifiedCondition, metav1.ConditionFalse, addonsv1.ReferenceNotFoundReason)
	})
	inBubble(t, "no signature is demanded any more", func(t *testing.T) {
		r := newResolver(t, keys)
		helmOp := controllertest.HelmOpWith(source)
		r.pass(t, helmOp)
		helmOp.Spec.Source.Verify = nil
		if outcome := r.pass(t, helmOp); digestKnown(outcome) != "sha256:1" ||
			conditions.Has(helmOp, addonsv1.VerifiedCondition) {
			t.Errorf("got %q, conditions %v", digestKnown(outcome), helmOp.Status.Conditions)
		}
	})
}

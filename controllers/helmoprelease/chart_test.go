// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

// badCharts counts the charts that it cannot load. None is at hand.
type badCharts struct {
	err   error
	loads int
	// loading, if set, is what each load waits for.
	loading chan struct{}
}

func (c *badCharts) Cached(bundle.Source) (*bundle.Chart, bool) { return nil, false }

func (c *badCharts) Chart(context.Context, bundle.Source) (*bundle.Chart, error) {
	c.loads++
	if c.loading != nil {
		<-c.loading
	}
	return nil, c.err
}

// A chart that cannot be loaded is tried once for all releases that want it.
func TestBadChartInTheStoreIsLoadedOnce(t *testing.T) {
	t.Parallel()
	now := controllertest.Noon
	charts := &badCharts{err: bundle.ErrInvalidChart}
	r := &Reconciler{
		charts: charts, fetches: newFetchFailures(), tasks: async.NewTasks[*oci.Content](4), now: func() time.Time { return now },
	}
	artifact, release := &addonsv1.ResolvedArtifact{Digest: "sha256:1"}, &addonsv1.HelmOpRelease{}
	for range 100 {
		_, err := r.storedChart(t.Context(), &oci.Content{}, artifact, release)
		var failure *fetchError
		if !errors.As(err, &failure) || !errors.Is(err, bundle.ErrInvalidChart) || failure.wait <= 0 {
			t.Fatalf("error = %v, want one that tells when to try again", err)
		}
	}
	if charts.loads != 1 {
		t.Errorf("loaded %d times, want once", charts.loads)
	}
	now = now.Add(time.Minute)
	_, _ = r.storedChart(t.Context(), &oci.Content{}, artifact, release) // the next try
	if charts.loads != 2 {
		t.Errorf("loaded %d times, want another try when it is time", charts.loads)
	}
	charts.err = oci.ErrNotStored
	now = now.Add(time.Hour)
	if _, err := r.storedChart(t.Context(), &oci.Content{}, artifact, release); !errors.Is(err, oci.ErrNotStored) {
		t.Errorf("error = %v, want one that has it fetched", err)
	}
}

// TestStoredChartThatTakesLongHoldsNoWorker holds that artifacts of the store which take long to load, such as kustomizations, leave all
// workers to others.
func TestStoredChartThatTakesLongHoldsNoWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		charts := &badCharts{err: bundle.ErrLimit, loading: make(chan struct{})}
		r := &Reconciler{charts: charts, fetches: newFetchFailures(), tasks: async.NewTasks[*oci.Content](4), now: time.Now}
		release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "slow"}}
		load := func() error {
			_, err := r.storedChart(t.Context(), &oci.Content{}, &addonsv1.ResolvedArtifact{Digest: "sha256:1"}, release)
			return err
		}
		for range 2 {
			began := time.Now()
			if err := load(); !errors.Is(err, errFetching) || time.Since(began) > async.Grace {
				t.Errorf("after %s: %v, want one that lets the worker go on", time.Since(began), err)
			}
		}
		close(charts.loading)
		synctest.Wait()
		var failure *fetchError
		if err := load(); !errors.Is(err, bundle.ErrLimit) || !errors.As(err, &failure) || failure.wait <= 0 {
			t.Errorf("%v, want the error of the load, and when to try again", err)
		}
		if got := chartReason(bundle.ErrLimit); got != addonsv1.RenderLimitExceededReason {
			t.Errorf("the reason is %q", got)
		}
		if charts.loads != 1 {
			t.Errorf("loaded %d times, want once", charts.loads)
		}
	})
}

func TestChartThatIsAskedForAgain(t *testing.T) {
	t.Parallel()
	r := &Reconciler{}
	release := &addonsv1.HelmOpRelease{}
	report := func(err error) string {
		t.Helper()
		if _, err := r.chartFailed(t.Context(), &releaseScope{release: release}, err); err != nil {
			t.Fatal(err)
		}
		return conditions.GetReason(release, addonsv1.ReleasedCondition)
	}
	if got := report(errRefetching); got != addonsv1.FetchingArtifactReason {
		t.Errorf("a release that reported nothing says %q", got)
	}
	conditions.Set(release, metav1.Condition{Type: addonsv1.ReleasedCondition, Status: metav1.ConditionFalse, Reason: addonsv1.RegistryUnreachableReason})
	if got := report(errRefetching); got != addonsv1.RegistryUnreachableReason {
		t.Errorf("what was reported of the last try gives way to %q", got)
	}
	if got := report(errFetching); got != addonsv1.FetchingArtifactReason {
		t.Errorf("another artifact is on its way, and the release says %q", got)
	}
}

func TestArtifactIdentity(t *testing.T) {
	t.Parallel()
	whole := &addonsv1.ResolvedArtifact{Digest: "sha256:1"}
	layer := &addonsv1.ResolvedArtifact{Digest: "sha256:1", LayerMediaType: "a"}
	other := &addonsv1.ResolvedArtifact{Digest: "sha256:1", LayerMediaType: "b"}
	if apiutil.ArtifactIdentity(whole) != whole.Digest || apiutil.ArtifactIdentity(layer) == apiutil.ArtifactIdentity(other) || apiutil.ArtifactIdentity(layer) == whole.Digest {
		t.Error("another layer of an artifact is another chart, and must reach the releases")
	}
	seen := map[string]bool{whole.Digest: true}
	for _, artifact := range []addonsv1.ResolvedArtifact{
		{Format: "Flux"}, {Format: "Files"}, {Format: "Flux", Path: "a"}, {Format: "Flux", Path: "b"}, {Format: "Flux", Templating: addonsv1.TemplatingHelm},
		{Format: "Flux", Path: "Helm"}, {Format: "Flux", LayerMediaType: "a"},
	} {
		artifact.Digest = whole.Digest
		if identity := apiutil.ArtifactIdentity(&artifact); seen[identity] {
			t.Errorf("%+v is taken for another artifact", artifact)
		} else {
			seen[identity] = true
		}
	}
}

// TestSourceDigest holds that a source which has none of the fields that came later is recorded under the digest it always had.
func TestSourceDigest(t *testing.T) {
	t.Parallel()
	source := addonsv1.ArtifactSource{URL: "oci://registry.example/x", Ref: addonsv1.ArtifactReference{Tag: "1"}}
	before, err := apiutil.DigestOf(source.URL, source.Ref, source.Insecure, source.LayerSelector)
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]bool{}
	for _, change := range []func(*addonsv1.ArtifactSource){
		func(*addonsv1.ArtifactSource) {}, func(s *addonsv1.ArtifactSource) { s.Format = "Flux" },
		func(s *addonsv1.ArtifactSource) { s.Path = "Flux" }, func(s *addonsv1.ArtifactSource) { s.Templating = addonsv1.TemplatingHelm },
	} {
		changed := source
		change(&changed)
		digest, err := apiutil.SourceDigest(&changed)
		if err != nil {
			t.Fatal(err)
		}
		digests[digest] = true
	}
	source.Templating = addonsv1.TemplatingNone
	if same, err := apiutil.SourceDigest(&source); err != nil || same != before || !digests[before] || len(digests) != 4 {
		t.Errorf("digests %v of sources that ask for different things, without %s", digests, before)
	}
}

func TestRetryDelay(t *testing.T) {
	failed := func(failures int32, attempt string) *addonsv1.HelmOpRelease {
		return &addonsv1.HelmOpRelease{Status: addonsv1.HelmOpReleaseStatus{
			Failures: failures, LastAttemptedRevision: attempt, LastAttemptedAt: metav1.NewTime(controllertest.Noon),
		}}
	}
	backoff := func(failures int) time.Duration {
		return model.Backoff(failures, apiutil.Jitter(&addonsv1.HelmOpRelease{}))
	}
	tests := map[string]struct {
		release *addonsv1.HelmOpRelease
		attempt string
		after   time.Duration
		want    time.Duration
	}{
		"never failed":                    {failed(0, "x"), "x", 0, 0},
		"something else is wanted by now": {failed(3, "x"), "y", 0, 0},
		"failed once, just now":           {failed(1, "x"), "x", 0, backoff(1)},
		"failed once, a while ago":        {failed(1, "x"), "x", 4 * time.Second, backoff(1) - 4*time.Second},
		"failed once, long ago":           {failed(1, "x"), "x", time.Hour, 0},
		"failed thrice":                   {failed(3, "x"), "x", 0, backoff(3)},
		"failed very often":               {failed(1<<30, "x"), "x", 0, backoff(100)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := retryDelay(tc.release, tc.attempt, controllertest.Noon.Add(tc.after)); got != tc.want {
				t.Errorf("wait %s, want %s", got, tc.want)
			}
		})
	}
}

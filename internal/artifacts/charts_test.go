// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v3/pkg/repo"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sources"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/chartrepository"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// badCharts counts the attempts to load a chart. Each attempt has the error err, and no chart is cached.
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

// A chart that cannot be loaded is tried once for all releases with the same chart.
func TestInvalidStoredChartIsLoadedOnce(t *testing.T) {
	t.Parallel()
	now := controllertest.Noon
	charts := &badCharts{err: bundle.ErrInvalidChart}
	c := New(nil, charts, nil, nil, 4)
	c.now = func() time.Time { return now }
	artifact, release := &addonsv1.ResolvedArtifact{Digest: "sha256:1"}, &addonsv1.HelmOpRelease{}
	for range 100 {
		_, err := c.storedChart(t.Context(), &oci.Content{}, artifact, release, nil, false)
		var failure *Failure
		if !errors.As(err, &failure) || !errors.Is(err, bundle.ErrInvalidChart) || failure.Wait <= 0 {
			t.Fatalf("error = %v, want an error with the time of the next try", err)
		}
	}
	if charts.loads != 1 {
		t.Errorf("loaded %d times, want once", charts.loads)
	}
	now = now.Add(time.Minute)
	_, _ = c.storedChart(t.Context(), &oci.Content{}, artifact, release, nil, false) // the next try
	if charts.loads != 2 {
		t.Errorf("loaded %d times, want another try when it is time", charts.loads)
	}
	charts.err = ocierr.ErrNotStored
	now = now.Add(time.Hour)
	_, err := c.storedChart(t.Context(), &oci.Content{}, artifact, release, nil, false)
	if !errors.Is(err, ocierr.ErrNotStored) {
		t.Errorf("error = %v, want one that has it fetched", err)
	}
}

// TestUncachedChartIsParsedByItsCaller has a chart that is too large for the cache. Only a background task, and a
// caller with a slot, may parse it.
func TestUncachedChartIsParsedByItsCaller(t *testing.T) {
	t.Parallel()
	charts := &badCharts{}
	c := New(nil, charts, nil, nil, 4)
	for hasSlot, byTask := range map[bool]int{false: 1, true: 0} {
		charts.loads = 0
		pulled, err := c.storedChart(t.Context(), &oci.Content{}, &addonsv1.ResolvedArtifact{Digest: "sha256:1"},
			&addonsv1.HelmOpRelease{}, nil, hasSlot)
		if err != nil || charts.loads != byTask {
			t.Fatalf("with a slot: %t: loaded %d times, want only by the task: %v", hasSlot, charts.loads, err)
		}
		if _, err := pulled.Chart(t.Context()); err != nil || charts.loads != byTask+1 {
			t.Errorf("with a slot: %t: loaded %d times, want by the caller, too: %v", hasSlot, charts.loads, err)
		}
	}
}

// movedRegistry is the client of registries that have an artifact or fail, by URL.
type movedRegistry map[string]error

func (movedRegistry) Resolve(context.Context, oci.Source) (oci.Artifact, error) {
	return oci.Artifact{}, errors.ErrUnsupported
}

func (r movedRegistry) Fetch(_ context.Context, url, _ string, _ oci.Access) (*oci.Content, error) {
	return &oci.Content{URL: url}, r[url]
}

func (movedRegistry) Stored(string, string) (*oci.Content, bool) { return nil, false }

// TestArtifactOfFormerSource pulls the artifact of an older HelmOp revision after the source has changed its URL. The
// artifact may be in the new repository, in the former, or in both.
func TestArtifactOfFormerSource(t *testing.T) {
	t.Parallel()
	const present, former = "oci://new.example/a", "oci://old.example/a"
	missing, down := &ocierr.Error{Kind: ocierr.ErrNotFound}, &ocierr.Error{Kind: ocierr.ErrUnreachable}
	unsigned := &ocierr.Error{Kind: verification.ErrUnsigned}
	for name, tc := range map[string]struct {
		registry movedRegistry
		want     string
		err      error
	}{
		"copied, and the former registry is gone": {movedRegistry{former: down}, present, nil},
		"in both":                          {movedRegistry{}, present, nil},
		"not copied":                       {movedRegistry{present: missing}, former, nil},
		"the new registry is down":         {movedRegistry{present: down}, former, nil},
		"not copied, and the former fails": {movedRegistry{present: missing, former: down}, "", down},
		"not found in the former":          {movedRegistry{present: down, former: missing}, "", down},
		"copied without its signature":     {movedRegistry{present: unsigned, former: missing}, "", unsigned},
		"without signature, former fails":  {movedRegistry{present: unsigned, former: down}, "", down},
	} {
		c := New(tc.registry, &badCharts{}, nil, references.NewReader(nil, nil), 4)
		helmOp, release := &addonsv1.HelmOp{}, &addonsv1.HelmOpRelease{}
		helmOp.Spec.Source.URL = present
		release.Spec.Artifact = addonsv1.ResolvedArtifact{URL: former, Digest: "sha256:1"}
		_, err := c.Pull(t.Context(), release, helmOp, false)
		if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if errors.Is(tc.registry[present], unsigned) && !strings.Contains(fmt.Sprint(err), unsigned.Error()) {
			t.Errorf("%s: %v, want an error that names the missing signature", name, err)
		}
		content, _ := c.fetch(t.Context(), urlsOf(&release.Spec.Artifact, helmOp), &release.Spec.Artifact, "", oci.Access{},
			nil)
		if tc.err == nil && (content == nil || content.URL != tc.want) {
			t.Errorf("%s: pulled %+v, want the artifact of %s", name, content, tc.want)
		}
	}
}

// TestBrokenPullFromFormerSource has an artifact that is only in the former repository. Its layer breaks off after its
// manifest is in the store: the next attempt must not take the stored manifest as proof that the new repository has the
// layer.
func TestBrokenPullFromFormerSource(t *testing.T) {
	t.Parallel()
	r, err := registry.Start(t.Context(), registry.Options{Dir: t.TempDir(), Implementation: registry.InProcess,
		Auth: registry.AuthNone})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	pushed, err := r.PushChart(t.Context(), "former", "1.0.0", registry.ChartFiles(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: former\nversion: 1.0.0\n"}))
	if err != nil {
		t.Fatal(err)
	}
	registries, err := oci.New(oci.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(registries.Close)
	c := New(sources.New(registries), bundle.NewLoader(bundle.Limits{}, nil), nil, nil, 4)
	helmOp, artifact := &addonsv1.HelmOp{}, &addonsv1.ResolvedArtifact{Digest: pushed.Digest.String()}
	fetch := func(present, former string) error {
		helmOp.Spec.Source.URL, artifact.URL = present, former
		_, err := c.fetch(t.Context(), urlsOf(artifact, helmOp), artifact, "", oci.Access{CA: r.CA()}, nil)
		return err
	}
	present, former := "oci://"+r.Host()+"/new", "oci://"+r.Host()+"/former"
	// All repositories of the registry in this process share their blobs.
	missing := registry.Fault{Mode: registry.Status, Code: http.StatusNotFound, Match: registry.In("new")}
	if _, err := r.Fail(missing); err != nil {
		t.Fatal(err)
	}
	end, err := r.Fail(registry.Fault{Mode: registry.Truncate, Match: registry.In("former", registry.BlobGet)})
	if err != nil {
		t.Fatal(err)
	}
	if err := fetch(present, former); !errors.Is(err, ocierr.ErrIntegrity) {
		t.Errorf("the layer breaks off: %v", err)
	}
	if _, ok := registries.Stored(former, artifact.Digest); !ok {
		t.Fatal("the store does not have the manifest")
	}
	end()
	if err := fetch(present, former); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
	// A chart repository would return the stored manifest as an archive.
	c.loader = bundle.NewLoader(bundle.Limits{}, nil)
	if err := fetch("https://"+r.Host()+"/charts", former); err != nil {
		t.Errorf("the present source is a chart repository: %v", err)
	}
}

// TestOlderVersionWithoutDigest has the index of a chart repository without digests, and a manager that was restarted
// with an empty store. It must find the archive of an older version.
func TestOlderVersionWithoutDigest(t *testing.T) {
	t.Parallel()
	r := chartrepository.Start()
	t.Cleanup(r.Close)
	var digests []string
	for _, version := range []string{"1.0.0", "1.1.0"} {
		digest, err := r.Add(registry.ChartFiles(map[string]string{
			"Chart.yaml": "apiVersion: v2\nname: demo\nversion: " + version + "\n"}))
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	r.Edit(func(i *repo.IndexFile) {
		for _, entry := range i.Entries["demo"] {
			entry.Digest = ""
		}
	})
	registries, err := oci.New(oci.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(registries.Close)
	c := New(sources.New(registries), &badCharts{}, nil, nil, 4)
	url, access := chartrepo.URL(r.URL(), "demo"), oci.Access{CA: r.CA()}
	fetch := func(version string) error {
		artifact := &addonsv1.ResolvedArtifact{URL: url, Version: version, Digest: digests[0]}
		_, err := c.fetch(t.Context(), []string{url}, artifact, "", access, nil)
		return err
	}
	if err := fetch("1.1.0"); !errors.Is(err, ocierr.ErrNotFound) {
		t.Errorf("the archive of another version: %v", err)
	}
	if err := fetch("1.0.0"); err != nil {
		t.Error(err)
	}
}

// validSignatures is a verifier that knows no result and accepts each artifact.
type validSignatures struct{}

func (validSignatures) Verify(context.Context, string, string, oci.Access, verification.Policy) (verification.Result,
	error) {
	return verification.Result{}, nil
}

func (validSignatures) Cached(string, string, string) (verification.Result, bool) {
	return verification.Result{}, false
}

// TestSignedChartNeedsVersionOfTag checks that a signed chart must have the version of its tag, whether the chart is
// pulled or in the store. A tag that is no version says nothing about the version of the chart.
func TestSignedChartNeedsVersionOfTag(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		verify       *addonsv1.Verification
		tag, version string
		want         string
	}{
		"signed":              {&addonsv1.Verification{}, "1.2.3", "1.2.3", "1.2.3"},
		"with build metadata": {&addonsv1.Verification{}, "v1.2.3_4", "v1.2.3+4", "1.2.3+4"},
		"with leading zeros":  {&addonsv1.Verification{}, "9.01.0", "1.2.3", "9.1.0"},
		"no version":          {&addonsv1.Verification{}, "stable", "1.2.3", ""},
		"no tag":              {&addonsv1.Verification{}, "", "1.2.3", ""},
		"unsigned":            {nil, "1.2.3", "1.2.3", ""},
	} {
		c := New(movedRegistry{}, &badCharts{}, validSignatures{}, references.NewReader(nil, nil), 4)
		helmOp, release := &addonsv1.HelmOp{}, &addonsv1.HelmOpRelease{}
		helmOp.Spec.Source.Verify = tc.verify
		release.Spec.Artifact = addonsv1.ResolvedArtifact{Digest: "sha256:1", Tag: tc.tag, Version: tc.version}
		policy, err := c.references.Policy(t.Context(), helmOp)
		if err != nil {
			t.Fatal(err)
		}
		pulled, err := c.Pull(t.Context(), release, helmOp, false)
		if err != nil || pulled.source.TagVersion != tc.want {
			t.Errorf("%s: pulled: %+v, %v", name, pulled, err)
		}
		stored, err := c.storedChart(t.Context(), &oci.Content{}, &release.Spec.Artifact, release, policy, true)
		if err != nil || stored.source.TagVersion != tc.want {
			t.Errorf("%s: stored: %+v, %v", name, stored, err)
		}
	}
}

// TestFailuresOfStoredCharts checks that a failed load delays only the releases of the same namespace, and that a load
// for which the manager was busy delays none.
func TestFailuresOfStoredCharts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err   error
		loads int
	}{
		"invalid":    {bundle.ErrInvalidChart, 2},
		"no process": {fmt.Errorf("building: %w", sandbox.ErrNoChild), 4},
		"no memory":  {fmt.Errorf("reading: %w", bytebudget.ErrExhausted), 4},
	} {
		charts := &badCharts{err: tc.err}
		c := New(nil, charts, nil, nil, 4)
		for _, namespace := range []string{"one", "one", "two", "two"} {
			release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
			artifact := &addonsv1.ResolvedArtifact{Digest: "sha256:1"}
			_, err := c.storedChart(t.Context(), &oci.Content{}, artifact, release, nil, false)
			if !errors.Is(err, tc.err) {
				t.Errorf("%s: error = %v", name, err)
			}
		}
		if charts.loads != tc.loads {
			t.Errorf("%s: loaded %d times, want %d", name, charts.loads, tc.loads)
		}
	}
}

// TestSlowStoredChartDoesNotBlockWorker checks that artifacts of the store which take long to load, such as
// kustomizations, leave all workers to others.
func TestSlowStoredChartDoesNotBlockWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		charts := &badCharts{err: bundle.ErrLimit, loading: make(chan struct{})}
		c := New(nil, charts, nil, nil, 4)
		release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "slow"}}
		load := func() error {
			_, err := c.storedChart(t.Context(), &oci.Content{}, &addonsv1.ResolvedArtifact{Digest: "sha256:1"}, release,
				nil, false)
			return err
		}
		for range 2 {
			began := time.Now()
			if err := load(); !errors.Is(err, ErrFetching) || time.Since(began) > async.Grace {
				t.Errorf("after %s: %v, want one that lets the worker go on", time.Since(began), err)
			}
		}
		close(charts.loading)
		synctest.Wait()
		var failure *Failure
		if err := load(); !errors.Is(err, bundle.ErrLimit) || !errors.As(err, &failure) || failure.Wait <= 0 {
			t.Errorf("%v, want the error of the load, and when to try again", err)
		}
		if charts.loads != 1 {
			t.Errorf("loaded %d times, want once", charts.loads)
		}
	})
}

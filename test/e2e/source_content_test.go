// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"time"

	"github.com/onsi/gomega"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// testResolveNow requests a resolution of a tag that is not due before tomorrow.
func testResolveNow(s *scenario, one *workload, _ *plantedSecrets) {
	r := s.startRegistry(registry.Options{})
	s.pushUnique(r, chartRepository, "1.0.0")
	helmOp := s.noteFrom(r, "now", chartRepository, addonsv1.ArtifactReference{Tag: "1.0.0"})
	helmOp.Spec.Source.Interval = never
	s.create(helmOp)
	one.eventuallyReleased(helmOp, releaseNamespace, "now", 1)
	moved := s.pushUnique(r, chartRepository, "1.0.0")
	r.ResetCounts()
	s.Consistently(func() int { return len(r.Requests()) }).Should(gomega.BeZero(), "requests before the annotation")
	request := func(value string) {
		update(s, helmOp, func(h *addonsv1.HelmOp) {
			h.Annotations = map[string]string{addonsv1.ResolveRequestedAtAnnotation: value}
		})
		s.eventually(helmOp, resolved, func(g gomega.Gomega, h *addonsv1.HelmOp) {
			g.Expect(h.Status.LastResolveRequest).To(gomega.Equal(value))
		})
	}
	request("2026-01-01T00:00:00Z")
	one.eventuallyReleased(helmOp, releaseNamespace, "now", 2)
	s.Expect(s.eventually(helmOp, ready(1)).Status.Artifact.Digest).To(gomega.Equal(moved))
	s.Expect(r.Counts().ManifestHeads).To(gomega.Equal(1), "lookups of the tag")
	request("again")
	s.Expect(r.Counts().ManifestHeads).To(gomega.Equal(2), "lookups of the tag")
	s.Expect(r.Counts().BlobGets).To(gomega.Equal(1), "pulls of the moved chart")
}

// testLayerSelector has a chart in an artifact with another media type, and with annotations that name its origin.
func testLayerSelector(s *scenario, one *workload, _ *plantedSecrets) {
	const mediaType = "application/vnd.example.chart.v1.tar+gzip"
	r := s.startRegistry(registry.Options{})
	archive, err := uniqueNote("1.0.0")()
	s.must(err)
	_, err = r.PushRaw(s.Context(), chartRepository, "1.0.0", registry.Raw{
		ArtifactType: "application/vnd.example.bundle",
		Layers: []registry.Layer{{MediaType: "application/vnd.example.readme", Data: []byte("read me")},
			{MediaType: mediaType, Data: archive}},
		Annotations: map[string]string{
			"org.opencontainers.image.source": "https://git.example/note", "org.opencontainers.image.revision": "main@sha1:1234",
			"org.opencontainers.image.created": "2026-01-01T00:00:00Z", "org.example.other": "left out",
		},
	})
	s.must(err)
	helmOp := s.noteFrom(r, "layer", chartRepository, addonsv1.ArtifactReference{Tag: "1.0.0"})
	s.create(helmOp)
	s.eventually(helmOp, unresolved(addonsv1.UnsupportedArtifactReason, mediaType))
	update(s, helmOp,
		func(h *addonsv1.HelmOp) { h.Spec.Source.LayerSelector = &addonsv1.LayerSelector{MediaType: mediaType} })
	child := one.eventuallyReleased(helmOp, releaseNamespace, "layer", 1)
	s.Expect(child.Spec.Artifact.LayerMediaType).To(gomega.Equal(mediaType))
	status := s.eventually(helmOp, ready(1)).Status.Artifact
	s.Expect(status.MediaType).To(gomega.Equal("application/vnd.example.bundle"))
	s.Expect(status.Provenance).To(gomega.HaveValue(gomega.Equal(addonsv1.Provenance{
		Source: "https://git.example/note", Revision: "main@sha1:1234", Created: "2026-01-01T00:00:00Z",
	})))
	s.Expect(r.Counts().BlobGets).To(gomega.Equal(1), "only the layer with the chart is pulled")
}

// testTagFilter selects among tags that are not versions, and among versions of two lines.
func testTagFilter(s *scenario, one *workload, _ *plantedSecrets) {
	r := s.startRegistry(registry.Options{})
	for tag, version := range map[string]string{
		"main-9": "0.9.0", "main-10": "0.10.0", "main-10.sig": "0.11.0", "feature-11": "0.12.0",
		"1.2.0": "1.2.0", "1.3.0-rc.1": "1.3.0-rc.1", "1.4.0-lts": "1.4.0-lts", "1.9.0": "1.9.0",
	} {
		_, err := r.PushChart(s.Context(), chartRepository, tag, uniqueNote(version))
		s.must(err)
	}
	for name, tt := range map[string]struct {
		ref addonsv1.ArtifactReference
		tag string
	}{
		"filter-alone":        {addonsv1.ArtifactReference{TagFilter: "^main-"}, "main-10"},
		"filter-with-range":   {addonsv1.ArtifactReference{TagFilter: `^1\.[0-8]\.`, Semver: "1.x"}, "1.2.0"},
		"filter-pre-releases": {addonsv1.ArtifactReference{TagFilter: "-rc", Semver: ">=1.0.0-0"}, "1.3.0-rc.1"},
	} {
		helmOp := s.noteFrom(r, name, chartRepository, tt.ref)
		s.create(helmOp)
		one.eventuallyReleased(helmOp, releaseNamespace, name, 1)
		s.Expect(s.eventually(helmOp, ready(1)).Status.Artifact.Tag).To(gomega.Equal(tt.tag), name)
	}
	none := s.noteFrom(r, "filter-none", chartRepository, addonsv1.ArtifactReference{TagFilter: "^nothing", Semver: "1.x"})
	s.create(none)
	s.eventually(none, unresolved(addonsv1.NoMatchingTagReason))
	_, err := r.PushChart(s.Context(), chartRepository, "main-11", uniqueNote("0.13.0"))
	s.must(err)
	one.eventuallyHello(releaseNamespace, "filter-alone", map[string]string{"chartVersion": "0.13.0"})
}

// manyHelmOps is the number of HelmOps with the same chart.
const manyHelmOps = 50

// testMany has as many HelmOps as a platform may have namespaces, all with the same chart.
func testMany(s *scenario, one *workload, secrets *plantedSecrets) {
	const interval = 4 * time.Second
	r := s.startRegistry(registry.Options{})
	secrets.add(r.Password())
	s.pushUnique(r, chartRepository, "1.0.0")
	first := s.noteFrom(r, "many", chartRepository, addonsv1.ArtifactReference{Tag: "1.0.0"})
	first.Spec.Source.Interval.Duration = interval
	helmOps := []*addonsv1.HelmOp{first}
	for i := 1; i < manyHelmOps; i++ {
		other := first.DeepCopy()
		other.Name = "many-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		helmOps = append(helmOps, other)
	}
	for _, helmOp := range helmOps {
		s.create(helmOp)
	}
	for _, helmOp := range helmOps {
		s.eventually(helmOp, ready(1))
	}
	counts := r.Counts(registry.In(chartRepository))
	s.Expect(counts.BlobGets).To(gomega.Equal(1), "pulls of the chart for %d HelmOps", manyHelmOps)
	s.Expect(counts.ManifestGets).To(gomega.Equal(1), "pulls of the manifest")

	begin := time.Now()
	r.ResetCounts()
	s.passes(3 * interval)
	counts = r.Counts(registry.In(chartRepository))
	intervals := int(time.Since(begin)/interval) + 1
	s.Logf("%d HelmOps in %d intervals: %+v", manyHelmOps, intervals, counts)
	s.Expect(counts.ManifestHeads).To(gomega.And(gomega.BeNumerically(">", 0),
		gomega.BeNumerically("<=", manyHelmOps*intervals)))
	s.Expect(counts.Total()-counts.Refused).To(gomega.Equal(counts.ManifestHeads), "only lookups of the tag: %+v",
		counts)
	// The manager's trusted authorities change twice meanwhile, so that it connects again.
	s.Expect(counts.Refused).To(gomega.BeNumerically("<=", 2), "requests without credentials: %+v", counts)
	revisions, err := one.revisions(context.Background(), releaseNamespace, "many")
	s.must(err)
	s.Expect(summaries(revisions)).To(gomega.Equal([]string{"1 deployed"}))
}

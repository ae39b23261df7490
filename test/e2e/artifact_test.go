// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// sourceInterval is a source interval at which HelmOp notices a change in the registry soon.
var sourceInterval = metav1.Duration{Duration: time.Second}

// TestHelmOpFollowsSource changes the version, digest, tag and range of a source, and moves a tag.
func TestHelmOpFollowsSource(t *testing.T) {
	s := newScenario(t)
	one := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]

	s.part("another version", func(s *scenario) {
		one := one.in(s)
		helmOp := s.newHelmOp("version", forAll)
		s.create(helmOp)
		before := one.eventuallyReleased(helmOp, releaseNamespace, "version", 1)
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = "1.1.0" })
		after := one.eventuallyReleased(helmOp, releaseNamespace, "version", 2)
		one.eventuallyHello(releaseNamespace, "version", map[string]string{"chartVersion": "1.1.0"})
		s.Expect(after.Status.History[0].Reason).To(gomega.Equal("ArtifactChanged"))
		s.Expect(after.Status.Release.Version).To(gomega.Equal("1.1.0"))
		s.Expect(after.Spec.Artifact.Digest).NotTo(gomega.Equal(before.Spec.Artifact.Digest))
		s.Expect(s.eventually(helmOp, ready(1)).Status.Artifact.Version).To(gomega.Equal("1.1.0"))
	})
	s.part("a digest", func(s *scenario) {
		one := one.in(s)
		repository := s.namespace + "/digest"
		digest := s.pushChart(repository, environment.ChartMetadata{Chart: environment.ChartHello, Version: "1.0.0"})
		helmOp := s.newHelmOp("digest", forAll, s.from(repository, addonsv1.ArtifactReference{Digest: digest}))
		s.create(helmOp)
		one.eventuallyReleased(helmOp, releaseNamespace, "digest", 1)
		current := s.eventually(helmOp, ready(1))
		s.Expect(current.Status.Artifact.Digest).To(gomega.Equal(digest))
		s.Expect(current.Status.Artifact.Version).To(gomega.Equal("1.0.0"))
	})
	s.part("a tag that is moved", func(s *scenario) {
		one := one.in(s)
		repository := s.namespace + "/moving"
		first := s.pushChart(repository,
			environment.ChartMetadata{Chart: environment.ChartHello, Version: "1.0.0", AppVersion: "first"})
		helmOp := s.newHelmOp("moving", forAll, s.from(repository, addonsv1.ArtifactReference{Tag: "1.0.0"}))
		s.create(helmOp)
		one.eventuallyReleased(helmOp, releaseNamespace, "moving", 1)
		one.eventuallyHello(releaseNamespace, "moving", map[string]string{"appVersion": "first"})

		second := s.pushChart(repository,
			environment.ChartMetadata{Chart: environment.ChartHello, Version: "1.0.0", AppVersion: "second"})
		s.Expect(second).NotTo(gomega.Equal(first))
		one.eventuallyReleased(helmOp, releaseNamespace, "moving", 2)
		one.eventuallyHello(releaseNamespace, "moving", map[string]string{"appVersion": "second"})
		current := s.eventually(helmOp, ready(1))
		s.Expect(current.Status.Artifact.Digest).To(gomega.Equal(second))
		s.Expect(current.Status.Artifact.Tag).To(gomega.Equal("1.0.0"))
	})
	s.part("a range", func(s *scenario) {
		one := one.in(s)
		repository := s.namespace + "/range"
		s.pushChart(repository, environment.ChartMetadata{Chart: environment.ChartHello, Version: "1.0.0"})
		helmOp := s.newHelmOp("range", forAll, s.from(repository, addonsv1.ArtifactReference{Semver: "^1.0"}))
		s.create(helmOp)
		one.eventuallyReleased(helmOp, releaseNamespace, "range", 1)

		// A pre-release and a version outside of the range are pushed first: when 1.1.0 is resolved, they could have been
		// resolved, too.
		for _, version := range []string{"1.2.0-rc.1", "2.0.0", "1.1.0"} {
			s.pushChart(repository, environment.ChartMetadata{Chart: environment.ChartHello, Version: version})
		}
		one.eventuallyReleased(helmOp, releaseNamespace, "range", 2)
		one.eventuallyHello(releaseNamespace, "range", map[string]string{"chartVersion": "1.1.0"})
		one.eventuallyRevisions(releaseNamespace, "range", "1 superseded", "2 deployed")
		digest := s.eventually(helmOp, ready(1)).Status.Artifact.Digest
		s.Expect(s.eventually(helmOp, ready(1)).Status.Artifact.Tag).To(gomega.Equal("1.1.0"))

		// An installed release stays if the registry no longer lists the tag.
		s.must(s.env.Registry.Delete(s.Context(), repository, digest))
		stays := s.eventually(helmOp, condition(addonsv1.ResolvedCondition, metav1.ConditionFalse,
			addonsv1.DowngradeRefusedReason))
		s.Expect(stays.Status.Artifact.Tag).To(gomega.Equal("1.1.0"))
		one.eventuallyRevisions(releaseNamespace, "range", "1 superseded", "2 deployed")
		update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.AllowDowngrade = true })
		one.eventuallyReleased(helmOp, releaseNamespace, "range", 3)
		one.eventuallyHello(releaseNamespace, "range", map[string]string{"chartVersion": "1.0.0"})
	})
}

// pushChart pushes a chart and returns its digest.
func (s *scenario) pushChart(repository string, chart environment.ChartMetadata) string {
	s.Helper()
	digest, err := s.env.PushChart(s.Context(), repository, chart)
	s.must(err)
	return digest
}

// from sets a repository as the source of a HelmOp, with a short interval.
func (s *scenario) from(repository string, ref addonsv1.ArtifactReference) func(*addonsv1.HelmOp) {
	return func(h *addonsv1.HelmOp) {
		h.Spec.Source = s.env.Source(repository, ref)
		h.Spec.Source.Interval = sourceInterval
	}
}

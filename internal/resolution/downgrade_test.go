// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package resolution

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
)

func TestCheckDowngrade(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ref        addonsv1.ArtifactReference
		from, to   string
		wantRefuse bool
	}{
		"newer": {ref: addonsv1.ArtifactReference{Semver: ">=1"}, from: "1.9.0", to: "1.10.0"},
		"older": {ref: addonsv1.ArtifactReference{Semver: ">=1"}, from: "1.10.0", to: "1.9.0",
			wantRefuse: true},
		"older, with prefix v": {ref: addonsv1.ArtifactReference{Semver: ">=1"}, from: "v1.10.0", to: "1.9.0",
			wantRefuse: true},
		"pre-release of the same version": {ref: addonsv1.ArtifactReference{Semver: ">=1-0"}, from: "1.10.0",
			to: "1.10.0-rc.1", wantRefuse: true},
		"other build metadata": {ref: addonsv1.ArtifactReference{Semver: ">=1"}, from: "1.9.0_b", to: "1.9.0_a"},
		"allowed": {ref: addonsv1.ArtifactReference{Semver: ">=1", AllowDowngrade: true}, from: "1.10.0",
			to: "1.9.0"},
		"no known artifact":  {ref: addonsv1.ArtifactReference{Semver: ">=1"}, to: "1.9.0"},
		"tag that was moved": {ref: addonsv1.ArtifactReference{Tag: "stable"}, from: "stable", to: "stable"},
		"builds, older": {ref: addonsv1.ArtifactReference{TagFilter: "^main-"}, from: "main-10", to: "main-9",
			wantRefuse: true},
		"builds, newer": {ref: addonsv1.ArtifactReference{TagFilter: "^main-"}, from: "main-9", to: "main-10"},
		"from a version to another tag": {ref: addonsv1.ArtifactReference{TagFilter: "."}, from: "1.0.0", to: "main-10",
			wantRefuse: true},
		"a pre-release to release": {ref: addonsv1.ArtifactReference{TagFilter: "."}, from: "2.0.0-rc.1", to: "1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var known *addonsv1.ArtifactStatus
			if tc.from != "" {
				known = &addonsv1.ArtifactStatus{ResolvedArtifact: addonsv1.ResolvedArtifact{Tag: tc.from, Digest: "sha256:a"}}
			}
			err := checkDowngrade(tc.ref, known, &oci.Artifact{Tag: tc.to, Digest: "sha256:b"})
			if errors.Is(err, reasons.ErrDowngrade) != tc.wantRefuse {
				t.Errorf("refused: %v, want %v", err, tc.wantRefuse)
			}
			if again := checkDowngrade(tc.ref, known, &oci.Artifact{Tag: tc.to, Digest: "sha256:a"}); again != nil {
				t.Errorf("the same content is refused: %v", again)
			}
		})
	}
}

func TestCheckMoved(t *testing.T) {
	t.Parallel()
	const chart = "https://charts.example/stable/demo"
	used := addonsv1.ResolvedArtifact{URL: chart, Tag: "1.0.0", Version: "1.0.0", Digest: "sha256:a"}
	for name, tc := range map[string]struct {
		ref        addonsv1.ArtifactReference
		known      *addonsv1.ResolvedArtifact
		found      oci.Artifact
		wantRefuse bool
	}{
		"the same":        {known: &used, found: oci.Artifact{URL: chart, Version: "1.0.0", Digest: "sha256:a"}},
		"another version": {known: &used, found: oci.Artifact{URL: chart, Version: "1.1.0", Digest: "sha256:b"}},
		"another archive": {known: &used, found: oci.Artifact{URL: chart, Version: "1.0.0", Digest: "sha256:b"},
			wantRefuse: true},
		"allowed": {ref: addonsv1.ArtifactReference{AllowMovedVersion: true}, known: &used,
			found: oci.Artifact{URL: chart, Version: "1.0.0", Digest: "sha256:b"}},
		"another chart": {known: &used, found: oci.Artifact{URL: chart + "s", Version: "1.0.0", Digest: "sha256:b"}},
		"a registry": {known: &addonsv1.ResolvedArtifact{URL: "oci://r.example/demo", Version: "1.0.0", Digest: "sha256:a"},
			found: oci.Artifact{URL: "oci://r.example/demo", Version: "1.0.0", Digest: "sha256:b"}},
		"nothing in use": {found: oci.Artifact{URL: chart, Version: "1.0.0", Digest: "sha256:b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var known *addonsv1.ArtifactStatus
			if tc.known != nil {
				known = &addonsv1.ArtifactStatus{ResolvedArtifact: *tc.known}
			}
			if err := checkMoved(tc.ref, known, &tc.found); errors.Is(err, reasons.ErrVersionMoved) != tc.wantRefuse {
				t.Errorf("refused: %v, want %v", err, tc.wantRefuse)
			}
		})
	}
}

// TestRecordedArtifact checks which references have an artifact in the newest revision.
func TestRecordedArtifact(t *testing.T) {
	t.Parallel()
	helmOp := &addonsv1.HelmOp{}
	helmOp.Spec.Source = addonsv1.ArtifactSource{URL: "oci://r.example/charts/c",
		Ref: addonsv1.ArtifactReference{Semver: ">=1"}}
	revision := &addonsv1.HelmOpRevision{}
	revision.Spec.HelmOp.Source = helmOp.Spec.Source
	revision.Spec.Artifact = &addonsv1.ResolvedArtifact{Tag: "1.2.0", Digest: "sha256:a"}
	l := &lookup{key: referenceKey{ref: helmOp.Spec.Source.Ref}}
	if before := recordedArtifact(helmOp, revision, l); before == nil || before.Tag != "1.2.0" {
		t.Errorf("the artifact in use is %+v", before)
	}
	for name, change := range map[string]func(){
		"another range": func() { l.key.ref.Semver = ">=1.1" },
		"another repository": func() {
			l.key.ref, helmOp.Spec.Source.URL = helmOp.Spec.Source.Ref, "oci://r.example/charts/d"
		},
	} {
		change()
		if before := recordedArtifact(helmOp, revision, l); before != nil {
			t.Errorf("%s: the artifact in use is %+v", name, before)
		}
	}
}

// TestNewHelmOpKeepsTagsOfReleases resolves a range of a HelmOp without a status and without revisions. The HelmOp has
// releases, and the registry lists no tag that is higher than 1.0.0.
func TestNewHelmOpKeepsTagsOfReleases(t *testing.T) {
	t.Parallel()
	const url, digest = "oci://registry.example/charts/hello", "sha256:1"
	installed := func(url, tag, digest string) *addonsv1.HelmOpRelease {
		release := &addonsv1.HelmOpRelease{}
		release.Spec.Artifact = addonsv1.ResolvedArtifact{URL: url, Tag: tag, Digest: digest}
		return release
	}
	anyVersion := addonsv1.ArtifactReference{Semver: ">=0.1"}
	for name, tc := range map[string]struct {
		ref      addonsv1.ArtifactReference
		releases []*addonsv1.HelmOpRelease
		isKept   bool
	}{
		"no releases": {ref: anyVersion},
		"a higher tag beside lower tags": {ref: anyVersion, isKept: true, releases: []*addonsv1.HelmOpRelease{
			installed(url, "0.9.0", "sha256:0"), installed(url, "1.10.0", "sha256:3"), installed(url, "1.9.0", "sha256:2")}},
		"the same tag":         {ref: anyVersion, releases: []*addonsv1.HelmOpRelease{installed(url, "1.0.0", digest)}},
		"a moved tag":          {ref: anyVersion, releases: []*addonsv1.HelmOpRelease{installed(url, "1.0.0", "sha256:0")}},
		"a tag with a digest":  {ref: anyVersion, releases: []*addonsv1.HelmOpRelease{installed(url, "2.0.0", digest)}},
		"a digest without tag": {ref: anyVersion, releases: []*addonsv1.HelmOpRelease{installed(url, "", "sha256:3")}},
		"another repository": {ref: anyVersion,
			releases: []*addonsv1.HelmOpRelease{installed(url+"s", "2.0.0", "sha256:3")}},
		"a tag outside of the range": {ref: addonsv1.ArtifactReference{Semver: "<2"},
			releases: []*addonsv1.HelmOpRelease{installed(url, "2.0.0", "sha256:3")}},
		"allowed": {ref: addonsv1.ArtifactReference{Semver: ">=0.1", AllowDowngrade: true},
			releases: []*addonsv1.HelmOpRelease{installed(url, "2.0.0", "sha256:3")}},
		"a fixed tag": {ref: controllertest.Tagged("stable"),
			releases: []*addonsv1.HelmOpRelease{installed(url, "2.0.0", "sha256:3")}},
	} {
		inBubble(t, name, func(t *testing.T) {
			r := newResolver(t)
			helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{Ref: tc.ref,
				Interval: metav1.Duration{Duration: time.Minute}})
			r.releases = tc.releases
			for range 2 {
				// A second lookup does not accept the tag, either.
				outcome := r.pass(t, helmOp)
				if isKept := outcome.Artifact == nil; isKept != tc.isKept {
					t.Errorf("the artifact is %+v", outcome.Artifact)
				}
				r.clock.Step(time.Hour)
			}
			status, reason := metav1.ConditionTrue, addonsv1.ResolvedReason
			if tc.isKept {
				status, reason = metav1.ConditionFalse, addonsv1.DowngradeRefusedReason
				expectMessage(t, helmOp, addonsv1.ResolvedCondition, `no longer lists tag "1.10.0"`)
			}
			expectCondition(t, helmOp, addonsv1.ResolvedCondition, status, reason)
		})
	}
}

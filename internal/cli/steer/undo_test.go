// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview/fleettest"
)

// revisionOf returns a revision with a tag.
func revisionOf(number int64, tag string, good bool) *addonsv1.HelmOpRevision {
	revision := &addonsv1.HelmOpRevision{}
	revision.Spec.Number, revision.Status.Good = number, good
	revision.Spec.HelmOp.Source.Ref.Tag = tag
	return revision
}

func TestUndoTo(t *testing.T) {
	t.Parallel()
	incomplete := revisionOf(6, "six", true)
	incomplete.Spec.ContentFrom.Values = 1
	three := []*addonsv1.HelmOpRevision{revisionOf(5, "five", true), revisionOf(6, "six", true),
		revisionOf(7, "seven", true)}
	for name, tc := range map[string]struct {
		tag       string
		revisions []*addonsv1.HelmOpRevision
		wanted    int64
		want      int64
		refused   string
	}{
		"the one before": {"seven", three, 0, 6, ""},
		"the last good one": {"seven", []*addonsv1.HelmOpRevision{three[0], revisionOf(6, "six", false), three[2]}, 0, 5,
			""},
		"another one":      {"seven", three, 5, 5, ""},
		"the current one":  {"seven", three, 7, 0, "HelmOp revision 7 is the current one"},
		"no revision made": {"typo", three, 0, 7, ""},
		"back to the last": {"typo", three, 7, 7, ""},
		"missing":          {"seven", three, 4, 0, "there is no HelmOp revision 4; the existing ones are 5, 6, 7"},
		"none":             {"seven", nil, 0, 0, "there are no HelmOp revisions yet"},
		"none is good": {"typo", []*addonsv1.HelmOpRevision{revisionOf(1, "one", false)}, 0, 0,
			"there is no last known good revision; choose one of 1"},
		"none before is good": {"one", []*addonsv1.HelmOpRevision{revisionOf(1, "one", true)}, 0, 0,
			"no last known good revision before HelmOp revision 1"},
		"incomplete": {"seven", []*addonsv1.HelmOpRevision{three[0], incomplete, three[2]}, 0, 0,
			"HelmOp revision 6 cannot be restored"},
		"incomplete current": {"x", []*addonsv1.HelmOpRevision{three[0], incomplete}, 0, 5, ""},
	} {
		helmOp := fleettest.Rolling(func(h *addonsv1.HelmOp) { h.Spec.Source.Ref.Tag = tc.tag })
		found, err := undoTo(helmOp, tc.revisions, tc.wanted)
		var number int64
		if found != nil {
			number = found.Spec.Number
		}
		if number != tc.want || (err != nil) != (tc.refused != "") ||
			err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%s: got %d, %v", name, number, err)
		}
	}
}

// storedRevisions has the specs of the HelmOpRevisions of HelmOp "calico" by name, as the API server stores them.
type storedRevisions struct {
	client.Reader
	specs map[string]map[string]any
}

func (s storedRevisions) Get(_ context.Context, key client.ObjectKey, object client.Object,
	_ ...client.GetOption,
) error {
	object.(*unstructured.Unstructured).Object = map[string]any{"spec": s.specs[key.Name],
		"status": map[string]any{"new": true}}
	return nil
}

// TestUndoRefusesUnknownFields checks that fields of a newer version are not lost: neither of the revision, nor of a
// revision that stores its large fields.
func TestUndoRefusesUnknownFields(t *testing.T) {
	t.Parallel()
	known := func() map[string]any {
		return map[string]any{"number": int64(6), "digest": "d", "contentFrom": map[string]any{"values": int64(2)},
			"helmOp": map[string]any{"install": map[string]any{"createNamespace": true},
				"values": map[string]any{"free": map[string]any{"form": true}}}}
	}
	for field, at := range map[string]struct {
		revision int64
		path     []string
	}{
		"":                            {},
		"spec.helmOp.install.unknown": {6, []string{"helmOp", "install", "unknown"}},
		"spec.contentFrom.unknown":    {6, []string{"contentFrom", "unknown"}},
		"spec.helmOp.unknown":         {2, []string{"helmOp", "unknown"}},
	} {
		stored := storedRevisions{specs: map[string]map[string]any{}}
		for _, number := range []int64{2, 6} {
			spec := known()
			if number == at.revision {
				if err := unstructured.SetNestedField(spec, int64(3), at.path...); err != nil {
					t.Fatal(err)
				}
			}
			stored.specs[apiutil.RevisionName("calico", number)] = spec
		}
		helmOp := &addonsv1.HelmOp{}
		helmOp.Name = "calico"
		to := revisionOf(6, "six", true)
		to.Spec.ContentFrom.Values = 2
		err := checkKnown(t.Context(), stored, helmOp, to)
		if field == "" && err != nil || field != "" && (err == nil || !strings.Contains(err.Error(), strconv.Quote(field)) ||
			!strings.Contains(err.Error(), fmt.Sprintf("HelmOp revision %d has fields", at.revision))) {
			t.Errorf("%q: %v", field, err)
		}
	}
}

// fieldsOf returns the names of the fields of a type in JSON.
func fieldsOf(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			names = append(names, fieldsOf(field.Type)...)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// TestRestoredFields expects a decision for each field of the API.
func TestRestoredFields(t *testing.T) {
	t.Parallel()
	kept := []string{"clusterSelector", "managementCluster", "clusterNamespaces", "dependsOn", "clusterCondition",
		"beforeClusterUpgrade", "beforeClusterDelete", "paused", "rollout", "maintenance", "preflight", "storage",
		"revisionHistoryLimit",
		"deletionPolicy", "maxDeletions"}
	keptOfSource := []string{"interval", "secretRef", "imagePullServiceAccountName", "provider", "certSecretRef",
		"proxySecretRef", "verify"}
	for _, tc := range []struct {
		of             reflect.Type
		restored, kept []string
	}{
		{reflect.TypeFor[addonsv1.HelmOpSpec](), slices.Concat(restoredFields, []string{"source"}), kept},
		{reflect.TypeFor[addonsv1.ArtifactSource](), restoredSourceFields, keptOfSource},
	} {
		got, want := slices.Concat(tc.restored, tc.kept), fieldsOf(tc.of)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: decided are %q\nthe fields are %q", tc.of, got, want)
		}
	}
}

// TestRestore checks that the fields that affect releases come from the revision, and that all other fields are kept,
// including fields that the program does not know.
func TestRestore(t *testing.T) {
	t.Parallel()
	object := map[string]any{"metadata": "m", "spec": map[string]any{
		"paused": true, "new": "n", "valuesTemplate": "now", "clusterSelector": map[string]any{},
		"rollout": map[string]any{"paused": true}, "postRender": map[string]any{},
		"source": map[string]any{"url": "oci://now", "path": "now", "ref": map[string]any{"tag": "now", "tagFilter": "x"},
			"verify": map[string]any{"provider": "cosign"}, "secretRef": "s", "new": "n"},
	}}
	then := &addonsv1.HelmOpSpec{ValuesTemplate: "then", Storage: &addonsv1.RecordStorage{}}
	then.Source.URL, then.Source.Ref.Digest, then.Release.Name = "oci://then", "sha256:1", "then"
	if err := restore(object, then); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"metadata": "m", "spec": map[string]any{
		"paused": true, "new": "n", "valuesTemplate": "then", "clusterSelector": map[string]any{},
		"rollout": map[string]any{"paused": true}, "release": map[string]any{"name": "then"},
		"source": map[string]any{"url": "oci://then", "ref": map[string]any{"digest": "sha256:1"},
			"verify": map[string]any{"provider": "cosign"}, "secretRef": "s", "new": "n"},
	}}
	if !reflect.DeepEqual(object, want) {
		t.Errorf("got %v\nwant %v", object, want)
	}
}

// TestPin expects the digests of a revision for all references, and names those without one.
func TestPin(t *testing.T) {
	t.Parallel()
	tag := func(tag string) addonsv1.ArtifactReference { return addonsv1.ArtifactReference{Tag: tag} }
	resolved := func(digest string) *addonsv1.ResolvedArtifact { return &addonsv1.ResolvedArtifact{Digest: digest} }
	revision := &addonsv1.HelmOpRevisionSpec{Artifact: resolved("main")}
	revision.HelmOp.Source.Ref = tag("1")
	for i, name := range []string{"1", "2", "3"} {
		revision.HelmOp.Overrides = append(revision.HelmOp.Overrides,
			addonsv1.Override{Name: fmt.Sprint("o", i), Ref: new(tag(name))})
	}
	revision.HelmOp.Overrides = append(revision.HelmOp.Overrides, addonsv1.Override{Name: "none"},
		addonsv1.Override{Name: "digest", Ref: &addonsv1.ArtifactReference{Digest: "own"}})
	revision.HelmOp.RefsByKubernetesVersion = []addonsv1.KubernetesVersionReference{{Ref: tag("2")}, {Ref: tag("4")}}
	second := addonsv1.ReferencedArtifact{Reference: tag("2")}
	second.Digest = "second"
	revision.Artifacts = []addonsv1.ReferencedArtifact{second}
	pinned, moving := pin(revision)
	var got []string
	for i := range pinned.Overrides {
		if ref := pinned.Overrides[i].Ref; ref != nil {
			got = append(got, ref.Digest+ref.Tag)
		}
	}
	for i := range pinned.RefsByKubernetesVersion {
		got = append(got, pinned.RefsByKubernetesVersion[i].Ref.Digest+pinned.RefsByKubernetesVersion[i].Ref.Tag)
	}
	got = append(got, pinned.Source.Ref.Digest)
	if want := []string{"main", "second", "3", "own", "second", "4", "main"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := []string{"overrides[o2].ref", "refsByKubernetesVersion[1].ref"}; !slices.Equal(moving, want) {
		t.Errorf("got %q, want %q", moving, want)
	}
	if revision.HelmOp.Source.Ref != tag("1") {
		t.Error("the revision changed")
	}
	revision.Artifact = nil
	if _, moving := pin(revision); !slices.Contains(moving, "source.ref") {
		t.Errorf("got %q", moving)
	}
}

// TestShapeOf checks that fields that do not affect releases are ignored.
func TestShapeOf(t *testing.T) {
	t.Parallel()
	spec := &addonsv1.HelmOpSpec{Paused: true}
	spec.Source.Provider = "aws"
	shape, err := shapeOf(spec)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := shapeOf(&addonsv1.HelmOpSpec{})
	if err != nil || !reflect.DeepEqual(shape, empty) {
		t.Errorf("got %v, %v", shape, err)
	}
}

// TestHasRevision has a release that was Stalled before a HelmOp revision was assigned to it.
func TestHasRevision(t *testing.T) {
	t.Parallel()
	release := retriedRelease("one", "", "Ready=False/InstallFailed", "Stalled=True/RetriesExhausted")
	release.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 6}
	release.Generation, release.Status.ObservedGeneration = 3, 2
	if reached, waits, err := hasRevision(release, 6); reached || err != nil ||
		waits != "the manager to reconcile the release in Cluster one" {
		t.Errorf("got %v, %q, %v", reached, waits, err)
	}
	release.Status.ObservedGeneration = 3
	if _, _, err := hasRevision(release, 6); err == nil || !strings.Contains(err.Error(), "HelmOp revision 6 failed") {
		t.Errorf("got %v", err)
	}
	release.Status.Conditions = retriedRelease("one", "", "Ready=True/Ready").Status.Conditions
	for i := range release.Status.Conditions {
		release.Status.Conditions[i].ObservedGeneration = 3
	}
	if reached, _, err := hasRevision(release, 6); !reached || err != nil {
		t.Errorf("got %v, %v", reached, err)
	}
	if _, waits, err := hasRevision(release, 7); err != nil ||
		!strings.Contains(waits, "HelmOp revision 7 to be assigned") {
		t.Errorf("got %q, %v", waits, err)
	}
}

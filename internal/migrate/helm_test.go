// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// record returns the content of a Secret with a record.
func record(t *testing.T, text string) []byte {
	t.Helper()
	var data bytes.Buffer
	writer := gzip.NewWriter(&data)
	if _, err := writer.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte(base64.StdEncoding.EncodeToString(data.Bytes()))
}

func TestReadRecord(t *testing.T) {
	cluster := types.NamespacedName{Namespace: "fleet", Name: "one"}
	got, err := ReadRecord(cluster, record(t, `{"name": "calico", "namespace": "tigera", "version": 3,
		"info": {"status": "deployed"}, "config": {"a": "secret"},
		"chart": {"metadata": {"name": "tigera-operator", "version": "v3.30.1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Record{Cluster: cluster, Name: "calico", Namespace: "tigera", Chart: "tigera-operator", Version: "v3.30.1",
		Revision: 3, Status: "deployed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for text, data := range map[string][]byte{
		"not base64":               []byte("?"),
		"not compressed":           []byte("aGVsbG8="),
		"not JSON":                 record(t, "{"),
		"no version of a chart":    record(t, "{}"),
		"has more than 67108864 b": record(t, strings.Repeat(" ", maxRecord+1)),
	} {
		if _, err := ReadRecord(cluster, data); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("want %q: %v", text, err)
		}
	}
}

func TestUninstalledRecord(t *testing.T) {
	for status, want := range map[string]bool{"uninstalled": true, "uninstalling": true, "deployed": false,
		"failed": false} {
		if got := (&Record{Status: status}).IsUninstalled(); got != want {
			t.Errorf("%s: %t", status, got)
		}
	}
}

// recordsOf returns records of a release by the names of their Clusters, with these versions of the chart.
func recordsOf(versions map[string]string) []*Record {
	var records []*Record
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		records = append(records, &Record{Cluster: types.NamespacedName{Namespace: "fleet", Name: name}, Name: "calico",
			Namespace: "tigera", Chart: "tigera-operator", Version: versions[name], Revision: 2, Status: "deployed"})
	}
	return records
}

// TestFromHelmAgain repeats a conversion after more Clusters answer, and after a HelmOp has upgraded its releases.
func TestFromHelmAgain(t *testing.T) {
	source := addonsv1.ArtifactSource{URL: "oci://registry.example/charts/tigera-operator"}
	objects := HelmObjects{Records: recordsOf(map[string]string{"a": "1.0", "b": "1.0", "c": "1.0", "d": "2.0"})}
	first := FromHelm("calico", "fleet", source, objects)
	for i := range first.Items {
		objects.HelmOps = append(objects.HelmOps, first.Items[i].HelmOp)
		for _, mark := range first.Items[i].Marks {
			objects.Clusters = append(objects.Clusters, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: "fleet", Name: mark.Cluster.Name, Labels: map[string]string{mark.Key: mark.Value}}})
		}
	}
	objects.HelmOps = append(objects.HelmOps, newHelmOp("fleet", "other", "Release/tigera/other@1.1"))
	for version, ref := range map[string]addonsv1.ArtifactReference{"4.0": {Tag: "4.1"}, "5.0": {Semver: "5.x"}} {
		helmOp := newHelmOp("fleet", "calico-"+version, "Release/tigera/calico@"+version)
		helmOp.Spec.Source.Ref = ref // A user has changed it.
		objects.HelmOps = append(objects.HelmOps, helmOp)
	}
	objects.Records = recordsOf(map[string]string{"a": "1.0", "b": "1.1", "c": "1.0", "d": "2.0", "e": "2.0", "f": "2.0",
		"g": "2.0", "h": "3.0", "i": "1.1", "j": "4.0", "k": "5.0"})
	got := map[string]string{}
	for _, item := range FromHelm("calico", "fleet", source, objects).Items {
		var clusters []string
		for _, cluster := range item.Clusters() {
			clusters = append(clusters, cluster.Name)
		}
		got[item.HelmOp.Name] = item.Origin() + " " + strings.Join(clusters, ",")
	}
	if diff := cmp.Diff(map[string]string{
		"calico":     "Release/tigera/calico@1.0 a,b,c",
		"calico-2.0": "Release/tigera/calico@2.0 d,e,f,g",
		"calico-1.1": "Release/tigera/calico@1.1 i",
		"calico-3.0": "Release/tigera/calico@3.0 h",
		// The HelmOps without the number have another version now.
		"calico-4.0-2": "Release/tigera/calico@4.0 j",
		"calico-5.0-2": "Release/tigera/calico@5.0 k",
	}, got); diff != "" {
		t.Error(diff)
	}
}

// TestFromHelmShards converts a release in Clusters of two shards, and repeats the conversion with more Clusters.
func TestFromHelmShards(t *testing.T) {
	source := addonsv1.ArtifactSource{URL: "oci://registry.example/charts/tigera-operator"}
	objects, versions := HelmObjects{}, map[string]string{}
	convert := func(clusters map[string]string) map[string]string {
		for _, name := range slices.Sorted(maps.Keys(clusters)) {
			versions[name] = "1.0"
			objects.Clusters = append(objects.Clusters, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: "fleet", Name: name, Labels: shardLabels(clusters[name])}})
		}
		objects.Records = recordsOf(versions)
		plan, got := FromHelm("calico", "fleet", source, objects), map[string]string{}
		objects.HelmOps = nil
		for i := range plan.Items {
			item := &plan.Items[i]
			item.SetShard(objects.Clusters, nil)
			objects.HelmOps = append(objects.HelmOps, item.HelmOp)
			for _, cluster := range item.Clusters() {
				got[item.HelmOp.Name] += cluster.Name
			}
			if len(gaps(item)) > 2 {
				t.Errorf("gaps %q", gaps(item))
			}
		}
		return got
	}
	if diff := cmp.Diff(map[string]string{"calico": "ab", "calico-1.0": "c"},
		convert(map[string]string{"a": "x", "b": "x", "c": ""})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"calico": "abe", "calico-1.0": "cd"},
		convert(map[string]string{"d": "", "e": "x"})); diff != "" {
		t.Error(diff)
	}
}

// TestFromHelmNextToOthers converts a release when HelmOps of other tools and of users exist.
func TestFromHelmNextToOthers(t *testing.T) {
	source := addonsv1.ArtifactSource{URL: "oci://registry.example/charts/tigera-operator"}
	clusters := []*metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "a",
		Labels: map[string]string{"cluster": "a"}}}}
	for name, test := range map[string]struct{ origin, cluster, want string }{
		"of Flux in another Cluster":        {"HelmRelease/fleet/b-calico", "b", "calico-1.0"},
		"of Flux in the same Cluster":       {"HelmRelease/fleet/a-calico", "a", "calico"},
		"of a user in another Cluster":      {"", "b", "calico-1.0"},
		"of a user in the same Cluster":     {"", "a", "calico"},
		"of another release in the Cluster": {"Release/other/calico@1.0", "a", "calico-1.0"},
	} {
		helmOp := newHelmOp("fleet", "calico", test.origin)
		helmOp.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"cluster": test.cluster}}
		plan := FromHelm("calico", "fleet", source, HelmObjects{Records: recordsOf(map[string]string{"a": "1.0"}),
			Clusters: clusters, HelmOps: []*addonsv1.HelmOp{helmOp}})
		if got := plan.Items[0].HelmOp.Name; got != test.want {
			t.Errorf("%s: HelmOp %s, want %s", name, got, test.want)
		}
	}
}

func TestFromHelm(t *testing.T) {
	records := recordsOf(map[string]string{"one": "3.30.1", "two": "3.30.1", "three": "3.29.0+b"})
	plan := FromHelm("calico", "fleet", addonsv1.ArtifactSource{URL: "oci://registry.example/charts/tigera-operator",
		SecretRef: &addonsv1.SecretReference{Name: "login"}, CertSecretRef: &addonsv1.SecretReference{Name: "ca"}},
		HelmObjects{Records: records})
	got := map[string]int{}
	for i := range plan.Items {
		item := &plan.Items[i]
		got[item.HelmOp.Name] = len(item.Releases)
		if item.Origin() != "Release/tigera/calico@"+item.HelmOp.Spec.Source.Ref.Tag {
			t.Errorf("origin %q", item.Origin())
		}
	}
	if diff := cmp.Diff(map[string]int{"calico": 2, "calico-3.29.0-b": 1}, got); diff != "" {
		t.Error(diff)
	}
	want := &addonsv1.HelmOp{}
	if err := yaml.UnmarshalStrict([]byte(`
clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/calico: "true"}}
install: {takeOwnership: true, adoption: WhenUnchanged}
release: {name: calico, namespace: tigera}
source:
  url: oci://registry.example/charts/tigera-operator
  ref: {tag: 3.30.1}
  secretRef: {name: login}
  certSecretRef: {name: ca}
upgrade: {crds: Skip, valuesPolicy: ResetThenReuse}
`), &want.Spec); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spec(t, want), spec(t, plan.Items[0].HelmOp)); diff != "" {
		t.Error(diff)
	}
}

// TestFromHelmChartRepository checks where a HelmOp gets the chart of a release from a chart repository.
func TestFromHelmChartRepository(t *testing.T) {
	records := recordsOf(map[string]string{"one": "v3.30.1"})
	for name, tc := range map[string]struct {
		source addonsv1.ArtifactSource
		want   string
	}{
		"the name in the release": {addonsv1.ArtifactSource{URL: "https://charts.example"},
			`{"url":"https://charts.example","chart":"tigera-operator","ref":{"tag":"v3.30.1"}}`},
		"another name": {addonsv1.ArtifactSource{URL: "https://charts.example", Chart: "operator"},
			`{"url":"https://charts.example","chart":"operator","ref":{"tag":"v3.30.1"}}`},
		"without TLS": {addonsv1.ArtifactSource{URL: "http://charts.example"},
			`{"url":"http://charts.example","chart":"tigera-operator","ref":{"tag":"v3.30.1"},"insecure":true}`},
	} {
		source := FromHelm("calico", "fleet", tc.source, HelmObjects{Records: records}).Items[0].HelmOp.Spec.Source
		want := addonsv1.ArtifactSource{}
		if err := yaml.UnmarshalStrict([]byte(tc.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, source); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

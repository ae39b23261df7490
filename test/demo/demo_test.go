// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
)

// TestNextCommands checks that the program has the commands of kubectl helmop, with their flags, that the demo prints.
func TestNextCommands(t *testing.T) {
	found := 0
	for line := range strings.Lines(next) {
		args, ok := strings.CutPrefix(strings.TrimSpace(line), "kubectl helmop ")
		if !ok {
			continue
		}
		found++
		// An unknown flag before --help is an error.
		var out bytes.Buffer
		streams := cli.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &out}
		if code := cli.Run(t.Context(), append(strings.Fields(args), "--help"), streams); code != 0 {
			t.Errorf("%s: exit code %d\n%s", line, code, out.String())
		}
	}
	if found == 0 {
		t.Error("the demo prints no command of kubectl helmop")
	}
}

func TestParse(t *testing.T) {
	environment := func(pairs ...string) func(string) string {
		return func(key string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == key {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	cases := map[string]struct {
		args    []string
		getenv  func(string) string
		want    options
		wantErr string
	}{
		"defaults": {getenv: environment(), want: options{wait: true, timeout: 5 * time.Minute}},
		"WAIT=0":   {getenv: environment("WAIT", "0"), want: options{timeout: 5 * time.Minute}},
		"WAIT=1 KEEP=1": {getenv: environment("WAIT", "1", "KEEP", "1"),
			want: options{wait: true, keep: true, timeout: 5 * time.Minute}},
		"a flag wins": {args: []string{"-wait=true", "-timeout=1m"}, getenv: environment("WAIT", "0"),
			want: options{wait: true, timeout: time.Minute}},
		"an argument":  {args: []string{"now"}, getenv: environment(), wantErr: "unexpected argument \"now\""},
		"unknown flag": {args: []string{"-fast"}, getenv: environment(), wantErr: "not defined: -fast"},
		"help":         {args: []string{"--help"}, getenv: environment(), wantErr: "help requested"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parse(c.args, c.getenv)
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Fatalf("want an error with %q, got %v", c.wantErr, err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Fatalf("want %+v, got %+v, %v", c.want, got, err)
			}
		})
	}
}

func TestLinesAreWrittenWhenComplete(t *testing.T) {
	var out bytes.Buffer
	lines := newProgress(&out).lines()
	for _, part := range []string{"one\ntw", "o", "\nthree"} {
		if _, err := lines.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	written := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(written) != 2 || !strings.HasSuffix(written[0], "s  one") || !strings.HasSuffix(written[1], "s  two") {
		t.Fatalf("want the lines one and two, got %q", written)
	}
}

func TestHelmOpFileMatchesConstants(t *testing.T) {
	helmOp := &addonsv1.HelmOp{}
	if err := yaml.UnmarshalStrict([]byte(helmOpYAML), helmOp); err != nil {
		t.Fatal(err)
	}
	if helmOp.Name != helmOpName || helmOp.Namespace != namespace ||
		helmOp.Spec.Release != (addonsv1.ReleaseTemplate{Name: releaseName, Namespace: releaseNamespace}) ||
		helmOp.Spec.ClusterSelector.MatchLabels[selectorLabel] != helmOpName {
		t.Fatalf("the constants of the demo and helmop.yaml differ: %+v", helmOp)
	}
	if !strings.HasPrefix(helmOpYAML, "#") || strings.Count(helmOpYAML, "REGISTRY") != 2 {
		t.Fatal("want a first line that explains REGISTRY, and one place where it is replaced")
	}
}

func encodeRelease(t *testing.T, text string) []byte {
	t.Helper()
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	if _, err := writer.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte(base64.StdEncoding.EncodeToString(compressed.Bytes()))
}

const goodRelease = `{"name":"hello","namespace":"hello-system","version":%d,"info":{"status":"deployed"},
	"chart":{"metadata":{"name":"hello","version":"1.1.0"}}}`

func TestDecodeRelease(t *testing.T) {
	release, err := decodeRelease(encodeRelease(t, fmt.Sprintf(goodRelease, 1)))
	if want := "hello-system/hello, Helm revision 1, deployed, chart hello-1.1.0"; err != nil || release.String() != want {
		t.Fatalf("want %q, got %q, %v", want, release, err)
	}
	for name, data := range map[string][]byte{
		"empty": nil, "no base64": []byte("?"), "not compressed": []byte("aGVsbG8="), "no JSON": encodeRelease(t, "hello"),
	} {
		if _, err := decodeRelease(data); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

func TestVerifyWorkload(t *testing.T) {
	matching, other := demoClusters()[0], demoClusters()[2]
	good := func(change func(*workload)) *workload {
		release, err := decodeRelease(encodeRelease(t, fmt.Sprintf(goodRelease, 1)))
		if err != nil {
			t.Fatal(err)
		}
		found := &workload{
			releases: []helmRelease{release}, namespace: true, daemonSetCIDR: matching.podCIDR,
			configMap: map[string]string{"podCIDR": matching.podCIDR, "cluster": matching.name, "region": matching.region},
		}
		change(found)
		return found
	}
	cases := map[string]struct {
		cluster demoCluster
		found   *workload
		want    string
	}{
		"good":            {matching, good(func(*workload) {}), ""},
		"nothing":         {matching, &workload{}, "want one revision of one release"},
		"second revision": {matching, good(func(w *workload) { w.releases[0].Version = 2 }), "Helm revision 2"},
		"pending": {matching, good(func(w *workload) { w.releases[0].Info.Status = "pending-install" }),
			"pending-install"},
		"another CIDR":     {matching, good(func(w *workload) { w.configMap["podCIDR"] = "10.2.0.0/16" }), "podCIDR"},
		"no DaemonSet":     {matching, good(func(w *workload) { w.daemonSetCIDR = "" }), "DaemonSet"},
		"unselected":       {other, &workload{}, ""},
		"wrongly selected": {other, good(func(*workload) {}), "is not selected"},
		"a namespace only": {other, &workload{namespace: true}, "is not selected"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := verifyWorkload(c.cluster, c.found, chartVersion)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("want an error with %q, got %v", c.want, err)
			}
		})
	}
}

func TestVerifyHelmOp(t *testing.T) {
	ready := []metav1.Condition{{Type: addonsv1.ReadyCondition, Status: metav1.ConditionTrue}}
	good := func(change func(*addonsv1.HelmOp, *[]addonsv1.HelmOpRelease)) (*addonsv1.HelmOp, []addonsv1.HelmOpRelease) {
		helmOp := &addonsv1.HelmOp{Status: addonsv1.HelmOpStatus{
			Clusters: &addonsv1.ClusterCounts{Selected: 2, UpToDate: 2, Ready: 2},
			Conditions: append([]metav1.Condition{
				{Type: addonsv1.ResolvedCondition, Status: metav1.ConditionTrue},
				{Type: addonsv1.RollingOutCondition, Status: metav1.ConditionFalse},
			}, ready...),
		}}
		var releases []addonsv1.HelmOpRelease
		for _, cluster := range matchingClusters() {
			release := addonsv1.HelmOpRelease{Status: addonsv1.HelmOpReleaseStatus{Conditions: ready}}
			release.Spec.ClusterRef.Name = cluster.name
			releases = append(releases, release)
		}
		change(helmOp, &releases)
		return helmOp, releases
	}
	cases := map[string]struct {
		change func(*addonsv1.HelmOp, *[]addonsv1.HelmOpRelease)
		want   string
	}{
		"good":       {func(*addonsv1.HelmOp, *[]addonsv1.HelmOpRelease) {}, ""},
		"old status": {func(h *addonsv1.HelmOp, _ *[]addonsv1.HelmOpRelease) { h.Generation = 2 }, "generation 0, not 2"},
		"no counts": {func(h *addonsv1.HelmOp, _ *[]addonsv1.HelmOpRelease) { h.Status.Clusters = nil },
			"want 2 Clusters selected"},
		"rolling out": {func(h *addonsv1.HelmOp, _ *[]addonsv1.HelmOpRelease) {
			h.Status.Conditions[1].Status = metav1.ConditionTrue
		}, "RollingOut is not false"},
		"no conditions": {func(h *addonsv1.HelmOp, _ *[]addonsv1.HelmOpRelease) { h.Status.Conditions = nil },
			"Ready is not true: not set"},
		"one release": {func(_ *addonsv1.HelmOp, r *[]addonsv1.HelmOpRelease) { *r = (*r)[:1] },
			"want 2 HelmOpReleases, got 1"},
		"not ready": {func(_ *addonsv1.HelmOp, r *[]addonsv1.HelmOpRelease) { (*r)[0].Status.Conditions = nil },
			"is not ready"},
		"wrong Clusters": {func(_ *addonsv1.HelmOp, r *[]addonsv1.HelmOpRelease) { (*r)[0].Spec.ClusterRef.Name = "west" },
			"Cluster north has no"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := verifyHelmOp(good(c.change))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("want an error with %q, got %v", c.want, err)
			}
		})
	}
}

func TestVerifyLog(t *testing.T) {
	if err := verifyLog([]byte("one\nforbidden fruit\n")); err != nil {
		t.Errorf("want no error, got %v", err)
	}
	refused := "E1 secrets is forbidden: User \"x\" cannot list"
	if err := verifyLog([]byte("one\n" + refused + "\ntwo\n")); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("want an error with the line, got %v", err)
	}
}

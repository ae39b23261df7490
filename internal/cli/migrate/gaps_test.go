// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const caaphWithSecret = `
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmChartProxy
metadata: {name: calico, namespace: fleet, uid: chart}
spec:
  clusterSelector: {}
  chartName: calico
  repoURL: "oci://registry.example/charts"
  tlsConfig: {caSecret: {name: ca, namespace: other}}
`

// TestSecretSolvesGap has a gap that requires a Secret, without and with the Secret.
func TestSecretSolvesGap(t *testing.T) {
	for name, test := range map[string]struct {
		objects string
		isOpen  bool
	}{
		"without": {caaphWithSecret, true},
		"with": {caaphWithSecret + `
---
apiVersion: v1
kind: Secret
metadata: {name: ca, namespace: fleet}
`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "caaph", test.objects)
			plan := w.plan()
			if err := w.settleGaps(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
			if err := w.report(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(w.out.String(), "to be solved first"); got != test.isOpen {
				t.Errorf("report: %s", w.out.String())
			}
			if err := w.handOver(t.Context(), plan); (err != nil) != test.isOpen {
				t.Errorf("error: %v", err)
			}
		})
	}
}

// TestMissingDependency has a HelmRelease that depends on another HelmRelease.
func TestMissingDependency(t *testing.T) {
	base := strings.ReplaceAll(strings.ReplaceAll(fluxObjects, "one-calico", "one-base"), "\n---\napiVersion: cluster",
		"\n---\n# apiVersion: cluster")
	base, _, _ = strings.Cut(base, "\n---\n")
	objects := strings.Replace(fluxObjects, "  chartRef:", "  dependsOn: [{name: one-base}]\n  chartRef:", 1) + "\n---\n" +
		base
	for name, test := range map[string]struct {
		objects string
		names   []string
		want    string
	}{
		"both":        {objects, nil, ""},
		"one of both": {objects, []string{"calico"}, "HelmOp fleet/base, which does not exist; migrate its object first"},
		"a dependency that is blocked": {strings.Replace(objects, "name: one-base, namespace: fleet, uid: release}\nspec:\n",
			"name: one-base, namespace: fleet, uid: release}\nspec:\n  suspend: true\n", 1), nil,
			"HelmOp fleet/base, which does not exist; solve what stops its migration first"},
		"a dependency that is migrated": {objects + `
---
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmOp
metadata: {name: base, namespace: fleet, annotations: {addons.cluster.x-k8s.io/migrated-from: HelmRelease/fleet/one-base}}
`, []string{"calico"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "flux", test.objects)
				plan := w.plan()
				err := errors.Join(choose(plan, test.names), w.settleGaps(t.Context(), plan))
				if err != nil {
					t.Fatal(err)
				}
				if err := w.report(t.Context(), plan); err != nil {
					t.Fatal(err)
				}
				found := strings.Contains(w.out.String(),
					"to be solved first: spec.dependsOn: the release would wait for "+test.want)
				if found != (test.want != "") {
					t.Errorf("report: %s", w.out.String())
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err = w.handOver(ctx, plan)
				if isRefused := err != nil && strings.Contains(err.Error(), "spec.dependsOn: the release would wait for "+
					test.want); isRefused != (test.want != "") {
					t.Errorf("error: %v", err)
				}
			})
		})
	}
}

// TestLabelsOfAnEarlierMigration has a Cluster that is not part of the migration and has the label of the HelmOp.
func TestLabelsOfAnEarlierMigration(t *testing.T) {
	const third = `
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: three, namespace: fleet, labels: {migrated.addons.cluster.x-k8s.io/calico: "true"}}
`
	const has = "Clusters: three has the label of an earlier migration, so the new HelmOp would also install the chart " +
		"there; "
	const removal = " remove the label: kubectl label clusters.cluster.x-k8s.io -n fleet " +
		"-l migrated.addons.cluster.x-k8s.io/calico migrated.addons.cluster.x-k8s.io/calico-"
	const other = `
---
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmOp
metadata: {name: cni, namespace: fleet}
spec: {clusterSelector: {matchLabels: {migrated.addons.cluster.x-k8s.io/calico: "true"}}}
`
	const none, selected = has + "if no other HelmOp selects the label," + removal,
		has + "let HelmOp cni select another label, and then" + removal
	for name, test := range map[string]struct{ from, objects, want string }{
		"no HelmOp":                 {"flux", fluxObjects + third, none},
		"another HelmOp":            {"flux", fluxObjects + third + other, selected},
		"another HelmOp, for Fleet": {"fleet", fleetObjects + third + other, selected},
		"no HelmOp, for Fleet":      {"fleet", fleetObjects + third, ""},
		"the HelmOp exists": {"flux", fluxObjects + third + `
---
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmOp
metadata:
  name: calico
  namespace: fleet
  annotations: {addons.cluster.x-k8s.io/migrated-from: HelmRelease/fleet/one-calico}
`, ""},
		"no label": {"flux", fluxObjects + other, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, test.from, test.objects)
				plan := w.plan()
				if err := w.settleGaps(t.Context(), plan); err != nil {
					t.Fatal(err)
				}
				if err := w.report(t.Context(), plan); err != nil {
					t.Fatal(err)
				}
				if test.want == "" {
					if strings.Contains(w.out.String(), "to be solved first: ") {
						t.Errorf("report: %s", w.out.String())
					}
					return
				}
				if !strings.Contains(w.out.String(), "to be solved first: "+test.want+"\n") {
					t.Errorf("report: %s", w.out.String())
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := w.handOver(ctx, plan); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error: %v", err)
				}
				if len(w.writes) > 0 {
					t.Errorf("writes: %v", w.writes)
				}
			})
		})
	}
}

// inShard moves a Cluster of Cluster API to the shard "b".
func inShard(objects, cluster string) string {
	const kind = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: "
	return strings.Replace(objects, kind+cluster+", namespace: fleet}",
		kind+cluster+", namespace: fleet, labels: {addons.cluster.x-k8s.io/shard: b}}", 1)
}

// TestShards has Clusters of a shard. The HelmOp needs the shard of its Clusters.
func TestShards(t *testing.T) {
	two := caaphObjects + "\n---\n" + lateProxy + `
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: two, namespace: fleet}
`
	const label, printed = "addons.cluster.x-k8s.io/shard: b\n", "  HelmOp fleet/calico in shard \"b\"\n"
	for name, test := range map[string]struct {
		from, objects string
		// report and helmOps are parts of the report and of the printed HelmOps.
		report, helmOps []string
	}{
		"CAAPH": {"caaph", inShard(caaphObjects, "one"), []string{printed}, []string{label}},
		"Flux":  {"flux", inShard(fluxObjects, "one"), []string{printed}, []string{label}},
		"Fleet": {"fleet", inShard(fleetObjects, "one"), []string{printed}, []string{label}},
		"CAAPH, two shards": {"caaph", inShard(two, "one"), []string{
			`to be solved first: Clusters: one is in shard "b", two is in no shard`}, nil},
		"Flux, two shards": {"flux", inShard(fluxPair, "one"), []string{printed, "  HelmOp fleet/calico-2\n"},
			[]string{label}},
		"Fleet, an earlier run": {"fleet", inShard(fleetObjects, "one") + `
---
apiVersion: addons.cluster.x-k8s.io/v1alpha1
kind: HelmOp
metadata: {name: calico, namespace: fleet, annotations: {addons.cluster.x-k8s.io/migrated-from: HelmOp/fleet/calico}}
`, []string{`to be solved first: Clusters: they are in shard "b", and HelmOp fleet/calico of an earlier run is in no ` +
			"shard"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.from, test.objects)
			plan := w.plan()
			err := errors.Join(w.settleGaps(t.Context(), plan), w.report(t.Context(), plan))
			if err != nil {
				t.Fatal(err)
			}
			report := w.out.String()
			w.out.Reset()
			if err := w.printHelmOps(plan); err != nil {
				t.Fatal(err)
			}
			for _, parts := range []struct {
				text string
				want []string
			}{{report, test.report}, {w.out.String(), test.helmOps}} {
				for _, want := range parts.want {
					if strings.Count(parts.text, want) != 1 {
						t.Errorf("%q is missing in:\n%s", want, parts.text)
					}
				}
			}
		})
	}
}

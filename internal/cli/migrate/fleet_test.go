// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"strings"
	"testing"
)

const fleetObjects = `
apiVersion: fleet.cattle.io/v1alpha1
kind: HelmOp
metadata: {name: calico, namespace: fleet, uid: helmop, finalizers: [fleet.cattle.io/helmop-finalizer]}
spec:
  helm: {repo: "oci://registry.example/charts/calico", version: 1.0.0}
  defaultNamespace: apps
  targets: [{clusterSelector: {}}]
---
apiVersion: fleet.cattle.io/v1alpha1
kind: Bundle
metadata: {name: calico, namespace: fleet, uid: bundle, finalizers: [fleet.cattle.io/bundle-finalizer]}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: BundleDeployment
metadata:
  name: calico
  namespace: cluster-fleet-one
  uid: deployment
  finalizers: [fleet.cattle.io/bundle-deployment-finalizer]
  labels:
    fleet.cattle.io/bundle-name: calico
    fleet.cattle.io/bundle-namespace: fleet
    fleet.cattle.io/cluster: one
    fleet.cattle.io/cluster-namespace: fleet
spec: {deploymentID: first, stagedDeploymentID: first}
status: {appliedDeploymentID: first, ready: true, nonModified: true, release: "apps/calico:2"}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: Cluster
metadata: {name: one, namespace: fleet}
spec: {kubeConfigSecret: one-kubeconfig}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: ClusterGroup
metadata: {name: all, namespace: fleet}
spec: {selector: {}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: one, namespace: fleet}
`

func TestFleetReport(t *testing.T) {
	w := newWorld(t, "fleet", fleetObjects)
	if err := w.report(t.Context(), w.plan()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Fleet HelmOp fleet/calico\n  HelmOp fleet/calico\n  1 Cluster: one\n",
		"not carried over: spec.deleteCRDResources: "} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, w.out.String())
		}
	}
	if len(w.writes) > 0 {
		t.Errorf("writes: %v", w.writes)
	}
	w.out.Reset()
	if err := w.printHelmOps(w.plan()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# needs the label migrated.addons.cluster.x-k8s.io/calico=true on Cluster one\n",
		"  paused: true\n", "    addons.cluster.x-k8s.io/migrated-from: HelmOp/fleet/calico\n"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, w.out.String())
		}
	}
}

// TestFleetApplyIsRefused has flags that would write.
func TestFleetApplyIsRefused(t *testing.T) {
	for _, m := range []migration{{from: "fleet", apply: true}, {from: "fleet", undo: true}} {
		if err := m.validate(); err == nil || !strings.Contains(err.Error(), "docs/migration.md") {
			t.Errorf("error: %v", err)
		}
	}
}

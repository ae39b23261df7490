// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
)

// TestRecords counts records of two tools in two API servers.
func TestRecords(t *testing.T) {
	t.Parallel()
	r := &Records{records: map[recordKey]record{}}
	secret := func(namespace, release, version, status string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "sh.helm.release.v1." + release + ".v" + version,
			Labels: map[string]string{"name": release, "version": version, "status": status},
		}}
	}
	flux := &Fleet{Name: Flux}
	check := func(when string, first, second, left int) {
		t.Helper()
		if got := [3]int{r.Deployed(flux, 1), r.Deployed(flux, 2), r.Left(flux)}; got != [3]int{first, second, left} {
			t.Errorf("%s: deployed, upgraded and left are %v, not %d, %d, %d", when, got, first, second, left)
		}
	}
	r.set(0, secret("flux-a", "a", "1", "pending-install"))
	r.set(0, secret("caaph-a", "a", "2", "deployed"))
	check("before the installation", 0, 0, 1)
	r.set(0, secret("flux-a", "a", "1", "deployed"))
	r.set(1, secret("flux-a", "a", "1", "deployed"))
	check("after the installation", 2, 0, 2)
	r.set(0, secret("flux-a", "a", "1", "superseded"))
	r.set(0, secret("flux-a", "a", "2", "deployed"))
	r.set(0, secret("flux-a", "a", "3", "deployed"))
	check("after an upgrade", 2, 1, 4)
	r.remove(0, secret("flux-a", "a", "1", "superseded"))
	r.remove(0, toolscache.DeletedFinalStateUnknown{Obj: secret("flux-a", "a", "2", "deployed")})
	r.remove(0, secret("flux-a", "a", "3", "deployed"))
	r.remove(1, secret("flux-a", "a", "1", "deployed"))
	check("after the uninstallation", 0, 0, 0)
}

func TestHasValues(t *testing.T) {
	t.Parallel()
	cluster := &world.Cluster{Name: "flux-1"}
	for text, want := range map[string]bool{
		"logLevel: debug\nlisten: 0.0.0.0:8080\ncluster: flux-1\n":  true,
		"logLevel: info\nlisten: 0.0.0.0:8080\ncluster: flux-1\n":   false,
		"logLevel: debug\nlisten: 0.0.0.0:8080\ncluster: flux-10\n": false,
		"": false,
	} {
		config := &corev1.ConfigMap{Data: map[string]string{"agent.yaml": text}}
		if got := hasValues(config, cluster, UpgradedLevel); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"testing"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
)

// TestRecordHasShardOfLastWriter checks that a record has the shard of its last writer, even if another shard created
// it.
func TestRecordHasShardOfLastWriter(t *testing.T) {
	t.Parallel()
	const key = "sh.helm.release.v1.demo.v1"
	clients := fake.NewClientset()
	desired := helmtest.DesiredFor("apps", "demo", "a1", "v1")
	desired.Shard = "a"
	made := NewRecordingDriver(driver.NewSecrets(clients.CoreV1().Secrets("apps")),
		AttemptLabels(desired, decide.Decision{}))
	made.Shard = desired.Shard
	if err := made.Create(key, helmtest.Release(1, release.StatusDeployed)); err != nil {
		t.Fatal(err)
	}
	for _, shard := range []string{"a", "b", ""} {
		writer := NewRecordingDriver(driver.NewSecrets(clients.CoreV1().Secrets("apps")), nil)
		writer.Shard = shard
		if shard != "a" {
			record, err := writer.Get(key)
			if err != nil {
				t.Fatal(err)
			}
			record.Info.Status = release.StatusUninstalling
			if err := writer.Update(key, record); err != nil {
				t.Fatal(err)
			}
		}
		secret, err := clients.CoreV1().Secrets("apps").Get(t.Context(), key, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		record, ok := FromMetadata(&secret.ObjectMeta)
		if !ok || record.Shard != shard || !record.Authentic() {
			t.Errorf("written by shard %q: %+v", shard, record)
		}
	}
}

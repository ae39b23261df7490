// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
)

func TestRecordingDriverLabels(t *testing.T) {
	t.Parallel()
	clients := fake.NewClientset()
	desired := helmtest.DesiredFor("apps", "demo", "a1", "v1")
	d := NewRecordingDriver(driver.NewSecrets(clients.CoreV1().Secrets("apps")), AttemptLabels(desired, decide.Decision{}))
	if err := d.Create("sh.helm.release.v1.demo.v3", helmtest.Release(3, release.StatusPendingUpgrade)); err != nil {
		t.Fatal(err)
	}
	listed, err := d.Query(map[string]string{"name": "demo", "owner": "helm"})
	if err != nil || len(listed) != 1 {
		t.Fatal(listed, err)
	}
	for _, key := range driver.GetSystemLabels() {
		if value, ok := listed[0].Labels[key]; ok {
			t.Errorf("label %s=%s would be copied to the next revision", key, value)
		}
	}
	listed[0].Info.Status = release.StatusDeployed
	if err := d.Update("sh.helm.release.v1.demo.v3", listed[0]); err != nil {
		t.Fatal(err)
	}
	secret, err := clients.CoreV1().Secrets("apps").Get(t.Context(), "sh.helm.release.v1.demo.v3", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	record, ok := FromMetadata(&secret.ObjectMeta)
	if !ok || !record.Authentic() || len(record.Differences(desired)) > 0 || record.Status != "deployed" ||
		record.UID != desired.UID {
		t.Errorf("record %+v", record)
	}
	if saved := d.Newest(); saved == nil || saved.Version != 3 || saved.Info.Status != release.StatusDeployed ||
		!d.StorageChanged() {
		t.Errorf("saw %+v", saved)
	}
	d.Restart()
	if d.Newest() != nil || d.StorageChanged() {
		t.Error("Restart keeps saved records")
	}
}

func TestRecordingDriverUnreadable(t *testing.T) {
	t.Parallel()
	key := "sh.helm.release.v1.demo.v1"
	clients := fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: key, Namespace: "apps",
			Labels: map[string]string{"owner": "helm", "name": "demo"}},
		Data: map[string][]byte{"release": []byte("garbage")},
	})
	d := NewRecordingDriver(driver.NewSecrets(clients.CoreV1().Secrets("apps")), nil)
	if _, err := d.Get(key); err == nil || !strings.Contains(err.Error(), "cannot be decoded") {
		t.Errorf("Get: %v", err)
	}
	if _, err := d.Delete(key); err == nil || !strings.Contains(err.Error(), "cannot be decoded") {
		t.Errorf("Delete: %v", err)
	}
	if _, err := d.Delete("sh.helm.release.v1.demo.v9"); err != nil || d.StorageChanged() {
		t.Errorf("Delete of a missing record: %v", err)
	}
}

// TestHeldRecordsStay checks that neither updates nor deletions change a held record.
func TestHeldRecordsStay(t *testing.T) {
	t.Parallel()
	const key = "sh.helm.release.v1.demo.v1"
	d := NewRecordingDriver(driver.NewMemory(), AttemptLabels(helmtest.DesiredFor("apps", "demo", "a1", "v1"),
		decide.Decision{}))
	rls := helmtest.Release(1, release.StatusUninstalling)
	if err := d.Create(key, rls); err != nil {
		t.Fatal(err)
	}
	d.Hold()
	changed := *rls
	changed.Info = &release.Info{Status: release.StatusUninstalled}
	if err := d.Update(key, &changed); err != nil {
		t.Error(err)
	}
	if _, err := d.Delete(key); err != nil {
		t.Error(err)
	}
	if stored, err := d.Get(key); err != nil || stored.Info.Status != release.StatusUninstalling {
		t.Errorf("stored %+v, %v", stored, err)
	}
}

// TestFoundObjectsAreRecorded checks that only the record of a failed installation says that it found objects.
func TestFoundObjectsAreRecorded(t *testing.T) {
	t.Parallel()
	const key = "sh.helm.release.v1.demo.v1"
	for status, want := range map[release.Status]bool{release.StatusFailed: true, release.StatusDeployed: false} {
		clients := fake.NewClientset()
		made := NewRecordingDriver(driver.NewSecrets(clients.CoreV1().Secrets("apps")),
			AttemptLabels(helmtest.DesiredFor("apps", "demo", "a1", "v1"), decide.Decision{}))
		rls := helmtest.Release(1, release.StatusPendingInstall)
		if err := made.Create(key, rls); err != nil {
			t.Fatal(err)
		}
		made.NoteFound()
		rls.Info.Status = status
		if err := made.Update(key, rls); err != nil {
			t.Fatal(err)
		}
		secret, err := clients.CoreV1().Secrets("apps").Get(t.Context(), key, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if record, ok := FromMetadata(&secret.ObjectMeta); !ok || record.MayHaveWorked != want {
			t.Errorf("%s: %+v, want MayHaveWorked %t", status, record, want)
		}
	}
}

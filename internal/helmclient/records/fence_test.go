// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"encoding/json"
	"errors"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// change changes the Secret of Helm revision 1 as another program would.
func (b *bench) change(edit func(*corev1.Secret)) {
	b.t.Helper()
	secrets := b.kube.CoreV1().Secrets(b.namespace)
	secret, err := secrets.Get(b.t.Context(), NameOf("demo", 1), metav1.GetOptions{})
	if err == nil {
		edit(secret)
		_, err = secrets.Update(b.t.Context(), secret, metav1.UpdateOptions{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// recreate deletes the Secret of a Helm revision and creates it again, as an uninstallation and another installation
// would.
func (b *bench) recreate(revision int) {
	b.t.Helper()
	secrets, key := b.kube.CoreV1().Secrets(b.namespace), NameOf("demo", revision)
	secret, err := secrets.Get(b.t.Context(), key, metav1.GetOptions{})
	if err == nil {
		err = secrets.Delete(b.t.Context(), key, metav1.DeleteOptions{})
	}
	if err == nil {
		secret.UID, secret.ResourceVersion = "", ""
		_, err = secrets.Create(b.t.Context(), secret, metav1.CreateOptions{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestIntegrationRecordsOtherOwner checks that an action does not write a record after another manager adopted the
// record, or took it over after a move. Both change only labels. Labels of other programs do not matter.
func TestIntegrationRecordsOtherOwner(t *testing.T) {
	for label, stale := range map[string]bool{
		model.LabelOwner: true, model.LabelReleaseUID: true, model.LabelManagementCluster: true, "backup": false,
	} {
		t.Run(label, func(t *testing.T) {
			b := newBench(t)
			b.createRecords(release.StatusDeployed)
			store := b.newRecords()
			rls, err := store.Get(NameOf("demo", 1))
			if err != nil {
				t.Fatal(err)
			}
			b.change(func(secret *corev1.Secret) { secret.Labels[label] = "other" })
			rls.Info.Status = release.StatusUninstalling
			if err := store.Update(NameOf("demo", 1), rls); errors.Is(err, helmerr.ErrStale) != stale ||
				!stale && err != nil {
				t.Errorf("write: %v", err)
			}
			if _, err := store.Delete(NameOf("demo", 1)); errors.Is(err, helmerr.ErrStale) != stale || !stale && err != nil {
				t.Errorf("deletion: %v", err)
			}
		})
	}
}

// TestIntegrationRecordsDeletesOnlyItsOwn checks that an action does not delete a record that another manager
// re-created under the same key. It does not matter how the action knows the record.
func TestIntegrationRecordsDeletesOnlyItsOwn(t *testing.T) {
	for name, know := range map[string]func(*Store) error{
		"read": func(s *Store) error {
			_, err := s.Get(NameOf("demo", 1))
			return err
		},
		"listed": func(s *Store) error {
			_, err := s.History("demo")
			return err
		},
		"written": func(s *Store) error {
			list, err := s.Query(history())
			if err != nil {
				return err
			}
			list[0].Info.Status = release.StatusUninstalling
			return s.Update(NameOf("demo", 1), list[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.createRecords(release.StatusDeployed, release.StatusFailed)
			store := b.newRecords()
			if err := know(store); err != nil {
				t.Fatal(err)
			}
			b.recreate(1)
			if _, err := store.Delete(NameOf("demo", 1)); !errors.Is(err, helmerr.ErrStale) {
				t.Errorf("deletion of another record: %v", err)
			}
			again := b.newRecords()
			if err := know(again); err != nil {
				t.Fatal(err)
			}
			if _, err := again.Delete(NameOf("demo", 1)); err != nil {
				t.Errorf("deletion of the known record: %v", err)
			}
		})
	}
}

// TestIntegrationWithdrawnRecord stops an action between the creation of its record and the deletion of this record.
// The next manager may continue the action meanwhile, under the same record. This record must stay.
func TestIntegrationWithdrawnRecord(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(b *bench) error
		isOther   bool
	}{
		"unchanged": {meanwhile: func(*bench) error { return nil }},
		"continued": {meanwhile: func(b *bench) error {
			next := b.newRecords()
			rls, err := next.Get(NameOf("demo", 1))
			if err != nil {
				return err
			}
			return next.Replace(NameOf("demo", 1), rls)
		}, isOther: true},
		"re-created": {meanwhile: func(b *bench) error { b.recreate(1); return nil }, isOther: true},
		"labelled by another program": {meanwhile: func(b *bench) error {
			b.change(func(secret *corev1.Secret) { secret.Labels["policy"] = "checked" })
			return nil
		}},
		"adopted": {meanwhile: func(b *bench) error {
			b.change(func(secret *corev1.Secret) { secret.Labels[model.LabelReleaseUID] = "other" })
			return nil
		}, isOther: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			d := NewRecordingDriver(b.newRecords(), AttemptLabels(helmtest.Desired(), decide.Decision{}))
			refused := errors.New("refused")
			d.Created = func() error {
				if err := tc.meanwhile(b); err != nil {
					t.Error(err)
				}
				return refused
			}
			rls := helmtest.FullRelease()
			rls.Namespace, rls.Info.Status = b.namespace, release.StatusPendingInstall
			err := d.Create(NameOf("demo", 1), rls)
			if !errors.Is(err, refused) || errors.Is(err, helmerr.ErrStale) != tc.isOther {
				t.Errorf("the action ends with: %v", err)
			}
			if left := b.uids(); (len(left) == 1) != tc.isOther {
				t.Errorf("the records %v are left", left)
			}
		})
	}
}

// setTimes sets the labels with the times of a record's last write, in seconds. An empty time removes the label.
func (b *bench) setTimes(revision int, created, modified string) {
	b.t.Helper()
	labels := map[string]any{model.HelmLabelCreatedAt: nil, model.HelmLabelModifiedAt: nil}
	if created != "" {
		labels[model.HelmLabelCreatedAt] = created
	}
	if modified != "" {
		labels[model.HelmLabelModifiedAt] = modified
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err == nil {
		_, err = b.kube.CoreV1().Secrets(b.namespace).Patch(b.t.Context(), NameOf("demo", revision), types.MergePatchType,
			patch, metav1.PatchOptions{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// uids returns the UIDs of the records, by the names of the Secrets.
func (b *bench) uids() map[string]types.UID {
	b.t.Helper()
	list, err := b.kube.CoreV1().Secrets(b.namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	uids := map[string]types.UID{}
	for i := range list.Items {
		uids[list.Items[i].Name] = list.Items[i].UID
	}
	return uids
}

// TestIntegrationRecordsDeletesTogetherOnlyItsOwn deletes older records together right after another manager has
// uninstalled the release and installed it again. The new records have the same keys, and must stay.
func TestIntegrationRecordsDeletesTogetherOnlyItsOwn(t *testing.T) {
	const before, after = "1700000000", "1700000100"
	for name, tc := range map[string]struct {
		// created and modified are the times in the older records when they are listed.
		created, modified string
		// meanwhile happens right before the deletion. isOther means that the records belong to another manager then.
		meanwhile func(b *bench)
		isOther   bool
		// deletes is the number of deletions if the records are not of another manager.
		deletes int
	}{
		"usual history":   {modified: before, meanwhile: func(*bench) {}, deletes: 2},
		"never updated":   {created: before, meanwhile: func(*bench) {}, deletes: 4},
		"one was updated": {modified: before, meanwhile: func(b *bench) { b.setTimes(1, "", after) }, deletes: 3},
		"one is gone": {modified: before, meanwhile: func(b *bench) {
			if err := b.kube.CoreV1().Secrets(b.namespace).Delete(b.t.Context(), NameOf("demo", 1),
				metav1.DeleteOptions{}); err != nil {
				b.t.Fatal(err)
			}
		}, deletes: 3},
		"installed and upgraded again": {modified: before, isOther: true, meanwhile: func(b *bench) {
			for revision := range 3 {
				b.recreate(revision + 1)
				b.setTimes(revision+1, "", after)
			}
		}},
		"being installed again": {modified: before, isOther: true, meanwhile: func(b *bench) {
			b.recreate(1)
			b.setTimes(1, after, "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.createRecords(release.StatusSuperseded, release.StatusSuperseded, release.StatusFailed,
				release.StatusUninstalling)
			for revision := range 3 {
				b.setTimes(revision+1, tc.created, tc.modified)
			}
			store := b.newRecords()
			if _, err := store.History("demo"); err != nil {
				t.Fatal(err)
			}
			store.DeleteTogether(NameOf("demo", 4))
			for revision := range 3 {
				if _, err := store.Delete(NameOf("demo", revision+1)); err != nil {
					t.Fatal(err)
				}
			}
			listed := b.uids()
			tc.meanwhile(b)
			current := b.uids()
			b.cutter.Take()
			_, err := store.Delete(NameOf("demo", 4))
			requests, left := b.cutter.Take(), b.uids()
			if !tc.isOther {
				if err != nil || len(left) > 0 || len(requests) != tc.deletes {
					t.Errorf("%v; the records %v are left after %v", err, left, requests)
				}
				return
			}
			if !errors.Is(err, helmerr.ErrStale) {
				t.Errorf("deletion of the records of another manager: %v", err)
			}
			for key, uid := range current {
				if listed[key] != uid && left[key] != uid {
					t.Errorf("the new record %s was deleted", key)
				}
			}
			if _, ok := left[NameOf("demo", 4)]; !ok {
				t.Error("the last record was deleted although the action ended")
			}
		})
	}
}

// TestDeleteOwnRecord deletes a record that the same action created after it had deleted the former record.
func TestDeleteOwnRecord(t *testing.T) {
	b := newBench(t)
	b.createRecords(release.StatusDeployed)
	store := b.newRecords()
	list, err := store.Query(history())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"deletion", func() error { _, err := store.Delete(NameOf("demo", 1)); return err }},
		{"creation", func() error { return store.Create(NameOf("demo", 1), list[0]) }},
		{"deletion of the new record", func() error { _, err := store.Delete(NameOf("demo", 1)); return err }},
	} {
		if err := step.run(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	payloadregistry "github.com/helmop/cluster-api-addon-provider-helmop/internal/payload/registry"
)

// TestRecordRepositories checks where new records are stored, and which repositories may have records.
func TestRecordRepositories(t *testing.T) {
	t.Parallel()
	own := &addonsv1.RecordRegistry{URL: "oci://own/records"}
	for name, test := range map[string]struct {
		manager, former string
		spec            *addonsv1.RecordStorage
		outside         bool
		newURL          string
		known           []string
	}{
		"not configured": {},
		"of the manager": {manager: "oci://m/r", outside: true, newURL: "oci://m/r", known: []string{"oci://m/r"}},
		"empty": {manager: "oci://m/r", spec: &addonsv1.RecordStorage{}, outside: true, newURL: "oci://m/r",
			known: []string{"oci://m/r"}},
		"a former one of the manager": {former: "oci://f/r", known: []string{"oci://f/r"}},
		"of the HelmOp": {spec: &addonsv1.RecordStorage{Registry: own}, outside: true, newURL: own.URL,
			known: []string{own.URL}},
		"the HelmOp precedes the manager": {manager: "oci://m/r", spec: &addonsv1.RecordStorage{Registry: own}, outside: true,
			newURL: own.URL, known: []string{own.URL, "oci://m/r"}},
		"in the cluster despite the manager": {manager: "oci://m/r",
			spec:  &addonsv1.RecordStorage{Type: addonsv1.StorageTypeCluster},
			known: []string{"oci://m/r"}},
		"back in the cluster": {spec: &addonsv1.RecordStorage{Type: addonsv1.StorageTypeCluster, Registry: own},
			known: []string{own.URL}},
		"moved": {spec: &addonsv1.RecordStorage{Registry: own, FormerURLs: []string{"oci://a/r", "oci://b/r"}},
			outside: true, newURL: own.URL,
			known: []string{own.URL, "oci://a/r", "oci://b/r"}},
		"a registry without a repository": {spec: &addonsv1.RecordStorage{Type: addonsv1.StorageTypeRegistry}, outside: true},
		"the manager's by name": {manager: "oci://m/r",
			spec: &addonsv1.RecordStorage{Type: addonsv1.StorageTypeRegistry}, outside: true, newURL: "oci://m/r",
			known: []string{"oci://m/r"}},
	} {
		r := &Reconciler{records: RecordStorage{URL: test.manager,
			Access: func(context.Context) (oci.Access, error) { return oci.Access{}, nil }}}
		if test.former != "" {
			r.records.FormerURLs = []string{test.former}
		}
		options, outside := r.recordRepositories(test.spec, "default")
		newURL := ""
		if options.New != nil {
			newURL = options.New.URL
		}
		var known []string
		for _, repository := range options.Known {
			known = append(known, repository.URL)
		}
		if outside != test.outside || newURL != test.newURL || !slices.Equal(known, test.known) {
			t.Errorf("%s: outside %t, new %q, known %q", name, outside, newURL, known)
		}
	}
}

// TestStorageOfHelmOp checks that the storage of the current HelmOp counts or, if the HelmOp does not exist, the
// storage of the release.
func TestStorageOfHelmOp(t *testing.T) {
	t.Parallel()
	r := &Reconciler{records: RecordStorage{Registries: payloadregistry.New(nil)}}
	release := &addonsv1.HelmOpRelease{Spec: addonsv1.HelmOpReleaseSpec{
		ClusterRef: addonsv1.ClusterReference{Name: "one"},
		Storage:    &addonsv1.RecordStorage{Registry: &addonsv1.RecordRegistry{URL: "oci://assigned/records"}},
	}}
	scope := &releaseScope{release: release}
	if !r.storage(scope).Outside {
		t.Error("without a HelmOp, the storage of the release does not count")
	}
	scope.helmOp = &addonsv1.HelmOp{}
	if r.storage(scope).Outside {
		t.Error("the storage of the release counts, and not that of its HelmOp")
	}
	if got := (&Reconciler{}).storage(scope); got.Store != nil || got.Outside {
		t.Errorf("without registries: %+v", got)
	}
}

// TestRecordsLeftEventIsRecordedOnce checks that a HelmOp has one Event about records that could not be deleted,
// whatever the number of its releases.
func TestRecordsLeftEventIsRecordedOnce(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{recorder: recorder, recordsLeft: newRecordsLeft()}
	record := func(uid, release string, left int) {
		r.reportRecordsLeft(&releaseScope{
			release: &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Name: release}},
			helmOp:  &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}},
		}, helmclient.Result{PayloadsLeft: left, PayloadsLeftReason: "405"})
	}
	record("a", "one", 0)
	if len(recorder.Events) != 0 {
		t.Error("an Event without records")
	}
	record("a", "one", 1)
	record("a", "two", 3)
	record("b", "one", 1)
	if len(recorder.Events) != 2 {
		t.Errorf("%d Events", len(recorder.Events))
	}
}

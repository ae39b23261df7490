// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstorage

import (
	"context"
	"slices"
	"testing"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
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
		o := &Options{URL: test.manager, Access: func(context.Context) (oci.Access, error) { return oci.Access{}, nil }}
		if test.former != "" {
			o.FormerURLs = []string{test.former}
		}
		options, outside := o.repositories(test.spec, "default", nil)
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

// TestStorageOfHelmOp checks that the storage of the current HelmOp has precedence over the storage of the release. The
// storage of the release is used if the HelmOp does not exist.
func TestStorageOfHelmOp(t *testing.T) {
	t.Parallel()
	o := &Options{Registries: payloadregistry.New(nil)}
	release := &addonsv1.HelmOpRelease{Spec: addonsv1.HelmOpReleaseSpec{
		ClusterRef: addonsv1.ClusterReference{Name: "one"},
		Storage:    &addonsv1.RecordStorage{Registry: &addonsv1.RecordRegistry{URL: "oci://assigned/records"}},
	}}
	if !o.Of(release, nil, nil).Outside {
		t.Error("without a HelmOp, the storage of the release does not count")
	}
	if o.Of(release, &addonsv1.HelmOp{}, nil).Outside {
		t.Error("the storage of the release counts, and not that of its HelmOp")
	}
	if got := (&Options{}).Of(release, nil, nil); got.Store != nil || got.Outside {
		t.Errorf("without registries: %+v", got)
	}
}

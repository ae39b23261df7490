// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"net/http"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

// emptyLists makes the registry return empty lists.
func (r *fakeRegistry) emptyLists() {
	r.setIntercept(func(w http.ResponseWriter, req *http.Request) bool {
		if kind := transport.KindOf(req); kind != transport.RequestTags && kind != transport.RequestReferrers {
			return false
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		_, _ = w.Write([]byte(`{"manifests":[],"tags":null}`))
		return true
	})
}

func TestEmptyMirrorListFallsBackToRegistry(t *testing.T) {
	t.Parallel()
	r, mirror, dgst := mirrorPair(t)
	mirror.emptyLists()
	set, _ := withRegistries(t, mirrored(r.host(), mirror.host()))
	c := newClient(t, set)
	if artifact, err := c.Resolve(t.Context(), r.source(Reference{Semver: "*"})); err != nil || artifact.Tag != "1.0.0" {
		t.Errorf("artifact = %+v, %v", artifact, err)
	}
	r.serveReferrers(3, 2, nil)
	list, _, err := c.Referrers(t.Context(), r.url(), dgst, r.access(), 10)
	if err != nil || len(list) != 3 {
		t.Errorf("referrers = %v, %v; want the registry's 3", list, err)
	}
	// A list of the mirror with entries is read to its last page.
	r.emptyLists()
	mirror.serveReferrers(3, 2, nil)
	list, _, err = c.Referrers(t.Context(), r.url(), dgst, r.access(), 10)
	if err != nil || len(list) != 3 {
		t.Errorf("referrers = %v, %v; want the mirror's 3", list, err)
	}
}

// TestEmptyMirrorListIsUsedWithoutOtherAnswer checks that an empty list of a mirror is the result if no other host
// answers.
func TestEmptyMirrorListIsUsedWithoutOtherAnswer(t *testing.T) {
	t.Parallel()
	mirror := newRegistry(t)
	dgst := mirror.push("1.0.0", "1.0.0", []byte("layer"))
	mirror.emptyLists()
	gap := closedAddress(t)
	set, _ := withRegistries(t, mirrored(gap, mirror.host()))
	c, url := newClient(t, set), scheme+gap+"/"+testRepo
	if list, more, err := c.Referrers(t.Context(), url, dgst, mirror.access(), 10); err != nil || len(list) > 0 || more {
		t.Errorf("referrers = %v, %t, %v; want none", list, more, err)
	}
	_, err := c.Resolve(t.Context(), Source{URL: url, Ref: Reference{Semver: "*"}, Access: mirror.access()})
	if !errors.Is(err, ocierr.ErrNoMatchingTag) {
		t.Errorf("error = %v, want ErrNoMatchingTag", err)
	}
}

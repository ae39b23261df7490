// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package knownobjects

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// versionOf returns the versions of one object.
func versionOf(uid types.UID, number int64) Versions {
	versions := Versions{}
	versions.Add(inventory.Ref{Kind: "ConfigMap", Name: "a"}, model.ObjectVersion{UID: uid, Number: number})
	return versions
}

// TestLastVersionWins checks that the version that was observed last replaces the previous version, whatever its number
// is.
func TestLastVersionWins(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		uid     types.UID
		number  int64
		ignored bool
	}{
		"newer":             {uid: "u", number: 8},
		"other UID, lower":  {uid: "other", number: 3},
		"same UID, lower":   {uid: "u", number: 3},
		"without a UID":     {number: 9, ignored: true},
		"without a version": {uid: "u", ignored: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := model.ObjectVersion{UID: test.uid, Number: test.number}
			if test.ignored {
				want = model.ObjectVersion{UID: "u", Number: 7}
			}
			ref := inventory.Ref{Kind: "ConfigMap", Name: "a"}
			versions := versionOf("u", 7)
			versions.Add(ref, model.ObjectVersion{UID: test.uid, Number: test.number})
			if got := versions[versionKey(ref)].ObjectVersion; got != want {
				t.Errorf("the version is %v, want %v", got, want)
			}
			cache, release := NewCache(1<<20), objectinfo.ReleaseName{Name: "r", Namespace: "ns"}
			_, now := cache.Get("c", release)
			cache.Add("c", release, versionOf("u", 7), now)
			cache.Add("c", release, versionOf(test.uid, test.number), now)
			if known, _ := cache.Get("c", release); known[versionKey(ref)].ObjectVersion != want {
				t.Errorf("the cached version is %v, want %v", known, want)
			}
		})
	}
}

// TestVersionCacheForgets checks that a forgotten cluster has no versions, even if an action of it ends later, that
// actions of other clusters still add theirs, and that removed releases have none.
func TestVersionCacheForgets(t *testing.T) {
	t.Parallel()
	cache, release := NewCache(1<<20), objectinfo.ReleaseName{Name: "r", Namespace: "ns"}
	_, begin := cache.Get("c", release)
	cache.Add("c", release, versionOf("u", 7), begin)
	_, ofOther := cache.Get("other", release)
	_, ofNew := cache.Get("new", release)
	cache.Forget("c")
	cache.Forget("new")
	cache.Add("c", release, versionOf("u", 8), begin)
	cache.Add("new", release, versionOf("u", 8), ofNew)
	cache.Add("other", release, versionOf("u", 8), ofOther)
	if known, _ := cache.Get("new", release); len(known) > 0 {
		t.Errorf("the forgotten cluster without versions has %v", known)
	}
	if known, _ := cache.Get("c", release); len(known) > 0 {
		t.Errorf("the forgotten cluster has %v", known)
	}
	if known, _ := cache.Get("other", release); len(known) != 1 {
		t.Errorf("another cluster has %v", known)
	}
	_, begin = cache.Get("c", release)
	cache.Add("c", release, versionOf("u", 9), begin)
	if known, _ := cache.Get("c", release); len(known) != 1 {
		t.Errorf("the cluster of the same name has %v", known)
	}
	cache.Remove("c", release)
	if known, _ := cache.Get("c", release); len(known) > 0 {
		t.Errorf("the removed release has %v", known)
	}
}

// TestVersionCacheIsBounded checks that a full cache drops the releases that were used least recently.
func TestVersionCacheIsBounded(t *testing.T) {
	t.Parallel()
	cache := NewCache(2 * (versionBytes + bytelru.Overhead + bytelru.GroupOverhead))
	for i := range 3 {
		release := objectinfo.ReleaseName{Name: fmt.Sprint(i), Namespace: "ns"}
		_, now := cache.Get("c", release)
		cache.Add("c", release, versionOf("u", 7), now)
		cache.Get("c", objectinfo.ReleaseName{Name: "0", Namespace: "ns"})
	}
	for i, want := range []bool{true, false, true} {
		known, _ := cache.Get("c", objectinfo.ReleaseName{Name: fmt.Sprint(i), Namespace: "ns"})
		if (len(known) > 0) != want {
			t.Errorf("release %d has %v", i, known)
		}
	}
}

// TestWriteStaysKnown checks that the content of a write stays known when the version changes.
func TestWriteStaysKnown(t *testing.T) {
	t.Parallel()
	ref := inventory.Ref{Kind: "ConfigMap", Name: "a"}
	cache, release := NewCache(1<<20), objectinfo.ReleaseName{Name: "r", Namespace: "ns"}
	known := func() knownObject {
		versions, _ := cache.Get("c", release)
		return versions[versionKey(ref)]
	}
	_, now := cache.Get("c", release)
	wrote := written{content: 5, generation: 2}
	cache.Add("c", release, Versions{versionKey(ref): {wrote: wrote}}, now)
	if got := known(); got.Number != 0 || got.wrote != wrote {
		t.Errorf("after a write without a version, %+v is known", got)
	}
	cache.Add("c", release, versionOf("u", 7), now)
	if got := known(); got.Number != 7 || got.wrote != wrote {
		t.Errorf("after an event, %+v is known", got)
	}
	wrote = written{content: 6, generation: 3}
	cache.Add("c", release, Versions{versionKey(ref): {wrote: wrote}}, now)
	if got := known(); got.Number != 7 || got.wrote != wrote {
		t.Errorf("after another write, %+v is known", got)
	}
	cache.Add("c", objectinfo.ReleaseName{Name: "other"}, Versions{}, now)
	if versions, _ := cache.Get("c", objectinfo.ReleaseName{Name: "other"}); versions != nil {
		t.Errorf("a release without objects has %v", versions)
	}
}

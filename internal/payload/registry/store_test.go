// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/parallel"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

const cluster = "default/one"

var demo = payload.Name{Namespace: "apps", Release: "demo", Revision: 3, ID: strings.Repeat("ab", 16)}

// bench is a real registry and the store of a release in it.
type bench struct {
	t        *testing.T
	registry *registry.Registry
	access   oci.Access
	all      *Registries
	clock    time.Time
}

// testsAtOnce is the number of tests that run at the same time, unless -parallel sets another number. The tests wait
// for registries that do not answer.
const testsAtOnce = 16

func TestMain(m *testing.M) {
	parallel.AtLeast(testsAtOnce)
	os.Exit(m.Run())
}

func newBench(t *testing.T, opts registry.Options) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real registry")
	}
	programs, err := binaries.Ensure(t.Context(), binaries.Options{})
	check(t, err)
	opts.Dir, opts.Binaries = t.TempDir(), programs
	r, err := registry.Start(t.Context(), opts)
	check(t, err)
	t.Cleanup(func() { check(t, r.Stop(context.Background())) })
	client, err := oci.New(oci.Options{Dir: t.TempDir(), Timeout: patience})
	check(t, err)
	t.Cleanup(client.Close)
	config, err := r.DockerConfigJSON()
	check(t, err)
	b := &bench{t: t, registry: r, access: oci.Access{CA: r.CA(), DockerConfigs: [][]byte{config}}, all: New(client),
		clock: time.Now()}
	b.all.now = func() time.Time { return b.clock }
	return b
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) repository(path string) Repository {
	return Repository{URL: "oci://" + b.registry.Host() + "/" + path,
		Access: func(context.Context) (oci.Access, error) { return b.access, nil }}
}

// store returns the store for a release in a cluster, with new payloads in a repository.
func (b *bench) store(inCluster, path string, known ...Repository) payload.Store {
	repository := b.repository(path)
	return b.all.Store(Options{Cluster: inCluster, New: &repository, Known: known})
}

func random(t *testing.T, size int) []byte {
	t.Helper()
	data := make([]byte, size)
	_, err := rand.Read(data)
	check(t, err)
	return data
}

// TestStore puts, gets and deletes a payload, and checks the requests and the content of the registry.
func TestStore(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]registry.Options{
		"Distribution": {}, "Distribution with tokens": {Auth: registry.AuthToken},
		"another": {Implementation: registry.InProcess},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, opts)
			store := b.store(cluster, "records/a")
			data := random(t, 3<<20)
			check(t, store.Prepare(t.Context()))
			check(t, store.Prepare(t.Context()))
			b.registry.ResetCounts()
			place, err := store.Put(t.Context(), demo, data)
			check(t, err)
			if counts := b.registry.Counts(); counts.Writes != 3 || counts.Total()-counts.Refused != 3 {
				t.Errorf("putting costs %+v", counts)
			}
			manifest, err := b.registry.Manifest(t.Context(), "records/a", "one.demo.v3."+demo.ID)
			check(t, err)
			if manifest.ArtifactType != ArtifactType || len(manifest.Layers) != 1 ||
				manifest.Annotations[ClusterAnnotation] != cluster ||
				manifest.Annotations[ReleaseAnnotation] != "apps/demo" || manifest.Annotations[RevisionAnnotation] != "3" {
				t.Errorf("%+v", manifest)
			}
			b.registry.ResetCounts()
			got, err := store.Get(t.Context(), place)
			check(t, err)
			if counts := b.registry.Counts(); counts.BlobGets != 1 || counts.Total()-counts.Refused != 1 {
				t.Errorf("getting costs %+v", counts)
			}
			if !bytes.Equal(got, data) || place.Size != int64(len(data)) {
				t.Error("it is something else")
			}
			check(t, store.Delete(t.Context(), place, demo))
			if _, err := b.registry.Manifest(t.Context(), "records/a", place.Manifest); err == nil {
				t.Error("the manifest is still there")
			}
			check(t, store.Delete(t.Context(), place, demo))
		})
	}
}

// TestStoreRefusesForeignPlaces checks that a workload cluster cannot make the store read or delete content of another
// release.
func TestStoreRefusesForeignPlaces(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry.Options{})
	own, other := b.store(cluster, "records/a", b.repository("records/b")), b.store("default/other", "records/b")
	for _, store := range []payload.Store{own, other} {
		check(t, store.Prepare(t.Context()))
	}
	mine, err := own.Put(t.Context(), demo, []byte("mine"))
	check(t, err)
	theirs, err := other.Put(t.Context(), demo, []byte("theirs"))
	check(t, err)
	chart, err := b.registry.PushChart(t.Context(), "records/b", "1.0.0", registry.ChartFiles(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: demo\nversion: 1.0.0\n",
	}))
	check(t, err)
	elsewhere := mine
	elsewhere.URL = "oci://" + b.registry.Host() + "/records/c"
	b.registry.ResetCounts()
	if _, err := own.Get(t.Context(), elsewhere); !errors.Is(err, payload.ErrNotAllowed) {
		t.Errorf("reading in another repository: %v", err)
	}
	if err := own.Delete(t.Context(), elsewhere, demo); !errors.Is(err, payload.ErrNotAllowed) {
		t.Errorf("deleting in another repository: %v", err)
	}
	if counts := b.registry.Counts(); counts.Total() != 0 {
		t.Errorf("the registry was asked: %+v", counts)
	}
	isChart := payload.Place{URL: theirs.URL, Manifest: chart.Digest.String()}
	renamed := demo
	renamed.Release = "other"
	for name, test := range map[string]struct {
		place payload.Place
		name  payload.Name
	}{"another cluster's": {theirs, demo}, "a chart": {isChart, demo}, "another release's": {mine, renamed}} {
		if err := own.Delete(t.Context(), test.place, test.name); !errors.Is(err, payload.ErrNotAllowed) {
			t.Errorf("deleting %s: %v", name, err)
		}
	}
	for _, digest := range []string{theirs.Manifest, chart.Digest.String()} {
		if _, err := b.registry.Manifest(t.Context(), "records/b", digest); err != nil {
			t.Errorf("%s: %v", digest, err)
		}
	}
	for name, place := range map[string]payload.Place{
		"no digest": {URL: mine.URL}, "odd digest": {URL: mine.URL, Digest: "sha256:../.."},
		"huge":         {URL: mine.URL, Digest: mine.Digest, Size: 1 << 60},
		"negative":     {URL: mine.URL, Digest: mine.Digest, Size: -1},
		"another size": {URL: mine.URL, Digest: mine.Digest, Size: 3},
	} {
		if _, err := own.Get(t.Context(), place); !errors.Is(err, payload.ErrMissing) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStorePrepareChecksRights checks that Prepare verifies the current permissions, even in a repository that was
// written before: otherwise an action could begin that cannot be recorded.
func TestStorePrepareChecksRights(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry.Options{Auth: registry.AuthToken})
	store := b.store(cluster, "records/a")
	check(t, store.Prepare(t.Context()))
	place, err := store.Put(t.Context(), demo, []byte("data"))
	check(t, err)
	password, err := b.registry.AddReader("reader")
	check(t, err)
	reader, err := registry.DockerConfig(b.registry.Host(), "reader", password)
	check(t, err)
	b.access.DockerConfigs = [][]byte{reader}
	_, err = store.Get(t.Context(), place)
	check(t, err)
	if err := store.Prepare(t.Context()); !errors.Is(err, ocierr.ErrUnauthorized) ||
		!strings.Contains(err.Error(), "may push") {
		t.Errorf("who can only pull prepares: %v", err)
	}
}

// TestStoreRecordsRefusedDeletion checks that a user without the permission to delete sends one request, and another
// one after an hour.
func TestStoreRecordsRefusedDeletion(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int{"not permitted": http.StatusForbidden,
		"not supported": http.StatusMethodNotAllowed, "not authorized": http.StatusUnauthorized} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, registry.Options{})
			store := b.store(cluster, "records/a")
			check(t, store.Prepare(t.Context()))
			place, err := store.Put(t.Context(), demo, []byte("data"))
			check(t, err)
			end, err := b.registry.Fail(registry.Fault{Mode: registry.Status, Code: code, Match: func(r registry.Request) bool {
				return r.Method == http.MethodDelete
			}})
			check(t, err)
			if err := store.Delete(t.Context(), place, demo); !errors.Is(err, payload.ErrKept) {
				t.Errorf("%v", err)
			}
			b.registry.ResetCounts()
			for range 3 {
				if err := store.Delete(t.Context(), place, demo); !errors.Is(err, payload.ErrKept) {
					t.Errorf("%v", err)
				}
			}
			if counts := b.registry.Counts(); counts.Total() != 0 {
				t.Errorf("the registry was asked: %+v", counts)
			}
			end()
			b.clock = b.clock.Add(refusalTTL + time.Second)
			check(t, store.Delete(t.Context(), place, demo))
		})
	}
}

// TestStoreReportsDamagedPayloads checks that a payload that differs from the stored content counts as missing.
func TestStoreReportsDamagedPayloads(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry.Options{})
	store := b.store(cluster, "records/a")
	check(t, store.Prepare(t.Context()))
	place, err := store.Put(t.Context(), demo, random(t, 64<<10))
	check(t, err)
	// A response that was interrupted may be complete the next time.
	for mode, want := range map[registry.Mode]error{
		registry.Corrupt: payload.ErrMissing, registry.Truncate: ocierr.ErrUnreachable, registry.Cut: ocierr.ErrUnreachable,
	} {
		end, err := b.registry.Fail(registry.Fault{Mode: mode, Match: registry.In("records/a", registry.BlobGet)})
		check(t, err)
		if _, err := store.Get(t.Context(), place); !errors.Is(err, want) ||
			errors.Is(err, payload.ErrMissing) != errors.Is(want, payload.ErrMissing) {
			t.Errorf("mode %d: %v", mode, err)
		}
		end()
	}
	gone := place
	gone.Digest = "sha256:" + strings.Repeat("0", 64)
	if _, err := store.Get(t.Context(), gone); !errors.Is(err, payload.ErrMissing) {
		t.Errorf("gone: %v", err)
	}
}

// TestStoreOnUnknownRepository checks that a payload does not count as missing or deleted if the registry hides the
// repository from the user.
func TestStoreOnUnknownRepository(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry.Options{})
	store := b.store(cluster, "records/a")
	check(t, store.Prepare(t.Context()))
	place, err := store.Put(t.Context(), demo, random(t, 64<<10))
	check(t, err)
	for code, want := range map[string]error{
		"NAME_UNKNOWN": ocierr.ErrNoRepository, "UNAUTHORIZED": ocierr.ErrUnauthorized, "DENIED": ocierr.ErrUnauthorized,
		"BLOB_UNKNOWN": payload.ErrMissing,
	} {
		end, err := b.registry.Fail(registry.Fault{
			Mode: registry.Status, Code: http.StatusNotFound, Body: []byte(`{"errors":[{"code":"` + code + `"}]}`),
			Match: func(r registry.Request) bool { return r.Method == http.MethodGet },
		})
		check(t, err)
		if _, err := store.Get(t.Context(), place); !errors.Is(err, want) ||
			errors.Is(err, payload.ErrMissing) != (code == "BLOB_UNKNOWN") {
			t.Errorf("get, %s: %v", code, err)
		}
		if err := store.Delete(t.Context(), place, demo); (err == nil) != (code == "BLOB_UNKNOWN") {
			t.Errorf("delete, %s: %v", code, err)
		}
		end()
	}
	check(t, store.Delete(t.Context(), place, demo))
	if _, err := b.registry.Manifest(t.Context(), "records/a", place.Manifest); err == nil {
		t.Error("the manifest is still there")
	}
}

// TestStoreWithoutRepository checks the error if no registry is configured, or if its credentials cannot be read.
func TestStoreWithoutRepository(t *testing.T) {
	t.Parallel()
	all := New(nil)
	store := all.Store(Options{Cluster: cluster})
	if err := store.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "spec.storage.registry") {
		t.Errorf("%v", err)
	}
	if _, err := store.Put(t.Context(), demo, nil); err == nil {
		t.Error("no error")
	}
	unreadable := errors.New("Secret default/gone: not found")
	broken := Repository{URL: "oci://r/a",
		Access: func(context.Context) (oci.Access, error) { return oci.Access{}, unreadable }}
	store = all.Store(Options{Cluster: cluster, New: &broken})
	place := payload.Place{URL: broken.URL}
	_, putErr := store.Put(t.Context(), demo, nil)
	_, getErr := store.Get(t.Context(), place)
	for call, err := range map[string]error{
		"prepare": store.Prepare(t.Context()), "put": putErr, "get": getErr, "delete": store.Delete(t.Context(), place, demo),
	} {
		if !errors.Is(err, unreadable) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestTags checks that tags are valid, and differ for different payloads.
func TestTags(t *testing.T) {
	t.Parallel()
	long := payload.Name{Release: strings.Repeat("r", 53), Revision: 1 << 31, ID: demo.ID}
	for _, tag := range []string{tagOf(cluster, demo), tagOf("ns/"+strings.Repeat("c", 63), long)} {
		source := oci.Source{URL: "oci://r/a", Ref: oci.Reference{Tag: tag}}
		if err := source.Validate(); err != nil || strings.HasPrefix(tag, "sha256-") {
			t.Errorf("%q (%d): %v", tag, len(tag), err)
		}
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
)

// TestUnnamed checks which payloads an action deletes.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// own holds the IDs of the action's payloads; the prefix "-" means that the payload was deleted before.
		own   []string
		named map[string]string
		want  []string
	}{
		"of a record that was written":         {[]string{"a"}, map[string]string{"v1": "a"}, nil},
		"put, and the record was refused":      {[]string{"a"}, map[string]string{"v1": "b"}, []string{"a"}},
		"of the only record, deleted":          {[]string{"a"}, map[string]string{"v1": ""}, []string{"a"}},
		"of one of two that name it, deleted":  {[]string{"a"}, map[string]string{"v1": "", "v3": "a"}, nil},
		"of both that named it, deleted":       {[]string{"a"}, map[string]string{"v1": "", "v3": ""}, []string{"a"}},
		"of a record that was replaced":        {[]string{"a", "b"}, map[string]string{"v1": "b"}, []string{"a"}},
		"replaced, and a copy names the first": {[]string{"a", "b"}, map[string]string{"v1": "b", "v3": "a"}, nil},
		"of two records, both deleted":         {[]string{"a", "b"}, map[string]string{"v1": ""}, []string{"a", "b"}},
		"deleted before":                       {[]string{"-a"}, map[string]string{"v1": ""}, nil},
		"of other actions":                     {nil, map[string]string{"v1": "", "v2": "b"}, nil},
	} {
		own := map[string]*splitRecord{}
		for _, id := range test.own {
			own[strings.TrimPrefix(id, "-")] = &splitRecord{pointer: pointer{ID: id}}
			if strings.HasPrefix(id, "-") {
				own[strings.TrimPrefix(id, "-")] = nil
			}
		}
		var got []string
		for _, record := range unnamed(own, test.named) {
			got = append(got, record.ID)
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestPayloadID checks that the ID of a payload is the same for the same content in an action, and differs between
// contents and between actions. So a reader of an ID cannot check a guess of the content, and no action deletes a
// payload that another action is about to name.
func TestPayloadID(t *testing.T) {
	t.Parallel()
	one, other := newSplitRecords(), newSplitRecords()
	id := one.payloadID(digestOf([]byte("content")))
	if !payloadID.MatchString(id) || id != one.payloadID(digestOf([]byte("content"))) {
		t.Errorf("%q is not the ID of the same content", id)
	}
	for name, differs := range map[string]string{
		"another content": one.payloadID(digestOf([]byte("other content"))),
		"another action":  other.payloadID(digestOf([]byte("content"))),
	} {
		if differs == id {
			t.Errorf("%s has the same ID", name)
		}
	}
}

// countingStore is a store that holds payloads in memory and counts puts.
type countingStore struct {
	kept map[string][]byte
	puts int
}

func (c *countingStore) Prepare(context.Context) error { return nil }

func (c *countingStore) Put(_ context.Context, name payload.Name, data []byte) (payload.Place, error) {
	c.puts++
	c.kept[name.ID] = data
	return payload.Place{URL: "oci://store.test/records", Digest: name.ID, Size: int64(len(data))}, nil
}

func (c *countingStore) Get(_ context.Context, place payload.Place) ([]byte, error) {
	return c.kept[place.Digest], nil
}

func (c *countingStore) Delete(_ context.Context, place payload.Place, _ payload.Name) error {
	delete(c.kept, place.Digest)
	return nil
}

// loseRecords drops requests that create Secrets, or only the responses to these requests.
func (b *bench) loseRecords(carryOut bool) {
	b.config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
		return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
			switch {
			case req.Method != http.MethodPost:
				return base.RoundTrip(req)
			case !carryOut:
				return nil, helmtest.ErrCut
			}
			answer, err := base.RoundTrip(req)
			if err != nil {
				return nil, err
			}
			return nil, errors.Join(helmtest.ErrCut, answer.Body.Close())
		})
	}
}

// TestIntegrationPayloadsAfterCreation checks which payloads a store holds after an attempt to create a record. They
// are the payload of an existing record, and the payload of a write without a response, because the cluster may still
// carry out that write.
func TestIntegrationPayloadsAfterCreation(t *testing.T) {
	unready := errors.New("the namespace is missing")
	occupied := func(b *bench) { b.createRecords(release.StatusDeployed) }
	for name, test := range map[string]struct {
		prepare func(*bench)
		// isUnready makes the first attempt fail before the request.
		isUnready bool
		wantErr   error
		wantKept  int
	}{
		"created":               {wantKept: 1},
		"created at the second": {isUnready: true, wantKept: 1},
		"refused":               {prepare: occupied, wantErr: driver.ErrReleaseExists},
		"request lost":          {prepare: func(b *bench) { b.loseRecords(false) }, wantErr: helmtest.ErrCut, wantKept: 1},
		"answer lost":           {prepare: func(b *bench) { b.loseRecords(true) }, wantKept: 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if test.prepare != nil {
				test.prepare(b)
			}
			store := &countingStore{kept: map[string][]byte{}}
			b.storage = model.Storage{Store: store, Outside: true}
			key, rls := NameOf("demo", 1), helmtest.FullRelease()
			rls.Namespace, rls.Version = b.namespace, 1
			held := b.newRecords()
			if test.isUnready {
				held.beforeCreate = func() error { return unready }
				if err := held.Create(key, rls); !errors.Is(err, unready) {
					t.Fatal(err)
				}
				held.beforeCreate = func() error { return nil }
			}
			if err := held.Create(key, rls); !errors.Is(err, test.wantErr) {
				t.Errorf("created: %v", err)
			}
			held.Finish("demo", time.Now(), false)
			if store.puts != 1 || len(store.kept) != test.wantKept {
				t.Errorf("%d payloads were put, %d are kept", store.puts, len(store.kept))
			}
			if test.wantErr != nil {
				return
			}
			if read, err := b.newRecords().Get(key); err != nil || read.Manifest != rls.Manifest {
				t.Errorf("read: %v", err)
			}
		})
	}
}

// TestUndeletableRecordsAreReported checks that Finish reports the old records that the cluster does not delete.
// Without a report, the history would grow until HelmOp can no longer read it.
func TestUndeletableRecordsAreReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ code, left int }{
		"refused":  {http.StatusForbidden, 2},
		"gone":     {http.StatusNotFound, 0},
		"replaced": {http.StatusConflict, 0},
		"deleted":  {http.StatusOK, 0},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(test.code)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status: metav1.StatusFailure, Code: int32(test.code),
				Reason:  map[int]metav1.StatusReason{403: "Forbidden", 404: "NotFound", 409: "Conflict"}[test.code],
				Message: "the webhook keeps Secrets"})
		}))
		t.Cleanup(server.Close)
		kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		store := NewStore(t.Context(), StoreOptions{Client: kube.CoreV1().RESTClient(), Namespace: "apps"})
		store.KeepOldRecords()
		for revision := range 2 {
			if _, err := store.Delete(NameOf("demo", revision+1)); err != nil {
				t.Fatal(err)
			}
		}
		store.written(NameOf("demo", 3), nil, nil)
		store.Finish("demo", time.Now(), false)
		left, why := store.LeftBehind()
		if left != test.left || left > 0 != strings.Contains(why, "the webhook keeps Secrets") {
			t.Errorf("%s: %d records are left: %q", name, left, why)
		}
	}
}

// TestIntegrationPayloadOfDeletedRecord drops the response to the deletion of a record. The second attempt finds no
// record, and deletes the payload nevertheless.
func TestIntegrationPayloadOfDeletedRecord(t *testing.T) {
	b := newBench(t)
	store := &countingStore{kept: map[string][]byte{}}
	b.storage = model.Storage{Store: store, Outside: true}
	key, rls := NameOf("demo", 1), helmtest.FullRelease()
	rls.Namespace, rls.Version = b.namespace, 1
	if err := b.newRecords().Create(key, rls); err != nil || len(store.kept) != 1 {
		t.Fatalf("%d payloads are kept, err = %v", len(store.kept), err)
	}
	deletions := 0
	b.config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
		return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
			answer, err := base.RoundTrip(req)
			if req.Method != http.MethodDelete || err != nil {
				return answer, err
			}
			if deletions++; deletions == 1 {
				return nil, errors.Join(io.ErrUnexpectedEOF, answer.Body.Close())
			}
			return answer, nil
		})
	}
	held := b.newRecords()
	if _, err := held.Get(key); err != nil {
		t.Fatal(err)
	}
	if _, err := held.Delete(key); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		t.Fatal(err)
	}
	held.Finish("demo", time.Now(), true)
	if deletions != 2 || len(store.kept) != 0 {
		t.Errorf("%d deletions were sent, %d payloads are kept", deletions, len(store.kept))
	}
}

// TestIntegrationStatusUpdateKeepsPointer checks that a split record stays split when an action saves only its status.
// The record has the label of split records, or lacks it, because Helm before 3.13 drops the label.
func TestIntegrationStatusUpdateKeepsPointer(t *testing.T) {
	for name, labelled := range map[string]bool{"labelled": true, "without the label": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.storage.SplitAll = true
			b.createRecords(release.StatusDeployed, release.StatusFailed)
			secrets, key := b.kube.CoreV1().Secrets(b.namespace), NameOf("demo", 1)
			before, err := secrets.Get(t.Context(), key, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if !labelled {
				delete(before.Labels, model.LabelPayload)
				if _, err := secrets.Update(t.Context(), before, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			held := b.newRecords()
			list, err := held.Query(history())
			if err != nil || len(list) != 2 || list[0].Chart != nil {
				t.Fatalf("%+v, %v", list, err)
			}
			list[0].Info.Status = release.StatusSuperseded
			if err := held.Update(key, list[0]); err != nil {
				t.Fatal(err)
			}
			held.Finish("demo", time.Now().Add(2*ChunkGrace), false)
			secret, small, to, err := b.newRecords().readPointer(key)
			if err != nil || to == nil || small.Info.Status != release.StatusSuperseded ||
				secret.Labels["status"] != "superseded" {
				t.Fatalf("%+v, %+v, %v", small, to, err)
			}
			if read, err := b.newRecords().Get(key); err != nil || read.Manifest == "" {
				t.Errorf("read: %v", err)
			}
		})
	}
}

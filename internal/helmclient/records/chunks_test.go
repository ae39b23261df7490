// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// lyingRecords returns the store of records of a cluster that returns the same Secret for each request, with the given
// part.
func lyingRecords(t *testing.T, part []byte) *Store {
	t.Helper()
	answer := []byte(`{"kind":"Secret","apiVersion":"v1","data":{"payload":"` + base64.StdEncoding.EncodeToString(part) +
		`"}}`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// The client may close the connection early.
		_, _ = w.Write(answer)
	}))
	t.Cleanup(server.Close)
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return &Store{client: kube.CoreV1().RESTClient(), namespace: "apps"}
}

// chunksOf returns a record whose payload has the size.
func chunksOf(size int) *splitRecord {
	return &splitRecord{release: "demo",
		pointer: pointer{Revision: 1, ID: testPayloadID, Size: size, Chunks: chunkCount(size)}}
}

// TestOversizedPartsTakeLittleMemory checks that parts that are larger than the size in the pointer do not fill the
// memory.
func TestOversizedPartsTakeLittleMemory(t *testing.T) { //nolint:paralleltest // It measures memory.
	// There are seventeen responses, each in a buffer that grows by a quarter at a time. All buffers of a response
	// together are five times as large as the last buffer.
	const limit = 17 * 6 * maxChunkResponse
	records := lyingRecords(t, make([]byte, 16<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := records.readChunks(chunksOf(model.MaxClusterPayload))
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > limit || !errors.Is(err, helmerr.ErrRecordDamaged) {
		t.Errorf("parts take %d MiB: %v", taken>>20, err)
	}
}

// TestReadChunk checks that a part is accepted only if it has its original length.
func TestReadChunk(t *testing.T) {
	t.Parallel()
	for length, good := range map[int]bool{0: false, 6: false, 7: true, 8: false, chunkSize: false} {
		data, err := lyingRecords(t, make([]byte, length)).readChunks(chunksOf(7))
		if good != (err == nil && len(data) == 7) || !good && !errors.Is(err, helmerr.ErrRecordDamaged) {
			t.Errorf("%d bytes: %d, %v", length, len(data), err)
		}
	}
	// This is the longest possible response: besides its data, a Secret has at most 256 KiB of annotations, and about
	// as much other metadata.
	answer, err := json.Marshal(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": strings.Repeat("x", 512<<10)}},
		Data:       map[string][]byte{chunkKey: make([]byte, chunkSize)},
	})
	if err != nil || len(answer) > maxChunkResponse {
		t.Errorf("%d bytes, %v", len(answer), err)
	}
}

// TestPartsAgeByClockOfAPIServer checks that an action keeps a part that another manager is writing, also if the clock
// of the API server is behind. If the action wrote nothing, it does not know this clock, and looks for no parts.
func TestPartsAgeByClockOfAPIServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		behind, age time.Duration
		writes      bool
		deletions   int
	}{
		"the clocks are equal, young":    {0, time.Minute, true, 0},
		"the clocks are equal, old":      {0, 2 * ChunkGrace, true, 1},
		"the server is behind, young":    {2 * ChunkGrace, time.Minute, true, 0},
		"the server is behind, old":      {2 * ChunkGrace, 2 * ChunkGrace, true, 1},
		"the server is ahead, young":     {-2 * ChunkGrace, time.Minute, true, 0},
		"the action has written nothing": {2 * ChunkGrace, time.Minute, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := func(age time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-test.behind - age)) }
			part := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1",
				Kind: "PartialObjectMetadata"}, ObjectMeta: metav1.ObjectMeta{Name: "part", CreationTimestamp: at(test.age),
				Labels: map[string]string{LabelChunkOf: "demo", model.LabelPayload: "other", labelChunkRevision: "2"}}}
			var deletions atomic.Int32
			store := storeOf(t, func(req *http.Request) any {
				switch {
				case req.Method == http.MethodDelete:
					deletions.Add(1)
				case req.Method == http.MethodGet && strings.Contains(req.URL.RawQuery, "payload-of"):
					return metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1",
						Kind: "PartialObjectMetadataList"}, Items: []metav1.PartialObjectMetadata{part}}
				case req.Method == http.MethodGet:
					return metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1",
						Kind: "PartialObjectMetadataList"}}
				}
				written := at(0)
				return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1",
					ManagedFields: []metav1.ManagedFieldsEntry{{Time: &written}}}}
			})
			store.split.named["a record with a payload"] = testPayloadID
			if test.writes {
				if _, err := store.putSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}); err != nil {
					t.Fatal(err)
				}
			}
			store.Finish("demo", time.Now(), false)
			if got := int(deletions.Load()); got != test.deletions {
				t.Errorf("%d parts were deleted, want %d", got, test.deletions)
			}
		})
	}
}

// storeOf returns the store of records of a cluster whose responses are the results of answer.
func storeOf(t *testing.T, answer func(*http.Request) any) *Store {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer(req))
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return NewStore(t.Context(), StoreOptions{Client: kube.CoreV1().RESTClient(), Namespace: "apps",
		Metadata: client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace("apps")})
}

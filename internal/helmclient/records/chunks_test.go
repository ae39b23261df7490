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
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
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

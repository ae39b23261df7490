// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"bytes"
	"reflect"
	"runtime"
	"testing"
)

// TestDigest checks that equal settings have equal digests, and that each field is a part of the digest.
func TestDigest(t *testing.T) {
	t.Parallel()
	seen := map[string]string{Access{}.Digest(): "nothing"}
	check := func(name string, access Access) {
		t.Helper()
		got := access.Digest()
		if other, ok := seen[got]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		if seen[got] = name; access.Digest() != got {
			t.Errorf("%s has two digests", name)
		}
	}
	for i := range reflect.TypeFor[Access]().NumField() {
		var access Access
		name := reflect.TypeFor[Access]().Field(i).Name
		switch field := reflect.ValueOf(&access).Elem().Field(i); value := field.Addr().Interface().(type) {
		case *[][]byte:
			*value = [][]byte{[]byte("a"), []byte("b")}
		case *[]byte:
			*value = []byte("a")
		case *string:
			*value = "a"
		case *bool:
			*value = true
		case **Proxy:
			*value = &Proxy{Address: "a"}
		default:
			t.Fatalf("field %s has another type", name)
		}
		check(name, access)
	}
	check("one config", Access{DockerConfigs: [][]byte{[]byte("ab")}})
	check("other order", Access{DockerConfigs: [][]byte{[]byte("b"), []byte("a")}})
	check("a password", Access{Proxy: &Proxy{Address: "a", Password: "a"}})
	check("a username", Access{Proxy: &Proxy{Address: "a", Username: "a"}})
	first, second := []byte("a"), []byte("b")
	access := Access{DockerConfigs: [][]byte{first, second}, CA: first}
	access.Digest()
	if &access.DockerConfigs[0][0] != &first[0] || &access.CA[0] != &first[0] {
		t.Error("Digest changes the settings")
	}
}

// TestDigestCopiesNothing checks that the digest of large settings takes little memory. The test does not run in
// parallel, because it counts the memory that the process allocates.
func TestDigestCopiesNothing(t *testing.T) {
	const size, limit = 8 << 20, 1 << 20
	data := bytes.Repeat([]byte("x"), size)
	access := Access{DockerConfigs: [][]byte{data, data}, CA: data, ClientCert: data, ClientKey: data}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	access.Digest()
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > limit {
		t.Errorf("%d bytes were allocated, want at most %d", used, limit)
	}
}

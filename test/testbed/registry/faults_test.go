// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

func isNil(err error) bool { return err == nil }

func hasStatus(code int) func(error) bool {
	return func(err error) bool {
		var response *errcode.ErrorResponse
		return errors.As(err, &response) && response.StatusCode == code
	}
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

func fail(t *testing.T, r *Registry, fault Fault) (end func()) {
	t.Helper()
	end, err := r.Fail(fault)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func TestFaults(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{Implementation: InProcess})
	push(t, r, "demo", "1")
	resolve := func(wait time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		_, err := clientRepository(t, r, "demo", owner(r)).Resolve(ctx, "1")
		return err
	}
	tests := []struct {
		name  string
		fault Fault
		want  func(error) bool
	}{
		{"down", Fault{Mode: Down}, is(syscall.ECONNREFUSED)},
		{"hang", Fault{Mode: Hang}, is(context.DeadlineExceeded)},
		{"status", Fault{Mode: Status, Code: 503}, hasStatus(503)},
		{"another repository's fault", Fault{Mode: Status, Code: 503, Match: In("x")}, isNil},
		{"another kind's fault", Fault{Mode: Status, Code: 503, Match: In("demo", BlobGet)}, isNil},
		{"HEAD refused", Fault{Mode: Status, Code: 405, Match: In("demo", ManifestHead)}, hasStatus(405)},
		{"none", Fault{}, isNil},
	}
	for _, tt := range tests {
		if err := r.SetFault(tt.fault); err != nil {
			t.Fatal(err)
		}
		wait := time.Minute
		if tt.fault.Mode == Hang {
			wait = 2 * time.Second
		}
		if err := resolve(wait); !tt.want(err) {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

func TestInvalidFaultsAreRejected(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{Implementation: InProcess})
	for _, fault := range []Fault{{Mode: Status}, {Mode: Status, Code: 600}, {Mode: Drip}} {
		if r.SetFault(fault) == nil {
			t.Errorf("SetFault accepts %+v", fault)
		}
		if _, err := r.Fail(fault); err == nil {
			t.Errorf("Fail accepts %+v", fault)
		}
	}
	if _, err := r.Fail(Fault{Mode: Down}); err == nil {
		t.Error("Fail accepts the mode Down")
	}
}

// TestFaultsOfSeveralRepositories has faults of two repositories at the same time, and a fault for all.
func TestFaultsOfSeveralRepositories(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{Implementation: InProcess})
	status := func(repository string) int {
		_, err := clientRepository(t, r, repository, owner(r)).Resolve(t.Context(), "1")
		var response *errcode.ErrorResponse
		if errors.As(err, &response) {
			return response.StatusCode
		}
		return 0
	}
	expect := func(one, two, three int) {
		t.Helper()
		if got := []int{status("one"), status("two"), status("three")}; !slices.Equal(got, []int{one, two, three}) {
			t.Errorf("got %v, want %d, %d, %d", got, one, two, three)
		}
	}
	for _, repository := range []string{"one", "two", "three"} {
		push(t, r, repository, "1")
	}
	endOne := fail(t, r, Fault{Mode: Status, Code: 500, Match: In("one")})
	endTwo := fail(t, r, Fault{Mode: Status, Code: 403, Match: In("two")})
	expect(500, 403, 0)
	if err := r.SetFault(Fault{Mode: Status, Code: 503}); err != nil {
		t.Fatal(err)
	}
	expect(500, 403, 503)
	endOne()
	expect(503, 403, 503)
	if err := r.SetFault(Fault{}); err != nil {
		t.Fatal(err)
	}
	expect(0, 403, 0)
	endTwo()
	endTwo()
	expect(0, 0, 0)
}

// TestCut breaks connections before and after a deletion, and checks whether the manifest was deleted.
func TestCut(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]Options{"TLS": {}, "plain": {PlainHTTP: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options.Implementation = InProcess
			r := startRegistry(t, options)
			for mode, wantThere := range map[Mode]bool{Cut: true, LoseAnswer: false} {
				desc := push(t, r, "demo", "1")
				// A client sends its first request without the credential.
				end := fail(t, r, Fault{Mode: mode,
					Match: func(r Request) bool { return r.Method == http.MethodDelete && r.Authorization != "" }})
				err := clientRepository(t, r, "demo", owner(r)).Manifests().Delete(t.Context(), desc)
				var response *errcode.ErrorResponse
				if err == nil || errors.As(err, &response) {
					t.Errorf("mode %d: the deletion ends with %v", mode, err)
				}
				end()
				_, err = r.Manifest(t.Context(), "demo", desc.Digest.String())
				if isThere := err == nil; isThere != wantThere {
					t.Errorf("mode %d: afterwards %v", mode, err)
				}
			}
		})
	}
}

// TestFaultEndsByItself has a registry that fails twice and then works.
func TestFaultEndsByItself(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{Implementation: InProcess, Auth: AuthNone})
	push(t, r, "demo", "1")
	fail(t, r, Fault{Mode: Status, Code: 500, Times: 2, Match: In("demo", ManifestGet)})
	var codes []int
	for range 4 {
		codes = append(codes, get(t, r, "/v2/demo/manifests/1").StatusCode)
	}
	if !slices.Equal(codes, []int{500, 500, 200, 200}) {
		t.Errorf("answered %v", codes)
	}
}

// TestStatusHasHeaderAndBodyOfFault sets the headers and the body of a registry's answer.
func TestStatusHasHeaderAndBodyOfFault(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{Implementation: InProcess, Auth: AuthNone})
	fail(t, r, Fault{
		Mode: Status, Code: 429, Match: In("demo"), Body: []byte("planted"),
		Header: http.Header{"Retry-After": {"7"}, "Www-Authenticate": {`Bearer realm="https://10.0.0.1/token"`}},
	})
	resp := get(t, r, "/v2/demo/manifests/1")
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "7" ||
		!strings.Contains(resp.Header.Get("WWW-Authenticate"), "10.0.0.1") ||
		string(resp.content) != "planted" {
		t.Errorf("got %s %v %q", resp.Status, resp.Header, resp.content)
	}
}

type response struct {
	*http.Response
	content []byte
	// broken is the error of an incomplete read of the body.
	broken error
}

// get sends a request to a registry without users.
func get(t *testing.T, r *Registry, path string) response {
	t.Helper()
	resp, err := (&http.Client{Transport: trusting(t, r)}).Get("https://" + r.Host() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	return response{resp, content, err}
}

// TestDamagedBodies compares the received content of a blob with the blob.
func TestDamagedBodies(t *testing.T) {
	t.Parallel()
	for name, implementation := range map[string]Implementation{"distribution": Distribution, "in process": InProcess} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRegistry(t, Options{Implementation: implementation, Auth: AuthNone})
			data := bytes.Repeat([]byte("0123456789abcdef"), 8192)
			if _, err := r.PushArtifact(t.Context(), "demo", "1", "application/vnd.example", data); err != nil {
				t.Fatal(err)
			}
			path := "/v2/demo/blobs/" + digest.FromBytes(data).String()

			end := fail(t, r, Fault{Mode: Truncate, Match: In("demo", BlobGet)})
			got := get(t, r, path)
			if got.broken == nil || got.StatusCode != http.StatusOK || !bytes.Equal(got.content, data[:len(data)/2]) {
				t.Errorf("truncated: %s, %d bytes of %d, %v", got.Status, len(got.content), len(data), got.broken)
			}
			end()

			end = fail(t, r, Fault{Mode: Corrupt, Match: In("demo", BlobGet)})
			got = get(t, r, path)
			wrong := 0
			for i := range min(len(got.content), len(data)) {
				if got.content[i] != data[i] {
					wrong++
				}
			}
			if got.broken != nil || len(got.content) != len(data) || wrong != 1 {
				t.Errorf("corrupt: %d bytes of %d, %d of them wrong, %v", len(got.content), len(data), wrong, got.broken)
			}
			end()

			if got = get(t, r, path); got.broken != nil || !bytes.Equal(got.content, data) {
				t.Errorf("afterwards: %d bytes of %d, %v", len(got.content), len(data), got.broken)
			}
		})
	}
}

// TestDrip reads a few bytes one by one, and the rest at once when the fault ends.
func TestDrip(t *testing.T) {
	t.Parallel()
	const pause = 20 * time.Millisecond
	r := startRegistry(t, Options{Implementation: InProcess, Auth: AuthNone})
	data := bytes.Repeat([]byte("x"), 100_000)
	if _, err := r.PushArtifact(t.Context(), "demo", "1", "application/vnd.example", data); err != nil {
		t.Fatal(err)
	}
	end := fail(t, r, Fault{Mode: Drip, Pause: pause, Match: In("demo", BlobGet)})
	begin := time.Now()
	resp, err := (&http.Client{Transport: trusting(t, r)}).Get("https://" + r.Host() + "/v2/demo/blobs/" +
		digest.FromBytes(data).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	first := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 3*pause {
		t.Errorf("5 bytes came within %v", took)
	}
	end()
	rest, err := io.ReadAll(resp.Body)
	if err != nil || len(rest)+len(first) != len(data) {
		t.Errorf("after the end: %d bytes, %v", len(rest), err)
	}
}

// TestHangEndsWithTheFault checks that a hanging request is dropped when the fault ends.
func TestHangEndsWithTheFault(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{Implementation: InProcess, Auth: AuthNone})
	met := make(chan struct{})
	end := fail(t, r, Fault{Mode: Hang, Times: 1, Match: func(request Request) bool {
		close(met)
		return true
	}})
	result := make(chan error, 1)
	go func() {
		resp, err := (&http.Client{Transport: trusting(t, r)}).Get("https://" + r.Host() + "/v2/")
		if err == nil {
			_ = resp.Body.Close()
		}
		result <- err
	}()
	<-met
	end()
	if err := <-result; err == nil {
		t.Error("a request that hung was answered")
	}
}

// TestRedirect follows a redirect to the other host. The client must not send its credential there.
func TestRedirect(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{})
	push(t, r, "demo", "1")
	end := fail(t, r, Fault{Mode: Redirect, Match: In("demo", BlobGet)})
	if err := pull(t, clientRepository(t, r, "demo", owner(r)), "1"); err != nil {
		t.Fatal(err)
	}
	got := r.BlobHost().Requests()
	if len(got) != 2 {
		t.Fatalf("the other host got %d requests for 2 blobs", len(got))
	}
	for _, request := range got {
		if request.Kind != BlobGet || request.Code != http.StatusOK || request.Authorization != "" ||
			request.Host != r.BlobHost().Host() {
			t.Errorf("the other host got the request %+v", request)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.BlobHost().URL()+"/v2/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("user", "secret")
	resp, err := (&http.Client{Transport: trusting(t, r)}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := r.BlobHost().Requests()[2]; got.Authorization != "Basic" || got.User != "user" {
		t.Errorf("the request has no credential: %+v", got)
	}
	end()
	fail(t, r, Fault{Mode: Redirect, To: "http://example.invalid:1", Match: In("demo", BlobGet)})
	client := &http.Client{Transport: trusting(t, r),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if resp, err = client.Get("https://" + r.Host() + "/v2/demo/blobs/x?a=b"); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if location := resp.Header.Get("Location"); location != "http://example.invalid:1/v2/demo/blobs/x?a=b" {
		t.Errorf("redirected to %s", location)
	}
}

func TestTagPages(t *testing.T) {
	t.Parallel()
	r := startRegistry(t, Options{Implementation: InProcess})
	push(t, r, "demo", "1")
	var tags []string
	for i := range 10_000 {
		tags = append(tags, fmt.Sprintf("1.0.%d", i))
	}
	fail(t, r, Fault{Mode: TagPages, Tags: tags, PageSize: 900, Match: In("demo")})
	repo := clientRepository(t, r, "demo", owner(r))
	var got []string
	if err := repo.Tags(t.Context(), "", func(page []string) error {
		got = append(got, page...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, tags) {
		t.Errorf("got %d tags of %d", len(got), len(tags))
	}
	if n := r.Counts().TagLists; n != 12 {
		t.Errorf("%d pages", n)
	}
	if _, err := repo.Resolve(t.Context(), "1"); err != nil {
		t.Errorf("all but the listing is as before: %v", err)
	}
}

func TestBigManifest(t *testing.T) {
	t.Parallel()
	const size = 10 << 20
	r := startRegistry(t, Options{Implementation: InProcess})
	fault, err := BigManifest(size)
	if err != nil {
		t.Fatal(err)
	}
	fault.Match = In("demo", ManifestGet, ManifestHead)
	fail(t, r, fault)
	repo := clientRepository(t, r, "demo", owner(r))
	desc, err := repo.Resolve(t.Context(), "1")
	if err != nil || desc.Size != size || desc.MediaType != ocispec.MediaTypeImageManifest {
		t.Fatalf("resolved to %+v, %v", desc, err)
	}
	if c := r.Counts(); c.ManifestHeads != 1 || c.Bytes >= size {
		t.Errorf("HEAD has a body: %+v", c)
	}
	body, err := repo.Fetch(t.Context(), desc)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = body.Close() }()
	if got, err := digest.FromReader(body); err != nil || got != desc.Digest {
		t.Errorf("the manifest is %s, not %s: %v", got, desc.Digest, err)
	}
}

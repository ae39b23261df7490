// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/tuf"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/signing"
)

func testRoot(t *testing.T) *root.TrustedRoot {
	t.Helper()
	sigstore := signing.NewSigstore()
	return must(root.NewTrustedRootFromJSON(sigstore.TrustedRoot()))(t)
}

// rootScript is a scripted source of trusted roots, with a clock.
type rootScript struct {
	*publicRoot
	mu    sync.Mutex
	clock time.Time
	err   error
	tries int
}

func newRootScript(t *testing.T) *rootScript {
	trusted := testRoot(t)
	s := &rootScript{clock: time.Unix(1_000_000_000, 0)}
	s.publicRoot = &publicRoot{
		now: func() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return s.clock },
		fetch: func(context.Context) (*root.TrustedRoot, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tries++
			return trusted, s.err
		},
	}
	return s
}

// after advances the clock and sets the result of the source.
func (s *rootScript) after(wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock, s.err = s.clock.Add(wait), err
}

func TestPublicRootIsRefreshed(t *testing.T) {
	t.Parallel()
	s := newRootScript(t)
	down := errors.New("planted")
	for _, step := range []struct {
		name  string
		wait  time.Duration
		err   error
		tries int // all tries
		ok    bool
	}{
		{name: "down at the beginning", err: down, tries: 1},
		{name: "not asked again at once", wait: 59 * time.Second, tries: 1},
		{name: "asked after a minute", wait: time.Second, tries: 2, ok: true},
		{name: "fresh", wait: 23 * time.Hour, err: down, tries: 2, ok: true},
		{name: "due, and down: what there is will do", wait: time.Hour, err: down, tries: 3, ok: true},
		{name: "within the minute", wait: time.Second, err: down, tries: 3, ok: true},
		{name: "still usable", wait: 5 * 24 * time.Hour, err: down, tries: 4, ok: true},
		{name: "too old", wait: 24 * time.Hour, err: down, tries: 5},
		{name: "back", wait: time.Hour, tries: 6, ok: true},
	} {
		s.after(step.wait, step.err)
		got, err := s.get(t.Context())
		if s.tries != step.tries || (got != nil) != step.ok {
			t.Errorf("%s: %d tries, root %v, %v; want %d tries, root %v", step.name, s.tries, got != nil, err, step.tries,
				step.ok)
		}
		if !step.ok {
			wantError(t, err, ErrTrustRoot, "add a trusted_root.json")
		}
	}
}

func TestPublicRootCallersShareOneFetch(t *testing.T) {
	t.Parallel()
	trusted := testRoot(t)
	release := make(chan struct{})
	var tries atomic.Int32
	p := &publicRoot{now: time.Now, fetch: func(ctx context.Context) (*root.TrustedRoot, error) {
		tries.Add(1)
		select {
		case <-release:
			return trusted, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := p.get(ctx)
	wantError(t, err, ErrTrustRoot, "")
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, err := p.get(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	close(release)
	group.Wait()
	if n := tries.Load(); n != 1 {
		t.Errorf("%d tries, want one for all, which outlives who gave up", n)
	}
}

// A panic of the library is a failed try: it does not end the process, and the
// next try is made after the pause.
func TestPanicDuringPublicRootFetchIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	s := newRootScript(t)
	fetch := s.fetch
	s.fetch = func(context.Context) (*root.TrustedRoot, error) { panic("planted") }
	_, err := s.get(t.Context())
	wantError(t, err, ErrTrustRoot, "could not be fetched")
	s.fetch = fetch
	s.after(rootPause, nil)
	if got, err := s.get(t.Context()); got == nil {
		t.Errorf("after a panic: %v", err)
	}
}

// A policy that needs no root must not fail without one. A policy that needs one returns
// ErrTrustRoot.
func TestPublicRootIsFetchedOnlyWhenNeeded(t *testing.T) {
	t.Parallel()
	b := newBed(t, true)
	var asked atomic.Int32
	v := b.verifier(func(o *Options) {
		o.httpClient = &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			asked.Add(1)
			return nil, errors.New("planted")
		})}
	})
	key := newTestKey(t)
	policy := keyPolicy(key)
	policy.Identities = []Identity{exactly(workflow)}
	unsigned, keyed, keyless := b.push("unsigned"), b.push("keyed"), b.push("keyless")
	check(t, keyed.SignKeyedBundle(t.Context(), key))
	check(t, signing.NewSigstore().SignKeylessBundle(t.Context(), keyless, workflow))
	verify := func(a signing.Artifact) error {
		_, err := v.Verify(t.Context(), b.url(), a.Digest(), b.access(), policy)
		return err
	}
	wantError(t, verify(unsigned), ErrUnsigned, "")
	check(t, verify(keyed))
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests for a root that nothing needed", n)
	}
	for range 3 {
		wantError(t, verify(keyless), ErrTrustRoot, "add a trusted_root.json")
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d requests for the root within a minute, want 1", n)
	}
}

// updateSource is a repository of The Update Framework with one target.
type updateSource struct {
	root   []byte
	files  map[string][]byte
	signer signature.Signer
	down   atomic.Bool
	srv    *httptest.Server
}

func newUpdateSource(t *testing.T, target []byte, expires time.Time) *updateSource {
	t.Helper()
	s := &updateSource{files: map[string][]byte{}}
	_, key, err := ed25519.GenerateKey(nil)
	check(t, err)
	s.signer = must(signature.LoadSigner(key, crypto.Hash(0)))(t)
	public := must(metadata.KeyFromPublicKey(key.Public()))(t)

	rootMeta := metadata.Root(expires)
	for _, role := range []string{metadata.ROOT, metadata.TARGETS, metadata.SNAPSHOT, metadata.TIMESTAMP} {
		check(t, rootMeta.Signed.AddKey(public, role))
	}
	targets := metadata.Targets(expires)
	info := must((&metadata.TargetFiles{}).FromBytes(trustedRootTarget, target, "sha256"))(t)
	targets.Signed.Targets[trustedRootTarget] = info
	snapshot := metadata.Snapshot(expires)
	for _, sign := range []func(signature.Signer) (*metadata.Signature, error){rootMeta.Sign, targets.Sign,
		snapshot.Sign} {
		must(sign(s.signer))(t)
	}
	s.root = must(rootMeta.ToBytes(false))(t)
	s.files["/1.targets.json"] = must(targets.ToBytes(false))(t)
	s.files["/1.snapshot.json"] = must(snapshot.ToBytes(false))(t)
	s.files["/timestamp.json"] = s.timestamp(t, expires)
	s.files["/targets/"+info.Hashes["sha256"].String()+"."+trustedRootTarget] = target
	s.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := s.files[r.URL.Path]
		switch {
		case s.down.Load():
			w.WriteHeader(http.StatusBadGateway)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = w.Write(data)
		}
	}))
	t.Cleanup(s.srv.Close)
	return s
}

// timestamp publishes that the other metadata is current until a time.
func (s *updateSource) timestamp(t *testing.T, expires time.Time) []byte {
	t.Helper()
	stamp := metadata.Timestamp(expires)
	must(stamp.Sign(s.signer))(t)
	return must(stamp.ToBytes(false))(t)
}

func (s *updateSource) tuf(dir string) tufSource {
	return tufSource{client: s.srv.Client(), dir: dir, url: s.srv.URL, root: s.root}
}

func TestTUFSourceFetchesRoot(t *testing.T) {
	t.Parallel()
	sigstore := signing.NewSigstore()
	target := sigstore.TrustedRoot()
	for name, dir := range map[string]string{"kept": filepath.Join(t.TempDir(), "not made yet"), "not kept": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := newUpdateSource(t, target, time.Now().Add(time.Hour))
			trusted, err := source.tuf(dir).fetch(t.Context())
			check(t, err)
			if len(trusted.RekorLogs()) != 1 || len(trusted.CTLogs()) != 1 || len(trusted.FulcioCertificateAuthorities()) != 1 {
				t.Error("the root is not the one that was published")
			}
			source.down.Store(true)
			_, err = source.tuf(dir).fetch(t.Context())
			if (err == nil) != (dir != "") {
				t.Errorf("while the source is down: %v", err)
			}
		})
	}
}

// After a day, the source is asked again. If it does not answer, the stored root is used until it expires.
func TestTUFSourceUsesStoredRoot(t *testing.T) {
	t.Parallel()
	target := signing.NewSigstore().TrustedRoot()
	for name, current := range map[string]bool{"current": true, "expired": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			source := newUpdateSource(t, target, time.Now().Add(time.Hour))
			_, err := source.tuf(dir).fetch(t.Context())
			check(t, err)
			// Deleting the record of the last fetch removes the wait of one day.
			notes := must(filepath.Glob(filepath.Join(dir, "*.json")))(t)
			if len(notes) != 1 {
				t.Fatalf("notes = %q", notes)
			}
			check(t, os.Remove(notes[0]))
			if !current {
				kept := filepath.Join(dir, tuf.URLToPath(source.srv.URL), "timestamp.json")
				if _, err := os.Stat(kept); err != nil {
					t.Fatal(err)
				}
				check(t, os.WriteFile(kept, source.timestamp(t, time.Now().Add(-time.Minute)), 0o600))
			}
			source.down.Store(true)
			_, err = source.tuf(dir).fetch(t.Context())
			if (err == nil) != current {
				t.Errorf("error = %v", err)
			}
		})
	}
}

// The metadata of the source must be signed by the keys in this program.
func TestTUFSourceRefusesForeignRoot(t *testing.T) {
	t.Parallel()
	target := signing.NewSigstore().TrustedRoot()
	source, other := newUpdateSource(t, target, time.Now().Add(time.Hour)),
		newUpdateSource(t, target, time.Now().Add(time.Hour))
	foreignRoot := source.tuf(t.TempDir())
	foreignRoot.root = other.root
	if _, err := foreignRoot.fetch(t.Context()); err == nil {
		t.Error("a root signed by strangers is trusted")
	}
	empty := newUpdateSource(t, []byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`),
		time.Now().Add(time.Hour))
	if _, err := empty.tuf("").fetch(t.Context()); err == nil {
		t.Error("a root with nothing in it is taken")
	}
}

func TestTUFFetchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	source := newUpdateSource(t, nil, time.Now().Add(time.Hour))
	hanging := source.tuf("")
	hanging.client = &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	})}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := hanging.fetch(ctx); err == nil {
		t.Error("no error")
	}
}

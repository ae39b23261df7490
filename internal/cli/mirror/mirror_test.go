// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
)

// push stores an artifact, or a referrer of subject, and returns its descriptor.
func push(t *testing.T, to *memory.Store, content string, subject *ocispec.Descriptor) ocispec.Descriptor {
	t.Helper()
	layer := ocispec.Descriptor{MediaType: "text/plain", Digest: digest.FromString(content), Size: int64(len(content))}
	err := to.Push(t.Context(), layer, strings.NewReader(content))
	if err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		t.Fatal(err)
	}
	desc, err := oras.PackManifest(t.Context(), to, oras.PackManifestVersion1_1, "example/"+content,
		oras.PackManifestOptions{Subject: subject, Layers: []ocispec.Descriptor{layer}})
	if err != nil {
		t.Fatal(err)
	}
	return desc
}

func TestCopy(t *testing.T) {
	t.Parallel()
	from, to := memory.New(), memory.New()
	chart := push(t, from, "chart", nil)
	signature := push(t, from, "signature", &chart)
	attestation := push(t, from, "attestation", &signature)
	legacy := push(t, from, "legacy", nil)
	attached := strings.Replace(chart.Digest.String(), ":", "-", 1) + ".sig"
	for tag, desc := range map[string]ocispec.Descriptor{"1.0.0": chart, attached: legacy} {
		if err := from.Tag(t.Context(), desc, tag); err != nil {
			t.Fatal(err)
		}
	}
	var copied atomic.Int32
	count := func(ocispec.Descriptor) { copied.Add(1) }
	got, err := Copy(t.Context(), from, "1.0.0", to, "1.0.0", count)
	if err != nil || got.Digest != chart.Digest {
		t.Fatalf("%v, %v, want %v", got, err, chart.Digest)
	}
	for _, want := range []ocispec.Descriptor{chart, signature, attestation, legacy} {
		if ok, err := to.Exists(t.Context(), want); !ok || err != nil {
			t.Errorf("%s is not copied: %v", want.ArtifactType, err)
		}
	}
	for tag, want := range map[string]digest.Digest{"1.0.0": chart.Digest, attached: legacy.Digest} {
		if found, err := to.Resolve(t.Context(), tag); err != nil || found.Digest != want {
			t.Errorf("tag %s is %v, %v", tag, found.Digest, err)
		}
	}
	before := copied.Load()
	_, err = Copy(t.Context(), from, "1.0.0", to, "1.0.0", count)
	if err != nil || before == 0 || copied.Load() != before {
		t.Errorf("again: %v, %d of %d copied", err, copied.Load()-before, before)
	}
	if _, err := Copy(t.Context(), from, "2.0.0", to, "2.0.0", count); !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("%v, want that the source does not exist", err)
	}
}

// lacking does not have the content of a digest, although its manifests refer to it.
type lacking struct {
	*memory.Store
	lost digest.Digest
}

func (l lacking) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	if desc.Digest == l.lost {
		return nil, errdef.ErrNotFound
	}
	return l.Store.Fetch(ctx, desc)
}

// TestCopyBrokenSignature checks that a signature without its content is an error, and not an artifact without a
// signature.
func TestCopyBrokenSignature(t *testing.T) {
	t.Parallel()
	from := lacking{memory.New(), digest.FromString("legacy")}
	chart, legacy := push(t, from.Store, "chart", nil), push(t, from.Store, "legacy", nil)
	attached := strings.Replace(chart.Digest.String(), ":", "-", 1) + ".sig"
	if err := errors.Join(from.Tag(t.Context(), chart, "1"), from.Tag(t.Context(), legacy, attached)); err != nil {
		t.Fatal(err)
	}
	_, err := Copy(t.Context(), from, "1", memory.New(), "1", func(ocispec.Descriptor) {})
	if err == nil || !strings.Contains(err.Error(), attached) {
		t.Errorf("got %v, want an error about %s", err, attached)
	}
}

// failing fails the first pushes of manifests.
type failing struct {
	*memory.Store
	left int
}

func (f *failing) Tag(ctx context.Context, desc ocispec.Descriptor, reference string) error {
	if f.left--; f.left >= 0 {
		return errors.New("broken")
	}
	return f.Store.Tag(ctx, desc, reference)
}

// TestCopyContinues checks that the tag is set last, and that a second attempt completes the copy.
func TestCopyContinues(t *testing.T) {
	t.Parallel()
	from, to := memory.New(), &failing{Store: memory.New(), left: 1}
	chart := push(t, from, "chart", nil)
	if err := from.Tag(t.Context(), chart, "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := Copy(t.Context(), from, "1", to, "1", func(ocispec.Descriptor) {}); err == nil {
		t.Fatal("a copy without its tag is reported as complete")
	}
	if _, err := to.Resolve(t.Context(), "1"); !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("the tag of an incomplete copy: %v", err)
	}
	if _, err := Copy(t.Context(), from, "1", to, "1", func(ocispec.Descriptor) {}); err != nil {
		t.Error(err)
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	prefix := registry.Reference{Registry: "mirror.example", Repository: "platform"}
	for source, want := range map[[2]string]string{
		{"docker.io", "library/nginx"}:               "platform/docker.io/library/nginx",
		{"registry-1.docker.io", "charts/redis"}:     "platform/docker.io/charts/redis",
		{"r.example:443", "a"}:                       "platform/r.example/a",
		{"r.example:5000", "/Stable/metrics-server"}: "platform/r.example-5000/stable/metrics-server",
	} {
		if got, err := Target(prefix, source[0], source[1]); err != nil || got.Repository != want {
			t.Errorf("%v: %s, %v, want %s", source, got.Repository, err, want)
		}
	}
	for path, want := range map[string]string{
		"platform/docker.io/library/nginx": "platform/docker.io/library/nginx",
		"platforms/nginx":                  "platform/mirror.example/platforms/nginx",
	} {
		if got, err := Place(prefix, "mirror.example", path); err != nil || got.Repository != want {
			t.Errorf("%v: %s, %v, want %s", path, got.Repository, err, want)
		}
	}
	if _, err := Target(prefix, "r.example", "a b"); err == nil {
		t.Error("a path with a space is accepted")
	}
}

// TestOneRuleForEachHost checks that the manager finds the copies by one rule in registries.conf for each host, under
// all names of the host.
func TestOneRuleForEachHost(t *testing.T) {
	t.Parallel()
	prefix := registry.Reference{Registry: "mirror.example", Repository: "platform"}
	rules := ""
	for _, host := range []string{"docker.io", "r.example"} {
		rules += "[[registry]]\nprefix = '" + host + "'\nlocation = 'mirror.example/platform/" + host + "'\n"
	}
	config, err := routes.ParseRegistries([]byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"docker.io/library/nginx", "registry-1.docker.io/bitnamicharts/redis",
		"index.docker.io/a/b", "r.example/charts/web", "r.example:443/charts/web"} {
		ref, err := registry.ParseReference(source)
		if err != nil {
			t.Fatal(err)
		}
		found, err := config.Routes(ref, false)
		if err != nil {
			t.Fatal(err)
		}
		target, err := Target(prefix, ref.Registry, ref.Repository)
		if asked := found[len(found)-1].Ref; err != nil || asked.String() != target.String() {
			t.Errorf("%s: the copy is %s, and the manager asks for %s, %v", source, target, asked, err)
		}
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock.yaml")
	lock, err := ReadLock(path)
	if err != nil || len(lock.Entries) != 0 {
		t.Fatalf("%v, %v, want an empty lock", lock, err)
	}
	lock.Put(Entry{Source: "b", Digest: "1"})
	lock.Put(Entry{Source: "a", Digest: "2", IsImage: true})
	lock.Put(Entry{Source: "b", Digest: "3"})
	if err := lock.Write(path); err != nil {
		t.Fatal(err)
	}
	again, err := ReadLock(path)
	want := []Entry{{Source: "a", Digest: "2", IsImage: true}, {Source: "b", Digest: "3"}}
	if err != nil || !slices.Equal(again.Entries, want) {
		t.Errorf("%+v, %v", again, err)
	}
	if data, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(data, []byte("# Written by")) {
		t.Errorf("%s, %v", data, err)
	}
	for name, text := range map[string]string{
		"another version": "version: x\n", "another file": "kind: Pod\n", "no YAML": "a: [",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadLock(path); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

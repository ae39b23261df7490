// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/pem"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/exit"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/mirror"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/chartrepository"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// copied runs mirror and returns the copies.
func (b *bed) copied(args ...string) []mirror.Entry {
	b.Helper()
	var entries []mirror.Entry
	command := []string{"mirror", "--to", b.at("mirrored"), "--lock", b.path("lock.yaml"), "-o", "json"}
	text := b.ok(append(command, args...)...)
	if err := yaml.Unmarshal([]byte(text), &entries); err != nil {
		b.Fatal(err)
	}
	return entries
}

// TestMirrorArtifact copies a signed artifact. After its tag has moved, it copies the artifact by the lock file.
func TestMirrorArtifact(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	_, public := b.pushSigned("team/one", "v1")
	source := b.at("team/one:v1")
	first := b.copied(source)
	if len(first) != 1 || first[0].Tag != "v1" || !strings.HasSuffix(first[0].Target, "/team/one") {
		t.Fatalf("%+v", first)
	}
	b.expectSigned(first[0].Target, first[0].Digest, public)

	b.write("one/object.yaml", configMap+"data: {a: b}\n")
	b.ok("push", b.path("one"), source)
	if again := b.copied(); len(again) != 1 || again[0] != first[0] {
		t.Errorf("by the lock file: %+v, want %+v", again, first)
	}
	updated := b.copied("--update")
	if len(updated) != 1 || updated[0].Digest == first[0].Digest {
		t.Errorf("with --update: %+v", updated)
	}
	text := b.ok("mirror", source, "--to", b.at("mirrored"), "--lock", b.path("lock.yaml"))
	want := "source:\n  url: " + first[0].Target + "\n  ref:\n    digest: " + updated[0].Digest + "\n"
	if !strings.Contains(text, want) {
		t.Errorf("prints %q, want %q", text, want)
	}
}

// fail makes the registry answer some requests with a status, until end is called.
func (b *bed) fail(code int, match func(registry.Request) bool) (end func()) {
	b.Helper()
	end, err := b.Fail(registry.Fault{Mode: registry.Status, Code: code, Match: match})
	if err != nil {
		b.Fatal(err)
	}
	return end
}

// pushSigned pushes a signed artifact, and returns it with the public key of the signature. The referrers API does not
// answer meanwhile, so that the registry also has a referrers tag.
func (b *bed) pushSigned(repository, tag string) (artifact pushed, public []byte) {
	b.Helper()
	end := b.fail(http.StatusNotFound, registry.In(repository, registry.Referrers))
	defer end()
	der, public := newKey(b.T)
	key := b.write("plain.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	b.write("one/object.yaml", configMap)
	text := b.ok("push", b.path("one"), b.at(repository+":"+tag), "--sign", "--key", key, "-o", "json")
	return decode[pushed](b.T, text), public
}

// TestMirrorWithoutReferrersAPI copies a signed artifact from a registry that refuses the referrers API with another
// error than 404.
func TestMirrorWithoutReferrersAPI(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	_, public := b.pushSigned("team/one", "v1")
	end := b.fail(http.StatusBadRequest, registry.In("team/one", registry.Referrers))
	defer end()
	copied := b.copied(b.at("team/one:v1"))
	b.expectSigned(copied[0].Target, copied[0].Digest, public)
}

// TestMirrorCompletesReferrers ends a copy between the signature and the list of referrers, in a registry that has this
// list under a tag. The list must count as missing, and the next copy must complete it.
func TestMirrorCompletesReferrers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	artifact, public := b.pushSigned("team/one", "v1")
	target := "mirrored/" + strings.ReplaceAll(b.Host(), ":", "-") + "/team/one"
	defer b.fail(http.StatusNotFound, registry.In(target, registry.Referrers))()
	end := b.fail(http.StatusForbidden, func(request registry.Request) bool {
		return request.Kind == registry.Write && request.Repository == target &&
			strings.HasPrefix(request.Reference, "sha256-")
	})
	args := []string{"mirror", b.at("team/one:v1"), "--to", b.at("mirrored"), "--lock", b.path("lock.yaml")}
	if got := b.run(args...); got.code == exit.Done {
		t.Fatal("a copy without its list of referrers succeeded")
	}
	end()
	missing := []string{"bill", "--missing-in", b.at("mirrored"), "--from", b.write("bill.json",
		`{"version": "helmop.bill/v1", "charts": [{"name": "`+b.at("team/one:v1@"+artifact.Digest)+`", "url": "`+
			b.at("team/one")+`", "tag": "v1", "digest": "`+artifact.Digest+
			`", "attached": [{"kind": "Signature", "digest": "`+artifact.Signature+`"}]}]}`)}
	if got := b.run(missing...); got.code != exit.Failed || !strings.Contains(got.out, "2 artifacts are missing") {
		t.Errorf("after the first copy: %d\n%s%s", got.code, got.out, got.err)
	}
	b.ok(args...)
	b.expectSigned(b.at(target), artifact.Digest, public)
	if out := b.ok(missing...); !strings.Contains(out, "Nothing is missing") {
		t.Errorf("after the second copy: %s", out)
	}
}

// TestMirrorChart copies a chart from a chart repository. It refuses a version that the repository has replaced.
func TestMirrorChart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := chartrepository.Start()
	t.Cleanup(r.Close)
	b.write("ca.crt", string(b.CA())+string(r.CA()))
	add := func(note string) string {
		digest, err := r.Add(registry.ChartFiles(map[string]string{
			"Chart.yaml": "apiVersion: v2\nname: demo\nversion: 1.0.0+b1\n", "note.txt": note}))
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	archive := add("first")
	source := r.URL() + "/demo:1.0.0+b1"
	first := b.copied(source)
	if len(first) != 1 || first[0].ArchiveDigest != archive || first[0].Tag != "1.0.0_b1" ||
		first[0].Version != "1.0.0+b1" {
		t.Fatalf("%+v, want the archive %s", first, archive)
	}
	b.ok("pull", first[0].Target+"@"+first[0].Digest, "--dir", b.path("pulled"))
	if _, err := os.Stat(b.path("pulled/demo-1.0.0+b1.tgz")); err != nil {
		t.Error(err)
	}
	if again := b.copied(source); again[0] != first[0] {
		t.Errorf("%+v, want %+v", again, first)
	}
	args := []string{"mirror", "--lock", b.path("lock.yaml"), source, "--to"}
	for place, want := range map[string]string{"mirrored": "the target has it", "other": "copied "} {
		if got := b.run(append(args, b.at(place))...); !strings.Contains(got.err, "[1/1] "+source+": "+want) {
			t.Errorf("%s: %s", place, got.err)
		}
	}
	replaced := add("second")
	b.fails(exit.Failed, "find out why, and use --update", append(args, b.at("mirrored"))...)
	list := `{"version": "helmop.bill/v1", "charts": [{"name": "` + r.URL() + `/demo:1.0.0+b1@` + archive +
		`", "url": "` + r.URL() + `/demo", "version": "1.0.0+b1", "digest": "` + archive + `"}]}`
	b.fails(exit.Failed, "find out why, and permit the new archive in the HelmOp", "mirror", "--to", b.at("mirrored"),
		"--lock", b.path("lock.yaml"), "--from-bill", b.write("bill.json", list))
	if updated := b.copied(source, "--update"); updated[0].ArchiveDigest != replaced {
		t.Errorf("with --update: %+v, want the archive %s", updated, replaced)
	}
}

// TestMirrorImages copies the images that a chart installs, and those in rendered manifests.
func TestMirrorImages(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("image/object.yaml", configMap)
	for _, tag := range []string{"v1", "v2"} {
		b.ok("push", b.path("image"), b.at("team/image:"+tag))
	}
	image := b.Host() + "/team/image:"
	b.write("chart/Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n")
	b.write("chart/values.yaml", "tag: none\n")
	b.write("chart/templates/pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: demo}\nspec:\n  containers:\n"+
		"  - {name: demo, image: \""+image+"{{ .Values.tag }}\"}\n")
	b.ok("push", b.path("chart"), b.at("charts/demo"))
	copied := b.copied(b.at("charts/demo:1.0.0"), "--images", "--values", b.write("values.yaml", "tag: v1\n"))
	if len(copied) != 2 || copied[0].IsImage || !copied[1].IsImage || copied[1].Source != image+"v1" {
		t.Errorf("%+v, want the chart and the image %sv1", copied, image)
	}
	manifests := b.write("rendered.yaml", "kind: Pod\nspec: {containers: [{image: \""+image+"v2\"}]}\n")
	copied = b.copied("--manifests", manifests)
	if len(copied) != 1 || !copied[0].IsImage || copied[0].Source != image+"v2" {
		t.Errorf("%+v, want the image %sv2", copied, image)
	}
}

func TestMirrorArguments(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	lock := b.path("lock.yaml")
	for text, args := range map[string][]string{
		"--to":                  {"oci://r.example/a:1"},
		"must not have a tag":   {"oci://r.example/a:1", "--to", "oci://r.example/b:1"},
		"nothing to copy":       {"--to", b.at("x"), "--lock", lock},
		"neither a tag nor":     {"oci://r.example/a", "--to", b.at("x"), "--lock", lock},
		"has no version":        {"https://r.example/a", "--to", b.at("x"), "--lock", lock},
		"does not start with":   {"r.example/a:1", "--to", b.at("x"), "--lock", lock},
		"no such file":          {"--manifests", b.path("none"), "--to", b.at("x"), "--lock", lock},
		"is not a lock file":    {"--to", b.at("x"), "--lock", b.write("bad.yaml", "a: b\n")},
		"--output \"x\" is unk": {"oci://r.example/a:1", "--to", b.at("x"), "-o", "x"},
	} {
		b.fails(exit.Usage, text, append([]string{"mirror"}, args...)...)
	}
}

// TestMirrorContinues checks that an artifact that does not exist does not stop the other copies. Images that are named
// as sources have no images of their own, also if their layers cannot be read.
func TestMirrorContinues(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("one/object.yaml", configMap)
	b.ok("push", b.path("one"), b.at("team/one:v1"))
	platform, err := b.PushRaw(t.Context(), "team/image", "", registry.Raw{ConfigType: ocispec.MediaTypeImageConfig,
		Layers: []registry.Layer{{MediaType: ocispec.MediaTypeImageLayerGzip, Data: []byte("layer")}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.PushIndex(t.Context(), "team/image", "v1", platform); err != nil {
		t.Fatal(err)
	}
	if _, err := b.PushRaw(t.Context(), "team/image", "zstd", registry.Raw{ConfigType: ocispec.MediaTypeImageConfig,
		Layers: []registry.Layer{{MediaType: ocispec.MediaTypeImageLayerZstd, Data: []byte("layer")}}}); err != nil {
		t.Fatal(err)
	}
	missing := b.at("team/missing:v1")
	b.fails(exit.NotFound, missing, "mirror", missing, b.at("team/image:v1"), b.at("team/image:zstd"),
		b.at("team/one:v1"), "--images", "--to", b.at("mirrored"), "--lock", b.path("lock.yaml"))
	lock, err := mirror.ReadLock(b.path("lock.yaml"))
	if err != nil || len(lock.Entries) != 3 || !lock.Entries[0].IsImage || !lock.Entries[1].IsImage ||
		lock.Entries[2].IsImage {
		t.Fatalf("%+v, %v", lock, err)
	}
	if again := b.copied("--images"); !slices.Equal(again, lock.Entries) {
		t.Errorf("by the lock file: %+v", again)
	}
}

// TestMirrorUnreadable copies an artifact with broken content. It may install images, so the command must fail, and
// must not record the artifact as an image.
func TestMirrorUnreadable(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if _, err := b.PushRaw(t.Context(), "team/broken", "v1", registry.Raw{ConfigType: ocispec.MediaTypeImageConfig,
		Layers: []registry.Layer{{MediaType: ocispec.MediaTypeImageLayerGzip, Data: []byte("layer")}}}); err != nil {
		t.Fatal(err)
	}
	args := []string{"mirror", b.at("team/broken:v1"), "--to", b.at("mirrored"), "--lock", b.path("lock.yaml")}
	got := b.run(append(args, "--images")...)
	for _, want := range []string{
		"it was copied, but its images were not found: invalid manifests: ",
		"; if it is an image that HelmOp does not install, copy it in a run without --images, with another --lock file\n",
	} {
		if got.code != exit.Failed || !strings.Contains(got.err, want) {
			t.Errorf("%q is not in %+v", want, got)
		}
	}
	lock, err := mirror.ReadLock(b.path("lock.yaml"))
	if err != nil || len(lock.Entries) != 1 || lock.Entries[0].IsImage {
		t.Errorf("%+v, %v", lock, err)
	}
	b.ok(args...)
}

// TestMirrorBill copies a bill by its digests, although a tag has moved. The second run must copy nothing.
func TestMirrorBill(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	_, public := b.pushSigned("team/chart", "v1")
	b.ok("push", b.path("one"), b.at("team/image:v1"))
	digest := decode[[]mirror.Entry](t, b.ok("mirror", b.at("team/image:v1"), "--to", b.at("x"), "--lock",
		b.path("x.yaml"), "-o", "json"))[0].Digest
	b.write("one/object.yaml", configMap+"data: {a: b}\n")
	b.ok("push", b.path("one"), b.at("team/image:v1"))

	image := b.Host() + "/team/image:v1"
	list := b.write("bill.json", `{"version": "helmop.bill/v1", "charts": [{"name": "`+
		b.at("team/chart:v1@"+digest)+`", "url": "`+b.at("team/chart")+`",
		"tag": "v1", "digest": "`+digest+`"}], "images": [{"name": "`+image+`", "repository": "`+b.Host()+
		`/team/image", "tag": "v1", "digest": "`+digest+`"}]}`)
	args := []string{"mirror", "--to", b.at("mirrored"), "--lock", b.path("lock.yaml"), "--from-bill", list, "-o", "json"}
	first := b.run(args...)
	copied := decode[[]mirror.Entry](t, first.out)
	if first.code != exit.Done || len(copied) != 2 || copied[0].Digest != digest || copied[1].Digest != digest ||
		copied[1].Tag != "v1" || !copied[1].IsImage {
		t.Fatalf("%d\n%s%s", first.code, first.out, first.err)
	}
	b.expectSigned(copied[0].Target, digest, public)
	if !strings.Contains(first.err, "[2/2] "+image+": copied ") {
		t.Errorf("no progress in %q", first.err)
	}
	again := b.run(args...)
	if again.out != first.out || strings.Count(again.err, "the target has it") != 2 {
		t.Errorf("the second time\n%s%s", again.out, again.err)
	}
	b.fails(exit.Usage, "not a bill", "mirror", "--to", b.at("x"), "--from-bill", b.write("bad.json", "{}"))
	b.fails(exit.Usage, "cannot be used together", append(args, "--update")...)
}

// TestBillOfChartRepository copies a chart of a chart repository, and compares the copy by the digest of the archive.
func TestBillOfChartRepository(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := chartrepository.Start()
	t.Cleanup(r.Close)
	b.write("ca.crt", string(b.CA())+string(r.CA()))
	archive, err := r.Add(registry.ChartFiles(map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: demo\nversion: 1.0.0+b1\n"}))
	if err != nil {
		t.Fatal(err)
	}
	text := `{"version": "helmop.bill/v1", "charts": [{"name": "` + r.URL() + `/demo:1.0.0+b1@` +
		archive + `", "url": "` + r.URL() + `/demo", "version": "1.0.0+b1", "digest": "` + archive + `"}]}`
	missing := []string{"bill", "--from", b.write("bill.json", text), "--missing-in", b.at("mirrored")}
	if got := b.run(missing...); got.code != exit.Failed || !strings.Contains(got.out, "1 artifact is missing") {
		t.Errorf("before: %d\n%s%s", got.code, got.out, got.err)
	}
	copied := b.copied("--from-bill", b.path("bill.json"))
	if len(copied) != 1 || copied[0].ArchiveDigest != archive {
		t.Fatalf("%+v, want the archive %s", copied, archive)
	}
	if out := b.ok(missing...); !strings.Contains(out, "Nothing is missing") {
		t.Errorf("after: %s", out)
	}
	other := strings.Repeat("1", 64)
	b.write("bill.json", strings.ReplaceAll(text, archive, "sha256:"+other))
	if got := b.run(missing...); got.code != exit.Failed || !strings.Contains(got.out, archive[:19]) {
		t.Errorf("another archive: %d\n%s%s", got.code, got.out, got.err)
	}
}

// TestBillUnknown has a bill without a digest, because a registry did not respond. A copy by tag is then no proof.
func TestBillUnknown(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("one/object.yaml", configMap)
	b.ok("push", b.path("one"), b.at("mirrored/r.example/app:1"))
	missing := []string{"bill", "--from", b.path("bill.json"), "--missing-in", b.at("mirrored")}
	for _, image := range []string{`"name": "not an image"`,
		`"name": "r.example/app:1", "repository": "r.example/app", "tag": "1", "message": "no answer"`} {
		b.write("bill.json", `{"version": "helmop.bill/v1", "images": [{`+image+`}]}`)
		got := b.run(missing...)
		if got.code != exit.Usage || !strings.Contains(got.out, "the list is incomplete") ||
			!strings.Contains(got.err, "1 artifact is not known completely") {
			t.Errorf("%s: %d\n%s%s", image, got.code, got.out, got.err)
		}
	}
}

// TestMirrorIncompleteBill copies an incomplete bill. The command must name the image that it copied by tag, and must
// fail. It must copy the present image, also if the lock file has an older one.
func TestMirrorIncompleteBill(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("one/object.yaml", configMap)
	b.ok("push", b.path("one"), b.at("team/image:v1"))
	image := b.Host() + "/team/image:v1"
	known := decode[[]mirror.Entry](t, b.ok("mirror", b.at("team/image:v1"), "--to", b.at("x"), "--lock",
		b.path("x.yaml"), "-o", "json"))[0].Digest
	entry := func(digest string) string {
		return `{"name": "` + image + `", "repository": "` + b.Host() + `/team/image", "tag": "v1", "digest": "` +
			digest + `"}`
	}
	for name, tc := range map[string]struct{ fields, want string }{
		"tag": {`"images": [` + entry("") + `]`, "the bill is incomplete: 1 image has no digest; copied by their present " +
			"tags: " + image},
		"name":     {`"images": [` + entry(known) + `, {"name": "a b"}]`, `the bill is incomplete: "a b" cannot be copied: `},
		"clusters": {`"incomplete": 2, "images": [` + entry(known) + `]`, "the contents of 2 Clusters are not known"},
	} {
		list := b.write(name+".json", `{"version": "helmop.bill/v1", `+tc.fields+`}`)
		got := b.run("mirror", "--to", b.at(name), "--lock", b.path(name+".yaml"), "--from-bill", list, "-o", "json")
		copied := decode[[]mirror.Entry](t, got.out)
		if got.code != exit.Failed || len(copied) != 1 || copied[0].Digest != known || !strings.Contains(got.err, tc.want) {
			t.Errorf("%s: %d\n%s%s, want %q", name, got.code, got.out, got.err, tc.want)
		}
	}
	b.write("one/object.yaml", configMap+"data: {a: b}\n")
	b.ok("push", b.path("one"), b.at("team/image:v1"))
	got := b.run("mirror", "--to", b.at("tag"), "--lock", b.path("tag.yaml"), "--from-bill", b.path("tag.json"), "-o",
		"json")
	copied := decode[[]mirror.Entry](t, got.out)
	if len(copied) != 1 || copied[0].Digest == known || !strings.Contains(got.err, "by their present tags: "+image) {
		t.Errorf("after the tag has moved: %d\n%s%s", got.code, got.out, got.err)
	}
}

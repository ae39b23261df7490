// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/exit"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/signing"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\n"

func TestMain(m *testing.M) {
	Serve()
	os.Exit(m.Run())
}

// bed has a registry and the files of a user.
type bed struct {
	*testing.T
	*registry.Registry
	home string
}

// result is the outcome of a command.
type result struct {
	code     int
	out, err string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	r, err := registry.Start(t.Context(), registry.Options{Dir: t.TempDir(), Implementation: registry.InProcess})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{T: t, Registry: r, home: t.TempDir()}
	t.Cleanup(func() {
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	b.write("ca.crt", string(r.CA()))
	config, err := r.DockerConfigJSON()
	if err != nil {
		t.Fatal(err)
	}
	b.write("config.json", string(config))
	return b
}

// path returns the path of a user's file.
func (b *bed) path(name string) string { return filepath.Join(b.home, filepath.FromSlash(name)) }

func (b *bed) write(name, content string) string {
	b.Helper()
	path := b.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// at returns a reference in the registry.
func (b *bed) at(reference string) string { return registryaccess.Scheme + b.Host() + "/" + reference }

// run runs a command with access to the registry.
func (b *bed) run(args ...string) result {
	b.Helper()
	return b.runPlain("", append(args, "--ca-file", b.path("ca.crt"), "--registry-config", b.path("config.json"))...)
}

func (b *bed) runPlain(stdin string, args ...string) result {
	b.Helper()
	var out, errOut bytes.Buffer
	code := Run(b.Context(), args, Streams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut})
	return result{code, out.String(), errOut.String()}
}

// ok runs a command that must succeed, and returns its output.
func (b *bed) ok(args ...string) string {
	b.Helper()
	got := b.run(args...)
	if got.code != exit.Done {
		b.Fatalf("%q: exit code %d: %s", args, got.code, got.err)
	}
	return got.out
}

// fails runs a command that must fail with an exit code and a text in the error.
func (b *bed) fails(code int, text string, args ...string) {
	b.Helper()
	got := b.run(args...)
	if got.code != code || !strings.Contains(got.err, text) {
		b.Errorf("%q: exit code %d: %s; want %d with %q", args, got.code, got.err, code, text)
	}
}

func decode[T any](t *testing.T, data string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(data), &value); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return value
}

func TestPush(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("dir/one.yaml", configMap)
	got := decode[pushed](t, b.ok("push", b.path("dir"), b.at("base:v1"), "--tag", "production", "--source",
		"https://example.com/repo", "-o", "json"))
	if got.Format != "Flux" || got.Reference != b.at("base@"+got.Digest) ||
		!slices.Equal(got.Tags, []string{"v1", "production"}) || got.Bytes == 0 {
		t.Errorf("%+v", got)
	}
	for _, tag := range got.Tags {
		manifest, err := b.Manifest(t.Context(), "base", tag)
		if err != nil || manifest.Annotations["org.opencontainers.image.source"] != "https://example.com/repo" {
			t.Errorf("%s: %v, %v", tag, manifest, err)
		}
	}
	b.ResetCounts()
	again := b.run("push", b.path("dir"), b.at("base:v2"), "--source", "https://example.com/repo")
	if again.code != exit.Done || strings.TrimSpace(again.out) != got.Reference || !strings.Contains(again.err, "exists") {
		t.Errorf("%+v", again)
	}
	if writes := b.Counts().Writes; writes != 1 {
		t.Errorf("%d writes for one more tag", writes)
	}
}

func TestPushChart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("cni/Chart.yaml", "apiVersion: v2\nname: cni\nversion: 1.2.3+b.4\n")
	b.write("cni/templates/one.yaml", configMap)
	got := decode[pushed](t, b.ok("push", b.path("cni"), b.at("charts/cni"), "-o", "json"))
	if got.Format != "HelmChart" || !slices.Equal(got.Tags, []string{"1.2.3_b.4"}) {
		t.Errorf("%+v", got)
	}
	b.fails(exit.Usage, "must be its version, 1.2.3_b.4", "push", b.path("cni"), b.at("charts/cni:latest"))
}

// TestPushRemovesCredentials checks that push removes the token from the URL from which a pipeline clones.
func TestPushRemovesCredentials(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("dir/one.yaml", configMap)
	b.write("cni/Chart.yaml",
		"apiVersion: v2\nname: cni\nversion: 1.2.3\nsources: ['https://me:planted@example.com/repo']\n")
	const source, with, without = "org.opencontainers.image.source", "https://me:planted@example.com/repo",
		"https://example.com/repo"
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"source":     {[]string{"dir", "base:v1", "--source", with}, without},
		"annotation": {[]string{"dir", "base:v2", "--annotation", source + "=" + with}, without},
		"chart":      {[]string{"cni", "cni:1.2.3"}, without},
		"none":       {[]string{"dir", "base:v3", "--source", "git@example.com:me/repo"}, "git@example.com:me/repo"},
	} {
		got := b.run(append([]string{"push", b.path(tc.args[0]), b.at(tc.args[1])}, tc.args[2:]...)...)
		if warns := strings.Contains(got.err,
			"warning: the credential in the URL of "+source+" was removed"); got.code != exit.Done ||
			warns != (tc.want == without) || strings.Contains(got.err, "planted") {
			t.Errorf("%s: %+v", name, got)
		}
		repository, tag, _ := strings.Cut(tc.args[1], ":")
		manifest, err := b.Manifest(t.Context(), repository, tag)
		if err != nil || manifest.Annotations[source] != tc.want {
			t.Errorf("%s: %+v, %v", name, manifest.Annotations, err)
		}
	}
}

func TestListAndTag(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("dir/one.yaml", configMap)
	reference := strings.TrimSpace(b.ok("push", b.path("dir"), b.at("base:v1.9.0"), "--tag", "v1.10.0,main,1.2.0-rc.1"))
	if got := b.ok("tag", reference, "production", "alpha"); strings.TrimSpace(got) != reference {
		t.Errorf("%q", got)
	}
	want := "v1.10.0\nv1.9.0\n1.2.0-rc.1\nalpha\nmain\nproduction\n"
	if got := b.ok("list", b.at("base")); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got := decode[listed](t, b.ok("list", b.at("base"), "--digests", "-o", "json"))
	if got.Repository != b.at("base") || len(got.Tags) != 6 {
		t.Errorf("%+v", got)
	}
	for _, tag := range got.Tags {
		if b.at("base@"+tag.Digest) != reference {
			t.Errorf("%+v", tag)
		}
	}
	if out := b.ok("list", b.at("base"), "-o", "yaml"); !strings.Contains(out, "- tag: v1.10.0\n") {
		t.Errorf("%s", out)
	}
}

// TestControlCharacters expects that texts of a registry stay on their line, and write no escape sequences.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	const bad, good = "a\x1b[2J\n::add-path::b\u009b", "v1.2.3"
	quoted := strconv.Quote(bad)
	var out strings.Builder
	tags := &listed{Tags: []listedTag{{Tag: bad, Digest: "x"}, {Tag: good, Digest: "y"}}}
	for _, digests := range []bool{false, true} {
		if err := (&list{digests: digests}).table(&out, tags); err != nil {
			t.Fatal(err)
		}
	}
	changed, _ := compare(bad, map[string]string{bad: "a: b\n"}, map[string]string{})
	out.WriteString(changed.Diff)
	if got := out.String(); strings.Count(got, quoted) != 3 || strings.Count(got, good+"\n") != 1 ||
		strings.ContainsAny(got, "\x1b\u009b") {
		t.Errorf("got %q", got)
	}
}

// newKey returns a key as PKCS #8, and its public key as PEM.
func newKey(t *testing.T) (private, public []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if private, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		t.Fatal(err)
	}
	if public, err = cryptoutils.MarshalPublicKeyToPEM(key.Public()); err != nil {
		t.Fatal(err)
	}
	return private, public
}

// TestSigned checks that the manager accepts signatures of the CLI, with keys of cosign and of PKCS #8.
func TestSigned(t *testing.T) {
	b := newBed(t)
	b.write("dir/one.yaml", configMap)
	der, public := newKey(t)
	strangers, _ := newKey(t)
	sealed, err := encrypted.Encrypt(der, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	other := b.write("other.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: strangers})))
	plain := b.write("plain.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	cosign := b.write("cosign.key",
		string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: sealed})))
	t.Setenv(signing.PasswordVariable, "secret")
	for repository, file := range map[string]string{"plain": plain, "cosign": cosign} {
		got := decode[pushed](t, b.ok("push", b.path("dir"), b.at(repository+":v1"), "--sign", "--key", file, "-o", "json"))
		if got.Signature == "" {
			t.Errorf("%+v", got)
		}
		b.expectSigned(b.at(repository), got.Digest, public)
		// Unchanged content gets one signature for each key.
		again := decode[pushed](t, b.ok("push", b.path("dir"), b.at(repository+":v1"), "--sign", "--key", file, "-o", "json"))
		if again.Signature != got.Signature {
			t.Errorf("signed again: %s after %s", again.Signature, got.Signature)
		}
		theirs := decode[pushed](t, b.ok("push", b.path("dir"), b.at(repository+":v1"), "--sign", "--key", other, "-o",
			"json"))
		if theirs.Signature == got.Signature {
			t.Error("the signature of another key was taken for it")
		}
	}
	// The tags must be set after the signature.
	var order []string
	for _, request := range b.Requests() {
		if request.Method == http.MethodPut && request.Repository == "plain" && request.Reference != "" && len(order) < 3 {
			order = append(order, request.Reference)
		}
	}
	if i := slices.Index(order, "v1"); i != 2 {
		t.Errorf("manifests were put in the order %q", order)
	}
	t.Setenv(signing.PasswordVariable, "wrong")
	b.ResetCounts()
	b.fails(exit.Failed, "nothing was pushed", "push", b.path("dir"), b.at("other:v1"), "--sign", "--key", cosign)
	b.fails(exit.Failed, "nothing was pushed", "push", b.path("dir"), b.at("other:v1"), "--sign", "--key", b.path("none"))
	if writes := b.Counts().Writes; writes != 0 {
		t.Errorf("%d writes by pushes whose key cannot be read", writes)
	}
	b.fails(exit.Usage, "--sign requires --key", "push", b.path("dir"), b.at("other:v1"), "--sign")
}

func (b *bed) expectSigned(url, digest string, public []byte) {
	b.Helper()
	config, err := b.DockerConfigJSON()
	if err != nil {
		b.Fatal(err)
	}
	client, err := oci.New(oci.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	verifier, err := verification.New(verification.Options{Registry: client, Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	policy := verification.Policy{Provider: verification.Cosign, Keys: map[string][]byte{"cosign.pub": public}}
	access := oci.Access{DockerConfigs: [][]byte{config}, CA: b.CA()}
	if got, err := verifier.Verify(b.Context(), url, digest, access, policy); err != nil || len(got.Signers) != 1 {
		b.Errorf("%+v, %v", got, err)
	}
}

// TestSignWithoutReferrersAPI signs in registries that refuse the referrers API. Each must store the signature under
// the referrers tag, and the second push must find it there.
func TestSignWithoutReferrersAPI(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("dir/one.yaml", configMap)
	der, public := newKey(t)
	key := b.write("plain.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	for _, code := range []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed} {
		repository := "team/answers-" + strconv.Itoa(code)
		b.fail(code, registry.In(repository, registry.Referrers))
		push := []string{"push", b.path("dir"), b.at(repository + ":v1"), "--sign", "--key", key, "-o", "json"}
		first := decode[pushed](t, b.ok(push...))
		if again := decode[pushed](t, b.ok(push...)); again.Signature != first.Signature {
			t.Errorf("%d: signed again: %+v, %+v", code, first, again)
		}
		b.expectSigned(b.at(repository), first.Digest, public)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	own := b.path("own.json")
	flags := []string{"--ca-file", b.path("ca.crt"), "--registry-config", own}
	login := append([]string{"login", b.Host(), "--username", b.Username(), "--password-stdin"}, flags...)
	if got := b.runPlain("wrong\n", login...); got.code != exit.Denied {
		t.Errorf("a wrong password: %+v", got)
	}
	if _, err := os.Stat(own); err == nil {
		t.Error("a wrong password was kept")
	}
	if got := b.runPlain(b.Password()+"\n", login...); got.code != exit.Done {
		t.Fatalf("%+v", got)
	}
	b.write("dir/one.yaml", configMap)
	push := append([]string{"push", b.path("dir"), b.at("base:v1")}, flags...)
	if got := b.runPlain("", push...); got.code != exit.Done {
		t.Errorf("%+v", got)
	}
	if got := b.runPlain("", "logout", b.Host(), "--registry-config", own); got.code != exit.Done {
		t.Errorf("%+v", got)
	}
	if got := b.runPlain("", push...); got.code != exit.Denied {
		t.Errorf("after the logout: %+v", got)
	}
}

// TestExitCodes checks the exit codes, because scripts depend on them.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := b.path("dir")
	b.write("dir/one.yaml", configMap)
	b.fails(exit.NotFound, "none", "tag", b.at("none:v1"), "v2")
	b.fails(exit.NotFound, "none", "list", b.at("none"))
	b.fails(exit.Unreachable, "", "push", dir, registryaccess.Scheme+"127.0.0.1:1/base:v1", "--timeout", "5s")
	b.fails(exit.Failed, "none", "push", b.path("none"), b.at("base:v1"))
	for text, args := range map[string][]string{
		"does not start with oci://":     {"push", dir, b.Host() + "/base:v1"},
		"has no tag":                     {"push", dir, b.at("base")},
		"has a digest":                   {"push", dir, b.at("base@sha256:" + strings.Repeat("0", 64))},
		`unknown format "zip"`:           {"push", dir, b.at("base:v1"), "--format", "zip"},
		"--created":                      {"push", dir, b.at("base:v1"), "--created", "today"},
		"--output":                       {"list", b.at("base"), "-o", "xml"},
		"neither a tag nor a digest":     {"tag", b.at("base"), "v2"},
		"got 1; usage:":                  {"tag", b.at("base:v1")},
		"give the repository only":       {"list", b.at("base:v1")},
		"unknown flag":                   {"list", b.at("base"), "--none"},
		"--username is required":         {"login", b.Host()},
		"is not a terminal":              {"login", b.Host(), "-u", "me"},
		`tag "a b"`:                      {"tag", b.at("base:v1"), "a b"},
		"is not a reference of the form": {"list", "oci://UPPER"},
	} {
		b.fails(exit.Usage, text, args...)
	}
	got := b.runPlain("", "list", b.at("base"), "--ca-file", b.path("ca.crt"), "--registry-config",
		b.write("empty.json", "{}"))
	if got.code != exit.Denied {
		t.Errorf("without a credential: %+v", got)
	}
	if got := b.runPlain("", "none"); got.code != exit.Usage || !strings.Contains(got.err, `unknown command "none"`) {
		t.Errorf("an unknown command: %+v", got)
	}
	for _, args := range [][]string{{"--help"}, {"push", "--help"}, {"completion", "bash"}, {"--version"}} {
		if got := b.runPlain("", args...); got.code != exit.Done || got.out == "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// TestErrorEscapes checks that errors contain no escape sequence of a terminal.
func TestErrorEscapes(t *testing.T) {
	t.Parallel()
	var out, errOut bytes.Buffer
	code := RunAs(t.Context(), programName, []string{"push", "\x1b[31m", "oci://registry.example.com/r:1"},
		Streams{Out: &out, ErrOut: &errOut})
	if code == exit.Done || strings.Contains(errOut.String(), "\x1b") || !strings.Contains(errOut.String(), "[31m") {
		t.Errorf("%d: %q", code, errOut.String())
	}
}

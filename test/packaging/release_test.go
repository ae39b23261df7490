// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	sigstore "github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/files"
	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/provenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

const (
	releaseVersion = "v0.1.9"
	releaseCommit  = "0123456789abcdef0123456789abcdef01234567"
)

// releaseRun is a run of `make release`.
type releaseRun struct {
	folder string // with the files
	pushed []string
}

// TestRelease makes a release twice, from two copies of this tree, and compares all files. The second run also signs
// and pushes to a registry. The test then verifies what users verify.
func TestRelease(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	bed, err := registry.Start(t.Context(), registry.Options{
		Dir: t.TempDir(), Implementation: registry.InProcess, Auth: registry.AuthNone, PlainHTTP: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bed.Stop(context.WithoutCancel(t.Context())) })
	image := bed.Host() + "/helmop/manager"
	plain := makeRelease(t, "IMG="+image)
	signed := makeRelease(t, "IMG="+image, "PUSH=1", "PLAIN_HTTP=1", "KEY="+key)

	t.Run("both runs have the same bytes", func(t *testing.T) {
		want, got := contents(t, plain.folder), contents(t, signed.folder)
		for _, name := range []string{"SHA256SUMS.sigstore.json", "provenance.intoto.json.sigstore.json"} {
			if got[name] == "" {
				t.Errorf("no signature %s", name)
			}
			delete(got, name)
		}
		if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
			t.Errorf("the files are %v and %v", slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
		}
		for name := range want {
			if want[name] != got[name] {
				t.Errorf("%s differs", name)
			}
		}
	})
	t.Run("checksums", func(t *testing.T) { checkSums(t, plain.folder) })
	t.Run("command line", func(t *testing.T) { checkCommandLine(t, plain.folder) })
	t.Run("lists of modules", func(t *testing.T) { checkLists(t, plain.folder) })
	t.Run("signed files", func(t *testing.T) { checkSignedFiles(t, signed.folder, public) })
	t.Run("artifacts in the registry", func(t *testing.T) { checkPushed(t, signed.pushed, public) })
}

// TestReleaseNeedsTheHistory checks a release of a commit that is not known, or whose history is not known. It must
// fail at once, with advice.
func TestReleaseNeedsTheHistory(t *testing.T) {
	t.Parallel()
	shallow := filepath.Join(t.TempDir(), "shallow")
	from, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := command("git", "clone", "--quiet", "--depth=1", "file://"+from, shallow); err != nil {
		t.Skipf("Git cannot clone the tree, which is an archive of the sources: %v", err)
	}
	for name, one := range map[string]struct{ folder, want string }{
		"shallow checkout": {folder: shallow, want: "git fetch --unshallow"},
		"no checkout":      {folder: t.TempDir(), want: "set COMMIT and COMMIT_DATE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			makefile := filepath.Join(from, "Makefile")
			cmd := exec.CommandContext(t.Context(), "make", "release", "DIRTY=1", "--file="+makefile)
			cmd.Dir = one.folder
			cmd.Env = append(os.Environ(), "MAKEFLAGS=")
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), one.want) {
				t.Errorf("%v, want an error with %q\n%s", err, one.want, out)
			}
		})
	}
}

// makeRelease runs `make release` for this machine's platform in a copy of the tree.
func makeRelease(t *testing.T, variables ...string) releaseRun {
	t.Helper()
	tree := copyTree(t)
	platform := "linux/" + runtime.GOARCH
	args := append([]string{
		"--no-print-directory", "release", "RELEASE_TAG=" + releaseVersion, "DIRTY=1", "COMMIT=" + releaseCommit,
		"COMMIT_DATE=2026-01-02T03:04:06Z", "PLATFORMS=" + platform, "CLI_PLATFORMS=" + platform,
	}, variables...)
	cmd := exec.CommandContext(t.Context(), "make", args...)
	cmd.Dir = tree
	cmd.Env = append(os.Environ(), "DOCKER_CONFIG="+t.TempDir(), "MAKEFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make release: %v\n%s", err, out)
	}
	run := releaseRun{folder: filepath.Join(tree, "out", "addon-helmop", releaseVersion)}
	pushed, err := os.ReadFile(filepath.Join(tree, "out", "release", "pushed.txt"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	run.pushed = strings.Fields(string(pushed))
	return run
}

// copyTree copies the files that Git tracks or would track, as `make verify` does.
func copyTree(t *testing.T) string {
	t.Helper()
	list, err := command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	if err != nil {
		t.Skipf("Git cannot list the files of the tree, which an archive of the sources has not: %v", err)
	}
	tree := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimRight(list, "\x00"), "\x00") {
		info, err := os.Stat(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, readFile(t, name), info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// newKey writes a private key in PKCS #8 and returns its path and the public key.
func newKey(t *testing.T) (path string, public *ecdsa.PublicKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, &key.PublicKey
}

func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[entry.Name()] = string(data)
	}
	return all
}

func checkSums(t *testing.T, folder string) {
	t.Helper()
	all := contents(t, folder)
	sums, err := files.ParseChecksums([]byte(all[files.ChecksumFile]))
	if err != nil {
		t.Fatal(err)
	}
	if len(sums) != len(all)-1 {
		t.Errorf("%d checksums for %d files", len(sums), len(all)-1)
	}
	for name, want := range sums {
		if got, err := files.Sum(filepath.Join(folder, name)); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
}

// checkCommandLine runs the program of the archive, and compares the archive with the manifest for Krew.
func checkCommandLine(t *testing.T, folder string) {
	t.Helper()
	name := fmt.Sprintf("kubectl-helmop_%s_linux_%s.tar.gz", releaseVersion, runtime.GOARCH)
	data := contents(t, folder)[name]
	all, err := files.Unpack(name, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	unpacked := t.TempDir()
	var names []string
	for _, file := range all {
		names = append(names, file.Name)
		if err := os.WriteFile(filepath.Join(unpacked, file.Name), file.Content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(names, []string{"kubectl-helmop", "LICENSE"}) || !all[0].Executable {
		t.Errorf("the archive has %v", names)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(unpacked, "kubectl-helmop"), "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), releaseVersion) || !strings.Contains(string(out), releaseCommit) {
		t.Errorf("the version is %s, %v", out, err)
	}

	var krew struct {
		Spec struct {
			Platforms []struct{ URI, Sha256 string }
		}
	}
	if err := yaml.Unmarshal([]byte(contents(t, folder)["helmop.krew.yaml"]), &krew); err != nil {
		t.Fatal(err)
	}
	sum, err := files.Sum(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	if len(krew.Spec.Platforms) != 1 || krew.Spec.Platforms[0].Sha256 != sum ||
		!strings.HasSuffix(krew.Spec.Platforms[0].URI, "/"+releaseVersion+"/"+name) {
		t.Errorf("Krew installs %+v, want %s with %s", krew.Spec.Platforms, name, sum)
	}
}

// checkLists reads the SPDX documents of the command line and the image.
func checkLists(t *testing.T, folder string) {
	t.Helper()
	found := 0
	for name, text := range contents(t, folder) {
		if !strings.HasSuffix(name, ".spdx.json") {
			continue
		}
		found++
		var document v2_3.Document
		if err := spdxjson.ReadInto(strings.NewReader(text), &document); err != nil {
			t.Fatal(err)
		}
		if err := spdxlib.ValidateDocument(&document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.ContainsFunc(document.Packages, func(one *v2_3.Package) bool {
			return one.PackageName == "helm.sh/helm/v3" && strings.HasPrefix(one.PackageVersion, "v3.")
		}) || document.CreationInfo.Created != "2026-01-02T03:04:06Z" {
			t.Errorf("%s has no package of Helm, or another time", name)
		}
	}
	if found != 2 {
		t.Errorf("%d documents", found)
	}
}

// checkSignedFiles verifies the checksums and the provenance with the library of Sigstore, as cosign does.
func checkSignedFiles(t *testing.T, folder string, public *ecdsa.PublicKey) {
	t.Helper()
	verifier, err := signature.LoadDefaultVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	material := sigstore.NewTrustedPublicKeyMaterial(func(string) (sigstore.TimeConstrainedVerifier, error) {
		return sigstore.NewExpiringKey(verifier, time.Time{}, time.Time{}), nil
	})
	check, err := verify.NewVerifier(material, verify.WithNoObserverTimestamps())
	if err != nil {
		t.Fatal(err)
	}
	all := contents(t, folder)
	for name, subject := range map[string]string{
		files.ChecksumFile: files.ChecksumFile, "provenance.intoto.json": "addon-components.yaml",
	} {
		signed, err := bundle.LoadJSONFromPath(filepath.Join(folder, name+".sigstore.json"))
		if err != nil {
			t.Fatal(err)
		}
		policy := verify.NewPolicy(verify.WithArtifact(strings.NewReader(all[subject])), verify.WithKey())
		result, err := check.Verify(signed, policy)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if result.Statement != nil && result.Statement.GetPredicateType() != provenance.PredicateType {
			t.Errorf("%s is a statement of type %s", name, result.Statement.GetPredicateType())
		}
		other := verify.NewPolicy(verify.WithArtifact(strings.NewReader(all[subject]+"x")), verify.WithKey())
		if _, err := check.Verify(signed, other); err == nil {
			t.Errorf("the signature of %s is also one of other content", name)
		}
	}
}

// checkPushed verifies the image, the chart and the components as the manager verifies charts.
func checkPushed(t *testing.T, pushed []string, public *ecdsa.PublicKey) {
	t.Helper()
	if len(pushed) != 3 {
		t.Fatalf("pushed %v", pushed)
	}
	client, err := oci.New(oci.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := verification.New(verification.Options{Registry: client})
	if err != nil {
		t.Fatal(err)
	}
	text, err := cryptoutils.MarshalPublicKeyToPEM(public)
	if err != nil {
		t.Fatal(err)
	}
	policy := verification.Policy{Provider: verification.Cosign, Keys: map[string][]byte{"cosign.pub": text}}
	for _, reference := range pushed {
		name, digest, _ := strings.Cut(reference, "@")
		url := "oci://" + name[:strings.LastIndex(name, ":")]
		if _, err := verifier.Verify(t.Context(), url, digest, oci.Access{Insecure: true}, policy); err != nil {
			t.Errorf("%s: %v", reference, err)
		}
	}
}

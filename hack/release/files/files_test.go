// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var testTime = time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)

func testFiles() []File {
	return []File{
		{Name: "kubectl-helmop", Executable: true, Content: []byte("program"), Modified: testTime},
		{Name: "LICENSE", Content: []byte("licence"), Modified: testTime},
	}
}

func TestArchivesAreEqualEachTime(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a.tar.gz", "a.zip"} {
		first, err := Archive(name, testTime, testFiles()...)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Archive(name, testTime.In(time.FixedZone("elsewhere", 3600)), testFiles()...)
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("two archives %s differ: %v", name, err)
		}
		unpacked, err := Unpack(name, first)
		if diff := cmp.Diff(testFiles(), unpacked); diff != "" || err != nil {
			t.Errorf("%s: %v (-want, +got):\n%s", name, err, diff)
		}
		if _, err := Unpack(name, first[:len(first)/2]); err == nil {
			t.Errorf("half of %s is accepted", name)
		}
	}
	if _, err := Archive("a.rar", testTime, testFiles()...); err == nil {
		t.Error("an unknown format is accepted")
	}
}

func TestChecksums(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, content := range map[string]string{"b": "two", "a": "one", "a.sigstore.json": "signature"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sums, err := Sums(folder, func(name string) bool { return strings.HasSuffix(name, ".sigstore.json") })
	if err != nil {
		t.Fatal(err)
	}
	one, two := sha256.Sum256([]byte("one")), sha256.Sum256([]byte("two"))
	want := map[string]string{"a": hex.EncodeToString(one[:]), "b": hex.EncodeToString(two[:])}
	text := string(Checksums(sums))
	if text != want["a"]+"  a\n"+want["b"]+"  b\n" {
		t.Errorf("the checksums are %s", text)
	}
	got, err := ParseChecksums([]byte(text))
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, wrong := range []string{"abc  name\n", want["a"] + " name\n", want["a"] + "  ../name\n", "x"} {
		if got, err := ParseChecksums([]byte(wrong)); err == nil {
			t.Errorf("%q is read as %v", wrong, got)
		}
	}
}

func TestKrew(t *testing.T) {
	t.Parallel()
	text, err := Krew("v1.2.3", "https://example.com/download/", []Build{
		{OS: "windows", Arch: "arm64", Archive: "a.zip", Sum: "abc", Binary: "kubectl-helmop.exe"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, Sha256, Bin string
				Files            []struct{ From, To string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Metadata.Name != "helmop" || manifest.Spec.Version != "v1.2.3" || len(manifest.Spec.Platforms) != 1 {
		t.Fatalf("the manifest is\n%s", text)
	}
	one := manifest.Spec.Platforms[0]
	if one.URI != "https://example.com/download/a.zip" || one.Sha256 != "abc" || one.Bin != "kubectl-helmop.exe" ||
		one.Selector.MatchLabels["os"] != "windows" || one.Selector.MatchLabels["arch"] != "arm64" ||
		len(one.Files) != 2 || one.Files[0].From != one.Bin || one.Files[1].From != "LICENSE" {
		t.Errorf("the platform is %+v", one)
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	const changelog = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.2.0] - 2026-01-02\n\n- second\n\n" +
		"## [0.1.0] - 2025-01-02\n\n- first\n\n[Unreleased]: https://example.com\n[0.2.0]: https://example.com\n"
	for version, want := range map[string]string{
		"v0.2.0": "- second\n", "v0.1.0": "- first\n", "v0.3.0": "- new\n", "v0.2.1": "- new\n",
	} {
		if got, err := Notes(changelog, version); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", version, got, err, want)
		}
	}
	if got, err := Notes("# Changelog\n\n## [0.1.0]\n\n- first\n", "v0.2.0"); err == nil {
		t.Errorf("notes of a version without changes: %q", got)
	}
}

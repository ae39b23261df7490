// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"bytes"
	"debug/buildinfo"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// TestDocumentListsTheModulesOfTheProgram reads the document of a small program with modules. Programs of tests have no
// list of modules.
func TestDocumentListsTheModulesOfTheProgram(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "align")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binary, "../../cmd/align").
		CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sum := strings.Repeat("0a", 32)
	for _, image := range []string{"", "registry.example/team/manager"} {
		subject := Subject{Name: "manager", Version: "v1.2.3", Sum: sum, Image: image, Binary: binary,
			Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		text, err := Document(subject)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Document(subject)
		if err != nil || !bytes.Equal(text, again) {
			t.Errorf("two documents differ: %v", err)
		}
		var document v2_3.Document
		if err := spdxjson.ReadInto(bytes.NewReader(text), &document); err != nil {
			t.Fatal(err)
		}
		if err := spdxlib.ValidateDocument(&document); err != nil {
			t.Error(err)
		}
		checkModules(t, binary, &document)
		root := document.Packages[0]
		locator := root.PackageExternalReferences[0].Locator
		if root.PackageVersion != "v1.2.3" || root.PackageChecksums[0].Value != sum ||
			strings.HasPrefix(locator, "pkg:oci/manager@sha256%3A"+sum) != (image != "") {
			t.Errorf("the document describes %+v, %s", root, locator)
		}
	}
}

func checkModules(t *testing.T, binary string, document *v2_3.Document) {
	t.Helper()
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if want := len(info.Deps) + 2; len(document.Packages) != want || len(info.Deps) == 0 {
		t.Errorf("%d packages, want %d", len(document.Packages), want)
	}
	for _, dep := range info.Deps {
		if !slices.ContainsFunc(document.Packages, func(one *v2_3.Package) bool {
			return one.PackageName == dep.Path && one.PackageVersion == dep.Version &&
				strings.HasPrefix(one.PackageExternalReferences[0].Locator, "pkg:golang/"+dep.Path+"@")
		}) {
			t.Errorf("the document does not have %s %s", dep.Path, dep.Version)
		}
	}
	if got := document.Packages[1]; got.PackageName != "stdlib" || "go"+got.PackageVersion != info.GoVersion {
		t.Errorf("the standard library is %s %s, not of %s", got.PackageName, got.PackageVersion, info.GoVersion)
	}
}

func TestOtherFilesAreErrors(t *testing.T) {
	t.Parallel()
	if _, err := Document(Subject{Binary: "sbom.go"}); err == nil {
		t.Error("a text file is a program")
	}
}

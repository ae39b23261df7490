// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sbom lists the modules from which a Go program was built, as an SPDX 2.3 document. It reads the list that the
// linker writes into the program. So the document has exactly the modules whose packages are in the program.
package sbom

import (
	"bytes"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"path"
	"runtime/debug"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const (
	source      = "https://github.com/helmop/cluster-api-addon-provider-helmop"
	noAssertion = "NOASSERTION"
)

// Subject is what a document describes.
type Subject struct {
	// Name is the name of the subject, such as "kubectl-helmop".
	Name string
	// Version is the version of HelmOp.
	Version string
	// File is the file name of the archive that holds the program; empty for an image.
	File string
	// Sum is the SHA-256 of the archive, or of the image's manifest, in hexadecimal.
	Sum string
	// Image is the name of the image, without tag; empty for an archive.
	Image string
	// Binary is the path of the program.
	Binary string
	// Created is the time of the document.
	Created time.Time
}

// Document returns the document as JSON.
func Document(subject Subject) ([]byte, error) {
	info, err := buildinfo.ReadFile(subject.Binary)
	if err != nil {
		return nil, err
	}
	root := rootPackage(subject, info)
	packages := []*v2_3.Package{root, standardLibrary(info.GoVersion)}
	for _, dep := range info.Deps {
		one, err := modulePackage(dep)
		if err != nil {
			return nil, err
		}
		packages = append(packages, one)
	}
	described := common.MakeDocElementID("", "DOCUMENT")
	relations := []*v2_3.Relationship{relation(described, "DESCRIBES", root)}
	for _, one := range packages[1:] {
		relations = append(relations, relation(reference(root), "CONTAINS", one))
	}
	document := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      subject.Name,
		DocumentNamespace: source + "/spdx/" + subject.Name + "-" + subject.Version + "-" + subject.Sum,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "The HelmOp Authors"}},
			Created:  subject.Created.UTC().Format(time.RFC3339),
		},
		Packages: packages, Relationships: relations,
	}
	var buffer bytes.Buffer
	err = spdxjson.Write(document, &buffer, spdxjson.Indent("  "), spdxjson.EscapeHTML(false))
	return buffer.Bytes(), err
}

// rootPackage describes the archive or image.
func rootPackage(subject Subject, info *debug.BuildInfo) *v2_3.Package {
	purpose, locator := "APPLICATION", "pkg:golang/"+info.Main.Path+"@"+subject.Version
	if subject.Image != "" {
		purpose = "CONTAINER"
		locator = "pkg:oci/" + path.Base(subject.Image) + "@sha256%3A" + subject.Sum + "?repository_url=" + subject.Image
	}
	return &v2_3.Package{
		PackageName: subject.Name, PackageSPDXIdentifier: "Root", PackageVersion: subject.Version,
		PackageFileName: subject.File, PackageDownloadLocation: noAssertion, IsFilesAnalyzedTagPresent: true,
		PackageSupplier:         &common.Supplier{SupplierType: "Organization", Supplier: "The HelmOp Authors"},
		PackageChecksums:        []common.Checksum{{Algorithm: common.SHA256, Value: subject.Sum}},
		PackageHomePage:         source,
		PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0",
		PackageCopyrightText:  "Copyright 2026 The HelmOp Authors.",
		PrimaryPackagePurpose: purpose, PackageExternalReferences: packageURL(locator),
	}
}

// standardLibrary describes Go's standard library, because vulnerabilities are published for it too.
func standardLibrary(version string) *v2_3.Package {
	number := strings.TrimPrefix(version, "go")
	one := library("stdlib", number, "pkg:golang/stdlib@"+number)
	one.PackageSPDXIdentifier = "Go-stdlib"
	one.PackageLicenseDeclared = "BSD-3-Clause"
	return one
}

// modulePackage describes a module. Its checksum is the checksum in go.sum, the SHA-256 of a list of the module's
// files.
func modulePackage(dep *debug.Module) (*v2_3.Package, error) {
	if dep.Replace != nil {
		dep = dep.Replace
	}
	if dep.Version == "" || dep.Sum == "" {
		return nil, fmt.Errorf("the module %s has no version: a release must not use a local module", dep.Path)
	}
	one := library(dep.Path, dep.Version, "pkg:golang/"+dep.Path+"@"+strings.ReplaceAll(dep.Version, "+", "%2B"))
	one.PackageSPDXIdentifier = common.ElementID("Module-" + hex.EncodeToString([]byte(dep.Path)))
	one.PackageDownloadLocation = "https://" + dep.Path
	one.PackageComment = "go.sum: " + dep.Sum
	return one, nil
}

func library(name, version, locator string) *v2_3.Package {
	return &v2_3.Package{
		PackageName: name, PackageVersion: version, PackageDownloadLocation: noAssertion, IsFilesAnalyzedTagPresent: true,
		PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
		PrimaryPackagePurpose: "LIBRARY", PackageExternalReferences: packageURL(locator),
	}
}

func packageURL(locator string) []*v2_3.PackageExternalReference {
	return []*v2_3.PackageExternalReference{{Category: common.CategoryPackageManager,
		RefType: common.TypePackageManagerPURL, Locator: locator}}
}

func reference(one *v2_3.Package) common.DocElementID {
	return common.MakeDocElementID("", string(one.PackageSPDXIdentifier))
}

func relation(from common.DocElementID, kind string, to *v2_3.Package) *v2_3.Relationship {
	return &v2_3.Relationship{RefA: from, RefB: reference(to), Relationship: kind}
}

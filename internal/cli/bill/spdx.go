// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

const (
	spdxNamespace = "https://github.com/helmop/cluster-api-addon-provider-helmop/spdx/"
	noAssertion   = "NOASSERTION"
)

// WriteSPDX writes the bill as an SPDX 2.3 document in JSON: a package for each chart and image. A chart depends on its
// images, and its comment contains the HelmOps and the CRDs. The comment of each package says if its registry could not
// be read, and why.
func (b *Bill) WriteSPDX(to io.Writer, created time.Time) error {
	digest, err := b.digest()
	if err != nil {
		return err
	}
	links := b.links()
	document := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: documentName,
		DocumentNamespace: spdxNamespace + documentName + "-" + digest,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "kubectl-helmop-" + version.Version}},
			Created:  created.UTC().Format(time.RFC3339),
		},
	}
	described := common.MakeDocElementID("", "DOCUMENT")
	for i := range b.Charts {
		chart := &b.Charts[i]
		one := spdxPackage("Chart", chart.Name, "APPLICATION", chart.URL, cmp.Or(chart.Version, chart.Tag), chart.Digest,
			chart.packageURL())
		one.PackageComment = comment("HelmOps", links.helmOps[chart.Name]) + comment("CRDs", links.crds[chart.Name]) +
			chart.comment()
		document.Packages = append(document.Packages, one)
		document.Relationships = append(document.Relationships, spdxRelation(described, "DESCRIBES", one))
	}
	for i := range b.Images {
		image := &b.Images[i]
		one := spdxPackage("Image", image.Name, "CONTAINER", image.Name, image.Tag, image.Digest, image.packageURL())
		one.PackageComment = image.comment()
		document.Packages = append(document.Packages, one)
		document.Relationships = append(document.Relationships, spdxRelation(described, "DESCRIBES", one))
		for j := range b.Charts {
			if name := b.Charts[j].Name; slices.Contains(links.images[name], image.Name) {
				from := common.MakeDocElementID("", string(spdxID("Chart", name)))
				document.Relationships = append(document.Relationships, spdxRelation(from, "DEPENDS_ON", one))
			}
		}
	}
	return spdxjson.Write(document, to, spdxjson.Indent("  "), spdxjson.EscapeHTML(false))
}

// spdxID returns the identifier of a package. It replaces characters that identifiers must not contain.
func spdxID(kind, name string) common.ElementID {
	sum := sha256.Sum256([]byte(name))
	return common.ElementID(kind + "-" + hex.EncodeToString(sum[:8]))
}

func spdxPackage(kind, name, purpose, title, version, digest, locator string) *v2_3.Package {
	one := &v2_3.Package{
		PackageName: title, PackageSPDXIdentifier: spdxID(kind, name), PackageVersion: version,
		PackageDownloadLocation: noAssertion, IsFilesAnalyzedTagPresent: true, PackageLicenseConcluded: noAssertion,
		PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion, PrimaryPackagePurpose: purpose,
	}
	if hex := sum(digest); hex != "" {
		one.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: hex}}
	}
	if locator != "" {
		one.PackageExternalReferences = []*v2_3.PackageExternalReference{{Category: common.CategoryPackageManager,
			RefType: common.TypePackageManagerPURL, Locator: locator}}
	}
	return one
}

func spdxRelation(from common.DocElementID, kind string, to *v2_3.Package) *v2_3.Relationship {
	return &v2_3.Relationship{RefA: from, RefB: common.MakeDocElementID("", string(to.PackageSPDXIdentifier)),
		Relationship: kind}
}

// comment returns why the registry could not be read; empty if it was read.
func (f *Findings) comment() string {
	if f.Message == "" {
		return ""
	}
	return comment("Unknown", []string{f.Message})
}

// comment returns a line of a comment; empty if there are no names.
func comment(title string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return title + ": " + strings.Join(names, ", ") + "\n"
}

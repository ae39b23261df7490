// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
)

// documentName is the name of the bill in other formats.
const documentName = "helmop-bill"

// digest returns the SHA-256 of the bill as hexadecimal digits. Equal bills have equal digests.
func (b *Bill) digest() (string, error) {
	data, err := json.Marshal(b)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}

// links holds the images, the CRDs, the HelmOps and the required signers of each chart.
type links struct {
	images, crds, helmOps, signers map[string][]string
}

// links returns the links of all groups.
func (b *Bill) links() links {
	all := links{map[string][]string{}, map[string][]string{}, map[string][]string{}, map[string][]string{}}
	for i := range b.Groups {
		for j := range b.Groups[i].Releases {
			all.add(&b.Groups[i].Releases[j])
		}
	}
	for _, lists := range []map[string][]string{all.images, all.crds, all.helmOps, all.signers} {
		for chart, list := range lists {
			slices.Sort(list)
			lists[chart] = slices.Compact(list)
		}
	}
	return all
}

// add adds the links of a release.
func (l *links) add(release *Release) {
	l.helmOps[release.Chart] = append(l.helmOps[release.Chart], release.HelmOp)
	l.images[release.Chart] = append(l.images[release.Chart], release.Images...)
	for _, crd := range release.CRDs {
		l.crds[release.Chart] = append(l.crds[release.Chart], crd.String())
	}
	if release.Verification != nil {
		l.signers[release.Chart] = append(l.signers[release.Chart], release.Verification.Signers...)
	}
}

// sum returns the hexadecimal digits of a SHA-256 digest; empty for other digests.
func sum(digest string) string {
	hex, ok := strings.CutPrefix(digest, "sha256:")
	if !ok {
		return ""
	}
	return hex
}

// packageURL returns the package URL of a chart.
func (c *Chart) packageURL() string {
	if chartrepo.IsURL(c.URL) {
		return "pkg:generic/" + url.PathEscape(path.Base(c.URL)) + "@" + url.QueryEscape(c.Version) + "?checksum=" +
			url.QueryEscape(c.Digest)
	}
	return ociPackageURL(strings.TrimPrefix(c.URL, ociScheme), c.Digest, c.Tag)
}

// packageURL returns the package URL of an image.
func (i *Image) packageURL() string {
	if i.Repository == "" {
		return ""
	}
	return ociPackageURL(i.Repository, i.Digest, i.Tag)
}

// ociPackageURL returns the package URL of an artifact in a registry. The qualifiers are sorted by name.
func ociPackageURL(repository, digest, tag string) string {
	locator := "pkg:oci/" + url.PathEscape(strings.ToLower(path.Base(repository)))
	if digest != "" {
		locator += "@" + url.QueryEscape(digest)
	}
	locator += "?repository_url=" + strings.ReplaceAll(url.QueryEscape(repository), "%2F", "/")
	if tag != "" {
		locator += "&tag=" + url.QueryEscape(tag)
	}
	return locator
}

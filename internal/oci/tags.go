/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package oci

import (
	"strings"

	"github.com/Masterminds/semver/v3"
)

// tagName maps a version to the tag it is pushed under: tags cannot hold the
// "+" of build metadata, so Helm and others write "_" for it.
func tagName(version string) string {
	return strings.ReplaceAll(version, "+", "_")
}

// tagVersion returns the version that a tag stands for, or nil if the tag is no
// complete version. "1.2" and "20260101" are none: the first is a moving alias,
// the second would beat every real version.
func tagVersion(tag string) *semver.Version {
	text := strings.ReplaceAll(strings.TrimPrefix(tag, "v"), "_", "+")
	version, err := semver.StrictNewVersion(text)
	if err != nil {
		return nil
	}
	return version
}

// versionText returns the version a tag stands for as text, with the "v" it
// may have, or "" if the tag is no version.
func versionText(tag string) string {
	if tagVersion(tag) == nil {
		return ""
	}
	return strings.ReplaceAll(tag, "_", "+")
}

// isAttachment tells the tags under which signatures, attestations and bills
// of material are stored beside an artifact.
func isAttachment(tag string) bool {
	if strings.HasPrefix(tag, "sha256-") || strings.HasPrefix(tag, "sha512-") {
		return true
	}
	for _, suffix := range []string{".sig", ".att", ".sbom"} {
		if strings.HasSuffix(tag, suffix) {
			return true
		}
	}
	return false
}

// tagChoice picks the highest version in a range from tags given one by one, so
// that thousands of tags need not be held.
type tagChoice struct {
	within  *semver.Constraints
	tag     string
	version *semver.Version
	seen    int
}

// consider takes a tag into account. Of two tags of the same precedence, which
// differ in "v" or build metadata only, the one that sorts last wins, so that
// the order in which a registry lists them does not matter.
func (c *tagChoice) consider(tag string) {
	c.seen++
	if isAttachment(tag) || !tagPattern.MatchString(tag) {
		return
	}
	version := tagVersion(tag)
	if version == nil || !c.within.Check(version) {
		return
	}
	if c.version != nil {
		order := version.Compare(c.version)
		if order < 0 || order == 0 && tag < c.tag {
			return
		}
	}
	c.tag, c.version = tag, version
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"cmp"
	"fmt"
	"iter"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

const (
	// maxTagPageBytes is the maximum size of a page of tags. A page can hold maxTags tags of the maximum length.
	maxTagPageBytes = 16 << 20
	// maxEmptyPages limits the number of pages without a tag in one list. Registries that filter their pages may send
	// empty pages.
	maxEmptyPages = 16
)

// tagName returns the tag for a version. A tag cannot contain the "+" of build metadata, so Helm and other tools
// replace it by "_".
func tagName(version string) string {
	return strings.ReplaceAll(version, "+", "_")
}

// tagVersion returns the version of a tag, or nil if the tag is not a complete version. "1.2" is not a version, because
// it is an alias that moves. "20260101" is not a version, because it would be higher than every real version.
func tagVersion(tag string) *semver.Version {
	text := strings.ReplaceAll(strings.TrimPrefix(tag, "v"), "_", "+")
	version, err := semver.StrictNewVersion(text)
	if err != nil {
		return nil
	}
	return version
}

// looseVersion returns the version of a tag, for references without a range. Numbers may have leading zeros. Without
// this rule, the date 2025.12.31 would be a version and 2026.01.01 would not.
func looseVersion(tag string) *semver.Version {
	if version := tagVersion(tag); version != nil {
		return version
	}
	text := strings.TrimPrefix(tag, "v")
	if text == "" || !isDigit(text[0]) {
		return nil
	}
	text, build, _ := strings.Cut(text, "_") // build metadata has no influence on the order
	core, pre, found := strings.Cut(text, "-")
	text = trimZeros(core)
	if found {
		text += "-" + trimZeros(pre)
	}
	version := tagVersion(text)
	if version == nil {
		return nil
	}
	if withBuild, err := version.SetMetadata(build); err == nil {
		return &withBuild
	}
	return version
}

// TagVersion returns the semantic version by which references order a tag, without "v" and leading zeros. It returns ""
// if the tag is not a complete version, for example "stable" or "1.2".
func TagVersion(tag string) string {
	if version := looseVersion(tag); version != nil {
		return version.String()
	}
	return ""
}

// trimZeros removes the leading zeros of numbers between dots.
func trimZeros(text string) string {
	parts := strings.Split(text, ".")
	for i, part := range parts {
		if number, rest := cutNumber(part); part != "" && rest == "" {
			parts[i] = cmp.Or(number, "0")
		}
	}
	return strings.Join(parts, ".")
}

// versionText returns the version of a tag as text, with its optional "v". It returns "" if the tag is not a version.
func versionText(tag string) string {
	if tagVersion(tag) == nil {
		return ""
	}
	return strings.ReplaceAll(tag, "_", "+")
}

// isAttachment reports whether the tag belongs to a signature, attestation or bill of materials of an artifact.
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

// The ranks of tags for references without a range. A tag of a higher rank wins against all tags of a lower rank.
const (
	rankOther = iota
	rankPrerelease
	rankRelease
)

// tagChoice selects the highest tag. It reads the tags one by one, so the tags are not all in memory.
type tagChoice struct {
	// filter must match the tag. Nil matches all tags.
	filter *regexp.Regexp
	// within is the version range. With nil, all tags match, and are ordered by rank.
	within *semver.Constraints

	tag     string
	version *semver.Version
	rank    int
	// seen is the number of all tags. matched is the number of tags that the filter matches.
	seen, matched int
	// isVersions is true if the tags are versions of a chart repository. It is used in messages.
	isVersions bool
}

// ChooseVersion returns the version of a list that the reference selects. The rules are the same as in Resolve. Errors
// are ErrInvalidReference and ErrNoMatchingTag. subject is used in the error.
func (r Reference) ChooseVersion(subject string, versions iter.Seq[string]) (string, error) {
	choice, err := newTagChoice(r)
	if err != nil {
		return "", &ocierr.Error{Op: opResolve, Subject: subject, Kind: ocierr.ErrInvalidReference, Detail: err.Error()}
	}
	choice.isVersions = true
	chosen := ""
	for version := range versions {
		before := choice.tag
		if choice.consider(tagName(version)); choice.tag != before {
			chosen = version
		}
	}
	if choice.tag == "" {
		return "", choice.none(subject)
	}
	return chosen, nil
}

// newTagChoice returns an error only for a reference that Validate refuses.
func newTagChoice(ref Reference) (*tagChoice, error) {
	choice := &tagChoice{}
	var err error
	if ref.Semver != "" {
		if choice.within, err = parseRange(ref.Semver); err != nil {
			return nil, err
		}
	}
	if ref.TagFilter != "" {
		if choice.filter, err = parseFilter(ref.TagFilter); err != nil {
			return nil, err
		}
	}
	return choice, nil
}

// consider updates the choice with a tag. Tags that differ only in "v", build metadata or leading zeros have the same
// precedence. The last of these in lexical order is chosen, so the result does not depend on the order of the list.
func (c *tagChoice) consider(tag string) {
	c.seen++
	if isAttachment(tag) || !tagPattern.MatchString(tag) || c.filter != nil && !c.filter.MatchString(tag) {
		return
	}
	c.matched++
	var version *semver.Version
	if c.within == nil {
		version = looseVersion(tag)
	} else if version = tagVersion(tag); version == nil || !c.within.Check(version) {
		return
	}
	rank := rankOf(version)
	if c.tag != "" && c.compare(tag, version, rank) <= 0 {
		return
	}
	c.tag, c.version, c.rank = tag, version, rank
}

// compare returns a positive number if the tag is higher than the current choice, and a negative number if it is lower.
func (c *tagChoice) compare(tag string, version *semver.Version, rank int) int {
	var order int
	switch {
	case c.within == nil && rank != c.rank:
		return rank - c.rank
	case version != nil && c.version != nil:
		order = version.Compare(c.version)
	default:
		order = compareNatural(tag, c.tag)
	}
	return cmp.Or(order, cmp.Compare(tag, c.tag))
}

// IsOlder reports whether a tag is lower than another tag, in the order in which the reference selects tags. It is
// false for a reference with a tag or digest. It is also false for tags that differ only in "v" or build metadata.
func (r Reference) IsOlder(tag, other string) bool {
	if r.Semver == "" && r.TagFilter == "" {
		return false
	}
	version, otherVersion := looseVersion(tag), looseVersion(other)
	switch rank, otherRank := rankOf(version), rankOf(otherVersion); {
	case r.Semver == "" && rank != otherRank:
		return rank < otherRank
	case version != nil && otherVersion != nil:
		return version.LessThan(otherVersion)
	default:
		return compareNatural(tag, other) < 0
	}
}

// none returns the error for a list in which no tag matches.
func (c *tagChoice) none(subject string) *ocierr.Error {
	out := &ocierr.Error{Op: opResolve, Subject: subject, Kind: ocierr.ErrNoMatchingTag}
	count := plural.Count(c.seen, "tag", "tags")
	if c.isVersions {
		count = plural.Count(c.seen, "version", "versions")
	}
	switch {
	case c.filter != nil && c.matched == 0:
		out.Detail = fmt.Sprintf("the tag filter matches none of %s", count)
		out.Hint = "check the filter; tags of signatures, attestations and SBOMs are ignored"
	case c.filter != nil:
		out.Detail = fmt.Sprintf("the tag filter matches %d of %s, and none of these is a version in the range",
			c.matched, count)
	default:
		out.Detail = fmt.Sprintf("none of %s is a version in the range", count)
	}
	if out.Hint == "" {
		out.Hint = "check the range; pre-releases match only if it names one, as in \">=1.0.0-0\""
	}
	return out
}

// tagPages detects a loop in the pages of a tag list. The first and the last tag identify a page, because a list
// contains each tag once.
type tagPages struct {
	seen  map[[2]string]bool
	empty int
}

// repeated returns true if the same page was already recorded, or after too many empty pages. It records the page.
func (p *tagPages) repeated(tags []string) bool {
	if len(tags) == 0 {
		p.empty++
		return p.empty > maxEmptyPages
	}
	key := [2]string{tags[0], tags[len(tags)-1]}
	if p.seen[key] {
		return true
	}
	if p.seen == nil {
		p.seen = map[[2]string]bool{}
	}
	p.seen[key] = true
	return false
}

func rankOf(version *semver.Version) int {
	switch {
	case version == nil:
		return rankOther
	case version.Prerelease() != "":
		return rankPrerelease
	default:
		return rankRelease
	}
}

// compareNatural compares texts byte by byte, but runs of digits by their number, at any length. "a-9" is before
// "a-10", and "a-09" equals "a-9".
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		if !isDigit(a[0]) || !isDigit(b[0]) {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		var numberA, numberB string
		numberA, a = cutNumber(a)
		numberB, b = cutNumber(b)
		if order := cmp.Or(cmp.Compare(len(numberA), len(numberB)), cmp.Compare(numberA, numberB)); order != 0 {
			return order
		}
	}
	return cmp.Compare(len(a), len(b))
}

// cutNumber splits the leading digits off a text. It removes leading zeros from the number.
func cutNumber(text string) (number, rest string) {
	end := 0
	for end < len(text) && isDigit(text[end]) {
		end++
	}
	return strings.TrimLeft(text[:end], "0"), text[end:]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	_ "crypto/sha256" // registers the algorithm of digests
	_ "crypto/sha512" // registers the second algorithm of OCI

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
)

const (
	// maxRangeLength is the maximum length of a version range. It limits the cost of parsing.
	maxRangeLength = 256
	// maxFilterLength and maxFilterSteps limit the cost of tag filters. The time of RE2 is proportional to the length
	// of the tag and to the number of compiled instructions. A short filter can compile to very many instructions, for
	// example by repetitions like "x{1000}".
	maxFilterLength = 256
	maxFilterSteps  = 2000
)

var tagPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// Source is an artifact in an OCI registry, with the settings for requests to the registry.
type Source struct {
	// URL is the URL of the repository: "oci://host[:port]/path". It has no tag and no digest.
	URL string
	// Ref selects the artifact in the repository.
	Ref Reference
	// Access holds the settings for the requests to the registry.
	Access Access
}

// Access holds the settings for the requests to a registry.
type Access = credentials.Access

// Reference selects one artifact of a repository. Set exactly one of Tag, Digest and Semver, or only TagFilter.
// TagFilter can be combined with Semver.
type Reference struct {
	// Tag is a tag. A "+", as in the version of a chart, is replaced by "_".
	Tag string
	// Digest is the digest of the manifest, "sha256:…".
	Digest string
	// Semver is a version range, for example "~3.30". It selects the highest matching tag. A pre-release matches only
	// if the range contains a pre-release, for example ">=1.0.0-0".
	Semver string
	// TagFilter is a regular expression (RE2) that must match a part of the tag. It is applied to the tags in the
	// registry's list, which have "_" in place of "+". With Semver, only tags that match the filter are compared with
	// the range.
	//
	// Without Semver, TagFilter selects the highest matching tag: the highest release. If no release matches, it
	// selects the highest pre-release. If no pre-release matches, it selects the last tag in natural order. In natural
	// order, runs of digits compare as numbers ("main-9" before "main-10"). Versions may have leading zeros here
	// ("2026.01.09").
	TagFilter string
}

// String returns the reference as text. Messages append this text to the URL.
func (r Reference) String() string {
	switch {
	case r.Digest != "":
		return "@" + r.Digest
	case r.Semver != "" && r.TagFilter != "":
		return fmt.Sprintf(" (semver %q, tag filter %q)", r.Semver, r.TagFilter)
	case r.Semver != "":
		return fmt.Sprintf(" (semver %q)", r.Semver)
	case r.TagFilter != "":
		return fmt.Sprintf(" (tag filter %q)", r.TagFilter)
	default:
		return ":" + tagName(r.Tag)
	}
}

// Validate returns ErrInvalidReference if the URL or the reference is malformed. It sends no request.
func (s Source) Validate() error {
	if _, err := routes.ParseURL(s.URL); err != nil {
		return err
	}
	return s.Ref.Validate(s.URL)
}

// ValidateRepository returns ErrInvalidReference if the URL is not the URL of a repository. It sends no request.
func ValidateRepository(url string) error {
	_, err := routes.ParseURL(url)
	return err
}

// Validate returns ErrInvalidReference if the reference is malformed. url is used in the error.
func (r Reference) Validate(url string) error {
	invalid := func(format string, args ...any) error {
		return &ocierr.Error{Op: "parse reference of", Subject: url, Kind: ocierr.ErrInvalidReference,
			Detail: fmt.Sprintf(format, args...)}
	}
	set := 0
	for _, field := range []string{r.Tag, r.Digest, r.Semver} {
		if field != "" {
			set++
		}
	}
	switch {
	case set == 0 && r.TagFilter == "":
		return invalid("one of tag, digest, semver and tagFilter must be set")
	case set > 1:
		return invalid("exactly one of tag, digest and semver must be set, not %d", set)
	case r.TagFilter != "" && r.Tag+r.Digest != "":
		return invalid("tagFilter can be set alone or with semver, but not with a tag or a digest")
	case r.Tag != "" && !tagPattern.MatchString(tagName(r.Tag)):
		return invalid("%q is not a tag", r.Tag)
	case r.Digest != "":
		if _, err := digest.Parse(r.Digest); err != nil {
			return invalid("%q is not a digest: %v", r.Digest, err)
		}
	}
	if r.Semver != "" {
		if _, err := parseRange(r.Semver); err != nil {
			return invalid("%q is not a version range: %v", clip(r.Semver), err)
		}
	}
	if r.TagFilter != "" {
		if _, err := parseFilter(r.TagFilter); err != nil {
			return invalid("%q is not a tag filter: %v", clip(r.TagFilter), err)
		}
	}
	return nil
}

func parseRange(text string) (*semver.Constraints, error) {
	if len(text) > maxRangeLength {
		return nil, fmt.Errorf("longer than %d characters", maxRangeLength)
	}
	return semver.NewConstraint(text)
}

// parseFilter compiles a tag filter. It returns an error if the cost of the filter exceeds the limits.
func parseFilter(text string) (*regexp.Regexp, error) {
	if len(text) > maxFilterLength {
		return nil, fmt.Errorf("longer than %d characters", maxFilterLength)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, filterError(err)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, filterError(err)
	}
	if len(program.Inst) > maxFilterSteps {
		return nil, errors.New("repetition counts are too large")
	}
	return regexp.Compile(text)
}

// filterError returns the cause and the position of a syntax error in a regular expression.
func filterError(err error) error {
	var at *syntax.Error
	if errors.As(err, &at) {
		return fmt.Errorf("%s at %q", at.Code, clip(at.Expr))
	}
	return err
}

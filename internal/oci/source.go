// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	_ "crypto/sha256" // registers the algorithm of digests
	_ "crypto/sha512" // registers the other algorithm OCI allows

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
)

const (
	// maxRangeLength bounds the cost of parsing a range.
	maxRangeLength = 256
	// maxFilterLength and maxFilterSteps bound the cost of tag filters. The time of RE2 is
	// proportional to the length of the tag and to the number of compiled instructions. A few
	// repetitions like "x{1000}" compile to very many instructions.
	maxFilterLength = 256
	maxFilterSteps  = 2000
)

var tagPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// Source is an artifact in an OCI registry and the settings to access it.
type Source struct {
	// URL names the repository: "oci://host[:port]/path", without tag or digest.
	URL string
	// Ref selects the artifact in the repository.
	Ref Reference
	// Access holds the settings for the requests to the registry.
	Access Access
}

// Access holds the settings for the requests to a registry.
type Access = credentials.Access

// Reference selects one artifact of a repository. Set exactly one of Tag, Digest and Semver, or
// TagFilter alone. TagFilter may be combined with Semver.
type Reference struct {
	// Tag is a tag. A "+" of a chart version is looked up as "_".
	Tag string
	// Digest is the manifest's digest, "sha256:…".
	Digest string
	// Semver is a version range, for example "~3.30". It selects the highest matching tag.
	// Pre-releases match only if the range names one, for example ">=1.0.0-0".
	Semver string
	// TagFilter is a regular expression (RE2) that must match a part of the tag. It sees tags as the
	// registry lists them, with "_" where a version has "+". With Semver, it limits the tags that the
	// range is applied to.
	//
	// Without Semver, it selects the highest of the tags that it matches: the highest release, or else
	// the highest pre-release, or else the last tag in natural order. In natural order, runs of digits
	// compare as numbers ("main-9" before "main-10"). Here, three numbers with dots are a version even
	// with leading zeros ("2026.01.09").
	TagFilter string
}

// String returns the reference in the form that messages append to the URL.
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

// Validate returns an ErrInvalidReference if the URL or the reference is malformed. It makes no
// request.
func (s Source) Validate() error {
	if _, err := routes.ParseURL(s.URL); err != nil {
		return err
	}
	return s.Ref.Validate(s.URL)
}

// ValidateRepository returns an ErrInvalidReference if a URL does not name a repository. It makes
// no request.
func ValidateRepository(url string) error {
	_, err := routes.ParseURL(url)
	return err
}

// Validate returns an ErrInvalidReference if the reference is malformed. url is for the message.
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

// parseFilter compiles a tag filter whose cost is within the limits.
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

// filterError returns the cause and the place of a syntax error in a regular expression.
func filterError(err error) error {
	var at *syntax.Error
	if errors.As(err, &at) {
		return fmt.Errorf("%s at %q", at.Code, clip(at.Expr))
	}
	return err
}

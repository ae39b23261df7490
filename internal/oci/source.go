// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	_ "crypto/sha256" // registers the algorithm of digests
	_ "crypto/sha512" // registers the other algorithm OCI allows

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry"
)

const (
	scheme = "oci://"
	// maxURLLength is far above what registries accept (255 for a repository).
	maxURLLength = 1024
	// maxRangeLength keeps the parsing of ranges cheap.
	maxRangeLength = 256
	// maxFilterLength and maxFilterSteps keep tag filters cheap: RE2 takes time in
	// proportion to the tag and to the instructions a filter compiles to, and a few
	// repetitions like "x{1000}" make very many of those.
	maxFilterLength = 256
	maxFilterSteps  = 2000
)

// hostPattern is what a registry's host looks like, port included. The protocol
// library lets any bytes through that do not end the host of a URL. A dot at the
// end and zeros before the port would be other spellings of the same host, which
// no rule about the host is written for.
var hostPattern = regexp.MustCompile(`^([A-Za-z0-9._-]*[A-Za-z0-9_-]|\[[0-9A-Fa-f:.]+\])(:[1-9][0-9]{0,4})?$`)

var tagPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// Source is an artifact in an OCI registry and how to reach it.
type Source struct {
	// URL names the repository: "oci://host[:port]/path", without tag or digest.
	URL string
	// Ref picks the artifact in the repository.
	Ref Reference
	// Access says how to talk to the registry.
	Access Access
}

// Reference picks one artifact of a repository. Exactly one of Tag, Digest and
// Semver is set, or TagFilter alone; TagFilter may go with Semver.
type Reference struct {
	// Tag is a tag; a "+" of a chart version is looked up as "_".
	Tag string
	// Digest is the manifest's digest, "sha256:…".
	Digest string
	// Semver is a range, "~3.30" for example; the highest tag in it wins.
	// Pre-releases count only if the range names one, ">=1.0.0-0" for example.
	Semver string
	// TagFilter is a regular expression (RE2) that a tag must match somewhere to
	// count, as the registry lists it: with "_" where a version has "+". With
	// Semver it narrows down what the range is applied to. Alone, the highest tag
	// that it matches wins: of releases the highest version; where it matches no
	// release, of pre-releases the highest; where it matches neither, the tag that
	// is last in natural order, in which runs of digits compare as numbers
	// ("main-9" before "main-10"). Three numbers with dots are a version here even
	// with leading zeros ("2026.01.09").
	TagFilter string
}

// String returns the reference as it is shown behind the URL in messages.
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

// Validate returns nil if the URL and the reference are well-formed, and else
// an ErrInvalidReference. It makes no request.
func (s Source) Validate() error {
	if _, err := parseURL(s.URL); err != nil {
		return err
	}
	return s.Ref.validate(s.URL)
}

// ValidateRepository returns nil if a URL names a repository, and else an ErrInvalidReference. It makes no request.
func ValidateRepository(url string) error {
	_, err := parseURL(url)
	return err
}

func parseURL(url string) (registry.Reference, error) {
	invalid := func(subject, detail string) (registry.Reference, error) {
		return registry.Reference{}, &Error{Op: "parse URL", Subject: subject, Kind: ErrInvalidReference, Detail: detail}
	}
	if len(url) > maxURLLength {
		return invalid("", fmt.Sprintf("longer than %d characters", maxURLLength))
	}
	if strings.ContainsRune(url, '@') {
		// What stands before the @ may be a password: it is not repeated.
		return invalid("", `"@" is not allowed; put a digest into the reference and credentials into a Secret`)
	}
	subject := fmt.Sprintf("%q", url)
	rest, ok := strings.CutPrefix(url, scheme)
	if !ok {
		return invalid(subject, `must start with "oci://"`)
	}
	ref, err := registry.ParseReference(rest)
	if err != nil {
		return invalid(subject, "must be oci://host[:port]/path in lower case")
	}
	if ref.Reference != "" || strings.HasSuffix(rest, ":") {
		return invalid(subject, "must not contain a tag; put it into the reference")
	}
	if strings.HasSuffix(ref.Registry, ":") {
		return invalid(subject, "port is missing")
	}
	if !hostPattern.MatchString(ref.Registry) {
		return invalid(subject,
			"the host must be an IP address or a name of letters, digits, dots and dashes, without a trailing dot, "+
				"and the port must not start with zeros; write an international name in its xn-- form")
	}
	return ref, nil
}

func (r Reference) validate(url string) error {
	invalid := func(format string, args ...any) error {
		return &Error{Op: "parse reference of", Subject: url, Kind: ErrInvalidReference, Detail: fmt.Sprintf(format, args...)}
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

// parseFilter compiles a tag filter, whose cost is bounded.
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

// filterError says what is wrong with a regular expression and where.
func filterError(err error) error {
	var at *syntax.Error
	if errors.As(err, &at) {
		return fmt.Errorf("%s at %q", at.Code, clip(at.Expr))
	}
	return err
}

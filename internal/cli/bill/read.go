// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
)

// Read reads a bill as JSON or YAML. It refuses a bill whose fields contradict each other: otherwise one command would
// copy an artifact, and another one would look for a different artifact.
func Read(data []byte) (*Bill, error) {
	bill := &Bill{}
	if err := yaml.Unmarshal(data, bill); err != nil {
		return nil, fmt.Errorf("not a bill: %w", err)
	}
	if bill.Version != Version {
		return nil, fmt.Errorf("not a bill of a known version: its version is %q, and this program knows %q", bill.Version,
			Version)
	}
	known := map[string]bool{}
	for i := range bill.Charts {
		chart := &bill.Charts[i]
		if err := accept(known, chart.Name, chart.Attached, chart.validate()); err != nil {
			return nil, fmt.Errorf("not a valid bill: chart %q: %w", chart.Name, err)
		}
	}
	clear(known)
	for i := range bill.Images {
		image := &bill.Images[i]
		if err := accept(known, image.Name, image.Attached, image.validate()); err != nil {
			return nil, fmt.Errorf("not a valid bill: image %q: %w", image.Name, err)
		}
	}
	return bill, nil
}

// accept checks that an artifact is valid and listed only once, and that its attached artifacts are valid.
func accept(known map[string]bool, name string, attached []Attached, err error) error {
	switch {
	case err != nil:
		return err
	case known[name]:
		return errors.New("it is listed twice")
	}
	known[name] = true
	for _, one := range attached {
		if err := validDigest(one.Digest); err != nil {
			return err
		}
		if err := validTag(one.Tag); err != nil {
			return err
		}
	}
	return nil
}

// validate checks the fields of a chart.
func (c *Chart) validate() error {
	if err := validDigest(c.Digest); err != nil {
		return err
	}
	if want := c.name(); c.Name != want {
		return fmt.Errorf("its URL, tag, version and digest are those of %q", want)
	}
	if chartrepo.IsURL(c.URL) {
		return c.validateVersion()
	}
	bare, ok := strings.CutPrefix(c.URL, ociScheme)
	ref, err := registry.ParseReference(bare)
	if !ok || err != nil || ref.Reference != "" {
		return fmt.Errorf("its URL %q is neither oci://HOST/REPOSITORY nor https://HOST/PATH/CHART", c.URL)
	}
	return validTag(c.Tag)
}

// validateVersion checks the URL and the version of a chart of a chart repository.
func (c *Chart) validateVersion() error {
	site, err := url.Parse(c.URL)
	if err != nil || site.Host == "" || strings.Trim(site.Path, "/") == "" || *site != (url.URL{Scheme: site.Scheme,
		Host: site.Host, Path: site.Path, RawPath: site.RawPath}) {
		return errors.New("its URL must be https://HOST/PATH/CHART, without a user and without a query")
	}
	if c.Version == "" || c.Tag != "" && c.Tag != c.Version {
		return fmt.Errorf("its version %q and its tag %q must be the version in the chart repository", c.Version, c.Tag)
	}
	return validTag(tagOfVersion(c.Version))
}

// validate checks that the fields of an image agree with its name. The digest of a tag cannot be checked. If the name
// is not the name of an image, it sets the message.
func (i *Image) validate() error {
	want, err := imageOf(i.Name)
	if err != nil && i.Message == "" {
		i.Message = err.Error() // the bill must not count as complete
	}
	if i.Repository != want.Repository || i.Tag != want.Tag {
		return fmt.Errorf("its repository %q and its tag %q do not match its name, which has %q and %q", i.Repository, i.Tag,
			want.Repository, want.Tag)
	}
	switch {
	case err != nil && i.Digest != "":
		return errors.New("its name is not the name of an image, but it has a digest; remove the digest, or correct the name")
	case want.Digest != "" && i.Digest != want.Digest:
		return fmt.Errorf("its digest %q is not the digest in its name", i.Digest)
	case i.Digest == "":
		return nil
	default:
		return validDigest(i.Digest)
	}
}

// ociScheme is the start of the URL of a repository in a registry.
const ociScheme = "oci://"

// validDigest checks a digest.
func validDigest(text string) error {
	if _, err := digest.Parse(text); err != nil {
		return fmt.Errorf("%q is not a digest: %w", text, err)
	}
	return nil
}

// validTag checks a tag; empty is valid.
func validTag(tag string) error {
	ref := registry.Reference{Reference: tag}
	if tag == "" || ref.ValidateReferenceAsTag() == nil {
		return nil
	}
	return fmt.Errorf("%q is not a tag", tag)
}

// tagOfVersion returns the tag for the copy of a chart from a chart repository. A tag cannot contain a plus sign.
func tagOfVersion(version string) string { return strings.ReplaceAll(version, "+", "_") }

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"cmp"
	"slices"
	"strings"

	"oras.land/oras-go/v2/registry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/images"
)

// Version is the version of the format.
const Version = "helmop.bill/v1"

// Bill lists what the HelmOps of a fleet install.
type Bill struct {
	Version string `json:"version"`

	// Clusters is the number of all Clusters. Incomplete is the number of Clusters with a release whose contents are not
	// known.
	Clusters   int `json:"clusters"`
	Incomplete int `json:"incomplete"`

	// Groups are the Clusters with the same releases, the largest group first. They refer to the artifacts in the lists
	// below.
	Groups []Group `json:"groups"`

	Charts []Chart `json:"charts"`
	Images []Image `json:"images"`
	CRDs   []CRD   `json:"crds"`
}

// Group are Clusters with the same releases.
type Group struct {
	Clusters []string `json:"clusters"`

	// Offline are the Clusters of the group whose releases were rendered without a connection to the Cluster.
	Offline []string `json:"offline,omitempty"`

	Releases []Release `json:"releases"`
}

// Release is a release of a HelmOp in each Cluster of a group.
type Release struct {
	HelmOp string `json:"helmOp"`

	// Chart is the name of the chart. Images are the names of the images.
	Chart  string   `json:"chart,omitempty"`
	Images []string `json:"images,omitempty"`
	CRDs   []CRD    `json:"crds,omitempty"`

	// Verification is the requirement of spec.source.verify for the chart and its result; nil if nothing is required.
	Verification *Verification `json:"verification,omitempty"`

	// Message is the reason why the contents are not known; empty if they are known.
	Message string `json:"message,omitempty"`
}

// Verification is the requirement of a HelmOp for the signatures of its chart, with the result of the check.
type Verification struct {
	// Provider is the kind of signatures that spec.source.verify requires.
	Provider string `json:"provider"`
	// Signers are the signers of the chart that meet the requirement.
	Signers []string `json:"signers,omitempty"`
	// Message is the reason why the chart is not accepted; empty if it is accepted.
	Message string `json:"message,omitempty"`
}

// Chart is a chart, or another artifact that a HelmOp installs.
type Chart struct {
	// Name is URL:TAG@DIGEST, or URL:VERSION@DIGEST for a chart repository.
	Name string `json:"name"`
	// URL is oci://HOST/REPOSITORY, or https://HOST/PATH/CHART for a chart repository.
	URL     string `json:"url"`
	Version string `json:"version,omitempty"`
	Tag     string `json:"tag,omitempty"`
	// Digest is the digest of the manifest, or of the archive in a chart repository.
	Digest string `json:"digest"`
	// IsEarlier is true if only Clusters that are pinned to an earlier HelmOp revision install the chart. Its tag may have
	// moved meanwhile, so a copy of the chart gets no tag.
	IsEarlier bool `json:"earlier,omitempty"`

	Findings
}

// Image is an image of a container or of a volume.
type Image struct {
	// Name is the name of the image in the objects.
	Name string `json:"name"`
	// Repository is HOST/REPOSITORY, and Tag is empty for an image by digest.
	Repository string `json:"repository,omitempty"`
	Tag        string `json:"tag,omitempty"`
	// Digest is empty if it is not known.
	Digest string `json:"digest,omitempty"`

	Findings
}

// Findings are the results of a lookup of an artifact in its registry.
type Findings struct {
	// Attached are signatures, attestations and other artifacts that refer to the artifact.
	Attached []Attached `json:"attached,omitempty"`

	// Message is the reason why the registry could not be read; empty if it was read or not asked.
	Message string `json:"message,omitempty"`
}

// Attached is an artifact that refers to another artifact.
type Attached struct {
	// Kind is "Signature", "Attestation", "SBOM" or "Other".
	Kind   string `json:"kind"`
	Digest string `json:"digest"`
	// Tag is the tag under which cosign stores the artifact; empty for a referrer.
	Tag string `json:"tag,omitempty"`
	// Type is the artifact type of a referrer.
	Type string `json:"type,omitempty"`
}

// CRD is a CustomResourceDefinition.
type CRD struct {
	Name     string   `json:"name"`
	Versions []string `json:"versions"`
}

// String returns the name and the versions.
func (c CRD) String() string { return c.Name + " (" + strings.Join(c.Versions, ", ") + ")" }

// name returns the name of a chart.
func (c *Chart) name() string {
	if tag := cmp.Or(c.Tag, c.Version); tag != "" {
		return c.URL + ":" + tag + "@" + c.Digest
	}
	return c.URL + "@" + c.Digest
}

// imageOf returns the image with a name. If there is an error, the image has only the name.
func imageOf(name string) (Image, error) {
	ref, err := images.Parse(name)
	if err != nil {
		return Image{Name: name}, err
	}
	image := Image{Name: name, Repository: ref.Registry + "/" + ref.Repository}
	if isDigest(ref) {
		image.Digest = ref.Reference
	} else {
		image.Tag = ref.Reference
	}
	return image, nil
}

// isDigest reports whether a reference contains a digest.
func isDigest(ref registry.Reference) bool { return ref.ValidateReferenceAsDigest() == nil }

// Chart returns the chart with a name; nil if there is none.
func (b *Bill) Chart(name string) *Chart {
	if i := slices.IndexFunc(b.Charts, func(c Chart) bool { return c.Name == name }); i >= 0 {
		return &b.Charts[i]
	}
	return nil
}

// Image returns the image with a name; nil if there is none.
func (b *Bill) Image(name string) *Image {
	if i := slices.IndexFunc(b.Images, func(i Image) bool { return i.Name == name }); i >= 0 {
		return &b.Images[i]
	}
	return nil
}

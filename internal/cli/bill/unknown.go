// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"errors"
	"fmt"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/mirror"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// Unknown is an artifact of a bill whose digest or attached artifacts are not known.
type Unknown struct {
	// Kind is "Chart" or "Image".
	Kind string `json:"kind"`
	// Name is the artifact in the bill.
	Name string `json:"name"`
	// Message is the reason why they are not known.
	Message string `json:"message"`
}

// Unknown returns the artifacts whose registry could not be read, and the images with an invalid name.
func (b *Bill) Unknown() []Unknown {
	var unknown []Unknown
	for i := range b.Charts {
		if message := b.Charts[i].Message; message != "" {
			unknown = append(unknown, Unknown{Kind: "Chart", Name: b.Charts[i].Name, Message: message})
		}
	}
	for i := range b.Images {
		if message := b.Images[i].Message; message != "" {
			unknown = append(unknown, Unknown{Kind: "Image", Name: b.Images[i].Name, Message: message})
		}
	}
	return unknown
}

// Problem returns an error if the bill is incomplete.
func (b *Bill) Problem() error {
	var parts []string
	if b.Incomplete > 0 {
		parts = append(parts, "the contents of "+plural.Count(b.Incomplete, "Cluster", "Clusters")+
			" are not known completely; see the messages in the list")
	}
	if n := len(b.Unknown()); n > 0 {
		parts = append(parts, plural.Count(n, "artifact is", "artifacts are")+" not known completely; see the warnings")
	}
	if len(parts) == 0 {
		return nil
	}
	return errors.New(strings.Join(parts, ", and "))
}

// Gaps returns what the bill lacks. Because of it, a copy of the entries from Sources may be incomplete.
func (b *Bill) Gaps(entries []mirror.Entry) []string {
	var gaps []string
	if b.Incomplete > 0 {
		gaps = append(gaps, "the contents of "+plural.Count(b.Incomplete, "Cluster", "Clusters")+" are not known")
	}
	withoutDigest := 0
	for _, entry := range entries {
		if entry.IsImage && entry.Digest == "" {
			withoutDigest++
		}
	}
	if withoutDigest > 0 {
		gaps = append(gaps, plural.Count(withoutDigest, "image has", "images have")+" no digest")
	}
	for i := range b.Images {
		if image := &b.Images[i]; image.Repository == "" {
			gaps = append(gaps, fmt.Sprintf("%q cannot be copied: %s", image.Name, image.Message))
		}
	}
	return gaps
}

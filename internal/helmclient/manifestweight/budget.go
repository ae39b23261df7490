// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manifestweight

import (
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/releaseutil"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

const (
	// MaxBytes bounds the size of the manifests of a release, with aliases expanded. A record with its chart has at most
	// 64 MiB.
	MaxBytes = 32 << 20
	// MaxValues bounds the number of values in the manifests. In a text without aliases, the characters that separate or
	// open values are counted instead, also in strings: a megabyte of YAML or of dashboards in JSON has about 100,000.
	MaxValues = 300_000
)

// ErrTooLarge means that the manifests of a release exceed a limit.
var ErrTooLarge = fmt.Errorf("the manifests have more than %d MiB or more than %d values with YAML aliases expanded",
	MaxBytes>>20, MaxValues)

// Budget holds the weight of the manifests so far. It is for one goroutine at a time.
type Budget struct{ total yamlweight.Weight }

// Take adds the documents of a text. The error is [ErrTooLarge] if the manifests exceed a limit. It is another error if
// a document must not be parsed.
func (b *Budget) Take(text string) error {
	weight, err := weigh(text, b.total)
	if err != nil {
		return err
	}
	b.total = weight
	return nil
}

// Of returns the weight of one text. The errors are those of [Budget.Take].
func Of(text string) (yamlweight.Weight, error) { return weigh(text, yamlweight.Weight{}) }

// Add adds a text with a known weight.
func (b *Budget) Add(weight yamlweight.Weight) error {
	b.total = b.total.Plus(weight)
	return check(b.total)
}

// Weight returns the weight of the manifests so far.
func (b *Budget) Weight() yamlweight.Weight { return b.total }

// weigh returns the sum of a total and the weight of a text. It splits the text into documents as Helm does. All other
// parsers of manifests make the same documents, or refuse the text.
func weigh(text string, total yamlweight.Weight) (yamlweight.Weight, error) {
	if err := check(total.Plus(yamlweight.Weight{Bytes: int64(len(text))})); err != nil {
		return total, err
	}
	data := []byte(text)
	err := yamlweight.Refusal(data)
	if errors.Is(err, yamlweight.ErrEncoding) {
		return total, err
	}
	if err == nil && !yamlweight.HasAliases(data) {
		total = total.Plus(yamlweight.Of(data))
		return total, check(total)
	}
	for _, document := range releaseutil.SplitManifests(text) {
		data := []byte(document)
		weight := yamlweight.Of(data)
		if err := check(total.Plus(weight)); err != nil {
			return total, err
		}
		if err := yamlweight.Refusal(data); err != nil {
			return total, err
		}
		if yamlweight.HasAliases(data) {
			expanded, err := yamlweight.Expanded(data)
			if err != nil {
				return total, fmt.Errorf("aliases cannot be expanded: %w", err)
			}
			weight = weight.Max(expanded)
		}
		total = total.Plus(weight)
		if err := check(total); err != nil {
			return total, err
		}
	}
	return total, nil
}

// check returns [ErrTooLarge] if a weight exceeds a limit.
func check(weight yamlweight.Weight) error {
	if weight.Bytes > MaxBytes || weight.Values > MaxValues {
		return ErrTooLarge
	}
	return nil
}

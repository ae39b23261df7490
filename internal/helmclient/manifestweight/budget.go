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
	// MaxValues bounds the number of values in the manifests.
	MaxValues = 300_000
	// In small texts, the characters that separate or open values are counted instead of values, also in strings: a
	// megabyte of YAML or of dashboards in JSON has about 100,000. From exactFrom characters on, each document with at
	// least exactDocument of them is parsed to count its values. A document with more than exactMost is not parsed: its
	// parse could take as much memory as the text may take.
	exactFrom, exactDocument, exactMost = 20_000, 1_000, 100_000
)

// ErrTooLarge means that the manifests of a release exceed a limit.
var ErrTooLarge = fmt.Errorf("the manifests have more than %d MiB or more than %d values with YAML aliases expanded",
	MaxBytes>>20, MaxValues)

// Budget holds the weight of the manifests so far. It is for one goroutine at a time.
type Budget struct{ total yamlweight.Weight }

// Take adds the documents of a text. The error is [ErrTooLarge] if the manifests exceed a limit. It is another error if
// a document must not be parsed.
func (b *Budget) Take(text string) error {
	weight, err := weigh(text, b.total, nil)
	if err != nil {
		return err
	}
	b.total = weight
	return nil
}

// Measure returns the weight of one text. It calls hold before it parses a document, with the largest weight that the
// document can have without its aliases, and returns the errors of hold. A nil hold reserves nothing. The other errors
// are those of [Budget.Take].
func Measure(text string, hold func(yamlweight.Weight) error) (yamlweight.Weight, error) {
	return weigh(text, yamlweight.Weight{}, hold)
}

// Add adds a text with a known weight.
func (b *Budget) Add(weight yamlweight.Weight) error {
	b.total = b.total.Plus(weight)
	return check(b.total)
}

// Weight returns the weight of the manifests so far.
func (b *Budget) Weight() yamlweight.Weight { return b.total }

// weigh returns the sum of a total and the weight of a text. It splits the text into documents as Helm does. All other
// parsers of manifests make the same documents, or refuse the text.
func weigh(text string, total yamlweight.Weight, hold func(yamlweight.Weight) error) (yamlweight.Weight, error) {
	if err := check(total.Plus(yamlweight.Weight{Bytes: int64(len(text))})); err != nil {
		return total, err
	}
	data := []byte(text)
	err := yamlweight.Refusal(data)
	if errors.Is(err, yamlweight.ErrEncoding) {
		return total, err
	}
	whole := yamlweight.Of(data)
	if err == nil && whole.Values < exactFrom && !yamlweight.HasAliases(data) {
		total = total.Plus(whole)
		return total, check(total)
	}
	for _, document := range releaseutil.SplitManifests(text) {
		weight, err := weighDocument([]byte(document), hold)
		if err != nil {
			return total, err
		}
		total = total.Plus(weight)
		if err := check(total); err != nil {
			return total, err
		}
	}
	return total, nil
}

// weighDocument returns the weight of one document.
func weighDocument(data []byte, hold func(yamlweight.Weight) error) (yamlweight.Weight, error) {
	if err := yamlweight.Refusal(data); err != nil {
		return yamlweight.Weight{}, err
	}
	weight, hasAliases := yamlweight.Of(data), yamlweight.HasAliases(data)
	if !hasAliases && (weight.Values < exactDocument || weight.Values > exactMost) {
		return weight, nil
	}
	if err := check(weight); err != nil {
		return weight, err
	}
	if hold != nil {
		if err := hold(weight); err != nil {
			return yamlweight.Weight{}, err
		}
	}
	expanded, err := yamlweight.Expanded(data)
	switch {
	case hasAliases && err != nil:
		return yamlweight.Weight{}, fmt.Errorf("aliases cannot be expanded: %w", err)
	case hasAliases:
		return weight.Max(expanded), nil
	case err == nil:
		weight.Values = min(weight.Values, expanded.Values)
	}
	// The parser of the objects reports an error of a text without aliases.
	return weight, nil
}

// check returns [ErrTooLarge] if a weight exceeds a limit.
func check(weight yamlweight.Weight) error {
	if weight.Bytes > MaxBytes || weight.Values > MaxValues {
		return ErrTooLarge
	}
	return nil
}

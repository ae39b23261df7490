// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"helm.sh/helm/v3/pkg/releaseutil"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

const (
	// maxManifestBytes bounds the size of the manifests of a release, with aliases expanded. A record with its chart has
	// at most 64 MiB.
	maxManifestBytes = 32 << 20
	// maxManifestValues bounds the number of YAML values in the manifests. A parsed value takes about a hundred bytes.
	maxManifestValues = 2_000_000
)

// manifestBudget bounds the cost of parsing the manifests of a release. It holds the weight of the manifests so far.
type manifestBudget struct{ total yamlweight.Weight }

// take adds the text of a file. It splits the file into documents as Helm does. It returns an error of the kind
// [ErrInvalidChart] if the manifests exceed a limit.
func (b *manifestBudget) take(name, text string) error {
	if b.total.Bytes+int64(len(text)) > maxManifestBytes {
		return b.exceeded(name)
	}
	for _, document := range releaseutil.SplitManifests(text) {
		weight := yamlweight.Of([]byte(document))
		if yamlweight.HasAliases([]byte(document)) {
			expanded, err := yamlweight.Expanded([]byte(document))
			if err != nil {
				return Errorf(ErrInvalidChart, "YAML parse error on %s: aliases cannot be expanded: %s", name, err)
			}
			weight = weight.Max(expanded)
		}
		b.total = b.total.Plus(weight)
		if b.total.Bytes > maxManifestBytes || b.total.Values > maxManifestValues {
			return b.exceeded(name)
		}
	}
	return nil
}

// exceeded returns the error for manifests that exceed a limit. name is the file that exceeds the limit.
func (b *manifestBudget) exceeded(name string) error {
	return Errorf(ErrInvalidChart,
		"the manifests have more than %d MiB or more than %d values with YAML aliases expanded, "+
			"from %s on: split the chart",
		maxManifestBytes>>20, maxManifestValues, name)
}

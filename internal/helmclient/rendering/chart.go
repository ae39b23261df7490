// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"slices"

	"helm.sh/helm/v3/pkg/chart"
)

// CopyChart copies the parts of a chart that Helm changes: metadata, values and the tree of dependencies. The copy
// shares the files with the original.
func CopyChart(original *chart.Chart) *chart.Chart {
	copied := &chart.Chart{
		Raw:       original.Raw,
		Lock:      original.Lock,
		Templates: original.Templates,
		Values:    CopyValues(original.Values),
		Schema:    original.Schema,
		Files:     original.Files,
		Metadata:  copyMetadata(original.Metadata),
	}
	for _, dependency := range original.Dependencies() {
		copied.AddDependency(CopyChart(dependency))
	}
	return copied
}

// copyMetadata copies the metadata of a chart, including the parts that Helm changes in place.
func copyMetadata(original *chart.Metadata) *chart.Metadata {
	if original == nil {
		return nil
	}
	copied := *original
	// Helm sanitizes strings in place when it validates the metadata.
	copied.Sources, copied.Keywords = slices.Clone(original.Sources), slices.Clone(original.Keywords)
	copied.Maintainers = slices.Clone(original.Maintainers)
	for i, maintainer := range copied.Maintainers {
		if maintainer != nil {
			clone := *maintainer
			copied.Maintainers[i] = &clone
		}
	}
	copied.Dependencies = slices.Clone(original.Dependencies)
	for i, dependency := range copied.Dependencies {
		if dependency == nil {
			continue
		}
		clone := *dependency
		clone.Tags = slices.Clone(dependency.Tags)
		clone.ImportValues = slices.Clone(dependency.ImportValues)
		copied.Dependencies[i] = &clone
	}
	return &copied
}

// CopyValues copies values, including all nested maps and lists.
func CopyValues(original map[string]any) map[string]any {
	copied := make(map[string]any, len(original))
	for key, value := range original {
		copied[key] = copyValue(value)
	}
	return copied
}

func copyValue(original any) any {
	switch typed := original.(type) {
	case map[string]any:
		if typed == nil {
			return typed
		}
		return CopyValues(typed)
	case []any:
		if typed == nil {
			return typed
		}
		copied := make([]any, len(typed))
		for i, value := range typed {
			copied[i] = copyValue(value)
		}
		return copied
	default:
		return original
	}
}

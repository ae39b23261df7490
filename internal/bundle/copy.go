// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"maps"
	"slices"

	"helm.sh/helm/v3/pkg/chart"
)

// copyChart returns a chart that shares nothing that Helm changes with c: only
// the bytes of files, which nobody writes to, are common to both. The files as
// they were packed (Chart.Raw) are left out; only "helm show" and "helm package"
// use them. A test compares every pointer, so that a new field cannot slip in.
func copyChart(c *chart.Chart) *chart.Chart {
	out := &chart.Chart{
		Metadata:  copyMetadata(c.Metadata),
		Lock:      copyLock(c.Lock),
		Templates: copyFiles(c.Templates),
		Values:    copyMap(c.Values),
		Schema:    c.Schema,
		Files:     copyFiles(c.Files),
	}
	for _, subchart := range c.Dependencies() {
		out.AddDependency(copyChart(subchart))
	}
	return out
}

func copyMetadata(m *chart.Metadata) *chart.Metadata {
	if m == nil {
		return nil
	}
	out := *m
	out.Sources = slices.Clone(m.Sources)
	out.Keywords = slices.Clone(m.Keywords)
	out.Annotations = maps.Clone(m.Annotations)
	out.Maintainers = copyPointers(m.Maintainers)
	out.Dependencies = copyDependencies(m.Dependencies)
	return &out
}

func copyLock(l *chart.Lock) *chart.Lock {
	if l == nil {
		return nil
	}
	out := *l
	out.Dependencies = copyDependencies(l.Dependencies)
	return &out
}

func copyDependencies(all []*chart.Dependency) []*chart.Dependency {
	out := copyPointers(all)
	for _, dependency := range out {
		if dependency == nil {
			continue
		}
		dependency.Tags = slices.Clone(dependency.Tags)
		if dependency.ImportValues != nil {
			values := make([]any, len(dependency.ImportValues))
			for i, value := range dependency.ImportValues {
				values[i] = copyValue(value)
			}
			dependency.ImportValues = values
		}
	}
	return out
}

func copyFiles(files []*chart.File) []*chart.File { return copyPointers(files) }

// copyPointers copies what the pointers of a list point to, one level deep.
func copyPointers[T any](all []*T) []*T {
	if all == nil {
		return nil
	}
	out := make([]*T, len(all))
	for i, item := range all {
		if item != nil {
			value := *item
			out[i] = &value
		}
	}
	return out
}

func copyMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for key, value := range m {
		out[key] = copyValue(value)
	}
	return out
}

// copyValue copies what parsing YAML yields: maps, lists and scalars.
func copyValue(value any) any {
	switch value := value.(type) {
	case map[string]any:
		return copyMap(value)
	case []any:
		if value == nil {
			return value
		}
		out := make([]any, len(value))
		for i, item := range value {
			out[i] = copyValue(item)
		}
		return out
	default:
		return value
	}
}

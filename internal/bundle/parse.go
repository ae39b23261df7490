// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// maxVersionLength is the maximum length of a version, so that it fits into status fields and labels.
	maxVersionLength = 128
	typeLibrary      = "library"
	// maxReason is the maximum length of a message of Helm's parser, in bytes. The message begins with the path of
	// nested subcharts and ends with the cause.
	maxReason = 400
)

// parse creates a chart from files and checks that it can be installed. The YAML in the files must be within the
// limits.
func parse(files []*loader.BufferedFile, limits Limits) (c *chart.Chart, err error) {
	// A panic in a parser must not affect the releases of others.
	defer func() {
		if caught := recover(); caught != nil {
			c, err = nil, fmt.Errorf("%w: it cannot be parsed", ErrInvalidChart)
		}
	}()
	if err := checkTexts(files, limits); err != nil {
		return nil, err
	}
	c, err = loader.LoadFiles(files)
	if err != nil {
		reason := strings.ReplaceAll(err.Error(), packedSuffix, ".tgz")
		return nil, fmt.Errorf("%w: %s", ErrInvalidChart, truncate.Text(reason, maxReason))
	}
	if err := installable(c); err != nil {
		return nil, err
	}
	sortDependencies(c)
	return c, nil
}

// installable checks what Helm checks in its commands instead of its parser.
func installable(c *chart.Chart) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalidChart, fmt.Sprintf(format, args...))
	}
	meta := c.Metadata
	switch {
	case meta.Type == typeLibrary:
		return refuse("%q is a library chart: it has nothing to install", clip(meta.Name))
	case meta.APIVersion != chart.APIVersionV1 && meta.APIVersion != chart.APIVersionV2:
		return refuse("apiVersion %q in Chart.yaml is not known", clip(meta.APIVersion))
	case len(meta.Version) > maxVersionLength:
		return refuse("version in Chart.yaml is longer than %d characters", maxVersionLength)
	}
	if missing := missingDependencies(c); len(missing) > 0 {
		return refuse("Chart.yaml lists dependencies that are not in charts/: %s; run \"helm dependency build\" before "+
			"packaging",
			clip(strings.Join(missing, ", ")))
	}
	return nil
}

// missingDependencies returns the declared dependencies that are not packed.
func missingDependencies(c *chart.Chart) []string {
	packed := map[string]bool{}
	for _, dependency := range c.Dependencies() {
		packed[dependency.Name()] = true
	}
	var missing []string
	for _, listed := range c.Metadata.Dependencies {
		if !packed[listed.Name] {
			missing = append(missing, listed.Name)
		}
	}
	return missing
}

// sortDependencies sorts subcharts by name and version. Helm's parser leaves them in the random order of a map, but the
// same input must give the same output.
func sortDependencies(c *chart.Chart) {
	subcharts := slices.Clone(c.Dependencies())
	slices.SortStableFunc(subcharts, func(a, b *chart.Chart) int {
		return cmp.Or(cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Metadata.Version, b.Metadata.Version))
	})
	c.SetDependencies(subcharts...)
	for _, subchart := range subcharts {
		sortDependencies(subchart)
	}
}

// dropRaw drops the packed files, which only "helm show" and "helm package" read.
func dropRaw(c *chart.Chart) {
	c.Raw = nil
	for _, subchart := range c.Dependencies() {
		dropRaw(subchart)
	}
}

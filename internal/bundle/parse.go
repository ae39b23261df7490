// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// maxVersionLength is the maximum length of a version. Such a version fits into status fields and labels.
	maxVersionLength = 128
	typeLibrary      = "library"
	// maxReason is the maximum length of a message of Helm's parser, in bytes. The message begins with the path of
	// nested subcharts and ends with the cause.
	maxReason = 400
)

// parse creates a chart from files and checks whether the chart can be installed. The YAML in the files must be within
// the limits. parse reserves memory before it parses the YAML.
func parse(files []*loader.BufferedFile, limits Limits, memory *unpack.Memory) (c *chart.Chart, err error) {
	// A panic in a parser must not affect other releases.
	defer func() {
		if caught := recover(); caught != nil {
			c, err = nil, fmt.Errorf("%w: it cannot be parsed", ErrInvalidChart)
		}
	}()
	if err := checkTexts(files, limits, memory); err != nil {
		return nil, err
	}
	c, err = loader.LoadFiles(files)
	if err != nil {
		reason := unpack.PackedName(err.Error())
		return nil, fmt.Errorf("%w: %s", ErrInvalidChart, truncate.Text(reason, maxReason))
	}
	if err := installable(c); err != nil {
		return nil, err
	}
	sortDependencies(c)
	return c, nil
}

// checkTexts checks the YAML files of a chart and its subcharts before Helm parses them. It refuses files that would
// exceed the memory limits: a few packed KiB can expand to hundreds of MiB. It reserves the memory for their parses.
// Schemas have their own limit, because they are parsed later and in another process, when values are validated.
func checkTexts(files []*loader.BufferedFile, limits Limits, memory *unpack.Memory) error {
	var texts, schemas unpack.Weight
	largest := int64(0)
	for _, file := range files {
		base := chartFile(file.Name)
		total := &texts
		switch base {
		case "Chart.yaml", "Chart.lock", "values.yaml", "requirements.yaml", "requirements.lock":
		case "values.schema.json":
			total = &schemas
		default:
			continue
		}
		one, err := unpack.Weigh(unpack.PackedName(file.Name), file.Data, limits, ErrInvalidChart, memory)
		if err != nil {
			return err
		}
		*total = total.Plus(one)
		if err := withinTexts(*total, limits, base); err != nil {
			return err
		}
		if total == &texts {
			largest = max(largest, one.ParseCost())
		}
	}
	// Helm parses one text after the other. At most half of the memory of a parse stays in the chart.
	return memory.Parse((texts.ParseCost() + largest) / 2)
}

func withinTexts(w unpack.Weight, limits Limits, base string) error {
	kind := "Chart.yaml and values.yaml"
	if base == "values.schema.json" {
		kind = base
	}
	switch {
	case w.Bytes > limits.TextBytes:
		return fmt.Errorf("%w: %s, including those of subcharts, have more than %d bytes", ErrTooLarge, kind,
			limits.TextBytes)
	case w.Tokens > limits.TextTokens:
		return fmt.Errorf("%w: %s, including those of subcharts, have more than %d values", ErrTooLarge, kind,
			limits.TextTokens)
	}
	return nil
}

// chartFile returns the name of a file in the folder of the chart or of a subchart. It returns "" for other files.
func chartFile(name string) string {
	folder, base := path.Split(name)
	for folder != "" {
		rest, ok := strings.CutPrefix(folder, "charts/")
		if !ok {
			return ""
		}
		if _, folder, ok = strings.Cut(rest, "/"); !ok {
			return ""
		}
	}
	return base
}

// installable makes the checks that Helm makes in its commands and not in its parser.
func installable(c *chart.Chart) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalidChart, fmt.Sprintf(format, args...))
	}
	meta := c.Metadata
	switch {
	case meta.Type == typeLibrary:
		return refuse("%q is a library chart: it has nothing to install", unpack.Clip(meta.Name))
	case meta.APIVersion != chart.APIVersionV1 && meta.APIVersion != chart.APIVersionV2:
		return refuse("apiVersion %q in Chart.yaml is not known", unpack.Clip(meta.APIVersion))
	case len(meta.Version) > maxVersionLength:
		return refuse("version in Chart.yaml is longer than %d characters", maxVersionLength)
	}
	if missing := missingDependencies(c); len(missing) > 0 {
		return refuse("Chart.yaml lists dependencies that are not in charts/: %s; run \"helm dependency build\" before "+
			"packaging",
			unpack.Clip(strings.Join(missing, ", ")))
	}
	return nil
}

// missingDependencies returns the declared dependencies that are not in the chart.
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

// sortDependencies sorts subcharts by name and version. Helm's parser returns them in random order, but equal input
// must give equal output.
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

// dropRaw drops the packed files. Only "helm show" and "helm package" read them.
func dropRaw(c *chart.Chart) {
	c.Raw = nil
	for _, subchart := range c.Dependencies() {
		dropRaw(subchart)
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

// tagDirective matches directives whose prefix parsers repeat for each node that uses it.
var tagDirective = regexp.MustCompile(`(?:^|[\n\r\x{85}\x{2028}\x{2029}\x{FEFF}])%TAG[ \t]`)

// weight is the maximum size of parsed text.
type weight struct {
	bytes  int64
	tokens int
}

// checkTexts checks the YAML files that Helm parses, including those of subcharts, before they are parsed. It refuses
// files that would exceed the memory limits: a few packed KiB could expand to hundreds of MiB. Schemas are parsed when
// values are validated, and have limits of their own.
func checkTexts(files []*loader.BufferedFile, limits Limits) error {
	var texts, schemas weight
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
		one, err := weigh(strings.ReplaceAll(file.Name, packedSuffix, ".tgz"), file.Data, limits, ErrInvalidChart)
		if err != nil {
			return err
		}
		total.bytes += one.bytes
		total.tokens += one.tokens
		if err := total.within(limits, base); err != nil {
			return err
		}
	}
	return nil
}

func (w weight) within(limits Limits, base string) error {
	kind := "Chart.yaml and values.yaml"
	if base == "values.schema.json" {
		kind = base
	}
	switch {
	case w.bytes > limits.TextBytes:
		return fmt.Errorf(
			"%w: %s, including those of subcharts, have more than %d bytes",
			ErrTooLarge,
			kind,
			limits.TextBytes,
		)
	case w.tokens > limits.TextTokens:
		return fmt.Errorf(
			"%w: %s, including those of subcharts, have more than %d values",
			ErrTooLarge,
			kind,
			limits.TextTokens,
		)
	}
	return nil
}

// chartFile returns the name of a file in the folder of the chart or of a subchart, or "" for other files.
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

// weigh returns the weight of a text with expanded aliases. Errors have the given kind.
func weigh(name string, text []byte, limits Limits, invalid error) (weight, error) {
	if !utf8.Valid(text) {
		return weight{}, fmt.Errorf("%w: %q is not UTF-8 text", invalid, clip(name))
	}
	if tagDirective.Match(text) {
		return weight{}, fmt.Errorf("%w: %q has a %%TAG directive; use full tags", invalid, clip(name))
	}
	w := yamlweight.Of(text)
	if w.Bytes <= limits.TextBytes && w.Values <= limits.TextTokens && yamlweight.HasAliases(text) {
		expanded, err := yamlweight.Expanded(text)
		if errors.Is(err, yamlweight.ErrCycle) {
			return weight{}, fmt.Errorf("%w: %q has an anchor that contains itself", invalid, clip(name))
		}
		if err != nil {
			return weight{}, fmt.Errorf("%w: cannot load %s: %s", invalid, clip(name), clip(err.Error()))
		}
		w = w.Max(expanded)
	}
	return weight{bytes: w.Bytes, tokens: w.Values}, nil
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
)

// Formats are the formats that Pack supports. A Helm chart is packed from a chart's folder or archive. The other
// formats are packed from a folder or a file.
var Formats = []bundle.Format{
	bundle.FormatHelmChart,
	bundle.FormatFlux,
	bundle.FormatPlain,
	bundle.FormatFiles,
	bundle.FormatFleet,
}

// errInvalid means that something cannot be packed in the format.
var errInvalid = errors.New("cannot be packed")

// errTooLarge means that Options.MaxBytes is exceeded.
var errTooLarge = errors.New("too large")

// invalid returns errInvalid with a reason.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errInvalid, fmt.Sprintf(format, args...))
}

// ParseFormat returns the format with a name, ignoring case.
func ParseFormat(name string) (bundle.Format, error) {
	names := make([]string, 0, len(Formats))
	for _, format := range Formats {
		if strings.EqualFold(name, string(format)) {
			return format, nil
		}
		names = append(names, string(format))
	}
	return "", fmt.Errorf("unknown format %q; use %s", name, strings.Join(names, ", "))
}

// guess returns the most likely format of a path: HelmChart for a chart, otherwise Flux for a folder and Files for a
// file.
func guess(path string) (bundle.Format, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		if strings.HasSuffix(path, ".tgz") || strings.HasSuffix(path, ".tar.gz") {
			return bundle.FormatHelmChart, nil
		}
		return bundle.FormatFiles, nil
	}
	if _, err := os.Stat(filepath.Join(path, chartFile)); err == nil {
		return bundle.FormatHelmChart, nil
	}
	return bundle.FormatFlux, nil
}

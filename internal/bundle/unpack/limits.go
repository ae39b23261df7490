// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"errors"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

// The errors of this package. Compare them with errors.Is.
var (
	// ErrUnsupported means that the artifact is of a kind that cannot be installed.
	ErrUnsupported = errors.New("not an installable artifact")
	// ErrInvalidChart means that a Helm chart is broken, incomplete or not installable.
	ErrInvalidChart = errors.New("invalid chart")
	// ErrInvalidManifests means that the content of an artifact of another format is broken or not allowed.
	ErrInvalidManifests = errors.New("invalid manifests")
	// ErrTooLarge means that the artifact exceeds a limit.
	ErrTooLarge = errors.New("artifact too large")
	// ErrLimit means that building a kustomization exceeded its limit of memory or time and was stopped.
	ErrLimit = errors.New("render limit exceeded")
)

// Limits limit the cost of a chart. Zero fields use the default.
type Limits struct {
	// PackedBytes is the size of the archive, and of each packed subchart. Default 64 MiB.
	PackedBytes int64
	// UnpackedBytes is the size of all files. Packed subcharts count packed and unpacked. Default 100 MiB, as in Helm.
	UnpackedBytes int64
	// FileBytes is the size of the largest file. Default 5 MiB, as in Helm.
	FileBytes int64
	// Files is the number of entries. Default 10,000.
	Files int
	// TextBytes is the size of all parsed YAML, such as Chart.yaml and values.yaml, of the chart and its subcharts, with
	// expanded aliases. It applies separately to all values.schema.json. Default 4 MiB.
	TextBytes int64
	// TextTokens is the number of signs in these texts that separate or open values; in a text with aliases, it is the
	// number of values. Default 200,000. A values.yaml of 200 KiB has about 20,000.
	TextTokens int
	// ManifestBytes is the size of the YAML and JSON files that are used of an artifact that is not a chart. Aliases and
	// bases of kustomizations count as often as they are used. Default 8 MiB.
	ManifestBytes int64
	// ManifestTokens is the number of values in these files, counted as TextTokens. Default 300,000.
	ManifestTokens int
	// CacheBytes is the memory for cached charts, unpacked and parsed. Default 128 MiB.
	CacheBytes int64
}

// WithDefaults returns the limits with the defaults of zero fields.
func (l Limits) WithDefaults() Limits {
	set := func(field *int64, value int64) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&l.PackedBytes, 64<<20)
	set(&l.UnpackedBytes, 100<<20)
	set(&l.FileBytes, 5<<20)
	set(&l.CacheBytes, 128<<20)
	set(&l.TextBytes, 4<<20)
	set(&l.ManifestBytes, 8<<20)
	if l.Files <= 0 {
		l.Files = 10_000
	}
	if l.TextTokens <= 0 {
		l.TextTokens = 200_000
	}
	if l.ManifestTokens <= 0 {
		l.ManifestTokens = 300_000
	}
	return l
}

// Clip shortens untrusted text for a message.
func Clip(text string) string { return truncate.Text(text, 120) }

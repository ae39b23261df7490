// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"errors"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

// The errors of this package. Compare them with errors.Is.
var (
	// ErrUnsupported means that an artifact of this kind cannot be installed.
	ErrUnsupported = errors.New("not an installable artifact")
	// ErrInvalidChart means that a Helm chart is broken, incomplete or not installable.
	ErrInvalidChart = errors.New("invalid chart")
	// ErrInvalidManifests means that the content of an artifact without a chart is broken or not allowed.
	ErrInvalidManifests = errors.New("invalid manifests")
	// ErrTooLarge means that the artifact exceeds a limit.
	ErrTooLarge = errors.New("artifact too large")
	// ErrLimit means that the build of a kustomization exceeded its limit of memory or time and was stopped.
	ErrLimit = errors.New("render limit exceeded")
)

// Limits limit the cost of an artifact. A zero field means the default.
type Limits struct {
	// PackedBytes is the maximum size of the archive, and of each packed subchart. Default 64 MiB.
	PackedBytes int64
	// UnpackedBytes is the maximum size of all files. The size of a packed subchart and the size of its files both
	// count. Default 100 MiB, as in Helm.
	UnpackedBytes int64
	// FileBytes is the maximum size of a file. Default 5 MiB, as in Helm.
	FileBytes int64
	// Files is the maximum number of entries. Default 10,000.
	Files int
	// TextBytes is the maximum size of all YAML that Helm parses in a chart and its subcharts, for example Chart.yaml
	// and values.yaml, with expanded aliases. All values.schema.json files together have a separate limit of the same
	// size. Default 4 MiB.
	TextBytes int64
	// TextTokens is the maximum number of values in these texts. In a text without aliases, the characters that
	// separate or open values are counted instead. Default 200,000. A values.yaml of 200 KiB has about 20,000.
	TextTokens int
	// ManifestBytes is the maximum size of the YAML and JSON files in an artifact without a chart. Only files that are
	// used count. Aliases and bases of kustomizations count as often as they are used. Default 8 MiB.
	ManifestBytes int64
	// ManifestTokens is the maximum number of values in these files. The values are counted in the same way as for
	// TextTokens. Default 300,000.
	ManifestTokens int
	// CacheBytes is the maximum memory for cached charts, unpacked and parsed. Default 128 MiB.
	CacheBytes int64
}

// WithDefaults returns the limits with defaults in place of zero fields.
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

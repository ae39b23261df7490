// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/singleflight"
	"helm.sh/helm/v3/pkg/chart"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// maxParses bounds the parses of one tenant at a time on machines with many processors.
const maxParses = 4

// Limits bound what a chart may cost. Zero fields take the default.
type Limits struct {
	// PackedBytes is the size of the archive, and of each packed subchart.
	// Default 64 MiB.
	PackedBytes int64
	// UnpackedBytes is the size of all files, packed subcharts counted packed and
	// unpacked. Default 100 MiB, as in Helm.
	UnpackedBytes int64
	// FileBytes is the size of the largest file. Default 5 MiB, as in Helm.
	FileBytes int64
	// Files is the number of entries. Default 10,000.
	Files int
	// TextBytes is the size of Chart.yaml, values.yaml and what else of YAML is
	// parsed, in the chart and its subcharts together, with aliases replaced by what
	// they stand for; and again of all values.schema.json. Default 4 MiB.
	TextBytes int64
	// TextTokens is the number of signs in these texts that separate or open values;
	// in a text with aliases, it is the number of values. Default 200,000; a values.yaml
	// of 200 KiB has about 20,000.
	TextTokens int
	// ManifestBytes is the size of the YAML and JSON files that are taken of an artifact
	// that is no chart, with aliases and the bases of kustomizations repeated as often as
	// they are used. Default 8 MiB.
	ManifestBytes int64
	// ManifestTokens is the number of values in them, counted as TextTokens. Default 300,000.
	ManifestTokens int
	// CacheBytes is the memory for charts that are kept, unpacked and parsed.
	// Default 128 MiB.
	CacheBytes int64
}

func (l Limits) withDefaults() Limits {
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

// Source is an artifact as its manifest describes it, what is wanted of it, and the
// way to its bytes.
type Source struct {
	Manifest
	Selection

	// Digest names the artifact in the cache; equal digests mean equal content.
	Digest string
	// Name and Version are those of the chart that is made of an artifact that is no
	// chart. Without a semantic version, the digest stands in for it.
	Name, Version string
	// Tenant is whom the work is for: tenants share what builds kustomizations.
	Tenant string
	// PullLayer, if set, brings a layer to where ReadLayer finds it, and not into memory.
	// It must bound how long that takes, and is called only when the artifact is not in
	// the cache. So slow registries hold no memory.
	PullLayer func(ctx context.Context, layer int) error
	// ReadLayer returns the bytes of a layer, checked, by its place in Layers. It must
	// bound what it reads and how long that takes, and is called only when the artifact
	// is not in the cache.
	ReadLayer func(ctx context.Context, layer int) ([]byte, error)
	// Owner is for whom the artifact is read.
	Owner bytebudget.Owner
}

// parseCost is what a byte of a packed artifact takes in memory until it is parsed: itself
// and what it holds unpacked.
const parseCost = 5

// memoryTimeout bounds how long a parse waits for memory.
const memoryTimeout = time.Minute

// key names what is made of the artifact. How a layer was selected is the same to
// the cache, and so is what a Helm chart is called from outside.
func (s *Source) key(format Format, layers []int) string {
	if format == FormatHelmChart {
		return fmt.Sprintf("%s %v", s.Digest, layers)
	}
	return fmt.Sprintf("%s %v %s %t %q %q %q", s.Digest, layers, format, s.Templates, s.Path, s.Name, s.Version)
}

// size returns that of the layers that hold the content, in bytes. Together they must be
// within the limits: the manifest has the sizes, before anything is pulled.
func (s *Source) size(layers []int, limits Limits) (int64, error) {
	size := int64(0)
	for _, layer := range layers {
		size += min(s.Layers[layer].Size, limits.PackedBytes+1)
	}
	return size, newBudget(limits, ErrInvalidManifests).packed(size)
}

// pull brings the layers to where they can be read.
func (s *Source) pull(ctx context.Context, layers []int) error {
	if s.PullLayer == nil {
		return nil
	}
	for _, layer := range layers {
		if err := s.PullLayer(ctx, layer); err != nil {
			return err
		}
	}
	return nil
}

// read returns the layers that hold the content.
func (s *Source) read(ctx context.Context, layers []int) ([][]byte, error) {
	data := make([][]byte, 0, len(layers))
	for _, layer := range layers {
		one, err := s.ReadLayer(ctx, layer)
		if err != nil {
			return nil, &readError{err}
		}
		data = append(data, one)
	}
	return data, nil
}

// readWithin is read for layers whose size was not checked yet.
func (s *Source) readWithin(ctx context.Context, layers []int, limits Limits) ([][]byte, error) {
	if _, err := s.size(layers, limits); err != nil {
		return nil, err
	}
	return s.read(ctx, layers)
}

// readError says that a layer could not be read, which is the matter of who read it.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

// Loader makes charts of artifacts and keeps the parsed ones in memory. It is
// safe for use by several goroutines.
type Loader struct {
	limits Limits
	bytes  *bytebudget.Budget
	parses singleflight.Group
	// runner builds kustomizations.
	runner sandbox.Runner
	// turns bounds the parses at a time: each may take 150 MiB for a moment.
	turns *turns
	// charts do not change any more.
	charts *bytelru.Cache[string, *chart.Chart]
}

// NewLoader returns an empty Loader. The runner builds kustomizations; it must know [Tasks]. Artifacts are bounded each for itself only.
func NewLoader(limits Limits, runner sandbox.Runner) *Loader {
	return NewBoundedLoader(limits, runner, nil)
}

// NewBoundedLoader is NewLoader with a bound for all artifacts that are being read and parsed.
func NewBoundedLoader(limits Limits, runner sandbox.Runner, bytes *bytebudget.Budget) *Loader {
	limits = limits.withDefaults()
	return &Loader{
		limits: limits, bytes: bytes, runner: runner, turns: newTurns(min(runtime.GOMAXPROCS(0), maxParses)),
		charts: bytelru.New[string, *chart.Chart](limits.CacheBytes),
	}
}

// Chart returns the chart in an artifact. All callers share the chart: they must not
// change it. Each caller pulls for itself, so that one whose pull fails, for want of
// credentials for example, does not fail the others; what they pulled is read and
// parsed once. The error wraps bytebudget.ErrExhausted if no memory is free for that:
// try again later.
func (l *Loader) Chart(ctx context.Context, src Source) (*chart.Chart, error) {
	format, layers, err := Detect(src.Manifest, src.Selection)
	if err != nil {
		return nil, err
	}
	key := src.key(format, layers)
	if found, ok := l.charts.Get(key); ok {
		return found, nil
	}
	size, err := src.size(layers, l.limits)
	if err != nil {
		return nil, err
	}
	if err := src.pull(ctx, layers); err != nil {
		return nil, err
	}
	for {
		own := false
		result, err, _ := l.parses.Do(key, func() (any, error) {
			own = true
			return l.load(ctx, &src, format, layers, key, size)
		})
		var failed *readError
		switch {
		case errors.As(err, &failed) && own:
			return nil, failed.error
		case errors.As(err, &failed):
			continue // Another caller could not read. This caller may have other credentials.
		case err != nil:
			return nil, err
		}
		made, ok := result.(*chart.Chart)
		if !ok {
			return nil, errors.New("a shared parse returned another type")
		}
		return made, nil
	}
}

// Cached returns the chart in an artifact, as Chart does, if it is in the cache. It neither reads nor parses anything.
func (l *Loader) Cached(src Source) (*chart.Chart, bool) {
	format, layers, err := Detect(src.Manifest, src.Selection)
	if err != nil {
		return nil, false
	}
	return l.charts.Get(src.key(format, layers))
}

// load reads and parses an artifact. It takes its memory before its turn: a caller that waits for memory must not hold a turn.
func (l *Loader) load(ctx context.Context, src *Source, format Format, layers []int, key string, size int64,
) (*chart.Chart, error) {
	if found, ok := l.charts.Get(key); ok {
		return found, nil // another parse ended after this caller's look
	}
	waiting, cancel := context.WithTimeout(ctx, memoryTimeout)
	defer cancel()
	lease, err := l.bytes.Acquire(waiting, src.Owner, parseCost*max(0, size-bytebudget.Free))
	if err != nil {
		return nil, &readError{err}
	}
	defer lease.Release()
	if err := l.turns.acquire(ctx, src.Tenant); err != nil {
		return nil, &readError{err}
	}
	defer l.turns.release(src.Tenant)
	data, err := src.read(ctx, layers)
	if err != nil {
		return nil, err
	}
	made, taken, err := l.parse(ctx, src, format, layers, data)
	if err == nil {
		l.charts.Put(key, made, taken)
	}
	return made, err
}

// parse turns the content of an artifact into a chart, and returns about how many bytes of memory the chart takes.
func (l *Loader) parse(ctx context.Context, src *Source, format Format, layers []int, data [][]byte,
) (*chart.Chart, int64, error) {
	if format != FormatHelmChart {
		// Others wait for the same parse: it does not end with the first who asked.
		b := builder{ctx: context.WithoutCancel(ctx), runner: l.runner, tenant: src.Tenant}
		c, err := manifestChart(src, format, layers, data, l.limits, b)
		if err != nil {
			return nil, 0, err
		}
		return c, contents(c) + footprint(c), nil
	}
	files, size, err := unpack(data[0], l.limits)
	if err != nil {
		return nil, 0, err
	}
	c, err := parse(files, l.limits)
	if err != nil {
		return nil, 0, err
	}
	dropRaw(c)
	return c, size + footprint(c), nil
}

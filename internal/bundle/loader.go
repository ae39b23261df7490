// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/Masterminds/semver/v3"
	"golang.org/x/sync/singleflight"
	"helm.sh/helm/v3/pkg/chart"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/kustomize"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// maxParses is the maximum number of concurrent parses of one tenant.
const maxParses = 4

// Source is an artifact: its manifest, the selection of its content, and functions that read its layers.
type Source struct {
	Manifest
	Selection

	// Digest is the key of the artifact in the cache. Equal digests mean equal content.
	Digest string
	// Name and Version are the name and the version of the chart that is generated for an artifact without a chart. If
	// Version is not a semantic version, the version of the generated chart contains the digest.
	Name, Version string
	// IsNamed requires that a chart has this Name and Version.
	IsNamed bool
	// TagVersion is the semantic version that a Helm chart must have. Empty means any version. Leading zeros in the
	// version of the chart do not matter.
	TagVersion string
	// Tenant is the tenant of the release. Tenants have equal shares of the processes that build kustomizations.
	Tenant string
	// PullLayer stores a layer on disk, where ReadLayer finds it. May be nil. It is called before memory is acquired,
	// so a slow registry does not hold memory. It is called only if the artifact is not cached. It must limit its own
	// time.
	PullLayer func(ctx context.Context, layer int) error
	// ReadLayer returns the verified bytes of a layer by its index in Layers. It is called only if the artifact is not
	// cached. It must limit its own size and time.
	ReadLayer func(ctx context.Context, layer int) ([]byte, error)
	// IsSole means that no other caller loads the artifact at the same time. The end of the caller's context then ends
	// the build of a kustomization.
	IsSole bool
	// Owner is the owner of the memory for reading and parsing the artifact.
	Owner bytebudget.Owner
}

// parseCost is the number of bytes of memory that a parse needs for each byte of a packed artifact. It includes the
// packed byte and its unpacked content.
const parseCost = 5

// memoryTimeout is how long a parse waits for memory.
const memoryTimeout = time.Minute

// key identifies the result in the cache. It does not contain how a layer was selected. For a Helm chart, it does not
// contain name and version.
func (s *Source) key(format Format, layers []int) string {
	if format == FormatHelmChart {
		return fmt.Sprintf("%s %v", s.Digest, layers)
	}
	return fmt.Sprintf("%s %v %s %t %q %q %q", s.Digest, layers, format, s.Templates, s.Path, s.Name, s.Version)
}

// size returns the size of the content layers in bytes, according to the manifest. It checks the sum against the limits
// before a layer is pulled.
func (s *Source) size(format Format, layers []int, limits Limits) (int64, error) {
	size := int64(0)
	for _, layer := range layers {
		size += min(s.Layers[layer].Size, limits.PackedBytes+1)
	}
	err := unpack.CheckPacked(size, limits)
	if err != nil && format == FormatPlain {
		err = unpack.NotPlain(err)
	}
	return size, err
}

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

// read returns the content layers.
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

// readWithin checks the sizes of the layers, and then calls read.
func (s *Source) readWithin(ctx context.Context, format Format, layers []int, limits Limits) ([][]byte, error) {
	if _, err := s.size(format, layers, limits); err != nil {
		return nil, err
	}
	return s.read(ctx, layers)
}

// readError is an error of ReadLayer or PullLayer.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

// Loader converts artifacts to charts and caches the parsed charts. It is safe for concurrent use.
type Loader struct {
	limits Limits
	bytes  *bytebudget.Budget
	// parses shares the concurrent parses of one tenant.
	parses singleflight.Group
	// runner runs the tasks that build kustomizations.
	runner sandbox.Runner
	// slots limits concurrent parses. A parse that needs only a little memory reserves none.
	slots *parseSlots
	// charts holds the parsed charts. A chart is not changed after it was added.
	charts *bytelru.Cache[string, *chart.Chart]
}

// Tasks returns the tasks that a Loader runs in other processes. Pass them to [sandbox.Serve].
func Tasks() sandbox.Tasks { return kustomize.Tasks() }

// NewLoader returns an empty Loader. The runner builds kustomizations and must serve [Tasks]. Each artifact has its own
// memory limit.
func NewLoader(limits Limits, runner sandbox.Runner) *Loader {
	return NewBoundedLoader(limits, runner, nil)
}

// NewBoundedLoader returns an empty Loader whose artifacts share the budget bytes while they are read and parsed.
func NewBoundedLoader(limits Limits, runner sandbox.Runner, bytes *bytebudget.Budget) *Loader {
	limits = limits.WithDefaults()
	return &Loader{
		limits: limits, bytes: bytes, runner: runner, slots: newParseSlots(min(runtime.GOMAXPROCS(0), maxParses)),
		charts: bytelru.New[string, *chart.Chart](limits.CacheBytes),
	}
}

// Chart returns the chart of an artifact. All callers share the chart and must not change it. Each caller pulls with
// its own credentials, so a failed pull does not fail other callers. Concurrent callers of one tenant share a parse.
// The error wraps bytebudget.ErrExhausted if there is no free memory, and sandbox.ErrNoChild if no process is free to
// build a kustomization. The caller should retry later.
func (l *Loader) Chart(ctx context.Context, src Source) (*chart.Chart, error) {
	found, err := l.chart(ctx, src)
	if err == nil {
		err = src.check(found)
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// check returns ErrInvalidChart if the chart does not have the required name or version.
func (s *Source) check(found *chart.Chart) error {
	name, version := "", ""
	if found.Metadata != nil {
		name, version = found.Metadata.Name, found.Metadata.Version
	}
	if s.IsNamed && (name != s.Name || version != s.Version) {
		return fmt.Errorf("%w: the repository offers chart %q, version %q, but the archive has chart %q, version %q: ask "+
			"the owner of the repository", ErrInvalidChart, s.Name, s.Version, name, version)
	}
	if s.TagVersion == "" {
		return nil
	}
	// The version of a generated chart says nothing about the artifact.
	if format, _, err := Detect(s.Manifest, s.Selection); err != nil || format != FormatHelmChart {
		return err
	}
	// The order of versions ignores the part after "+", but "1.2.3+1" and "1.2.3+2" are different charts.
	if has, err := semver.NewVersion(version); err != nil || has.String() != s.TagVersion {
		return fmt.Errorf("%w: the tag of the registry is version %q, but the signed chart has version %q: find out who "+
			"set the tag; push each chart with the tag of its version", ErrInvalidChart, s.TagVersion, version)
	}
	return nil
}

// chart is Chart without the check of the name.
func (l *Loader) chart(ctx context.Context, src Source) (*chart.Chart, error) {
	format, layers, err := Detect(src.Manifest, src.Selection)
	if err != nil {
		return nil, err
	}
	key := src.key(format, layers)
	if found, ok := l.charts.Get(key); ok {
		return found, nil
	}
	size, err := src.size(format, layers, l.limits)
	if err != nil {
		return nil, err
	}
	if err := src.pull(ctx, layers); err != nil {
		return nil, err
	}
	for {
		own := false
		// A caller must not wait for the slot of another tenant, which may have many parses in the queue.
		result, err, _ := l.parses.Do(src.Tenant+" "+key, func() (any, error) {
			own = true
			return l.load(ctx, &src, format, layers, key, size)
		})
		var failed *readError
		switch {
		case errors.As(err, &failed) && own:
			return nil, failed.error
		case errors.As(err, &failed):
			continue // the other caller failed to read; this caller may have other credentials
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

// Cached returns the chart of an artifact if the chart is cached and has the required name. It does not read or parse.
func (l *Loader) Cached(src Source) (*chart.Chart, bool) {
	format, layers, err := Detect(src.Manifest, src.Selection)
	if err != nil {
		return nil, false
	}
	found, ok := l.charts.Get(src.key(format, layers))
	return found, ok && src.check(found) == nil
}

// load reads and parses an artifact. It acquires memory before it acquires a slot. A caller that waits for memory must
// not hold a slot.
func (l *Loader) load(ctx context.Context, src *Source, format Format, layers []int, key string, size int64,
) (*chart.Chart, error) {
	if found, ok := l.charts.Get(key); ok {
		return found, nil // another parse ended after this caller's check
	}
	waiting, cancel := context.WithTimeout(ctx, memoryTimeout)
	defer cancel()
	lease, err := l.bytes.Acquire(waiting, src.Owner, parseCost*max(0, size-bytebudget.Free))
	if err != nil {
		return nil, &readError{err}
	}
	defer lease.Release()
	if err := l.slots.acquire(ctx, src.Tenant); err != nil {
		return nil, &readError{err}
	}
	defer l.slots.release(src.Tenant)
	if found, ok := l.charts.Get(key); ok {
		return found, nil // another tenant's parse ended while this parse waited
	}
	data, err := src.read(ctx, layers)
	if err != nil {
		return nil, err
	}
	made, taken, err := l.parse(ctx, src, format, layers, data, unpack.NewMemory(lease, size))
	switch {
	case err == nil:
		l.charts.Put(key, made, taken)
	case errors.Is(err, bytebudget.ErrExhausted):
		err = &readError{err}
	}
	return made, err
}

// parse converts the content of an artifact to a chart. It also returns the estimated memory of the chart in bytes.
func (l *Loader) parse(ctx context.Context, src *Source, format Format, layers []int, data [][]byte,
	memory *unpack.Memory,
) (*chart.Chart, int64, error) {
	if format != FormatHelmChart {
		if !src.IsSole {
			// Other callers wait for the same parse, so the end of the first caller's context must not end the parse.
			ctx = context.WithoutCancel(ctx)
		}
		b := kustomize.Builder{Ctx: ctx, Runner: l.runner, Tenant: src.Tenant, Memory: memory}
		c, err := manifestChart(src, format, layers, data, l.limits, b)
		if err != nil {
			return nil, 0, err
		}
		return c, contents(c) + footprint(c), nil
	}
	files, size, err := unpack.Chart(data[0], l.limits, memory)
	if err != nil {
		return nil, 0, err
	}
	c, err := parse(files, l.limits, memory)
	if err != nil {
		return nil, 0, err
	}
	dropRaw(c)
	return c, size + footprint(c), nil
}

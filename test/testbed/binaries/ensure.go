// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// Options configure Ensure: the sources of the programs and the cache. The zero value is ready for use.
type Options struct {
	// Root is the repository's root folder. Default: the first folder from the working directory upwards that has the
	// project's go.mod.
	Root string
	// CacheDir holds the finished binaries. Default: helmop/testbed in the user's cache folder.
	CacheDir string
	// AssetsDir may hold etcd, kube-apiserver and kubectl. Ensure uses these programs in any version. Default: the
	// environment's KUBEBUILDER_ASSETS.
	AssetsDir string
	// Programs are the names of the programs that are needed. Default: all.
	Programs []string
	// Compile names packages of the repository, such as "./test/demo". Ensure compiles their imports into the go command's
	// build cache, so that a later build takes seconds. Default: none.
	Compile []string
	// NoDownload skips the attempt to download, so that every missing program is built.
	NoDownload bool
	// Progress receives one line for each step. Default: no lines are written.
	Progress io.Writer
}

// Set is the result of Ensure: the path and the version of each program.
type Set struct {
	paths    map[string]string
	versions map[string]string
	// CoreCRDs is a folder with Cluster API's CustomResourceDefinitions, one YAML file each.
	CoreCRDs string
	// KwokStages is a folder with kwok's usual behaviour of Nodes and Pods, one YAML file for each stage.
	KwokStages string
	// KwokCRDs is a folder with the CustomResourceDefinition that kwok needs for the logs of Pods.
	KwokCRDs string
}

// Path returns the file of a program, by one of this package's names. It returns the empty string for an unknown name.
func (s *Set) Path(name string) string { return s.paths[name] }

// Version returns the pinned version of a program, such as "v1.36.3".
func (s *Set) Version(name string) string { return s.versions[name] }

// WithAPIServer returns the same set with another kube-apiserver: the program at path, of a version such as "v1.35.4".
func (s *Set) WithAPIServer(path, version string) *Set {
	other := *s
	other.paths, other.versions = maps.Clone(s.paths), maps.Clone(s.versions)
	other.paths[KubeAPIServer], other.versions[KubeAPIServer] = path, version
	return &other
}

// Names returns the names of all programs, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.paths)) }

// Ensure downloads or builds the missing programs and returns the paths of all. Several processes may call Ensure at
// the same time: one process works, and the others wait. The error names the programs that are missing.
func Ensure(ctx context.Context, opts Options) (*Set, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	e, err := newEnsurer(opts)
	if err != nil {
		return nil, err
	}
	if set, missing := e.lookup(); missing.count() == 0 {
		return set, e.compileOwn(ctx)
	}
	return e.makeMissing(ctx)
}

func (o Options) withDefaults() (Options, error) {
	var err error
	if o.Root == "" {
		if o.Root, err = RepositoryRoot(); err != nil {
			return o, err
		}
	}
	if o.CacheDir == "" {
		if o.CacheDir, err = defaultCacheDir(); err != nil {
			return o, err
		}
	}
	if o.AssetsDir == "" {
		o.AssetsDir = os.Getenv("KUBEBUILDER_ASSETS")
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o, nil
}

type ensurer struct {
	Options
	programs []program
	folders  []folder
	// pins are the pinned versions by module.
	pins map[string]pin
	// sources are the hashes of the files of the tools module's own programs, by the names of the programs.
	sources map[string]string
	// unreachable is set by the first failed download, so that a machine without internet waits for one connection attempt
	// only.
	unreachable bool
	writing     sync.Mutex
}

func (e *ensurer) printf(format string, args ...any) {
	e.writing.Lock()
	defer e.writing.Unlock()
	// Progress is optional output: a closed terminal must not fail the build.
	_, _ = fmt.Fprintf(e.Progress, format+"\n", args...)
}

func (e *ensurer) toolsDir() string { return filepath.Join(e.Root, filepath.FromSlash(toolsModule)) }

// newEnsurer selects the programs of the options and reads the pinned versions.
func newEnsurer(opts Options) (*ensurer, error) {
	e := &ensurer{Options: opts, pins: map[string]pin{}, sources: map[string]string{}}
	needed := func(name string) bool { return len(opts.Programs) == 0 || slices.Contains(opts.Programs, name) }
	known := map[string]bool{}
	for _, p := range programs() {
		known[p.name] = true
		if needed(p.name) {
			e.programs = append(e.programs, p)
		}
	}
	for _, name := range opts.Programs {
		if !known[name] {
			return nil, fmt.Errorf("the test bed has no program %q", name)
		}
	}
	for _, f := range folders() {
		if f.program == "" || needed(f.program) {
			e.folders = append(e.folders, f)
		}
	}
	return e, errors.Join(e.readPins(), e.readSources())
}

// readPins reads the pinned versions of the modules of all programs and folders.
func (e *ensurer) readPins() error {
	file := filepath.Join(e.toolsDir(), "go.mod")
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the pinned versions: %w", err)
	}
	modules := make([]string, 0, len(e.programs)+len(e.folders))
	for _, p := range e.programs {
		modules = append(modules, p.module)
	}
	for _, f := range e.folders {
		modules = append(modules, f.module)
	}
	for _, module := range modules {
		if e.pins[module], err = pinOf(data, module); err != nil {
			return fmt.Errorf("read the pinned versions from %s: %w", file, err)
		}
	}
	return nil
}

// readSources reads the files of the tools module's own programs, so that a change of a file causes a new build.
func (e *ensurer) readSources() error {
	for _, p := range e.programs {
		if p.source == "" {
			continue
		}
		hash, err := hashOf(filepath.Join(e.toolsDir(), p.source))
		if err != nil {
			return fmt.Errorf("read the program %s: %w", p.name, err)
		}
		e.sources[p.name] = hash
	}
	return nil
}

// cached returns the path at which a program is kept.
func (e *ensurer) cached(p program) string {
	pinned := e.pins[p.module]
	pinned.hash += e.sources[p.name]
	return filepath.Join(e.CacheDir, thisPlatform(p.name, pinned))
}

// cachedFolder returns the path at which a folder of a module is kept.
func (e *ensurer) cachedFolder(f folder) string {
	return filepath.Join(e.CacheDir, thisPlatform(f.name, e.pins[f.module]))
}

// shortage lists the programs and folders that the cache lacks.
type shortage struct {
	programs []program
	folders  []folder
}

func (m shortage) count() int { return len(m.programs) + len(m.folders) }

// lookup returns the programs in the cache, and the missing programs.
func (e *ensurer) lookup() (*Set, shortage) {
	set := &Set{paths: map[string]string{}, versions: map[string]string{}}
	var missing shortage
	for _, p := range e.programs {
		set.versions[p.name] = e.pins[p.module].version
		set.paths[p.name] = e.cached(p)
		switch asset := filepath.Join(e.AssetsDir, p.name); {
		case p.asset && e.AssetsDir != "" && isExecutable(asset):
			set.paths[p.name] = asset
		case !isExecutable(e.cached(p)):
			missing.programs = append(missing.programs, p)
		}
	}
	for _, f := range e.folders {
		dir := e.cachedFolder(f)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			missing.folders = append(missing.folders, f)
		}
		switch f.name {
		case coreCRDs:
			set.CoreCRDs = dir
		case kwokStages:
			set.KwokStages = dir
		case kwokCRDs:
			set.KwokCRDs = dir
		}
	}
	return set, missing
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func (e *ensurer) makeMissing(ctx context.Context) (*Set, error) {
	if err := os.MkdirAll(e.CacheDir, 0o755); err != nil {
		return nil, err
	}
	unlock, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()

	// Another process may have added the programs while this one waited.
	set, missing := e.lookup()
	build, err := e.downloadAll(ctx, missing.programs)
	if err != nil {
		return nil, err
	}
	if len(build) == 0 {
		err = e.compileOwn(ctx)
	} else if err = e.build(ctx, build); err != nil {
		err = fmt.Errorf("make %s: %w", strings.Join(namesOf(build), ", "), err)
	}
	if err != nil {
		return nil, err
	}
	for _, f := range missing.folders {
		if err := e.copyFolder(ctx, f); err != nil {
			return nil, fmt.Errorf("make %s: %w", f.name, err)
		}
	}
	return set, nil
}

// lock holds the cache folder's lock file until the returned function is called.
func (e *ensurer) lock(ctx context.Context) (func(), error) {
	l := flock.New(filepath.Join(e.CacheDir, ".lock"))
	locked, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the cache folder: %w", err)
	}
	if !locked {
		e.printf("another process is preparing the test bed's binaries; waiting for it")
		if _, err := l.TryLockContext(ctx, time.Second); err != nil {
			return nil, fmt.Errorf("wait for the cache folder's lock: %w", err)
		}
	}
	return func() { _ = l.Unlock() }, nil
}

// downloadAll downloads the published programs, and returns the programs that must be built.
func (e *ensurer) downloadAll(ctx context.Context, programs []program) ([]program, error) {
	var build []program
	for _, p := range programs {
		if !p.released || e.NoDownload || e.unreachable {
			build = append(build, p)
			continue
		}
		pinned := e.pins[p.module]
		err := e.download(ctx, p, pinned)
		if err == nil {
			e.printf("%s %s: downloaded", p.name, pinned.version)
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e.unreachable = !errors.Is(err, errNotPublished)
		e.printf("%s %s: no download (%v), so that the program is built", p.name, pinned.version, err)
		build = append(build, p)
	}
	return build, nil
}

func namesOf(programs []program) []string {
	names := make([]string, len(programs))
	for i, p := range programs {
		names[i] = p.name
	}
	return names
}

/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// Options says where binaries come from and where they go. The zero value is
// fit for use.
type Options struct {
	// Root is the repository's root folder. Default: found from the working directory.
	Root string
	// CacheDir holds the finished binaries. Default: helmop/testbed in the user's cache folder.
	CacheDir string
	// AssetsDir may hold etcd, kube-apiserver and kubectl, which are then used
	// whatever their version. Default: the environment's KUBEBUILDER_ASSETS.
	AssetsDir string
	// NoDownload skips the attempt to download, so that everything missing is built.
	NoDownload bool
	// Progress receives one line per step. Default: none is written.
	Progress io.Writer
}

// Set is the result of Ensure: where each program is.
type Set struct {
	paths    map[string]string
	versions map[string]string
	// CoreCRDs is a folder with Cluster API's CustomResourceDefinitions, one YAML file each.
	CoreCRDs string
	// KwokStages is a folder with kwok's usual behaviour of nodes and pods, one YAML file per stage.
	KwokStages string
}

// Path returns the file of a program, by one of this package's names, and the
// empty string for a name that is not one of them.
func (s *Set) Path(name string) string { return s.paths[name] }

// Version returns the pinned version of a program, such as "v1.36.3".
func (s *Set) Version(name string) string { return s.versions[name] }

// WithAPIServer is the same set with another kube-apiserver: the program at path, of a version such as "v1.35.4".
func (s *Set) WithAPIServer(path, version string) *Set {
	other := *s
	other.paths, other.versions = maps.Clone(s.paths), maps.Clone(s.versions)
	other.paths[KubeAPIServer], other.versions[KubeAPIServer] = path, version
	return &other
}

// Names returns the names of all programs, sorted.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.paths)) }

// Ensure returns the paths of all binaries and makes the missing ones. Several
// processes may call it at once: one makes, the others wait. The error names
// the program that could not be had.
func Ensure(ctx context.Context, opts Options) (*Set, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &ensurer{Options: opts, programs: programs(), folders: folders()}
	if err := e.readPins(); err != nil {
		return nil, err
	}
	if set, missing := e.lookup(); missing.count() == 0 {
		return set, nil
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
	pins     map[string]pin
	// unreachable is set by the first failed download: a machine without
	// internet must wait for one connection attempt only.
	unreachable bool
	writing     sync.Mutex
}

func (e *ensurer) printf(format string, args ...any) {
	e.writing.Lock()
	defer e.writing.Unlock()
	// Progress is a courtesy: a closed terminal must not fail the build.
	_, _ = fmt.Fprintf(e.Progress, format+"\n", args...)
}

func (e *ensurer) toolsDir(name string) string {
	return filepath.Join(e.Root, "hack", "tools", name)
}

func (e *ensurer) readPins() error {
	e.pins = map[string]pin{}
	for _, p := range e.programs {
		if err := e.readPin(p.name, p.tools, p.module); err != nil {
			return err
		}
	}
	for _, f := range e.folders {
		if err := e.readPin(f.name, f.tools, f.module); err != nil {
			return err
		}
	}
	return nil
}

func (e *ensurer) readPin(name, tools, module string) error {
	file := filepath.Join(e.toolsDir(tools), "go.mod")
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the pinned version of %s: %w", name, err)
	}
	if e.pins[name], err = pinOf(data, module); err != nil {
		return fmt.Errorf("read the pinned version of %s from %s: %w", name, file, err)
	}
	return nil
}

func (e *ensurer) cached(name string) string {
	return filepath.Join(e.CacheDir, thisPlatform(name, e.pins[name]))
}

// shortage is what the cache lacks.
type shortage struct {
	programs []program
	folders  []folder
}

func (m shortage) count() int { return len(m.programs) + len(m.folders) }

// lookup finds what is there, and returns what is not.
func (e *ensurer) lookup() (*Set, shortage) {
	set := &Set{
		paths: map[string]string{}, versions: map[string]string{},
		CoreCRDs: e.cached(coreCRDs), KwokStages: e.cached(kwokStages),
	}
	var missing shortage
	for _, p := range e.programs {
		set.versions[p.name] = e.pins[p.name].version
		set.paths[p.name] = e.cached(p.name)
		switch asset := filepath.Join(e.AssetsDir, p.name); {
		case p.asset && e.AssetsDir != "" && isExecutable(asset):
			set.paths[p.name] = asset
		case !isExecutable(e.cached(p.name)):
			missing.programs = append(missing.programs, p)
		}
	}
	for _, f := range e.folders {
		if info, err := os.Stat(e.cached(f.name)); err != nil || !info.IsDir() {
			missing.folders = append(missing.folders, f)
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

	// Another process may have made them while this one waited.
	set, missing := e.lookup()
	for i, p := range missing.programs {
		if err := e.makeProgram(ctx, p, fmt.Sprintf("[%d/%d]", i+1, len(missing.programs))); err != nil {
			return nil, fmt.Errorf("make %s: %w", p.name, err)
		}
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

func (e *ensurer) makeProgram(ctx context.Context, p program, progress string) error {
	pinned := e.pins[p.name]
	if p.released && !e.NoDownload && !e.unreachable {
		err := e.download(ctx, p, pinned)
		if err == nil {
			e.printf("%s %s %s: downloaded", progress, p.name, pinned.version)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e.unreachable = !errors.Is(err, errNotPublished)
		e.printf("%s %s %s: no download (%v), building instead", progress, p.name, pinned.version, err)
	}
	return e.build(ctx, p, pinned, progress)
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// progressInterval is the time between two progress reports of a running build.
const progressInterval = 20 * time.Second

// listInterval is the time between two progress reports of a download of modules.
const listInterval = 5 * time.Second

// outputLimit is the largest part of the output of a failed command in an error, in bytes.
const outputLimit = 4096

// build builds programs and compiles Options.Compile. One run of the go command compiles the dependencies of all
// programs, because two runs at the same time would compile shared packages twice. During this run, the modules of
// Options.Compile are downloaded. Linking uses few cores, so Options.Compile is compiled at the same time. At the end,
// the programs are renamed to their final names, so that a killed build leaves no incomplete program.
func (e *ensurer) build(ctx context.Context, programs []program) error {
	temp, err := os.MkdirTemp(e.CacheDir, ".build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	packages := make([]string, len(programs))
	for i, p := range programs {
		packages[i] = p.pkg
		e.printf("%s %s: building from %s", p.name, e.pins[p.module].version, p.pkg)
	}
	libraries := func(ctx context.Context) error {
		return e.compileLibraries(ctx, "the programs", e.toolsDir(), packages)
	}
	modules := func(ctx context.Context) error {
		_, err := e.libraries(ctx, e.Root, e.Compile)
		return err
	}
	if err := atOnce(ctx, libraries, modules); err != nil {
		return err
	}
	link := func(ctx context.Context) error { return e.link(ctx, programs, packages, temp) }
	if err := atOnce(ctx, link, e.compileOwn); err != nil {
		return err
	}
	for _, p := range programs {
		if err := os.Rename(filepath.Join(temp, p.executable()), e.cached(p)); err != nil {
			return err
		}
	}
	return nil
}

// atOnce runs functions at the same time, and returns the first error.
func atOnce(ctx context.Context, functions ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, function := range functions {
		group.Go(func() error { return function(ctx) })
	}
	return group.Wait()
}

// link builds programs, whose libraries are compiled, into a folder.
func (e *ensurer) link(ctx context.Context, programs []program, packages []string, dir string) error {
	started := time.Now()
	args := append([]string{"build", "-ldflags", ldflags(programs, e.pins), "-o", dir + string(filepath.Separator)},
		packages...)
	err := runGo(ctx, e.toolsDir(), nil, &lineCounter{}, args...)
	if err == nil {
		e.printf("linked %s in %s", strings.Join(namesOf(programs), ", "), since(started))
	}
	return err
}

// compileOwn compiles what Options.Compile imports.
func (e *ensurer) compileOwn(ctx context.Context) error {
	return e.compileLibraries(ctx, strings.Join(e.Compile, " and "), e.Root, e.Compile)
}

// compileLibraries compiles what packages import, and reports the progress. It links nothing. what names the packages.
func (e *ensurer) compileLibraries(ctx context.Context, what, dir string, packages []string) error {
	packages, err := e.libraries(ctx, dir, packages)
	if err != nil || len(packages) == 0 {
		return err
	}
	started := time.Now()
	var compiled lineCounter
	stop := e.reportEvery(progressInterval, func() {
		e.printf("still compiling %s, %s: %d of at most %d packages are compiled", what, since(started), compiled.count(),
			len(packages))
	})
	err = runGo(ctx, dir, nil, &compiled, append([]string{"build", "-v"}, packages...)...)
	stop()
	if err == nil {
		e.printf("compiled %s in %s: %d packages, and %d were in the build cache", what, since(started), compiled.count(),
			len(packages)-compiled.count())
	}
	return err
}

// libraries returns what packages import, and the packages that are not main packages. It downloads their modules.
func (e *ensurer) libraries(ctx context.Context, dir string, packages []string) ([]string, error) {
	if len(packages) == 0 {
		return nil, nil
	}
	started := time.Now()
	var downloaded lineCounter
	stop := e.reportEvery(listInterval, func() {
		e.printf("downloading Go modules, %s: %d so far", since(started), downloaded.count())
	})
	defer stop()
	var stdout bytes.Buffer
	if err := runGo(ctx, dir, &stdout, &downloaded,
		append([]string{"list", "-deps", "-f", `{{if ne .Name "main"}}{{.ImportPath}}{{end}}`}, packages...)...); err != nil {
		return nil, err
	}
	return strings.Fields(stdout.String()), nil
}

func since(started time.Time) time.Duration { return time.Since(started).Round(time.Second) }

// lineCounter counts the lines that the go command writes to standard error. There is one line for each package
// compiled and one for each module downloaded. The buffer is not embedded: lines that its ReadFrom takes would not be
// counted.
type lineCounter struct {
	text  bytes.Buffer
	lines atomic.Int64
}

func (c *lineCounter) count() int { return int(c.lines.Load()) }

// Write must not be called concurrently.
func (c *lineCounter) Write(data []byte) (int, error) {
	c.lines.Add(int64(bytes.Count(data, []byte("\n"))))
	return c.text.Write(data)
}

// reportEvery calls report each interval until the returned function is called.
func (e *ensurer) reportEvery(interval time.Duration, report func()) (stop func()) {
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				report()
			}
		}
	}()
	return func() {
		close(done)
		<-finished
	}
}

// runGo runs the go command in dir, without the caller's workspace. If the command fails, the error contains its
// output. The flags are the same as in every build of the Makefile: otherwise builds could not share compiled packages.
func runGo(ctx context.Context, dir string, stdout io.Writer, stderr *lineCounter, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath")
	// The go command removes its temporary files when interrupted, not when killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("the go command is needed to build from source: %w", err)
	}
	text := strings.TrimSpace(stderr.text.String())
	if len(text) > outputLimit {
		text = "…" + strings.ToValidUTF8(text[len(text)-outputLimit:], "")
	}
	return fmt.Errorf("go %s: %w: %s", args[0], err, text)
}

// copyFolder copies the files of a folder from its module, through a temporary folder.
func (e *ensurer) copyFolder(ctx context.Context, f folder) error {
	dir, err := e.moduleDir(ctx, f)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(e.CacheDir, ".folder-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	for _, glob := range f.globs {
		if err := copyMatching(filepath.Join(dir, filepath.FromSlash(glob)), temp); err != nil {
			return err
		}
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	return os.Rename(temp, e.cachedFolder(f))
}

// moduleDir returns the folder in which the go command keeps a module's files.
func (e *ensurer) moduleDir(ctx context.Context, f folder) (string, error) {
	var stdout bytes.Buffer
	if err := runGo(ctx, e.toolsDir(), &stdout, &lineCounter{}, "mod", "download", "-json", f.module); err != nil {
		return "", err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(stdout.Bytes(), &module); err != nil {
		return "", fmt.Errorf("read the module's folder: %w", err)
	}
	return module.Dir, nil
}

func copyMatching(glob, dir string) error {
	files, err := filepath.Glob(glob)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no file matches %s", glob)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

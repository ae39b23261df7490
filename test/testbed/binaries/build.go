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
)

// progressInterval is the time between two progress reports of a running build.
const progressInterval = 20 * time.Second

// listInterval is the time between two progress reports of a download of modules.
const listInterval = 5 * time.Second

// outputLimit bounds how much output of a failed command an error contains, in bytes.
const outputLimit = 4096

// build builds programs with one run of the go command. Each of their packages is then compiled only once, and links
// use the cores that compilers leave idle. The programs are renamed into place at the end, so that a killed build
// leaves no half-written program.
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
	if err := e.compile(ctx, e.toolsDir(), packages, "-ldflags", ldflags(programs, e.pins), "-o",
		temp+string(filepath.Separator)); err != nil {
		return err
	}
	for _, p := range programs {
		if err := os.Rename(filepath.Join(temp, p.executable()), e.cached(p)); err != nil {
			return err
		}
	}
	return nil
}

// Compile fills the go command's build cache with the dependencies of packages of the repository. It also downloads the
// modules that they need. It links nothing: a later build of the packages takes seconds.
func Compile(ctx context.Context, opts Options, packages ...string) error {
	opts, err := opts.withDefaults()
	if err != nil {
		return err
	}
	e := &ensurer{Options: opts}
	listed, err := e.list(ctx, opts.Root, packages, `{{if ne .Name "main"}}{{.ImportPath}}{{end}}`)
	if err != nil {
		return err
	}
	return e.compile(ctx, opts.Root, listed)
}

// compile runs `go build` in dir and reports the progress.
func (e *ensurer) compile(ctx context.Context, dir string, packages []string, flags ...string) error {
	all, err := e.list(ctx, dir, packages, "{{.ImportPath}}")
	if err != nil {
		return err
	}
	started := time.Now()
	var compiled lineCounter
	stop := e.reportEvery(progressInterval, func() {
		e.printf("still building, %s: %d of at most %d packages are compiled", since(started), compiled.count(), len(all))
	})
	args := append(append([]string{"build", "-v"}, flags...), packages...)
	err = runGo(ctx, dir, nil, &compiled, args...)
	stop()
	if err == nil {
		e.printf("built in %s: %d packages compiled, %d were in the build cache", since(started), compiled.count(),
			len(all)-compiled.count())
	}
	return err
}

// list returns the dependencies of packages, each formatted by a template, and downloads their modules.
func (e *ensurer) list(ctx context.Context, dir string, packages []string, format string) ([]string, error) {
	started := time.Now()
	var downloaded lineCounter
	stop := e.reportEvery(listInterval, func() {
		e.printf("downloading Go modules, %s: %d so far", since(started), downloaded.count())
	})
	defer stop()
	var stdout bytes.Buffer
	if err := runGo(ctx, dir, &stdout, &downloaded,
		append([]string{"list", "-deps", "-f", format}, packages...)...); err != nil {
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
// output. The flags are those of every build of the Makefile: only then do builds share compiled packages.
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

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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// progressInterval is how often a running build says that it is still at work.
const progressInterval = 30 * time.Second

// outputLimit bounds what a failed command adds to an error, in bytes.
const outputLimit = 4096

// build compiles p in its tools module, beside its final place, and renames
// it: a killed build never leaves a half-written program.
func (e *ensurer) build(ctx context.Context, p program, pinned pin, progress string) error {
	final := e.cached(p.name)
	temp := fmt.Sprintf("%s.tmp-%d", final, os.Getpid())
	defer func() { _ = os.Remove(temp) }()

	started := time.Now()
	e.printf("%s %s %s: building from %s", progress, p.name, pinned.version, p.pkg)
	stop := e.reportEvery(progressInterval, func() {
		e.printf("%s %s %s: still building, %s", progress, p.name, pinned.version, time.Since(started).Round(time.Second))
	})
	err := runGo(ctx, e.toolsDir(p.tools), nil, "build", "-trimpath", "-ldflags", p.ldflags(pinned.version), "-o", temp, p.pkg)
	stop()
	if err != nil {
		return err
	}
	if err := os.Rename(temp, final); err != nil {
		return err
	}
	e.printf("%s %s %s: built in %s", progress, p.name, pinned.version, time.Since(started).Round(time.Second))
	return nil
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

// runGo runs the go command in dir, free of the caller's workspace, with its
// output in the error if it fails.
func runGo(ctx context.Context, dir string, stdout *bytes.Buffer, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	// The go command removes its temporary files when interrupted, not when killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if stdout != nil {
		cmd.Stdout = stdout
	}
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("the go command is needed to build from source: %w", err)
	}
	text := strings.TrimSpace(stderr.String())
	if len(text) > outputLimit {
		text = "…" + strings.ToValidUTF8(text[len(text)-outputLimit:], "")
	}
	return fmt.Errorf("go %s: %w: %s", args[0], err, text)
}

// copyFolder makes a folder of files from its module, through a temporary one.
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
	return os.Rename(temp, e.cached(f.name))
}

// moduleDir returns where the go command keeps a module's files.
func (e *ensurer) moduleDir(ctx context.Context, f folder) (string, error) {
	var stdout bytes.Buffer
	if err := runGo(ctx, e.toolsDir(f.tools), &stdout, "mod", "download", "-json", f.module); err != nil {
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

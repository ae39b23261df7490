// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

func TestLineCounterCountsLines(t *testing.T) {
	var counter lineCounter
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "echo one >&2; echo two >&2; read line")
	cmd.Stderr = &counter
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The command runs until its input ends.
	err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			return counter.count() == 2, nil
		})
	if err != nil {
		t.Errorf("%d lines are counted while the command runs", counter.count())
	}
	if _, err := io.WriteString(stdin, "end\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(counter.text.String()); counter.count() != 2 || len(got) != 2 {
		t.Errorf("%d lines: %q", counter.count(), got)
	}
}

// TestOwnProgramsAreBuiltAgain checks that after a change of a program in the tools module, only this program is built
// again.
func TestOwnProgramsAreBuiltAgain(t *testing.T) {
	t.Parallel()
	root, tools := t.TempDir(), filepath.FromSlash(toolsModule)
	original, err := RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(root, tools), os.DirFS(filepath.Join(original, tools))); err != nil {
		t.Fatal(err)
	}
	paths := func() map[string]string {
		e, err := newEnsurer(Options{Root: root, CacheDir: "cache"})
		if err != nil {
			t.Fatal(err)
		}
		set, _ := e.lookup()
		return set.paths
	}
	before := paths()
	added := filepath.Join(root, tools, Controllers, "more.go")
	if err := os.WriteFile(added, []byte("package main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range paths() {
		if changed := path != before[name]; changed != (name == Controllers) {
			t.Errorf("%s: from %s to %s", name, before[name], path)
		}
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// probeEnv is the environment variable that makes the test program report what it can do in a container.
const probeEnv = "CONTAINER_PROBE"

// report has the observations of the program in the container.
type report struct {
	// Written has the outcome of a write into each folder: empty, or the error.
	Written map[string]string
	// User and Group are the ids. Status has the lines of /proc/self/status about rights.
	User, Group int
	Groups      []int
	Status      string
	// Env is the environment, and Files are all regular files and folders outside of /proc and /dev.
	Env   []string
	Files []string
}

func TestMain(m *testing.M) {
	Serve()
	if os.Getenv(probeEnv) != "" {
		if err := probe(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// probe writes a report to stdout.
func probe() error {
	r := report{Written: map[string]string{}, User: os.Getuid(), Group: os.Getgid(), Env: os.Environ()}
	err := filepath.WalkDir("/", func(path string, entry fs.DirEntry, err error) error {
		if path == "/proc" {
			return fs.SkipDir
		}
		if err == nil && entry.IsDir() {
			r.Written[path] = ""
			if err := os.WriteFile(filepath.Join(path, "new"), []byte("x"), 0o600); err != nil {
				r.Written[path] = errors.Unwrap(err).Error()
			}
		}
		if !strings.HasPrefix(path, "/dev/") {
			r.Files = append(r.Files, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") {
			r.Status += strings.Join(strings.Fields(line), "") + " "
		}
	}
	if r.Groups, err = os.Getgroups(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// TestContainer checks what a program in a container can do: only write into the volumes that are writable.
func TestContainer(t *testing.T) {
	t.Parallel()
	if err := Unsupported(); err != nil {
		t.Skipf("this machine cannot run containers: %v", err)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "secret"), []byte("s"), 0o444); err != nil {
		t.Fatal(err)
	}
	executable, err := Spec{
		Command: []string{"/program"}, Env: []string{probeEnv + "=1"},
		Files:   map[string]string{"/program": own, "/run/secrets/one": filepath.Join(folder, "secret")},
		Volumes: []Volume{{Path: "/tmp", Size: 1 << 20}, {Path: "/etc/config", ReadOnly: true}},
		User:    65532, Group: 65532, VolumeGroup: 65533,
	}.Prepare(folder)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), executable).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("%v: %s", err, failed.Stderr)
		}
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	for path, outcome := range got.Written {
		want := syscall.EROFS.Error()
		if path == "/tmp" {
			want = ""
		}
		if outcome != want {
			t.Errorf("writing into %s: %q, want %q", path, outcome, want)
		}
	}
	if len(got.Written) < 7 {
		t.Errorf("the folders are %v", got.Written)
	}
	const status = "CapInh:0000000000000000 CapPrm:0000000000000000 CapEff:0000000000000000 CapBnd:0000000000000000 " +
		"CapAmb:0000000000000000 NoNewPrivs:1 "
	if got.User != 65532 || got.Group != 65532 || fmt.Sprint(got.Groups) != "[65533]" || got.Status != status {
		t.Errorf("user %d, group %d, groups %v, %s", got.User, got.Group, got.Groups, got.Status)
	}
	if strings.Join(got.Env, " ") != probeEnv+"=1" || strings.Join(got.Files, " ") !=
		"/ /dev /etc /etc/config /program /run /run/secrets /run/secrets/one /tmp /tmp/new" {
		t.Errorf("the environment is %v, and the files are %v", got.Env, got.Files)
	}
}

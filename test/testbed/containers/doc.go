// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package containers runs a program as a container of a Pod, without a container engine. The program has its own
// read-only root file system and volumes, and runs as another user without capabilities. It shares the network and the
// processes of the machine. It works on Linux, for root.
package containers

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// name is the name by which an executable that calls Serve becomes a container.
const name = "container"

// specFile is the file that describes the container. It is next to the executable.
const specFile = "container.json"

// Spec describes a container.
type Spec struct {
	// Command is the program and its arguments. The program is a path in the container, see Files. Required.
	Command []string
	// Env is the whole environment of the program.
	Env []string
	// Files are read-only files and folders of the machine, by their paths in the container.
	Files map[string]string
	// Volumes are the file systems that are not the root file system.
	Volumes []Volume
	// User and Group are the ids of the program.
	User, Group int
	// VolumeGroup is the group of the volumes, as fsGroup of a Pod.
	VolumeGroup int
}

// Volume is an empty file system in memory.
type Volume struct {
	// Path in the container.
	Path string
	// Size is the limit in bytes. Default: no limit.
	Size int64
	// ReadOnly volumes stay empty.
	ReadOnly bool
}

// Prepare writes an executable into an empty folder, which must exist as long as the container runs. Start it without
// arguments: it becomes the container. The test program must call Serve in TestMain.
func (s Spec) Prepare(folder string) (executable string, err error) {
	if len(s.Command) == 0 {
		return "", errors.New("a container needs a command")
	}
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(folder, specFile), data, 0o600); err != nil {
		return "", err
	}
	executable = filepath.Join(folder, name)
	return executable, os.Symlink(own, executable)
}

// Serve becomes the container if Prepare wrote this executable. Otherwise, it returns.
func Serve() {
	if filepath.Base(os.Args[0]) != name {
		return
	}
	fmt.Fprintln(os.Stderr, "start the container:", become(filepath.Dir(os.Args[0])))
	os.Exit(1)
}

func read(folder string) (spec Spec, err error) {
	data, err := os.ReadFile(filepath.Join(folder, specFile))
	if err != nil {
		return spec, err
	}
	return spec, json.Unmarshal(data, &spec)
}

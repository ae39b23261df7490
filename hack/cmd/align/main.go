// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Command align keeps the same version of each dependency in several go.mod files. So a package that is compiled for
// one module can be used for all: the Go build cache holds a package once for each version.
//
//	align [-check] DIR...
//
// Each DIR holds a go.mod. Without -check, align raises every requirement to the highest version in the files, runs `go
// mod tidy`, and repeats until nothing changes. With -check, align changes nothing and fails if a dependency has two
// versions.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// maxRounds limits the repetitions: a raised requirement can raise others.
const maxRounds = 10

func main() {
	check := flag.Bool("check", false, "change nothing, fail if a dependency has two versions")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, flag.Args(), *check)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dirs []string, check bool) error {
	for range maxRounds {
		files, err := readAll(dirs)
		if err != nil {
			return err
		}
		differences := compare(files)
		for _, d := range differences {
			fmt.Println(d)
		}
		switch {
		case len(differences) == 0:
			return nil
		case check:
			return fmt.Errorf("%d requirements differ between go.mod files; run `make align`", len(differences))
		}
		if err := raise(ctx, files, differences); err != nil {
			return err
		}
	}
	return fmt.Errorf("the versions still differ after %d rounds", maxRounds)
}

// readAll parses the go.mod file of each folder.
func readAll(dirs []string) (map[string]*modfile.File, error) {
	files := map[string]*modfile.File{}
	for _, dir := range dirs {
		name := filepath.Join(dir, "go.mod")
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if files[dir], err = modfile.Parse(name, data, nil); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// difference is a requirement that is lower than in another file.
type difference struct {
	dir, module, version, highest string
}

func (d difference) String() string {
	return fmt.Sprintf("%s: %s %s, another has %s", filepath.Join(d.dir, "go.mod"), d.module, d.version, d.highest)
}

// compare returns the requirements that are lower than in other files, sorted by folder and module.
func compare(files map[string]*modfile.File) []difference {
	highest := map[string]string{}
	for _, file := range files {
		for module, version := range effective(file) {
			if semver.Compare(version, highest[module]) > 0 {
				highest[module] = version
			}
		}
	}
	var differences []difference
	for _, dir := range slices.Sorted(maps.Keys(files)) {
		versions := effective(files[dir])
		for _, module := range slices.Sorted(maps.Keys(versions)) {
			if versions[module] != highest[module] {
				differences = append(differences,
					difference{dir: dir, module: module, version: versions[module], highest: highest[module]})
			}
		}
	}
	return differences
}

// effective returns the versions that a file requires, by module, after its replacements.
func effective(file *modfile.File) map[string]string {
	versions := map[string]string{}
	for _, r := range file.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range file.Replace {
		if _, required := versions[r.Old.Path]; required && r.New.Path == r.Old.Path {
			versions[r.Old.Path] = r.New.Version
		}
	}
	return versions
}

// raise writes the highest versions and tidies the modules.
func raise(ctx context.Context, files map[string]*modfile.File, differences []difference) error {
	args := map[string][]string{}
	for _, d := range differences {
		if replaced(files[d.dir], d.module) {
			return fmt.Errorf("%s replaces %s: change the replacement to %s manually", d.dir, d.module, d.highest)
		}
		args[d.dir] = append(args[d.dir], "-require="+d.module+"@"+d.highest)
	}
	var errs []error
	for dir, edits := range args {
		errs = append(errs, command(ctx, dir, append([]string{"mod", "edit"}, edits...)...))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for dir := range args {
		errs = append(errs, command(ctx, dir, "mod", "tidy"))
	}
	return errors.Join(errs...)
}

func replaced(file *modfile.File, module string) bool {
	return slices.ContainsFunc(file.Replace, func(r *modfile.Replace) bool { return r.Old.Path == module })
}

func command(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return cmd.Run()
}

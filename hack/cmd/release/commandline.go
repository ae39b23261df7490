// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/files"
	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/sbom"
)

const program = "kubectl-helmop"

// commandLine builds the command line for each platform and writes its archive, its list of modules, and the manifest
// for Krew.
func (r *release) commandLine(ctx context.Context) error {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	for item := range strings.SplitSeq(r.platforms, ",") {
		goos, arch, ok := strings.Cut(strings.TrimSpace(item), "/")
		if !ok || goos == "" || arch == "" || strings.Contains(arch, "/") {
			return fmt.Errorf("-platforms: %q is not OS/ARCHITECTURE", item)
		}
		started := time.Now()
		fmt.Fprintf(r.progress, "building %s for %s/%s ...", program, goos, arch)
		if err := r.buildFor(ctx, goos, arch, license); err != nil {
			return err
		}
		fmt.Fprintf(r.progress, " %.0f s\n", time.Since(started).Seconds())
	}
	manifest, err := files.Krew(r.version, r.downloads, r.builds)
	if err != nil {
		return err
	}
	return r.write("helmop.krew.yaml", manifest)
}

func (r *release) buildFor(ctx context.Context, goos, arch string, license []byte) error {
	build := files.Build{OS: goos, Arch: arch, Binary: program}
	name := fmt.Sprintf("%s_%s_%s_%s", program, r.version, goos, arch)
	build.Archive = name + ".tar.gz"
	if goos == "windows" {
		build.Binary, build.Archive = program+".exe", name+".zip"
	}
	binary := filepath.Join(r.work, "bin", goos+"-"+arch, build.Binary)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", r.ldflags, "-o", binary,
		"./cmd/"+program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building for %s/%s: %w\n%s", goos, arch, err, out)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	archive, err := files.Archive(build.Archive, r.time,
		files.File{Name: build.Binary, Executable: true, Content: data},
		files.File{Name: "LICENSE", Content: license})
	if err != nil {
		return err
	}
	if err := checkProgram(build, archive); err != nil {
		return fmt.Errorf("checking %s: %w", build.Archive, err)
	}
	if err := r.write(build.Archive, archive); err != nil {
		return err
	}
	if build.Sum, err = files.Sum(filepath.Join(r.output, build.Archive)); err != nil {
		return err
	}
	r.builds = append(r.builds, build)
	document, err := sbom.Document(sbom.Subject{
		Name: program, Version: r.version, File: build.Archive, Sum: build.Sum, Binary: binary, Created: r.time,
	})
	if err != nil {
		return err
	}
	return r.write(build.Archive+".spdx.json", document)
}

// checkProgram checks that users of a platform can run the unpacked program.
func checkProgram(build files.Build, archive []byte) error {
	unpacked, err := files.Unpack(build.Archive, archive)
	if err != nil {
		return err
	}
	for _, file := range unpacked {
		if file.Name == build.Binary && file.Executable {
			return files.CheckExecutable(file.Content, build.OS, build.Arch)
		}
	}
	return fmt.Errorf("it has no program %s", build.Binary)
}

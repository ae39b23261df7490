// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image builds the manager's container image without a container engine. It compiles a static binary for each
// platform, puts each into an image of one layer, and writes all of them as one OCI image layout. The layout is written
// both as a folder and as a tar file. With -push, the command also copies the image to a registry.
//
// The same commit, Go version and CA bundle result in the same bytes: all times are the time of the commit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry"

	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/publish"
)

// pushTimeout bounds the copy of some 100 MB to a registry.
const pushTimeout = 15 * time.Minute

// options are the flags.
type options struct {
	output    string
	reference string
	platforms string
	version   string
	revision  string
	created   string
	ldflags   string
	caBundle  string
	push      bool
	plainHTTP bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, progress io.Writer) error {
	var o options
	fs := flag.NewFlagSet("image", flag.ContinueOnError)
	fs.StringVar(&o.output, "output", "out/image", "folder to write the layout into, as layout/ and image.tar")
	fs.StringVar(&o.reference, "reference", "", "name and tag of the image, for example registry.example/manager:v0.1.0")
	fs.StringVar(&o.platforms, "platforms", "linux/amd64,linux/arm64", "platforms, separated by commas")
	fs.StringVar(&o.version, "version", "", "version to label the image with")
	fs.StringVar(&o.revision, "revision", "", "Git commit to label the image with")
	fs.StringVar(&o.created, "created", "", "time to give to all files, RFC 3339 (default: 1970)")
	fs.StringVar(&o.ldflags, "ldflags", "", "linker flags of the manager")
	fs.StringVar(&o.caBundle, "ca-bundle", "",
		"PEM file of the CAs that the image trusts (default: the one of this system, if it has one)")
	fs.BoolVar(&o.push, "push", false, "also push to the registry of -reference")
	fs.BoolVar(&o.plainHTTP, "plain-http", false, "push over http")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	return o.build(ctx, progress)
}

// build builds, writes and optionally pushes the image.
func (o *options) build(ctx context.Context, progress io.Writer) error {
	ref, err := registry.ParseReference(o.reference)
	if err != nil {
		return fmt.Errorf("-reference %q: %w", o.reference, err)
	}
	spec, err := o.spec(progress)
	if err != nil {
		return err
	}
	platforms, err := parsePlatforms(o.platforms)
	if err != nil {
		return err
	}
	for _, platform := range platforms {
		started := time.Now()
		binary := filepath.Join(o.output, "bin", platform.OS+"-"+platform.Architecture, "manager")
		fmt.Fprintf(progress, "building the manager for %s/%s ...", platform.OS, platform.Architecture)
		if err := compile(ctx, platform, o.ldflags, binary); err != nil {
			return err
		}
		fmt.Fprintf(progress, " %.0f s\n", time.Since(started).Seconds())
		spec.binaries = append(spec.binaries, platformBinary{platform: platform, path: binary})
	}

	layout := filepath.Join(o.output, "layout")
	index, err := writeLayout(ctx, layout, *spec)
	if err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	archive := filepath.Join(o.output, "image.tar")
	if err := archiveLayout(layout, archive); err != nil {
		return fmt.Errorf("writing %s: %w", archive, err)
	}
	fmt.Fprintf(progress, "%s@%s\n  layout:  %s\n  archive: %s\n", o.reference, index.Digest, layout, archive)

	if !o.push {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	fmt.Fprintf(progress, "pushing to %s ...\n", ref.Registry)
	if err := push(ctx, layout, index, o.reference, o.plainHTTP); err != nil {
		return fmt.Errorf("pushing %s: %w", o.reference, err)
	}
	return nil
}

// push copies the content of a layout to a registry and tags it.
func push(ctx context.Context, layout string, index ocispec.Descriptor, reference string, plainHTTP bool) error {
	blobs, err := oci.NewStorage(layout)
	if err != nil {
		return err
	}
	return publish.Target{PlainHTTP: plainHTTP}.Push(ctx, publish.Artifact{Root: index, From: blobs}, reference)
}

// spec returns the content of the image, without the binaries.
func (o *options) spec(progress io.Writer) (*imageSpec, error) {
	spec := &imageSpec{
		reference: o.reference,
		created:   time.Unix(0, 0).UTC(),
		labels: map[string]string{
			ocispec.AnnotationTitle:    "cluster-api-helmop-controller",
			ocispec.AnnotationSource:   "https://github.com/helmop/cluster-api-addon-provider-helmop",
			ocispec.AnnotationLicenses: "Apache-2.0",
		},
	}
	if o.version != "" {
		spec.labels[ocispec.AnnotationVersion] = o.version
	}
	if o.revision != "" {
		spec.labels[ocispec.AnnotationRevision] = o.revision
	}
	// Without a Git checkout, the Makefile has no date.
	if o.created != "" && o.created != "unknown" {
		created, err := time.Parse(time.RFC3339, o.created)
		if err != nil {
			return nil, fmt.Errorf("-created: %w", err)
		}
		spec.created = created.UTC()
	}
	bundle, path, err := readCABundle(o.caBundle)
	if err != nil {
		return nil, err
	}
	if bundle == nil {
		fmt.Fprintln(progress,
			"warning: this system has no CA bundle; the image will trust no public registry (set -ca-bundle)")
	} else {
		fmt.Fprintf(progress, "CA bundle: %s\n", path)
	}
	spec.caBundle = bundle
	return spec, nil
}

func parsePlatforms(list string) ([]ocispec.Platform, error) {
	var platforms []ocispec.Platform
	for item := range strings.SplitSeq(list, ",") {
		goos, arch, ok := strings.Cut(strings.TrimSpace(item), "/")
		if !ok || goos != "linux" || arch == "" || strings.Contains(arch, "/") {
			return nil, fmt.Errorf("-platforms: %q is not linux/ARCHITECTURE", item)
		}
		platforms = append(platforms, ocispec.Platform{OS: goos, Architecture: arch})
	}
	return platforms, nil
}

// compile builds the manager as a static binary.
func compile(ctx context.Context, platform ocispec.Platform, ldflags, output string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", output, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Architecture)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building for %s/%s: %w\n%s", platform.OS, platform.Architecture, err, out)
	}
	return nil
}

// readCABundle reads the given bundle, or the first of the usual files that exists. It returns nil if there is none.
func readCABundle(path string) ([]byte, string, error) {
	if path != "" {
		bundle, err := os.ReadFile(path)
		return bundle, path, err
	}
	for _, candidate := range []string{
		"/etc/ssl/certs/ca-certificates.crt", // Debian, Alpine
		"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora
		"/etc/ssl/cert.pem",                  // macOS
	} {
		bundle, err := os.ReadFile(candidate)
		if err == nil {
			return bundle, candidate, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, "", err
		}
	}
	return nil, "", nil
}

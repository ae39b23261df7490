// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release writes the files of a release next to the components for clusterctl: archives of the command line,
// the image, the Helm chart, lists of dependencies (SPDX), the provenance (SLSA), the manifest for Krew, and checksums.
// With -key, it signs the checksums and the provenance. With -push, it also pushes the image, the chart and the
// components to a registry.
//
// The command "predicate FILE" writes the predicate of a provenance.
//
// The same commit, Go version and image result in the same bytes, except for the signatures.
package main

import (
	"context"
	"crypto"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/files"
	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/provenance"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/signing"
)

// options are the flags.
type options struct {
	output, layout, work                  string
	version, commit, created              string
	ldflags, platforms, imagePlatforms    string
	image, charts, components             string
	source, downloads, builder, changelog string
	key                                   string
	push, plainHTTP                       bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, progress io.Writer) error {
	if len(args) == 2 && args[0] == "predicate" {
		return writePredicate(args[1], progress)
	}
	var o options
	const repository = "https://github.com/helmop/cluster-api-addon-provider-helmop"
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	fs.StringVar(&o.output, "output", "", "folder that hack/release-manifests.sh wrote, which gets all files")
	fs.StringVar(&o.layout, "image-output", "out/image", "folder that hack/cmd/image wrote")
	fs.StringVar(&o.work, "work", "out/release", "folder for intermediate files")
	fs.StringVar(&o.version, "version", "", "version of the release, such as v0.1.0")
	fs.StringVar(&o.commit, "commit", "", "Git commit of the release")
	fs.StringVar(&o.created, "created", "", "time to give to all files, RFC 3339")
	fs.StringVar(&o.ldflags, "ldflags", "", "linker flags of the command line")
	fs.StringVar(&o.platforms, "platforms", "", "platforms of the command line, as OS/ARCHITECTURE, separated by commas")
	fs.StringVar(&o.imagePlatforms, "image-platforms", "", "platforms of the image, for the provenance")
	fs.StringVar(&o.image, "image", "", "name of the image, without tag")
	fs.StringVar(&o.charts, "charts", "", "folder of the registry for the chart, such as registry.example/charts")
	fs.StringVar(&o.components, "components", "", "repository of the registry for the components for clusterctl")
	fs.StringVar(&o.source, "source", repository, "URL of the Git repository")
	fs.StringVar(&o.downloads, "downloads", "", "URL below which the files are published (default: GitHub's of -source)")
	fs.StringVar(&o.builder, "builder", repository+"/blob/main/docs/releasing.md#build-type",
		"URI of the machine that builds, for the provenance")
	fs.StringVar(&o.changelog, "changelog", "CHANGELOG.md", "file with the changes")
	fs.StringVar(&o.key, "key", "",
		"file with a private key that signs, of cosign or in PKCS #8; its password is read from "+signing.PasswordVariable)
	fs.BoolVar(&o.push, "push", false, "also push to the registries of -image, -charts and -components")
	fs.BoolVar(&o.plainHTTP, "plain-http", false, "push over http")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	for _, required := range []string{"output", "version", "commit", "created", "platforms", "image"} {
		if fs.Lookup(required).Value.String() == "" {
			return fmt.Errorf("-%s is required", required)
		}
	}
	if o.push && (o.charts == "" || o.components == "") {
		return errors.New("-push requires -charts and -components")
	}
	if o.downloads == "" {
		o.downloads = o.source + "/releases/download/" + o.version
	}
	return o.release(ctx, progress)
}

// release writes, signs and pushes a release.
func (o *options) release(ctx context.Context, progress io.Writer) error {
	created, err := time.Parse(time.RFC3339, o.created)
	if err != nil {
		return fmt.Errorf("-created: %w", err)
	}
	key, err := o.loadKey()
	if err != nil {
		return fmt.Errorf("-key: %w", err)
	}
	r := &release{options: o, time: created, progress: progress}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"removing files of an earlier run", r.clean},
		{"building the command line", r.commandLine},
		{"describing the image", r.imageFiles},
		{"packing the Helm chart", r.packChart},
		{"packing the components for clusterctl", r.packComponents},
		{"reading the changelog", r.notes},
		{"writing the provenance and the checksums", func(context.Context) error { return r.summary() }},
		{"signing", func(context.Context) error { return r.sign(key) }},
		{"pushing", func(ctx context.Context) error { return r.push(ctx, key) }},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	fmt.Fprintf(progress, "wrote %s\n", o.output)
	return nil
}

// writePredicate writes the predicate of a provenance, for tools that make their own statements.
func writePredicate(path string, to io.Writer) error {
	statement, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	predicate, err := provenance.Predicate(statement)
	if err != nil {
		return err
	}
	_, err = to.Write(predicate)
	return err
}

// loadKey returns nil without -key.
func (o *options) loadKey() (crypto.PrivateKey, error) {
	if o.key == "" {
		return nil, nil
	}
	return signing.LoadKey(o.key, func() ([]byte, error) {
		password, ok := os.LookupEnv(signing.PasswordVariable)
		if !ok {
			return nil, fmt.Errorf("the key is encrypted: set %s", signing.PasswordVariable)
		}
		return []byte(password), nil
	})
}

// release holds the state while a release is built.
type release struct {
	*options
	time     time.Time
	progress io.Writer
	builds   []files.Build
	artifacts
}

var (
	// provider are the files that clusterctl and Cluster API Operator install.
	provider = []string{"addon-components.yaml", "metadata.yaml"}

	// inputs are the files that exist before the command runs.
	inputs = append([]string{"shard-components.yaml", "one-namespace-components.yaml"}, provider...)
)

// clean removes all files except the inputs, so that the checksums contain no file of an earlier run.
func (r *release) clean(context.Context) error {
	for _, name := range inputs {
		if _, err := os.Stat(filepath.Join(r.output, name)); err != nil {
			return fmt.Errorf("%w: run `make release-manifests` first", err)
		}
	}
	entries, err := os.ReadDir(r.output)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if slices.Contains(inputs, entry.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(r.output, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file of the release.
func (r *release) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.output, name), data, 0o644)
}

func (r *release) notes(context.Context) error {
	changelog, err := os.ReadFile(r.changelog)
	if err != nil {
		return err
	}
	text, err := files.Notes(string(changelog), r.version)
	if err != nil {
		return err
	}
	return r.write("RELEASE_NOTES.md", []byte(text))
}

// number returns the version without "v".
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

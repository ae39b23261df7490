// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
)

// pull is the command "pull".
type pull struct {
	registryaccess.Flags
	output  kube.Output
	dir     string
	untar   bool
	streams Streams
}

// pulled is the result of "pull".
type pulled struct {
	Reference string   `json:"reference"`
	Digest    string   `json:"digest"`
	Format    string   `json:"format"`
	Files     []string `json:"files"`
}

func newPull(streams Streams) *cobra.Command {
	p := &pull{streams: streams}
	cmd := &cobra.Command{
		Use:   "pull oci://HOST/REPOSITORY:TAG|@DIGEST",
		Short: "Pull an artifact and write its files",
		Long: `Pull an artifact and write its files into a folder. A Helm chart is written as an archive,
unless --untar is set.

Existing files are not overwritten: if one of the files exists, the command fails and writes nothing.`,
		Example: `  kubectl helmop pull oci://registry.example.com/platform/base:v1.2.3 --dir base`,
		Args:    kube.Args(1, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return p.run(cmd, args[0]) },
	}
	p.Flags.Add(cmd.Flags())
	p.output.Add(cmd, "plain text", "json", "yaml")
	cmd.Flags().StringVarP(&p.dir, "dir", "d", ".", "Folder to write to. It is created if it does not exist.")
	cmd.Flags().BoolVar(&p.untar, "untar", false, "Unpack a chart into a folder with the chart's name.")
	return cmd
}

func (p *pull) run(cmd *cobra.Command, reference string) error {
	if err := p.output.Validate(); err != nil {
		return err
	}
	at, err := registryaccess.ParseArtifact(reference)
	if err != nil {
		return err
	}
	ctx, cancel := p.Bounded(cmd)
	defer cancel()
	artifact, err := p.Open(ctx, p.streams, at)
	if err != nil {
		return err
	}
	defer artifact.EndProgress()
	format, files, err := p.files(ctx, artifact)
	if err != nil {
		return fmt.Errorf("%s: %w", artifact, err)
	}
	if err := writeFiles(p.dir, files); err != nil {
		return err
	}
	result := pulled{Reference: artifact.String(), Digest: artifact.Digest(), Format: string(format)}
	for _, file := range files {
		result.Files = append(result.Files, filepath.Join(p.dir, filepath.FromSlash(file.Name)))
	}
	return p.output.Write(p.streams.Out, result, func(out io.Writer) error {
		for _, name := range result.Files {
			if _, err := fmt.Fprintln(out, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// files returns the files that the command writes.
func (p *pull) files(ctx context.Context, a *registryaccess.Artifact) (bundle.Format, []bundle.File, error) {
	source := a.Source()
	format, layers, err := bundle.Detect(source.Manifest, source.Selection)
	if err != nil {
		return format, nil, err
	}
	if format != bundle.FormatHelmChart {
		return bundle.Files(ctx, source)
	}
	packed, err := a.Layer(ctx, layers[0])
	if err != nil {
		return format, nil, err
	}
	meta, err := bundle.ReadMetadata(packed)
	if err != nil {
		return format, nil, err
	}
	if !p.untar {
		return format, []bundle.File{{Name: meta.Name + "-" + meta.Version + ".tgz", Data: packed}}, nil
	}
	source.ReadLayer = func(context.Context, int) ([]byte, error) { return packed, nil }
	_, files, err := bundle.Files(ctx, source)
	for i := range files {
		files[i].Name = path.Join(meta.Name, files[i].Name)
	}
	return format, files, err
}

// writeFiles writes files into a folder. If one of the files exists, it writes nothing. It never writes outside of the
// folder.
func writeFiles(dir string, files []bundle.File) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // WriteFile has closed the files
	for _, file := range files {
		if _, err := root.Lstat(filepath.FromSlash(file.Name)); err == nil {
			return fmt.Errorf(
				"%s exists already: nothing was written; remove it or use another --dir", filepath.Join(dir, file.Name))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, file := range files {
		if err := root.MkdirAll(filepath.FromSlash(path.Dir(file.Name)), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(filepath.FromSlash(file.Name), file.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

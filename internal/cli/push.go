// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/pack"
)

// push is the command of this name.
type push struct {
	registryFlags
	output
	format, source, revision, created string
	annotations                       map[string]string
	tags                              []string
	sign                              signFlags
	streams                           Streams
}

// pushed is the result of "push".
type pushed struct {
	// Reference is the artifact by its digest; Tags are those that lead to it.
	Reference string   `json:"reference"`
	Digest    string   `json:"digest"`
	Tags      []string `json:"tags,omitempty"`
	Format    string   `json:"format"`
	Bytes     int64    `json:"bytes"`
	Signature string   `json:"signature,omitempty"`
}

func newPush(streams Streams) *cobra.Command {
	p := &push{streams: streams}
	cmd := &cobra.Command{
		Use:   "push DIR|FILE|CHART oci://HOST/REPOSITORY[:TAG]",
		Short: "Push a chart or Kubernetes objects to a registry",
		Long: `Push a chart or Kubernetes objects to a registry. Equal content has an equal digest, whenever and wherever it is pushed;
what --source, --revision, --created and --annotation say is part of it.

Formats:
  HelmChart  a Helm chart, from its folder or archive; without TAG, its version is the tag ("_" for "+")
  Flux       a folder, as "flux push artifact" makes it; with kustomization.yaml if it has one
  Plain      a plain+v0 bundle: an image with the files in /manifests; no folders
  Files      a layer for each file, as "oras push" makes of files
  Fleet      a list of files, as Fleet keeps it`,
		Example: `  kubectl helmop push ./charts/cni oci://registry.example.com/charts/cni
  kubectl helmop push ./manifests oci://registry.example.com/platform/base:v1 \
    --source "$(git remote get-url origin)" --revision "$(git log -1 --format=%H -- ./manifests)"
  kubectl helmop push ./manifests oci://registry.example.com/platform/base:v1 --sign --key cosign.key`,
		Args: exactArgs("PATH", "REFERENCE"),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd, args[0], args[1]) },
	}
	p.registryFlags.add(cmd.Flags())
	p.output.add(cmd.Flags())
	p.sign.add(cmd.Flags())
	cmd.Flags().StringVar(&p.format, "format", "", "HelmChart, Flux, Plain, Files or Fleet; default: HelmChart for charts, Flux for other folders, Files for a file.")
	cmd.Flags().StringVar(&p.source, "source", "", "Where the content comes from, for example a Git URL (org.opencontainers.image.source); a credential in it is left out.")
	cmd.Flags().StringVar(&p.revision, "revision", "", "Revision of the source, for example the last commit to PATH (org.opencontainers.image.revision).")
	cmd.Flags().StringVar(&p.created, "created", "", "Time to tell in the manifest, as in 2026-05-20T09:00:00Z; default: none, so that the digest stays the same.")
	cmd.Flags().StringToStringVar(&p.annotations, "annotation", nil, "Further annotations of the manifest, KEY=VALUE.")
	cmd.Flags().StringSliceVar(&p.tags, "tag", nil, "Further tags.")
	_ = cmd.RegisterFlagCompletionFunc("format", completeFormats)
	return cmd
}

func completeFormats(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, format := range pack.Formats {
		names = append(names, string(format))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (p *push) run(cmd *cobra.Command, path, reference string) error {
	to, err := parseLocation(reference)
	if err != nil {
		return err
	}
	if err := p.validate(to); err != nil {
		return err
	}
	artifact, err := p.pack(path)
	if err != nil {
		return err
	}
	for _, key := range artifact.Stripped {
		_, _ = fmt.Fprintf(p.streams.ErrOut, "warning: %s is pushed without the credential in its URL; what files say of it is pushed as it is\n", key)
	}
	tags, err := p.tagsOf(to, artifact)
	if err != nil {
		return err
	}
	key, err := p.sign.signer(p.streams)
	if err != nil {
		return err
	}
	ctx, cancel := p.bounded(cmd)
	defer cancel()
	repository, err := p.repository(to)
	if err != nil {
		return err
	}
	result := pushed{
		Reference: to.pinned(artifact.Manifest.Digest.String()), Digest: artifact.Manifest.Digest.String(), Tags: tags,
		Format: string(artifact.Format), Bytes: artifact.Manifest.Size,
	}
	for _, blob := range artifact.Blobs() {
		result.Bytes += blob.Size
	}
	if result.Signature, err = key.upload(ctx, p.streams, repository, artifact, tags); err != nil {
		return err
	}
	return p.write(p.streams.Out, result, func(out io.Writer) error {
		_, err := fmt.Fprintln(out, result.Reference)
		return err
	})
}

// validate checks the arguments before anything is read or sent.
func (p *push) validate(to location) error {
	if _, err := to.Digest(); err == nil {
		return usageError{fmt.Errorf("%s has a digest, which is what comes out of a push: give a tag", to.name())}
	}
	if err := p.sign.validate(); err != nil {
		return err
	}
	return p.output.validate()
}

func (p *push) pack(path string) (*pack.Artifact, error) {
	options := pack.Options{Annotations: map[string]string{}}
	var err error
	if p.format != "" {
		if options.Format, err = pack.ParseFormat(p.format); err != nil {
			return nil, usageError{fmt.Errorf("--format: %w", err)}
		}
	}
	if p.created != "" {
		if options.Created, err = time.Parse(time.RFC3339, p.created); err != nil {
			return nil, usageError{fmt.Errorf("--created: %w", err)}
		}
	}
	for key, value := range p.annotations {
		options.Annotations[key] = value
	}
	if p.source != "" {
		options.Annotations[ocispec.AnnotationSource] = p.source
	}
	if p.revision != "" {
		options.Annotations[ocispec.AnnotationRevision] = p.revision
	}
	return pack.Pack(path, options)
}

// tagsOf are the tags that are to lead to the artifact. That of a chart must be its version, else Helm does not find it.
func (p *push) tagsOf(to location, artifact *pack.Artifact) ([]string, error) {
	tag := to.Reference.Reference
	if artifact.Format == bundle.FormatHelmChart {
		version := strings.ReplaceAll(artifact.Version, "+", "_")
		if tag != "" && tag != version {
			return nil, usageError{fmt.Errorf("the tag of chart %s is its version, %s, and not %s; name others with --tag", artifact.Name, version, tag)}
		}
		tag = version
	}
	if tag == "" && len(p.tags) == 0 {
		return nil, usageError{fmt.Errorf("%s has no tag: write %s:TAG", to.name(), to.name())}
	}
	var tags []string
	for _, name := range append([]string{tag}, p.tags...) {
		if name == "" {
			continue
		}
		ref := to.Reference
		ref.Reference = name
		if err := ref.ValidateReferenceAsTag(); err != nil {
			return nil, usageError{fmt.Errorf("tag %q: %w", name, err)}
		}
		tags = append(tags, name)
	}
	return tags, nil
}

// upload copies an artifact to its repository, signs it if there is somebody to, and sets the tags last: whoever follows them finds it
// whole, and signed. It returns the digest of the manifest of the signature, empty if nobody signs.
func (s *signer) upload(ctx context.Context, streams Streams, repository *remote.Repository, artifact *pack.Artifact, tags []string) (string, error) {
	if err := transfer(ctx, streams, repository, artifact); err != nil {
		return "", err
	}
	made, err := s.sign(ctx, repository, artifact.Manifest.Descriptor)
	if err != nil {
		return "", fmt.Errorf("%s is pushed, but not signed, and no tag leads to it: %w", artifact.Manifest.Digest, err)
	}
	for _, tag := range tags {
		if err := repository.PushReference(ctx, artifact.Manifest.Descriptor, bytes.NewReader(artifact.Manifest.Content), tag); err != nil {
			return "", fmt.Errorf("tag %s: %w", tag, err)
		}
	}
	return made, nil
}

// transfer copies an artifact to its repository, content before what names it.
func transfer(ctx context.Context, streams Streams, repository *remote.Repository, artifact *pack.Artifact) error {
	staged := memory.New()
	total := artifact.Manifest.Size
	for _, blob := range append(artifact.Blobs(), artifact.Manifest) {
		if err := staged.Push(ctx, blob.Descriptor, bytes.NewReader(blob.Content)); err != nil {
			return err
		}
	}
	for _, blob := range artifact.Blobs() {
		total += blob.Size
	}
	bar := newProgress(streams.ErrOut, "pushing", total)
	defer bar.end()
	return oras.CopyGraph(ctx, countedSource{staged, bar}, repository, artifact.Manifest.Descriptor, bar.options("pushed"))
}

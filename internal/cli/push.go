// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/pack"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
)

// push is the command "push".
type push struct {
	registryaccess.Flags
	output                            kube.Output
	format, source, revision, created string
	annotations                       map[string]string
	tags                              []string
	sign                              registryaccess.SignFlags
	streams                           Streams
}

// pushed is the result of "push".
type pushed struct {
	// Reference is the reference of the artifact by its digest. Tags point to the artifact.
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
		Long: `Push a chart or Kubernetes objects to a registry. The same content always has the same digest. The values of
--source, --revision, --created and --annotation are part of the content.

Formats:
  HelmChart  a Helm chart, from its folder or archive; its tag is its version ("_" for "+")
  Flux       a folder, with or without a kustomization.yaml, like "flux push artifact"
  Plain      a plain+v0 bundle: an image with the files in /manifests, without subfolders
  Files      one layer for each file, like "oras push"
  Fleet      a list of files, like Fleet's OCI storage`,
		Example: `  kubectl helmop push ./charts/cni oci://registry.example.com/charts/cni
  kubectl helmop push ./manifests oci://registry.example.com/platform/base:v1 \
    --source "$(git remote get-url origin)" --revision "$(git log -1 --format=%H -- ./manifests)"
  kubectl helmop push ./manifests oci://registry.example.com/platform/base:v1 --sign --key cosign.key`,
		Args: kube.Args(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd, args[0], args[1]) },
	}
	p.Flags.Add(cmd.Flags())
	p.output.Add(cmd, "plain text", "json", "yaml")
	p.sign.Add(cmd.Flags())
	cmd.Flags().StringVar(&p.format, "format", "",
		"Format: HelmChart, Flux, Plain, Files or Fleet "+
			"(default: HelmChart for charts, Flux for other folders, Files for a file).")
	cmd.Flags().StringVar(&p.source, "source", "",
		"Source of the content, for example a Git URL (annotation org.opencontainers.image.source). "+
			"A credential in the URL is removed.")
	cmd.Flags().StringVar(&p.revision, "revision", "",
		"Revision of the source, for example the last commit of PATH (annotation org.opencontainers.image.revision).")
	cmd.Flags().StringVar(&p.created, "created", "",
		"Creation time to write into the manifest, for example 2026-05-20T09:00:00Z "+
			"(default: none, so that the same content has the same digest).")
	cmd.Flags().StringToStringVar(&p.annotations, "annotation", nil,
		"Additional annotations of the manifest, as KEY=VALUE.")
	cmd.Flags().StringSliceVar(&p.tags, "tag", nil, "Additional tags.")
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
	to, err := registryaccess.ParseLocation(reference)
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
		_, _ = fmt.Fprintf(p.streams.ErrOut,
			"warning: the credential in the URL of %s was removed; files that contain the URL are pushed unchanged\n", key)
	}
	tags, err := p.tagsOf(to, artifact)
	if err != nil {
		return err
	}
	key, err := p.sign.Signer(cmd.Context(), p.streams)
	if err != nil {
		return err
	}
	ctx, cancel := p.Bounded(cmd)
	defer cancel()
	repository, err := p.Repository(to)
	if err != nil {
		return err
	}
	result := pushed{
		Reference: to.Pinned(artifact.Manifest.Digest.String()), Digest: artifact.Manifest.Digest.String(), Tags: tags,
		Format: string(artifact.Format), Bytes: artifact.Manifest.Size,
	}
	for _, blob := range artifact.Blobs() {
		result.Bytes += blob.Size
	}
	if result.Signature, err = key.Upload(ctx, p.streams, repository, artifact, tags); err != nil {
		return err
	}
	return p.output.Write(p.streams.Out, result, func(out io.Writer) error {
		_, err := fmt.Fprintln(out, result.Reference)
		return err
	})
}

// validate checks the arguments before the command reads or sends anything.
func (p *push) validate(to registryaccess.Location) error {
	if _, err := to.Digest(); err == nil {
		return kube.Usagef("%s has a digest, which only the push determines; give a tag", to.URL())
	}
	if err := p.sign.Validate(); err != nil {
		return err
	}
	return p.output.Validate()
}

func (p *push) pack(path string) (*pack.Artifact, error) {
	options := pack.Options{Annotations: map[string]string{}}
	var err error
	if p.format != "" {
		if options.Format, err = pack.ParseFormat(p.format); err != nil {
			return nil, kube.Usagef("--format: %v", err)
		}
	}
	if p.created != "" {
		if options.Created, err = time.Parse(time.RFC3339, p.created); err != nil {
			return nil, kube.Usagef("--created: %v", err)
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

// tagsOf returns the tags to set. The tag of a chart must be its version, because Helm looks up the version.
func (p *push) tagsOf(to registryaccess.Location, artifact *pack.Artifact) ([]string, error) {
	tag := to.Reference.Reference
	if artifact.Format == bundle.FormatHelmChart {
		version := strings.ReplaceAll(artifact.Version, "+", "_")
		if tag != "" && tag != version {
			return nil, kube.Usagef(
				"the tag of the chart %q must be its version, %s, not %s; use --tag for additional tags",
				artifact.Name,
				version,
				tag,
			)
		}
		tag = version
	}
	if tag == "" && len(p.tags) == 0 {
		return nil, kube.Usagef("%s has no tag; use %s:TAG", to.URL(), to.URL())
	}
	var tags []string
	for _, name := range append([]string{tag}, p.tags...) {
		if name == "" {
			continue
		}
		ref := to.Reference
		ref.Reference = name
		if err := ref.ValidateReferenceAsTag(); err != nil {
			return nil, kube.Usagef("tag %q: %v", name, err)
		}
		tags = append(tags, name)
	}
	return tags, nil
}

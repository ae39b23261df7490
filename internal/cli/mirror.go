// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/bill"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/mirror"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/images"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// mirroring is the command "mirror".
type mirroring struct {
	registryaccess.Flags
	output              kube.Output
	streams             Streams
	to, lock, manifests string
	bill                string
	valueFiles          []string
	images, update      bool

	prefix registry.Reference
	values map[string]any
	// position is the number of the current source and the number of all known sources.
	position string
	// folder holds the archives of charts while the command runs.
	folder string
	// charts reads chart repositories; nil before its first use.
	charts *chartrepo.Client
	// gaps are the missing parts of the bill. byTag are the images of the bill that were copied by their tags.
	gaps, byTag []string
}

func newMirror(streams Streams) *cobra.Command {
	m := &mirroring{streams: streams}
	cmd := &cobra.Command{
		Use:   "mirror [SOURCE...] --to oci://HOST/PREFIX",
		Short: "Copy charts, other artifacts and images to a registry",
		Long: `Copy charts, other artifacts and images to a registry, with their signatures. A SOURCE is one of:

  oci://HOST/REPOSITORY:TAG|@DIGEST   an artifact or an image in a registry
  https://HOST/PATH/CHART:VERSION     a chart in a Helm chart repository, which is at https://HOST/PATH

Each copy is at PREFIX/HOST/REPOSITORY, and the command prints the source for a HelmOp. An artifact of a registry keeps
its digest. Everything that refers to it is copied, too: signatures, attestations and bills of material.

With --images, the command also copies the images of the containers that the artifacts install, with their own values
and those of --values. With --manifests, it copies the images in rendered manifests, as "kubectl helmop render" prints
them with the values of a fleet. With --from-bill, it copies the charts and images in a list that "kubectl helmop bill"
wrote, by the digests in the list, and fails after the copies if the list is incomplete. It does not find images that
programs get by arguments, variables or fields of custom resources: name these as sources.

The lock file has the digest of each copy. Each source in it is copied by the recorded digest again, even if its tag has
moved; --update records the current digest. Without sources, everything in the lock file is copied. An interrupted copy
continues where it was: content that the target has is not sent again. A line for each copy says how much was sent.`,
		Example: `  kubectl helmop mirror oci://registry.example.com/charts/cilium:1.17.4 --to oci://mirror.example.com/base
  kubectl helmop mirror https://charts.example.com/stable/metrics-server:3.12.2 --images \
    --to oci://mirror.example.com/base
  kubectl helmop render cilium --cluster prod | kubectl helmop mirror --manifests - --to oci://mirror.example.com/base
  kubectl helmop bill -o json | kubectl helmop mirror --from-bill - --to oci://mirror.example.com/base`,
		Args: func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, args []string) error { return m.run(cmd, args) },
	}
	m.Flags.Add(cmd.Flags())
	m.output.Add(cmd, "plain text", "json", "yaml")
	cmd.Flags().StringVar(&m.to, "to", "", "Registry, and the start of the repositories, to copy to: oci://HOST/PREFIX.")
	cmd.Flags().StringVar(&m.lock, "lock", "mirror.lock.yaml", "Lock file. It is created if it does not exist.")
	cmd.Flags().BoolVar(&m.images, "images", false, "Also copy the images that the artifacts install.")
	cmd.Flags().StringSliceVarP(&m.valueFiles, "values", "f", nil,
		"Files with values to find the images with. Later files take precedence.")
	cmd.Flags().StringVar(&m.manifests, "manifests", "",
		"File with rendered manifests whose images are copied, too; - reads the standard input.")
	cmd.Flags().StringVar(&m.bill, "from-bill", "",
		"File with the output of \"bill -o json\" whose charts and images are copied, too; - reads the standard input.")
	cmd.Flags().BoolVar(&m.update, "update", false, "Copy what the sources are now, and record it in the lock file.")
	return cmd
}

// mirrorSource is a source to copy.
type mirrorSource struct {
	text    string
	isImage bool
	// listed is the entry of the source in a bill. Its digests have priority over the digests in the lock file.
	listed mirror.Entry
}

// isOpen reports whether the source is in a bill without a digest.
func (s *mirrorSource) isOpen() bool {
	return s.listed.Source != "" && s.listed.Digest+s.listed.ArchiveDigest == ""
}

func (m *mirroring) run(cmd *cobra.Command, args []string) (err error) {
	if err := m.output.Validate(); err != nil {
		return err
	}
	to, err := registryaccess.ParseLocation(m.to)
	if err == nil && to.Reference.Reference != "" {
		err = kube.Usagef("%q must not have a tag or a digest", m.to)
	}
	if err != nil {
		return kube.Usagef("--to: %v", err)
	}
	if m.bill != "" && m.update {
		return kube.Usagef("--from-bill and --update cannot be used together: the bill has the digests")
	}
	m.prefix = to.Reference
	if m.values, err = rendering.ReadValues(m.valueFiles); err != nil {
		return err
	}
	lock, err := mirror.ReadLock(m.lock)
	if err != nil {
		return kube.Usagef("--lock: %v", err)
	}
	sources, err := m.sources(args, lock)
	if err != nil {
		return err
	}
	if m.folder, err = os.MkdirTemp("", "kubectl-helmop-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(m.folder)) }()
	ctx, cancel := m.Bounded(cmd)
	defer cancel()
	copied, err := m.copyAll(ctx, sources, lock)
	return errors.Join(err, m.incomplete(), m.output.Write(m.streams.Out, copied,
		func(out io.Writer) error { return printCopied(out, copied) }))
}

// incomplete returns an error if the bill of --from-bill is incomplete. The copy may then be incomplete, too.
func (m *mirroring) incomplete() error {
	if len(m.gaps) == 0 {
		return nil
	}
	text := "the bill is incomplete: " + strings.Join(m.gaps, ", ")
	if len(m.byTag) > 0 {
		text += "; copied by their present tags: " + strings.Join(m.byTag, ", ")
	}
	return errors.New(text + "; make the bill again when the Clusters and the registries answer")
}

// copyAll copies sources. If a flag requests it, copyAll also copies the images that the sources install. copyAll
// writes the lock file after each copy. An error for one source does not stop the others.
func (m *mirroring) copyAll(ctx context.Context, sources []mirrorSource, lock *mirror.Lock) ([]mirror.Entry, error) {
	copied := []mirror.Entry{}
	var errs []error
	known := map[mirrorSource]bool{}
	for done := 1; len(sources) > 0 && ctx.Err() == nil; done++ {
		source := sources[0]
		m.position = fmt.Sprintf("[%d/%d]", done, done+len(sources)-1)
		sources = sources[1:]
		if known[source] {
			continue
		}
		known[source] = true
		entry, installed, err := m.copyOne(ctx, source, lock)
		if entry.Digest != "" {
			copied = append(copied, entry)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source.text, err))
		}
		sources = append(sources, installed...)
	}
	if n := len(sources); n > 0 {
		errs = append(errs, fmt.Errorf("%s not copied: %w; run the command again, with a longer --timeout if it was too "+
			"short", plural.Count(n, "more source was", "more sources were"), context.Cause(ctx)))
	}
	return copied, errors.Join(errs...)
}

// copyOne copies a source and writes the lock file. If a flag requests it, copyOne returns the images that the source
// installs.
func (m *mirroring) copyOne(ctx context.Context, source mirrorSource, lock *mirror.Lock) (mirror.Entry,
	[]mirrorSource, error,
) {
	entry, err := m.copy(ctx, source, lock)
	if err != nil {
		return mirror.Entry{}, nil, err
	}
	if source.isOpen() {
		m.byTag = append(m.byTag, source.text)
	}
	var installed []mirrorSource
	if m.images && !entry.IsImage {
		if installed, entry.IsImage, err = m.imagesOf(ctx, entry); err != nil {
			err = fmt.Errorf("it was copied, but its images were not found: %w", err)
		}
	}
	lock.Put(entry)
	if failure := lock.Write(m.lock); failure != nil {
		err = errors.Join(err, fmt.Errorf("write the lock file: %w", failure))
	}
	return entry, installed, err
}

// imagesOf returns the images that a copied artifact installs. isImage is true if HelmOp cannot install the artifact,
// because it is itself an image that the user named.
func (m *mirroring) imagesOf(ctx context.Context, entry mirror.Entry) (installed []mirrorSource, isImage bool,
	err error,
) {
	at, err := registryaccess.ParseArtifact(entry.Target + "@" + entry.Digest)
	if err != nil {
		return nil, false, err
	}
	artifact, err := m.Open(ctx, m.streams, at)
	if err != nil {
		return nil, false, err
	}
	defer artifact.EndProgress()
	objects, err := rendering.Objects(ctx, artifact.Source(), "release", "default", m.values)
	switch format, _, _ := bundle.Detect(artifact.Source().Manifest, bundle.Selection{}); {
	case errors.Is(err, bundle.ErrUnsupported):
		return nil, true, nil
	case errors.Is(err, bundle.ErrInvalidManifests) && format == bundle.FormatPlain:
		return nil, false, fmt.Errorf("%w; if it is an image that HelmOp does not install, copy it in a run without "+
			"--images, with another --lock file", err)
	case err != nil:
		return nil, false, err
	}
	return imageSources(images.Of(objects)), false, nil
}

func imageSources(names []string) []mirrorSource {
	sources := make([]mirrorSource, 0, len(names))
	for _, image := range names {
		sources = append(sources, mirrorSource{text: image, isImage: true})
	}
	return sources
}

// sources returns the sources to copy: the arguments, the images in manifests and the contents of a bill. If there are
// none, it returns all sources in the lock file.
func (m *mirroring) sources(args []string, lock *mirror.Lock) ([]mirrorSource, error) {
	var sources []mirrorSource
	for _, arg := range args {
		sources = append(sources, mirrorSource{text: arg})
	}
	if m.manifests != "" {
		found, err := m.imagesIn()
		if err != nil {
			return nil, fmt.Errorf("--manifests: %w", err)
		}
		sources = append(sources, imageSources(found)...)
	}
	if m.bill != "" {
		listed, err := m.listed()
		if err != nil {
			return nil, fmt.Errorf("--from-bill: %w", err)
		}
		sources = append(sources, listed...)
	}
	if m.manifests != "" || m.bill != "" {
		return sources, nil
	}
	if len(sources) == 0 {
		for _, entry := range lock.Entries {
			sources = append(sources, mirrorSource{text: entry.Source, isImage: entry.IsImage})
		}
	}
	if len(sources) == 0 {
		return nil, kube.Usagef("nothing to copy: name a source, or a lock file with entries; %s has none", m.lock)
	}
	return sources, nil
}

// imagesIn returns the images in the file of --manifests.
func (m *mirroring) imagesIn() (found []string, err error) {
	err = m.read(m.manifests, func(file io.Reader) (err error) {
		found, err = images.In(file)
		return err
	})
	return found, err
}

// listed returns the sources in the bill of --from-bill.
func (m *mirroring) listed() (sources []mirrorSource, err error) {
	err = m.read(m.bill, func(file io.Reader) error {
		data, err := io.ReadAll(file)
		if err != nil {
			return err
		}
		list, err := bill.Read(data)
		if err != nil {
			return kube.Usagef("%v", err)
		}
		entries, err := list.Sources(m.prefix)
		for _, entry := range entries {
			sources = append(sources, mirrorSource{text: entry.Source, isImage: entry.IsImage, listed: entry})
		}
		m.gaps = list.Gaps(entries)
		return err
	})
	return sources, err
}

// read opens a file and passes it to a function. The file "-" is the standard input.
func (m *mirroring) read(name string, read func(io.Reader) error) error {
	if name == "-" {
		return read(m.streams.In)
	}
	file, err := os.Open(name)
	if err != nil {
		return kube.Usagef("%v", err)
	}
	defer func() { _ = file.Close() }() // the file was only read
	return read(file)
}

// copy copies a source. If a bill or the lock file has a digest of the source, copy uses this digest. With --update, it
// does not use the lock file. It does not use the lock file for a source that is in a bill without a digest either: the
// digest in the lock file may be older than the bill.
func (m *mirroring) copy(ctx context.Context, source mirrorSource, lock *mirror.Lock) (mirror.Entry, error) {
	locked, _ := lock.Find(source.text)
	if m.update || source.isOpen() {
		locked = mirror.Entry{}
	}
	if source.listed.Digest+source.listed.ArchiveDigest != "" {
		locked = source.listed
	}
	if chartrepo.IsURL(source.text) && !source.isImage {
		return m.copyChart(ctx, source, locked)
	}
	// A user may name an image like an artifact.
	if source.isImage && !strings.HasPrefix(source.text, registryaccess.Scheme) {
		ref, err := images.Parse(source.text)
		if err != nil {
			return mirror.Entry{}, err
		}
		return m.copyArtifact(ctx, source, ref, locked)
	}
	at, err := registryaccess.ParseArtifact(source.text)
	if err != nil {
		return mirror.Entry{}, err
	}
	return m.copyArtifact(ctx, source, at.Reference, locked)
}

// copyArtifact copies an artifact or an image from a registry.
func (m *mirroring) copyArtifact(ctx context.Context, source mirrorSource, ref registry.Reference,
	locked mirror.Entry,
) (mirror.Entry, error) {
	entry := mirror.Entry{Source: source.text, IsImage: source.isImage}
	target, err := mirror.Target(m.prefix, ref.Registry, ref.Repository)
	if err != nil {
		return entry, err
	}
	from, err := m.Repository(registryaccess.Location{Reference: ref})
	if err != nil {
		return entry, err
	}
	to, err := m.Repository(registryaccess.Location{Reference: target})
	if err != nil {
		return entry, err
	}
	if ref.ValidateReferenceAsDigest() != nil {
		entry.Tag = ref.Reference
	}
	desc, err := m.send(ctx, source, from, cmp.Or(locked.Digest, ref.Reference), to, entry.Tag)
	if err != nil {
		return mirror.Entry{}, err
	}
	entry.Target, entry.Digest = registryaccess.Location{Reference: target}.URL(), desc.Digest.String()
	// An index is an image for several platforms.
	entry.IsImage = entry.IsImage || desc.MediaType == ocispec.MediaTypeImageIndex ||
		desc.MediaType == "application/vnd.docker.distribution.manifest.list.v2+json"
	return entry, nil
}

// send copies the content of a source, and prints how much of it was sent.
func (m *mirroring) send(ctx context.Context, source mirrorSource, from oras.ReadOnlyGraphTarget, ref string,
	to oras.GraphTarget, tag string,
) (ocispec.Descriptor, error) {
	var sent atomic.Int64
	desc, err := mirror.Copy(ctx, from, ref, to, tag, func(desc ocispec.Descriptor) { sent.Add(desc.Size) })
	if err != nil {
		return desc, err
	}
	what := "the target has it"
	if sent.Load() > 0 {
		what = "copied " + registryaccess.SizeOf(sent.Load())
	}
	_, _ = fmt.Fprintf(m.streams.ErrOut, "%s %s: %s\n", m.position, source.text, what)
	return desc, nil
}

// printCopied prints the copies. For an artifact, it prints the source of a HelmOp.
func printCopied(out io.Writer, copied []mirror.Entry) error {
	var text strings.Builder
	for _, entry := range copied {
		if entry.IsImage {
			fmt.Fprintf(&text, "# image %s: %s@%s\n", entry.Source, strings.TrimPrefix(entry.Target, registryaccess.Scheme),
				entry.Digest)
			continue
		}
		fmt.Fprintf(&text, "# %s\nsource:\n  url: %s\n  ref:\n    digest: %s\n", entry.Source, entry.Target, entry.Digest)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

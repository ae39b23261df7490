// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package chartrepo

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/endpoint"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	opResolve = "resolve"
	opFetch   = "fetch"

	// gzipMagic is the start of each gzip file.
	gzipMagic = "\x1f\x8b"

	// maxComputed bounds the memory for computed digests, in bytes.
	maxComputed = 4 << 20
)

// Client resolves and fetches charts of chart repositories. It is safe for concurrent use.
type Client struct {
	registry *oci.Client
	now      func() time.Time

	// indexes has the last index of each site, by its key.
	indexes *bytelru.Cache[string, *index]
	reads   singleflight.Group
	// reading bounds the memory for indexes that are being read.
	reading *bytebudget.Budget
	// computed caches the digests of archives for which the index has no digest.
	computed *bytelru.Cache[string, string]
}

// New returns a Client that uses the connections and the content store of a registry client.
func New(registry *oci.Client) *Client { return NewBounded(registry, maxIndexes, maxReading) }

// NewBounded is like New with other limits for the memory: kept for all indexes, and reading for the indexes that are
// being read. One tenant may use a quarter of reading for one host, and a half for all hosts. Both limits are in bytes.
func NewBounded(registry *oci.Client, kept, reading int64) *Client {
	return &Client{
		registry: registry, now: time.Now,
		indexes: bytelru.New[string, *index](kept), reading: bytebudget.New(reading),
		computed: bytelru.New[string, string](maxComputed),
	}
}

// IsURL reports whether a URL names a chart repository, or a chart in a chart repository.
func IsURL(url string) bool {
	return strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://")
}

// URL returns the URL of a chart in a repository.
func URL(repository, chart string) string { return strings.TrimRight(repository, "/") + "/" + chart }

// splitURL returns the repository and the name in the URL of a chart.
func splitURL(url string) (repository, chart string) {
	end := strings.LastIndex(url, "/")
	return url[:max(end, 0)], url[end+1:]
}

// lookup is one lookup of a chart in a repository, with the data to read the chart.
type lookup struct {
	client     *Client
	site       *oci.Site
	url, chart string
	repository *url.URL
}

func (c *Client) lookup(chartURL string, access oci.Access) (*lookup, error) {
	repository, chart := splitURL(chartURL)
	site, err := c.registry.Site(repository, access)
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(repository)
	if err != nil || chart == "" {
		return nil, &ocierr.Error{Op: opResolve, Subject: chartURL, Kind: ocierr.ErrInvalidReference,
			Detail: "it does not name a chart", Hint: "set source.chart"}
	}
	return &lookup{client: c, site: site, url: chartURL, chart: chart, repository: base}, nil
}

// Resolve finds the version of a chart to which a source refers. The URL of the source is the URL of the chart. A tag
// is an exact version.
func (c *Client) Resolve(ctx context.Context, src oci.Source) (oci.Artifact, error) {
	if err := src.Ref.Validate(src.URL); err != nil {
		return oci.Artifact{}, err
	}
	l, err := c.lookup(src.URL, src.Access)
	if err != nil {
		return oci.Artifact{}, err
	}
	chosen, err := l.choose(ctx, src.Ref)
	if err != nil {
		return oci.Artifact{}, err
	}
	if _, err := l.archiveURLs(chosen); err != nil {
		return oci.Artifact{}, err
	}
	digest, err := l.digestOf(ctx, chosen)
	if err != nil {
		return oci.Artifact{}, err
	}
	return oci.Artifact{
		URL: src.URL, Tag: chosen.version, Version: chosen.version, Digest: digest,
		MediaType: bundle.ChartConfigMediaType, ConfigMediaType: bundle.ChartConfigMediaType,
		Layers: []oci.Layer{{MediaType: bundle.ChartLayerMediaType, Digest: digest}},
	}, nil
}

// choose returns the entry of the index that a reference selects.
func (l *lookup) choose(ctx context.Context, ref oci.Reference) (*entry, error) {
	subject := l.url + ref.String()
	if ref.Digest != "" {
		return l.entryOf(ctx, ref.Digest)
	}
	entries, err := l.entries(ctx)
	if err != nil {
		return nil, err
	}
	if ref.Tag != "" {
		for i := range entries {
			if tagOf(entries[i].version) == tagOf(ref.Tag) {
				return &entries[i], nil
			}
		}
		return nil, &ocierr.Error{Op: opResolve, Subject: subject, Kind: ocierr.ErrNotFound,
			Detail: fmt.Sprintf("the index of the repository has no version %q of the chart", ref.Tag),
			Hint:   "check the version, including a leading v"}
	}
	version, err := ref.ChooseVersion(subject, versions(entries))
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if entries[i].version == version {
			return &entries[i], nil
		}
	}
	return nil, errors.New("the chosen version is not in the list")
}

// tagOf returns a version in the form of a tag, so that a reference may contain a version in either form.
func tagOf(version string) string { return strings.ReplaceAll(version, "+", "_") }

func versions(entries []entry) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range entries {
			if !yield(entries[i].version) {
				return
			}
		}
	}
}

// entries returns the entries of the chart.
func (l *lookup) entries(ctx context.Context) ([]entry, error) {
	found, err := l.index(ctx)
	if err != nil {
		return nil, err
	}
	entries := found.charts[l.chart]
	if len(entries) > 0 {
		return entries, nil
	}
	out := &ocierr.Error{Op: opResolve, Subject: l.url, Kind: ocierr.ErrNotFound,
		Detail: fmt.Sprintf("the index of the repository has no chart %q", l.chart), Hint: "check source.chart"}
	if found.skipped > 0 {
		out.Detail += fmt.Sprintf("; %d entries of other charts or of this one cannot be read", found.skipped)
	}
	return nil, out
}

// entryOf returns the entry of the chart whose archive has a digest.
func (l *lookup) entryOf(ctx context.Context, digest string) (*entry, error) {
	entries, err := l.entries(ctx)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		known := entries[i].digest
		if known == "" {
			known, _ = l.client.computed.Get(l.computedKey(&entries[i]))
		}
		if known == digest {
			return &entries[i], nil
		}
	}
	out := &ocierr.Error{Op: opFetch, Subject: l.url + "@" + digest, Kind: ocierr.ErrNotFound,
		Detail: "the index of the repository has no version of the chart with this digest",
		Hint:   "the version was removed or replaced in the repository; choose another version"}
	if slices.ContainsFunc(entries, func(e entry) bool { return e.digest == "" }) {
		out.Hint = "the index does not have the digests of all versions: select this version in source.ref, so that its " +
			"digest is computed again, or choose another version"
	}
	return nil, out
}

// digestOf returns the digest of an archive. It pulls the archive if the index does not have the digest.
func (l *lookup) digestOf(ctx context.Context, e *entry) (string, error) {
	if e.digest != "" {
		return e.digest, nil
	}
	key := l.computedKey(e)
	if digest, ok := l.client.computed.Get(key); ok {
		return digest, nil
	}
	archive, err := l.pull(ctx, e, "")
	if err != nil {
		return "", err
	}
	l.client.computed.Put(key, archive.Digest, int64(len(key)+len(archive.Digest)))
	return archive.Digest, nil
}

// computedKey identifies an entry without a digest. A new entry for the same version has another time of creation.
func (l *lookup) computedKey(e *entry) string {
	return strings.Join(append([]string{l.site.Key(), l.chart, e.version, e.created}, e.urls...), "\n")
}

// archiveURLs returns the absolute URLs of an archive. The URLs in the index may be relative to the repository.
func (l *lookup) archiveURLs(e *entry) ([]*url.URL, error) {
	base := l.repository.JoinPath("/")
	var targets []*url.URL
	registry := ""
	for _, text := range e.urls {
		target, err := base.Parse(text)
		switch {
		case err != nil || target.User != nil:
		case target.Scheme == "oci":
			registry = target.Scheme + "://" + target.Host + target.Path
		default:
			targets = append(targets, target)
		}
	}
	if len(targets) > 0 {
		return targets, nil
	}
	out := &ocierr.Error{Op: opResolve, Subject: l.url + ":" + e.version, Kind: ocierr.ErrUnsupported,
		Detail: "the index has no usable URL for this version", Hint: "ask the owner of the repository"}
	if registry != "" {
		out.Detail = "the index says that the chart is in an OCI registry"
		out.Hint = fmt.Sprintf("use the registry as source.url, without source.chart: %q", registry)
	}
	return nil, out
}

// pull pulls an archive from the first of its URLs that has it. If digest is not empty, the archive must have it.
func (l *lookup) pull(ctx context.Context, e *entry, digest string) (oci.Layer, error) {
	targets, err := l.archiveURLs(e)
	if err != nil {
		return oci.Layer{}, err
	}
	var first error
	for _, target := range targets {
		archive, err := l.site.Pull(ctx, target, digest)
		if err == nil && digest == "" {
			err = l.checkPacked(target, archive)
		}
		if err == nil {
			archive.MediaType = bundle.ChartLayerMediaType
			return archive, nil
		}
		if first == nil {
			first = explain(err, ocierr.ErrIntegrity, "the archive does not have the digest that the index names",
				"the archive was replaced without the index: ask the owner of the repository")
			first = explain(first, ocierr.ErrNotFound, "the server does not have the archive that the index names",
				"ask the owner of the repository")
		}
		if ctx.Err() != nil {
			break
		}
	}
	return oci.Layer{}, first
}

// checkPacked returns an error if a file is no gzip file, as all packed charts are. Without a digest in the index, the
// page of a proxy would otherwise be the archive of the version, and the true archive would count as a replacement.
func (l *lookup) checkPacked(target *url.URL, archive oci.Layer) error {
	prefix, ok := l.client.registry.StoredPrefix(archive.Digest, int64(len(gzipMagic)))
	if !ok || string(prefix) == gzipMagic {
		return nil // the store may have dropped the file; the loader of the chart refuses other files
	}
	return &ocierr.Error{Op: opResolve, Subject: endpoint.SubjectOf(target), Kind: ocierr.ErrUnexpected,
		Detail: "the answer is not a packed chart", Hint: "check the URL of the archive in the index, and proxies"}
}

// explain replaces the detail and the hint of an error of a kind: the texts of package oci are about registries.
func explain(err error, kind error, detail, hint string) error {
	var failure *ocierr.Error
	if !errors.As(err, &failure) || !errors.Is(err, kind) {
		return err
	}
	out := *failure
	out.Detail, out.Hint = detail, hint
	return &out
}

// Fetch returns the chart with a digest, from the store or from the repository, once for all concurrent callers. If the
// archive is in the store, access is not used.
func (c *Client) Fetch(ctx context.Context, chartURL, digest string, access oci.Access) (*oci.Content, error) {
	pull := func(ctx context.Context) error {
		l, err := c.lookup(chartURL, access)
		if err != nil {
			return err
		}
		found, err := l.entryOf(ctx, digest)
		if err != nil {
			return err
		}
		_, err = l.pull(ctx, found, digest)
		return err
	}
	if content, ok := c.content(chartURL, digest, pull); ok {
		return content, nil
	}
	if err := pull(ctx); err != nil {
		return nil, err
	}
	content, ok := c.content(chartURL, digest, pull)
	if !ok {
		return nil, &ocierr.Error{Op: opFetch, Subject: chartURL + "@" + digest, Kind: ocierr.ErrStore,
			Detail: "the store dropped the archive before it was read"}
	}
	return content, nil
}

// Stored returns the chart with a digest if it is in the store. It makes no request. Read it with ReadStored.
func (c *Client) Stored(chartURL, digest string) (*oci.Content, bool) {
	return c.content(chartURL, digest, func(context.Context) error { return ocierr.ErrNotStored })
}

func (c *Client) content(chartURL, digest string, pull func(context.Context) error) (*oci.Content, bool) {
	archive, ok := c.registry.StoredFile(digest)
	if !ok {
		return nil, false
	}
	archive.MediaType = bundle.ChartLayerMediaType
	return c.registry.FileContent(chartURL, bundle.ChartConfigMediaType, archive, pull), true
}

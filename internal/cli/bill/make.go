// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

const (
	// releasesAtOnce is the number of releases that are rendered at the same time. lookupsAtOnce is the number of
	// artifacts that are looked up at the same time.
	releasesAtOnce = 16
	lookupsAtOnce  = 8
)

// Subject is a HelmOp with the Clusters to list.
type Subject struct {
	HelmOp   *addonsv1.HelmOp
	Clusters []client.ObjectKey
	// Previewer is for this HelmOp.
	Previewer *preview.Previewer
}

// Options are the options of Make.
type Options struct {
	// Namespace is omitted in the names of Clusters and HelmOps. If it is empty, all names have their namespace.
	Namespace string
	// Offline renders without connections to the Clusters.
	Offline bool
	// Registry is used to look up digests and signatures; nil for no lookups.
	Registry Registry
}

// Make creates the bill of some HelmOps.
func Make(ctx context.Context, subjects []Subject, options Options) (*Bill, error) {
	m := &making{options: options, clusters: map[client.ObjectKey]*contents{}, charts: map[string]*found[Chart]{},
		images: map[string]*found[Image]{}, crds: map[string]CRD{}}
	var group errgroup.Group
	group.SetLimit(releasesAtOnce)
	for i := range subjects {
		subject := &subjects[i]
		pins, err := subject.Previewer.Pinned(ctx, subject.HelmOp)
		if err != nil {
			return nil, err
		}
		for _, cluster := range subject.Clusters {
			group.Go(func() error {
				m.addRelease(ctx, subject, cluster, pins[apiutil.TitleOf(subject.HelmOp.Namespace, cluster)])
				return nil
			})
		}
	}
	// The functions return no errors.
	_ = group.Wait()
	if options.Registry != nil {
		m.lookUp(ctx)
	}
	return m.bill(), ctx.Err()
}

// contents holds the releases of a Cluster.
type contents struct {
	title     string
	releases  []Release
	isOffline bool
}

// found is an artifact with its readers: the HelmOps that install it.
type found[T any] struct {
	artifact T
	readers  []reader
}

// reader is the access of a HelmOp to the registry of its chart.
type reader struct {
	helmOp string
	url    string
	access oci.Access
}

// making holds the state while Make creates a bill.
type making struct {
	options Options

	// mutex guards the fields below.
	mutex    sync.Mutex
	clusters map[client.ObjectKey]*contents
	charts   map[string]*found[Chart]
	images   map[string]*found[Image]
	crds     map[string]CRD
}

// addRelease adds the release of a HelmOp in a Cluster.
func (m *making) addRelease(ctx context.Context, subject *Subject, cluster client.ObjectKey, pin preview.Pin) {
	helmOp := subject.HelmOp
	title := apiutil.TitleOf(helmOp.Namespace, cluster)
	release := Release{HelmOp: strings.TrimPrefix(client.ObjectKeyFromObject(helmOp).String(), m.options.Namespace+"/")}
	var got preview.Contents
	then, err := subject.Previewer.At(ctx, helmOp, pin.Number)
	if err == nil {
		got, err = subject.Previewer.Contents(ctx, then, cluster, m.options.Offline)
	}
	if err == nil {
		err = got.Rendered.Objects(release.describe)
	}
	if err == nil {
		err = pin.Problem(got.Release)
	}
	if err != nil {
		release.Message = fleetview.WithoutNames(err.Error(), title, apiutil.ChildName(helmOp.Name, title), 1)
	}
	release.mask(got.Release)
	access, accessErr := subject.Previewer.Access(ctx, helmOp)
	isResolved := got.Release != nil && got.Release.IsResolved()
	if isResolved {
		release.Verification = verificationOf(subject.Previewer.Signed(ctx, got.Release))
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	known := m.clusters[cluster]
	if known == nil {
		known = &contents{title: apiutil.TitleOf(m.options.Namespace, cluster)}
		m.clusters[cluster] = known
	}
	by := reader{helmOp: release.HelmOp, url: apiutil.ArtifactURL(&helmOp.Spec.Source), access: access}
	if accessErr != nil && release.Message == "" {
		release.Message = accessErr.Error()
	}
	if isResolved {
		artifact := &got.Release.HelmOpRelease.Spec.Artifact
		release.Chart = m.addChart(artifact, by, pin.Number != 0 && !isPresent(helmOp, artifact))
	}
	for _, name := range release.Images {
		m.addImage(name, by)
	}
	for _, crd := range release.CRDs {
		m.crds[crd.String()] = crd
	}
	known.isOffline = known.isOffline || got.IsOffline
	known.releases = append(known.releases, release)
}

// verificationOf returns the result of a verification; nil if none is required.
func verificationOf(signed preview.Signed, err error) *Verification {
	if signed.Provider == "" {
		return nil
	}
	verification := &Verification{Provider: string(signed.Provider), Signers: signed.Signers}
	if err != nil {
		verification.Message = err.Error()
	}
	return verification
}

// isPresent reports whether a HelmOp currently resolves to an artifact.
func isPresent(helmOp *addonsv1.HelmOp, artifact *addonsv1.ResolvedArtifact) bool {
	return slices.ContainsFunc(apiutil.KnownArtifacts(&helmOp.Status), func(known *addonsv1.ArtifactStatus) bool {
		return known.URL == artifact.URL && known.Tag == artifact.Tag && known.Digest == artifact.Digest
	})
}

// addChart adds a chart, and returns its name. isEarlier means that only a pinned Cluster has the chart.
func (m *making) addChart(artifact *addonsv1.ResolvedArtifact, by reader, isEarlier bool) string {
	chart := Chart{URL: artifact.URL, Version: artifact.Version, Tag: artifact.Tag, Digest: artifact.Digest}
	chart.Name = chart.name()
	chart.IsEarlier = isEarlier
	known := add(m.charts, chart.Name, chart, by)
	known.artifact.IsEarlier = known.artifact.IsEarlier && isEarlier
	return chart.Name
}

// addImage adds an image.
func (m *making) addImage(name string, by reader) {
	image, err := imageOf(name)
	switch {
	case err != nil && strings.Contains(name, helmerr.Redacted):
		image.Message = secretInName
	case err != nil:
		image.Message = err.Error()
	}
	add(m.images, name, image, by)
}

// add adds an artifact with a HelmOp that installs it. It returns the entry of the artifact.
func add[T any](all map[string]*found[T], name string, artifact T, by reader) *found[T] {
	known := all[name]
	if known == nil {
		known = &found[T]{artifact: artifact}
		all[name] = known
	}
	if !slices.ContainsFunc(known.readers, func(r reader) bool { return r.helmOp == by.helmOp }) {
		known.readers = append(known.readers, by)
		slices.SortFunc(known.readers, func(a, b reader) int { return strings.Compare(a.helmOp, b.helmOp) })
	}
	return known
}

// bill returns the bill.
func (m *making) bill() *Bill {
	b := &Bill{Version: Version, Groups: m.groups(), Charts: sorted(m.charts), Images: sorted(m.images), CRDs: []CRD{}}
	for i := range b.Groups {
		group := &b.Groups[i]
		b.Clusters += len(group.Clusters)
		if slices.ContainsFunc(group.Releases, func(r Release) bool { return r.Message != "" }) {
			b.Incomplete += len(group.Clusters)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.crds)) {
		b.CRDs = append(b.CRDs, m.crds[name])
	}
	return b
}

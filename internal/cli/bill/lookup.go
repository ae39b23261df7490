// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/images"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// Registry looks up artifacts in registries.
type Registry interface {
	// Head returns the digest of a tag or a digest.
	Head(ctx context.Context, url, reference string, access oci.Access) (string, error)

	// Referrers returns the artifacts that refer to a digest. more is true if there are more than limit.
	Referrers(ctx context.Context, url, digest string, access oci.Access, limit int) (list []oci.Referrer, more bool,
		err error)

	// Resolve finds the artifact of a tag.
	Resolve(ctx context.Context, source oci.Source) (oci.Artifact, error)
}

// The kinds of attached artifacts.
const (
	KindSignature   = "Signature"
	KindAttestation = "Attestation"
	KindSBOM        = "SBOM"
	KindOther       = "Other"
)

// maxReferrers is the largest number of listed referrers of an artifact.
const maxReferrers = 100

// lookUp adds information from the registries to the charts and images.
func (m *making) lookUp(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(lookupsAtOnce)
	for _, chart := range m.charts {
		if !chartrepo.IsURL(chart.artifact.URL) {
			group.Go(func() error {
				m.completeChart(ctx, chart)
				return nil
			})
		}
	}
	for _, image := range m.images {
		if image.artifact.Repository != "" {
			group.Go(func() error {
				m.completeImage(ctx, image)
				return nil
			})
		}
	}
	// The functions return no errors.
	_ = group.Wait()
}

// completeChart finds the artifacts that are attached to a chart.
func (m *making) completeChart(ctx context.Context, chart *found[Chart]) {
	c := &chart.artifact
	c.Findings = chart.ask(func(by reader) (findings Findings, err error) {
		findings.Attached, err = attachedTo(ctx, m.options.Registry, c.URL, c.Digest, by.access)
		return findings, err
	})
}

// completeImage finds the digest of an image, and the artifacts that are attached to it.
func (m *making) completeImage(ctx context.Context, image *found[Image]) {
	i := &image.artifact
	ref, err := images.Parse(i.Name)
	if err != nil {
		return // addImage has reported it
	}
	url := images.URL(ref)
	i.Findings = image.ask(func(by reader) (findings Findings, err error) {
		access := images.Access(by.access, by.url, ref)
		digest, err := m.options.Registry.Head(ctx, url, ref.Reference, access)
		if err != nil {
			return findings, err
		}
		i.Digest = digest
		findings.Attached, err = attachedTo(ctx, m.options.Registry, url, digest, access)
		return findings, err
	})
}

// ask asks a registry with the access of each reader until one succeeds. If none succeeds, the message is about the
// first one.
func (f *found[T]) ask(question func(by reader) (Findings, error)) Findings {
	message := ""
	for _, by := range f.readers {
		findings, err := question(by)
		if err == nil {
			return findings
		}
		if message == "" {
			message = err.Error()
		}
	}
	return Findings{Message: message}
}

// attachedTo returns the artifacts that refer to an artifact. It uses the API for referrers and the tags of cosign.
func attachedTo(ctx context.Context, registry Registry, url, dgst string, access oci.Access) ([]Attached, error) {
	referrers, more, err := registry.Referrers(ctx, url, dgst, access, maxReferrers)
	if err != nil {
		return nil, err
	}
	if more {
		return nil, fmt.Errorf("more than %d artifacts refer to %s@%s", maxReferrers, url, dgst)
	}
	var attached []Attached
	for i := range referrers {
		attached = append(attached, Attached{Kind: kindOf(&referrers[i]), Digest: referrers[i].Digest,
			Type: referrers[i].ArtifactType})
	}
	for _, by := range []struct{ suffix, kind string }{
		{".sig", KindSignature}, {".att", KindAttestation}, {".sbom", KindSBOM},
	} {
		tag := strings.Replace(digest.Digest(dgst).String(), ":", "-", 1) + by.suffix
		found, err := registry.Head(ctx, url, tag, access)
		switch {
		case err == nil:
			attached = append(attached, Attached{Kind: by.kind, Digest: found, Tag: tag})
		case !errors.Is(err, ocierr.ErrNotFound):
			return nil, err
		}
	}
	return attached, nil
}

// signPredicate is the type of the statement that cosign signs for a plain signature.
const signPredicate = "https://sigstore.dev/cosign/sign/v1"

// predicateAnnotation is the annotation with the type of the statement in a Sigstore bundle.
const predicateAnnotation = "dev.sigstore.bundle.predicateType"

// kindOf returns the kind of a referrer by its type.
func kindOf(referrer *oci.Referrer) string {
	kind := referrer.ArtifactType
	predicate := referrer.Annotations[predicateAnnotation]
	switch {
	case kind == "application/vnd.cncf.notary.signature", kind == "application/vnd.dev.cosign.artifact.sig.v1+json",
		strings.HasPrefix(kind, "application/vnd.dev.sigstore.bundle") && (predicate == "" || predicate == signPredicate):
		return KindSignature
	case strings.HasPrefix(kind, "application/vnd.dev.sigstore.bundle"), strings.Contains(kind, "in-toto"),
		kind == "application/vnd.dev.cosign.artifact.att.v1+json":
		return KindAttestation
	case strings.Contains(kind, "spdx"), strings.Contains(kind, "cyclonedx"), strings.Contains(kind, "sbom"):
		return KindSBOM
	default:
		return KindOther
	}
}

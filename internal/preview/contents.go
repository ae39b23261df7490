// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
)

// Contents is what a HelmOp would install in a Cluster.
type Contents struct {
	Release  *Release
	Rendered dryrun.Result

	// IsOffline is true if the chart was rendered without a connection to the Cluster, as an installation.
	IsOffline bool
}

// Contents renders the chart of a HelmOp for a Cluster. If offline is set or the Cluster cannot have releases yet, it
// renders without a connection to the Cluster, for the Kubernetes version in the Cluster object.
func (p *Previewer) Contents(ctx context.Context, helmOp *addonsv1.HelmOp, cluster client.ObjectKey,
	offline bool,
) (Contents, error) {
	release, err := p.Release(ctx, helmOp, cluster)
	if err != nil {
		return Contents{}, err
	}
	return p.contentsOf(ctx, release, offline)
}

// contentsOf renders the chart of a release.
func (p *Previewer) contentsOf(ctx context.Context, release *Release, offline bool) (Contents, error) {
	contents := Contents{Release: release}
	var err error
	if !offline && release.IsReady {
		// A Cluster that does not answer must not use all the time of the command.
		contents.Rendered, err = p.render(ctx, release, planTimeout)
		if !errors.Is(err, ErrNoKubeconfig) {
			return contents, err
		}
	}
	contents.IsOffline = true
	contents.Rendered, err = p.RenderOffline(ctx, release, "", nil)
	return contents, err
}

// Pin is the pin of a Cluster to a HelmOp revision. The zero value is no pin.
type Pin struct {
	// Number is the number of the HelmOp revision; 0 without a pin. If the pin is malformed, Number is the current HelmOp
	// revision of the release.
	Number int64

	child *addonsv1.HelmOpRelease
}

// Pinned returns the pins of a HelmOp, by the titles of the Clusters.
func (p *Previewer) Pinned(ctx context.Context, helmOp *addonsv1.HelmOp) (map[string]Pin, error) {
	children, err := p.children(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	pinned := map[string]Pin{}
	for _, child := range children {
		if number, ok := apiutil.PinOf(child); ok {
			pinned[apiutil.TitleOf(helmOp.Namespace, apiutil.ClusterKey(child))] = Pin{
				Number: cmp.Or(number, apiutil.RevisionOf(child)), child: child}
		}
	}
	return pinned, nil
}

// Problem returns an error if the Cluster may have another chart or other values than a release that was rendered for
// the pinned HelmOp revision. The manager refuses some pins. And it does not change a pinned release if the HelmOp
// revision no longer renders to this release, for example because an object in valuesFrom has changed.
func (p Pin) Problem(rendered *Release) error {
	if p.child == nil {
		return nil
	}
	if has := apiutil.RevisionOf(p.child); has != p.Number {
		return fmt.Errorf("the Cluster is pinned to HelmOp revision %d, but has HelmOp revision %d: HelmOp has not carried "+
			"out the pin yet, or refuses it; see status.failures of the HelmOp", p.Number, has)
	}
	then, now := &p.child.Spec, &rendered.HelmOpRelease.Spec
	if apiutil.ArtifactIdentity(&then.Artifact) != apiutil.ArtifactIdentity(&now.Artifact) ||
		then.ValuesDigest != now.ValuesDigest || then.PostRenderDigest != now.PostRenderDigest {
		return fmt.Errorf("the release of the pinned Cluster does not have the chart and the values that HelmOp revision %d "+
			"renders now, because the Cluster or an object in valuesFrom has changed; remove the pin, or restore the object",
			p.Number)
	}
	return nil
}

// At returns a HelmOp with the spec and the artifacts of one of its revisions. 0 means the HelmOp itself.
func (p *Previewer) At(ctx context.Context, helmOp *addonsv1.HelmOp, number int64) (*addonsv1.HelmOp, error) {
	if number == 0 {
		return helmOp, nil
	}
	revision, err := revisionstore.ReadRevision(ctx, p.Client, helmOp, number)
	if err != nil {
		return nil, err
	}
	then := revisionstore.WithRevision(helmOp, revision)
	known := func(ref addonsv1.ArtifactReference, artifact *addonsv1.ResolvedArtifact) addonsv1.ReferencedArtifact {
		source := then.Spec.Source
		source.Ref = ref
		// Without a digest, the artifact is not found in the status, and is resolved again.
		digest, _ := apiutil.SourceDigest(&source)
		return addonsv1.ReferencedArtifact{Reference: ref,
			ArtifactStatus: addonsv1.ArtifactStatus{SourceDigest: digest, ResolvedArtifact: *artifact}}
	}
	then.Status.Artifact, then.Status.Artifacts = nil, nil
	if revision.Spec.Artifact != nil {
		own := known(then.Spec.Source.Ref, revision.Spec.Artifact)
		then.Status.Artifact = &own.ArtifactStatus
	}
	for i := range revision.Spec.Artifacts {
		one := &revision.Spec.Artifacts[i]
		then.Status.Artifacts = append(then.Status.Artifacts, known(one.Reference, &one.ResolvedArtifact))
	}
	return then, nil
}

// Access returns the access of a HelmOp to its registry.
func (p *Previewer) Access(ctx context.Context, helmOp *addonsv1.HelmOp) (oci.Access, error) {
	return p.references.Access(ctx, helmOp)
}

// Signed is the result of a verification.
type Signed struct {
	// Provider is the kind of signatures that spec.source.verify requires; empty if it requires no signatures.
	Provider verification.Provider

	// Signers are the signers of the artifact that meet the requirement.
	Signers []string
}

// Signed verifies the artifact of a release as the HelmOp requires. If there is an error, the provider is still set if
// it is known.
func (p *Previewer) Signed(ctx context.Context, release *Release) (Signed, error) {
	artifact, helmOp := &release.HelmOpRelease.Spec.Artifact, release.HelmOp
	return p.signed.get(apiutil.ArtifactIdentity(artifact), func() (Signed, error) {
		policy, err := p.references.Policy(ctx, helmOp)
		if err != nil || policy == nil {
			return Signed{}, err
		}
		access, err := p.references.Access(ctx, helmOp)
		if err != nil {
			return Signed{}, err
		}
		result, err := verify.Verify(ctx, p.Verifier, apiutil.KnownArtifacts(&helmOp.Status), artifact.URL, artifact.Digest,
			access, policy)
		if err != nil {
			return Signed{Provider: policy.Provider}, err
		}
		return Signed{Provider: policy.Provider, Signers: result.Signers}, nil
	})
}

// IsResolved reports whether the artifact of the release is known.
func (r *Release) IsResolved() bool { return r.unresolved == nil }

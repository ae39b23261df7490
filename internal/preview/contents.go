// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
)

// Contents are what a HelmOp would install in a Cluster.
type Contents struct {
	Release  *Release
	Rendered helmclient.DryRun

	// IsOffline is true if the chart was rendered without a connection to the Cluster, as an installation.
	IsOffline bool
}

// Contents renders the chart of a HelmOp for a Cluster. If offline is set, or if the Cluster cannot have releases yet,
// the chart is rendered for the Kubernetes version of the Cluster object, without a connection to the Cluster.
func (p *Previewer) Contents(ctx context.Context, helmOp *addonsv1.HelmOp, cluster client.ObjectKey,
	offline bool,
) (Contents, error) {
	release, err := p.Release(ctx, helmOp, cluster)
	if err != nil {
		return Contents{}, err
	}
	contents := Contents{Release: release}
	if !offline && release.IsReady {
		contents.Rendered, err = p.Render(ctx, release)
		if !errors.Is(err, ErrNoKubeconfig) {
			return contents, err
		}
	}
	contents.IsOffline = true
	contents.Rendered, err = p.RenderOffline(ctx, release, "", nil)
	return contents, err
}

// Pinned returns the HelmOp revisions to which users have pinned Clusters, by the titles of the Clusters.
func (p *Previewer) Pinned(ctx context.Context, helmOp *addonsv1.HelmOp) (map[string]int64, error) {
	children, err := p.children(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	pinned := map[string]int64{}
	for _, child := range children {
		if number, ok := apiutil.PinOf(child); ok {
			pinned[apiutil.TitleOf(helmOp.Namespace, apiutil.ClusterKey(child))] = number
		}
	}
	return pinned, nil
}

// Access returns the access of a HelmOp to its registry.
func (p *Previewer) Access(ctx context.Context, helmOp *addonsv1.HelmOp) (oci.Access, error) {
	return p.references.Access(ctx, helmOp)
}

// Signed is the result of a verification.
type Signed struct {
	// Provider is the kind of signatures that spec.source.verify requires; empty if it requires none.
	Provider verification.Provider

	// Signers signed the artifact as required.
	Signers []string
}

// Signed verifies the artifact of a release as the HelmOp requires. With an error, the provider is set if it is known.
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

// IsResolved is true if the artifact of the release is known.
func (r *Release) IsResolved() bool { return r.unresolved == nil }

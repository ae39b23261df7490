// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preview renders the release of a HelmOp in a Cluster without installing it, with the code of the controllers
// and of the engine.
//
// # Contract
//
//   - It reads the management cluster and the workload cluster with the rights of its caller, and writes to neither. It
//     pulls charts, but only by the digests in the status of the HelmOp: it resolves no reference.
//   - Values come from the same layers as in the manager, Secrets included. Callers must hide Release.SecretValues and
//     the data of Secrets before they show anything to a user: see Masker.
//   - The chart is rendered for the version and the API groups of the Cluster, with the lookups of the chart, as an
//     upgrade if the Cluster has the release.
//   - It checks neither signatures, nor whether the HelmOp may access the Cluster: the manager has checked the artifact
//     in the status, and the rights of the caller bound everything else.
package preview

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// ErrNotResolved means that the HelmOp has no artifact for its present source.
var ErrNotResolved = errors.New("the source of the HelmOp is not resolved")

// Options are the parts of a Previewer.
type Options struct {
	// Client reads the management cluster, and Config is its address.
	Client client.Reader
	Config *rest.Config

	// Registry and Charts provide charts, and Engine renders them. They are not needed for values.
	Registry artifacts.Fetcher
	Charts   artifacts.ChartLoader
	Engine   *helmclient.Client
}

// Previewer renders releases. It is safe for concurrent use.
type Previewer struct {
	Options
	references *references.Reader
	renderer   *render.Renderer
}

// New returns a Previewer.
func New(options Options) *Previewer {
	refs := references.NewReader(options.Client, options.Client)
	return &Previewer{Options: options, references: refs,
		renderer: render.New(refs, clusterview.NewReader(options.Client))}
}

// Release is what a HelmOp wants in a Cluster.
type Release struct {
	// HelmOp is the HelmOp, and HelmOpRelease is the child that its controller would write. Its artifact is empty if
	// the source is not resolved.
	HelmOp        *addonsv1.HelmOp
	HelmOpRelease *addonsv1.HelmOpRelease

	// IsSelected is false if the HelmOp does not select the Cluster.
	IsSelected bool

	// Values are the values for the chart, and SecretValues are those of them that came from Secrets.
	Values       map[string]any
	SecretValues []any

	postRender *model.PostRender
	unresolved error
}

// Release renders the values and the options of a HelmOp for a Cluster. clusterlink.Management is the management
// cluster.
func (p *Previewer) Release(ctx context.Context, helmOp *addonsv1.HelmOp, key client.ObjectKey) (*Release, error) {
	object, err := clusterview.ReadCluster(ctx, p.Client, key, helmOp.Labels[addonsv1.ShardLabel])
	if err != nil {
		return nil, err
	}
	cluster, err := apiutil.TypedCluster(object)
	if err != nil {
		return nil, err
	}
	isSelected, err := p.isSelected(ctx, helmOp, object)
	if err != nil {
		return nil, err
	}
	program, err := p.renderer.Compile(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	rendered, chosen, _ := p.renderer.Outcome(ctx, program, object, cluster)
	if rendered.Err != nil {
		return nil, rendered.Err
	}
	values, secretValues, err := p.renderer.Values(ctx, helmOp, object, cluster)
	if err != nil {
		return nil, err
	}
	release := &Release{HelmOp: helmOp, IsSelected: isSelected, Values: values.Values, SecretValues: secretValues}
	if release.postRender, err = releasespec.PostRender(values.PostRender); err != nil {
		return nil, err
	}
	artifact, unresolved := artifactOf(helmOp, chosen.Ref)
	release.unresolved = unresolved
	spec := program.ReleaseSpec(helmOp, key, rendered, chosen, artifact)
	release.HelmOpRelease = childOf(helmOp, key, spec)
	return release, nil
}

func (p *Previewer) isSelected(ctx context.Context, helmOp *addonsv1.HelmOp, cluster metav1.Object) (bool, error) {
	if apiutil.IsManagement(cluster) {
		return helmOp.Spec.ManagementCluster != nil, nil
	}
	selector, err := selection.SelectorOf(helmOp)
	if err != nil {
		return false, err
	}
	return selector.Selects(ctx, p.Client, cluster)
}

// childOf returns the HelmOpRelease with a spec. It is not in the API server.
func childOf(helmOp *addonsv1.HelmOp, key client.ObjectKey,
	spec *addonsv1.HelmOpReleaseSpec,
) *addonsv1.HelmOpRelease {
	owner := metav1.NewControllerRef(helmOp, addonsv1.GroupVersion.WithKind("HelmOp"))
	return &addonsv1.HelmOpRelease{
		ObjectMeta: metav1.ObjectMeta{
			Name:      apiutil.ChildName(helmOp.Name, apiutil.TitleOf(helmOp.Namespace, key)),
			Namespace: helmOp.Namespace, Labels: apiutil.ChildSelector(helmOp), OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: *spec,
	}
}

// artifactOf returns the artifact of a reference in the status of a HelmOp. It is empty with an error.
func artifactOf(helmOp *addonsv1.HelmOp, ref addonsv1.ArtifactReference) (*addonsv1.ResolvedArtifact, error) {
	source := helmOp.Spec.Source
	source.Ref = ref
	digest, err := apiutil.SourceDigest(&source)
	if err != nil {
		return &addonsv1.ResolvedArtifact{}, err
	}
	for _, known := range apiutil.KnownArtifacts(&helmOp.Status) {
		if known.SourceDigest == digest {
			return &known.ResolvedArtifact, nil
		}
	}
	if message := conditions.GetMessage(helmOp, addonsv1.ResolvedCondition); message != "" {
		return &addonsv1.ResolvedArtifact{}, fmt.Errorf("%w: %s", ErrNotResolved, message)
	}
	return &addonsv1.ResolvedArtifact{}, ErrNotResolved
}

// Render renders the chart of a release for its Cluster.
func (p *Previewer) Render(ctx context.Context, release *Release) (helmclient.DryRun, error) {
	if release.unresolved != nil {
		return helmclient.DryRun{}, release.unresolved
	}
	target, err := p.target(ctx, release.HelmOpRelease)
	if err != nil {
		return helmclient.DryRun{}, err
	}
	access, err := p.references.Access(ctx, release.HelmOp)
	if err != nil {
		return helmclient.DryRun{}, err
	}
	chart, err := artifacts.Load(ctx, p.Registry, p.Charts, &release.HelmOpRelease.Spec.Artifact,
		release.HelmOp.Namespace, access)
	if err != nil {
		return helmclient.DryRun{}, err
	}
	desired, options := releasespec.DesiredOf(release.HelmOpRelease)
	options.PostRender, options.SecretValues = release.postRender, release.SecretValues
	return p.Engine.Render(ctx, target, desired, options, chart, release.Values)
}

// target returns the connection to the cluster of a release, with the kubeconfig that Cluster API generated.
func (p *Previewer) target(ctx context.Context, release *addonsv1.HelmOpRelease) (model.Target, error) {
	key := apiutil.ClusterKey(release)
	target := model.Target{Key: key.String(), Config: p.Config, Impersonate: releasespec.Impersonated(release)}
	if key == clusterlink.Management {
		return target, nil
	}
	data, err := kubeconfig.FromSecret(ctx, clusterview.SafeKubeconfigs(p.Client), key)
	if apierrors.IsNotFound(err) {
		return target, fmt.Errorf("the Cluster %s has no kubeconfig yet: %w", key, err)
	}
	if err != nil {
		return target, err
	}
	target.Config, err = clientcmd.RESTConfigFromKubeConfig(data)
	return target, err
}

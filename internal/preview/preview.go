// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preview renders the release of a HelmOp in a Cluster, and plans the changes of its installation or upgrade.
// It uses the code of the controllers and of the Helm engine. It does not change a cluster.
//
// # Contract
//
//   - It reads the management cluster and the workload cluster with the permissions of its caller. In the workload
//     cluster, it impersonates the identity of the release, if there is one. Its only writes are dry runs, which API
//     servers do not store.
//   - It pulls charts by the digests in the status of the HelmOp. If Options.Resolves is set, it also resolves
//     references for which the status has no artifact. It checks the signatures that the HelmOp requires.
//   - Values come from the same layers as in the manager, including Secrets. Before callers show anything to a user,
//     they must hide Release.SecretValues and the data of Secrets: see Masker. Previewer.Clusters hides both.
//   - It renders the chart for the version and the API groups of the Cluster, and with lookups in the Cluster. It
//     renders an upgrade if the Cluster has the release.
//   - It does not check whether the HelmOp may access the Cluster: the permissions of the caller are the limit.
//   - A Previewer reads each object of the management cluster once. It is for one HelmOp of one command.
package preview

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordstorage"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/resolution"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/verify"
)

// ErrNotResolved means that the HelmOp has no artifact for its current source.
var ErrNotResolved = errors.New("the source of the HelmOp is not resolved")

// Registry resolves references and pulls artifacts.
type Registry interface {
	artifacts.Fetcher
	resolution.Registry
}

// Options configure a Previewer.
type Options struct {
	// Client reads the management cluster. Config is the connection to it.
	Client client.Reader
	Config *rest.Config

	// Registry and Charts provide charts, Verifier checks their signatures, and Engine renders them. They are not needed
	// to render values.
	Registry Registry
	Charts   artifacts.ChartLoader
	Verifier verify.Verifier
	Engine   *helmclient.Client

	// Records configure the registries with the records of releases.
	Records recordstorage.Options

	// Resolves permits the Previewer to resolve a reference for which the status of the HelmOp has no artifact.
	Resolves bool
}

// Previewer renders releases. It is safe for concurrent use.
type Previewer struct {
	Options
	reads      *readOnce
	references *references.Reader
	renderer   *render.Renderer

	// resolved caches the artifacts of resolved references, signed the results of verifications, and charts the pulled
	// charts.
	resolved once[reference, *addonsv1.ArtifactStatus]
	signed   once[string, Signed]
	charts   once[string, *bundle.Chart]

	// silent holds the errors of Clusters that did not answer the check of an upgrade, by the keys of the Clusters.
	silent *sync.Map
}

// reference is a reference to an artifact in a HelmOp.
type reference struct {
	helmOp client.ObjectKey
	addonsv1.ArtifactReference
}

// New returns a Previewer.
func New(options Options) *Previewer {
	reads := newReadOnce(options.Client)
	options.Client = reads
	refs := references.NewReader(reads, reads)
	return &Previewer{Options: options, reads: reads, silent: &sync.Map{}, references: refs,
		renderer: render.New(refs, clusterview.NewReader(reads, reads))}
}

// Release is the desired release of a HelmOp in a Cluster.
type Release struct {
	// HelmOp is the HelmOp. HelmOpRelease is the object that the controller would write. The artifact in HelmOpRelease is
	// empty if the source is not resolved.
	HelmOp        *addonsv1.HelmOp
	HelmOpRelease *addonsv1.HelmOpRelease

	// IsSelected is false if the HelmOp does not select the Cluster. IsReady is false if the Cluster has no control plane
	// yet.
	IsSelected, IsReady bool

	// Values are the values for the chart. SecretValues are the values among them that came from Secrets.
	Values       map[string]any
	SecretValues []any

	postRender *model.PostRender
	unresolved error
	// kubernetesVersion is the version in the Cluster object; empty if it has none.
	kubernetesVersion string
	// cluster is the Cluster object, and controlPlane is its control plane.
	cluster      *clusterv1.Cluster
	controlPlane map[string]any
	// assigned is the result of assignedVersion, for a HelmOp that upgrades releases before Kubernetes.
	assigned string
	// refAt returns the reference to the artifact for a version of Kubernetes.
	refAt func(version string) (addonsv1.ArtifactReference, error)
	// isAhead means that HelmOp upgrades the release before Kubernetes.
	isAhead bool
}

// Release renders the values and the options of a HelmOp for a Cluster. For the management cluster, the key is
// clusterlink.Management.
func (p *Previewer) Release(ctx context.Context, helmOp *addonsv1.HelmOp, key client.ObjectKey) (*Release, error) {
	known, isSelected, err := p.readCluster(ctx, helmOp, key)
	if err != nil {
		return nil, err
	}
	object, cluster := known.object, known.typed
	program, err := p.renderer.Compile(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	assigned, isAhead := "", program.Ahead && key.Namespace == helmOp.Namespace
	if isAhead {
		if assigned, err = p.assignedVersion(ctx, helmOp, key); err != nil {
			return nil, err
		}
	}
	rendered, chosen, objects := p.renderer.Outcome(ctx, program, object, cluster, assigned)
	if rendered.Err != nil {
		return nil, rendered.Err
	}
	values, secretValues, err := p.renderer.Values(ctx, helmOp, object, cluster)
	if err != nil {
		return nil, err
	}
	release := &Release{HelmOp: helmOp, IsSelected: isSelected, IsReady: apiutil.IsInitialized(cluster),
		Values: values.Values, SecretValues: secretValues, kubernetesVersion: chosen.Version,
		cluster: cluster, controlPlane: objects.Data.ControlPlane, assigned: assigned,
		refAt: func(version string) (addonsv1.ArtifactReference, error) {
			variant, err := program.Variants.Of(cluster.Labels, version)
			return variant.Ref, err
		},
		isAhead: isAhead && cluster.Spec.Topology.IsDefined(),
	}
	if release.postRender, err = releasespec.PostRender(values.PostRender); err != nil {
		return nil, err
	}
	artifact, unresolved := p.artifactOf(ctx, helmOp, chosen.Ref)
	release.unresolved = unresolved
	spec := program.ReleaseSpec(helmOp, key, rendered, chosen, artifact)
	release.HelmOpRelease = childOf(helmOp, key, spec)
	return release, nil
}

// assignedVersion returns the Kubernetes version for which the manager has selected the artifact of the existing
// release in a Cluster; empty if there is no release. The manager keeps this version while it does not know the next
// step of an upgrade.
func (p *Previewer) assignedVersion(ctx context.Context, helmOp *addonsv1.HelmOp, cluster client.ObjectKey) (string,
	error,
) {
	child := &addonsv1.HelmOpRelease{}
	name := apiutil.ChildName(helmOp.Name, apiutil.TitleOf(helmOp.Namespace, cluster))
	err := p.Client.Get(ctx, client.ObjectKey{Namespace: helmOp.Namespace, Name: name}, child)
	return child.Spec.KubernetesVersion, client.IgnoreNotFound(err)
}

// readCluster is a Cluster in both forms.
type readCluster struct {
	object *unstructured.Unstructured
	typed  *clusterv1.Cluster
}

// readCluster reads a Cluster, and returns whether a HelmOp selects it.
func (p *Previewer) readCluster(ctx context.Context, helmOp *addonsv1.HelmOp, key client.ObjectKey) (
	read readCluster, isSelected bool, err error,
) {
	read.object, err = clusterview.ReadCluster(ctx, p.Client, key, helmOp.Labels[addonsv1.ShardLabel])
	if err != nil {
		return read, false, err
	}
	if read.typed, err = apiutil.TypedCluster(read.object); err != nil {
		return read, false, err
	}
	selector, err := selection.SelectorOf(helmOp)
	if err != nil {
		return read, false, err
	}
	isSelected, err = selector.Selects(ctx, p.Client, read.object)
	return read, isSelected, err
}

// childOf returns the HelmOpRelease with a spec. The object does not exist in the API server.
func childOf(helmOp *addonsv1.HelmOp, key client.ObjectKey,
	spec *addonsv1.HelmOpReleaseSpec,
) *addonsv1.HelmOpRelease {
	owner := metav1.NewControllerRef(helmOp, addonsv1.GroupVersion.WithKind("HelmOp"))
	labels := apiutil.ChildSelector(helmOp)
	apiutil.InheritLabels(labels, helmOp)
	return &addonsv1.HelmOpRelease{
		ObjectMeta: metav1.ObjectMeta{
			Name:      apiutil.ChildName(helmOp.Name, apiutil.TitleOf(helmOp.Namespace, key)),
			Namespace: helmOp.Namespace, Labels: labels, OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: *spec,
	}
}

// artifactOf returns the artifact of a reference. If there is an error, the artifact is empty.
func (p *Previewer) artifactOf(ctx context.Context, helmOp *addonsv1.HelmOp,
	ref addonsv1.ArtifactReference,
) (*addonsv1.ResolvedArtifact, error) {
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
	if p.Resolves {
		of := reference{client.ObjectKeyFromObject(helmOp), ref}
		found, err := p.resolved.get(of, func() (*addonsv1.ArtifactStatus, error) {
			return resolution.Lookup(ctx, p.Registry, p.Verifier, p.references, helmOp, ref)
		})
		if err != nil {
			return &addonsv1.ResolvedArtifact{}, err
		}
		return &found.ResolvedArtifact, nil
	}
	if message := conditions.GetMessage(helmOp, addonsv1.ResolvedCondition); message != "" {
		return &addonsv1.ResolvedArtifact{}, fmt.Errorf("%w: %s", ErrNotResolved, message)
	}
	return &addonsv1.ResolvedArtifact{}, ErrNotResolved
}

// Render renders the chart of a release for its Cluster.
func (p *Previewer) Render(ctx context.Context, release *Release) (dryrun.Result, error) {
	return p.render(ctx, release, 0)
}

// render renders the chart of a release for its Cluster. The timeout is for the requests to the Cluster; 0 is no limit.
// The chart is pulled within the time of ctx: all Clusters share it, and a failure is remembered for all of them.
func (p *Previewer) render(ctx context.Context, release *Release, timeout time.Duration) (dryrun.Result, error) {
	target, err := p.target(ctx, release)
	if err != nil {
		return dryrun.Result{}, err
	}
	chart, err := p.chart(ctx, release)
	if err != nil {
		return dryrun.Result{}, err
	}
	desired, options := p.desired(ctx, release)
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return p.Engine.Render(ctx, target, desired, options, chart, release.Values)
}

// planTimeout is the timeout for the plan or the rendering of one release, so that a Cluster that does not answer does
// not use all the time of the command.
const planTimeout = time.Minute

// Plan returns what the next action on a release would change in its Cluster.
func (p *Previewer) Plan(ctx context.Context, release *Release) (model.Plan, error) {
	target, err := p.target(ctx, release)
	if err != nil {
		return model.Plan{}, err
	}
	chart, err := p.chart(ctx, release)
	if err != nil {
		return model.Plan{}, err
	}
	desired, options := p.desired(ctx, release)
	policy := releasespec.PolicyOf(&release.HelmOpRelease.Spec)
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	return p.Engine.Plan(ctx, target, desired, policy, release.past(), options, chart, release.Values)
}

// desired returns the desired state of a release, and its options.
func (p *Previewer) desired(ctx context.Context, release *Release) (model.Desired, model.Options) {
	desired, options := releasespec.DesiredOf(release.HelmOpRelease)
	options.PostRender, options.SecretValues = release.postRender, release.SecretValues
	// The user may not be allowed to read the namespace. Then only the owner is compared, and not the management cluster.
	if system, err := apiutil.SystemNamespace(ctx, p.Client); err == nil {
		releasespec.NameManagementCluster(&desired, release.HelmOpRelease, string(system.UID))
	}
	return desired, options
}

// chart pulls the chart of a release, and checks its signatures. The chart is shared: do not change it.
func (p *Previewer) chart(ctx context.Context, release *Release) (*bundle.Chart, error) {
	if release.unresolved != nil {
		return nil, release.unresolved
	}
	artifact, helmOp := &release.HelmOpRelease.Spec.Artifact, release.HelmOp
	return p.charts.get(apiutil.ArtifactIdentity(artifact), func() (*bundle.Chart, error) {
		if _, err := p.Signed(ctx, release); err != nil {
			return nil, err
		}
		access, err := p.references.Access(ctx, helmOp)
		if err != nil {
			return nil, err
		}
		return artifacts.Load(ctx, p.Registry, p.Charts, artifact, helmOp.Namespace, access)
	})
}

// ErrNoKubeconfig means that a Cluster has no kubeconfig yet.
var ErrNoKubeconfig = errors.New("has no kubeconfig yet")

// target returns the connection to the cluster of a release. It uses the kubeconfig that Cluster API generated.
func (p *Previewer) target(ctx context.Context, release *Release) (model.Target, error) {
	child := release.HelmOpRelease
	key := apiutil.ClusterKey(child)
	target := model.Target{Key: key.String(), Impersonate: releasespec.Impersonated(child),
		Storage: p.Records.Of(child, release.HelmOp, p.references)}
	if key == clusterlink.Management {
		var err error
		target.Config, err = ownConfig(p.Config)
		return target, err
	}
	data, err := kubeconfig.FromSecret(ctx, clusterview.SafeKubeconfigs(p.Client), key)
	if apierrors.IsNotFound(err) {
		return target, fmt.Errorf("the Cluster %s %w: %w", key, ErrNoKubeconfig, err)
	}
	if err != nil {
		return target, err
	}
	target.Config, err = clientcmd.RESTConfigFromKubeConfig(data)
	return target, err
}

// ownConfig returns a config for the engine with the connection of the command's own config. The engine does not accept
// configs that run programs or read files, because configs may come from tenants. The config of the command comes from
// its user.
func ownConfig(config *rest.Config) (*rest.Config, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: address.String(), APIPath: config.APIPath, Transport: transport}, nil
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradecheck"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgraderun"
)

// UpgradeOutcome is the result of an upgrade check: what an upgrade of Kubernetes would break in a release of a
// Cluster.
type UpgradeOutcome struct {
	State State `json:"state"`

	// From is the minor version that the Cluster runs, and Steps are the minor versions of the upgrade.
	From  string   `json:"from,omitempty"`
	Steps []string `json:"steps,omitempty"`

	// Message is the reason why there is no result, or why there is nothing to check.
	Message string `json:"message,omitempty"`

	Findings []upgradecheck.Finding `json:"findings,omitempty"`
}

// UpgradeResult is the outcome for a Cluster. Cluster is the name of the Cluster, with its namespace if the HelmOp is
// in another one. Release is the name of the HelmOpRelease.
type UpgradeResult struct {
	Cluster, Release string
	UpgradeOutcome
}

// UpgradeGroup is the common outcome of several Clusters.
type UpgradeGroup struct {
	Clusters []string `json:"clusters"`
	UpgradeOutcome
}

// GroupUpgrades groups Clusters with the same outcome, in the order of GroupResults.
func GroupUpgrades(results []UpgradeResult) ([]UpgradeGroup, error) {
	all := make([]named[UpgradeOutcome], 0, len(results))
	for i := range results {
		all = append(all, named[UpgradeOutcome]{results[i].Cluster, results[i].Release, &results[i].UpgradeOutcome})
	}
	found, err := alike(all, nil)
	if err != nil {
		return nil, err
	}
	groups := make([]UpgradeGroup, 0, len(found))
	for _, one := range found {
		groups = append(groups, UpgradeGroup{Clusters: one.clusters, UpgradeOutcome: one.outcome})
	}
	slices.SortStableFunc(groups, func(a, b UpgradeGroup) int {
		return compareGroups(a.State, b.State, a.Clusters, b.Clusters)
	})
	return groups, nil
}

// UpgradeClusters checks the releases of a HelmOp in Clusters for an upgrade to a version of Kubernetes. If a Cluster
// cannot be checked, its result says why, and the others continue.
func (p *Previewer) UpgradeClusters(ctx context.Context, helmOp *addonsv1.HelmOp, clusters []client.ObjectKey,
	version string,
) ([]UpgradeResult, error) {
	children, err := p.children(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	results := make([]UpgradeResult, len(clusters))
	atOnce(clusters, func(i int, cluster client.ObjectKey) {
		title := apiutil.TitleOf(helmOp.Namespace, cluster)
		results[i] = UpgradeResult{Cluster: title, Release: apiutil.ChildName(helmOp.Name, title)}
		outcome, err := p.upgrade(ctx, helmOp, cluster, children[results[i].Release], version)
		if err != nil {
			outcome.State, outcome.Message = unchecked(err, children[results[i].Release])
		}
		results[i].UpgradeOutcome = outcome
	})
	return results, nil
}

// upgrade checks one Cluster. child is the existing HelmOpRelease; nil if there is none.
func (p *Previewer) upgrade(ctx context.Context, helmOp *addonsv1.HelmOp, cluster client.ObjectKey,
	child *addonsv1.HelmOpRelease, version string,
) (UpgradeOutcome, error) {
	release, err := p.Release(ctx, helmOp, cluster)
	if err != nil {
		return UpgradeOutcome{}, err
	}
	if !release.IsReady {
		return UpgradeOutcome{}, errNotReady
	}
	check, err := p.upgradeCheck(ctx, release, child, version)
	if err != nil {
		return UpgradeOutcome{}, err
	}
	result, err := check.Run(ctx)
	if err != nil {
		return UpgradeOutcome{}, err
	}
	outcome := UpgradeOutcome{State: StateClear, From: result.From.String(), Findings: result.Findings}
	for _, one := range result.Steps {
		outcome.Steps = append(outcome.Steps, one.String())
	}
	switch {
	case len(result.Steps) == 0:
		outcome.Message = fmt.Sprintf("the cluster runs %s already", result.From)
	case len(result.ToDo()) > 0:
		outcome.State = StateToDo
	}
	return outcome, nil
}

// upgradeCheck returns the check of a release for an upgrade of Kubernetes. child is the existing HelmOpRelease; nil if
// there is none.
func (p *Previewer) upgradeCheck(ctx context.Context, release *Release, child *addonsv1.HelmOpRelease,
	version string,
) (*upgraderun.Check, error) {
	check := &upgraderun.Check{Engine: askedOnce{p.Engine, p.silent}, Values: release.Values, Version: version,
		IsAhead: release.isAhead, Paused: pausedOf(release, child)}
	if child != nil {
		releasespec.KeepIdentity(&release.HelmOpRelease.Spec, child)
		check.Kept = upgraderun.Kept(child, &release.HelmOpRelease.Spec)
		// The UID distinguishes the records of this object from the records of a lost object.
		release.HelmOpRelease.UID = child.UID
		if _, pinned := apiutil.PinOf(child); pinned {
			release.HelmOpRelease = child
		}
	}
	check.Release = release.HelmOpRelease
	var err error
	if check.Target, err = p.target(ctx, release); err != nil {
		return nil, err
	}
	if err := p.addSteps(ctx, release, check); err != nil {
		return nil, err
	}
	with := func(changed *addonsv1.HelmOpRelease) *Release {
		other := *release
		other.HelmOpRelease = changed
		return &other
	}
	check.Desired = func(changed *addonsv1.HelmOpRelease) (model.Desired, model.Options) {
		return p.desired(ctx, with(changed))
	}
	check.Artifact = func(ctx context.Context, version string) (*addonsv1.ResolvedArtifact, error) {
		if release.unresolved != nil {
			return nil, release.unresolved
		}
		ref, err := release.refAt(version)
		if err != nil {
			return nil, err
		}
		return p.artifactOf(ctx, release.HelmOp, ref)
	}
	check.Chart = func(ctx context.Context, artifact *addonsv1.ResolvedArtifact) (*bundle.Chart, error) {
		changed := release.HelmOpRelease.DeepCopy()
		changed.Spec.Artifact = *artifact
		return p.chart(ctx, with(changed))
	}
	return check, nil
}

// addSteps adds what is known about the steps of the upgrade, as the manager does. Cluster API plans the steps when the
// upgrade is requested.
func (p *Previewer) addSteps(ctx context.Context, release *Release, check *upgraderun.Check) error {
	if !render.IsSameVersion(check.Version, release.cluster.Spec.Topology.Version) {
		return nil
	}
	running, specified := render.RunningVersion(release.controlPlane), render.SpecifiedVersion(release.controlPlane)
	check.Plan = render.UpgradeSteps(release.cluster, specified, running)
	if !release.isAhead {
		return nil
	}
	publishesPlans, err := render.PublishesPlans(ctx, p.renderer.Objects, release.cluster, release.controlPlane)
	check.Initial = render.VersionWithoutPlan(release.cluster, running, release.assigned, publishesPlans)
	return err
}

// Another returns a Previewer for another HelmOp. Both share the objects that were read, and the list of Clusters that
// did not answer the check of an upgrade.
func (p *Previewer) Another() *Previewer {
	other := New(p.Options)
	other.silent = p.silent
	return other
}

// askedOnce is the engine of the check. If a Cluster did not answer, it does not ask the Cluster again for the next
// HelmOps.
type askedOnce struct {
	*helmclient.Client
	silent *sync.Map
}

// Present implements upgraderun.Engine.
func (e askedOnce) Present(ctx context.Context, target model.Target, namespace, name string,
	use func(objects, hooks []*unstructured.Unstructured),
) (dryrun.Present, error) {
	if silent, ok := e.silent.Load(target.Key); ok {
		return dryrun.Present{}, silent.(error)
	}
	present, err := e.Client.Present(ctx, target, namespace, name, use)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) && (errors.Is(err, helmerr.ErrUnreachable) ||
		errors.Is(err, helmerr.ErrRequestDeadline) || ctx.Err() != nil) {
		e.silent.Store(target.Key, err)
	}
	return present, err
}

// pausedOf returns why HelmOp does not upgrade a release now, and what a user can do; empty if HelmOp upgrades it.
// child is nil if there is no release.
func pausedOf(release *Release, child *addonsv1.HelmOpRelease) string {
	if child == nil {
		return ""
	}
	why := apiutil.PauseReason(release.cluster, release.HelmOp, child)
	if why == "" {
		return ""
	}
	return why + ", so HelmOp does not upgrade the release, and objects in an API that is not served stay: end the " +
		"pause before the Kubernetes upgrade, and check again"
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradecheck"
)

// UpgradeOutcome is what an upgrade of Kubernetes would mean for a release in a Cluster.
type UpgradeOutcome struct {
	State State `json:"state"`

	// From is the minor version that the Cluster runs, and Steps are the minor versions of the upgrade.
	From  string   `json:"from,omitempty"`
	Steps []string `json:"steps,omitempty"`

	// Message is why there is no result, or why nothing is to check.
	Message string `json:"message,omitempty"`

	Findings []upgradecheck.Finding `json:"findings,omitempty"`
}

// UpgradeResult is the outcome for a Cluster. Cluster is its name, with the namespace if that is not the namespace of
// the HelmOp, and Release is the name of the HelmOpRelease.
type UpgradeResult struct {
	Cluster, Release string
	UpgradeOutcome
}

// UpgradeGroup is the outcome for Clusters that are alike.
type UpgradeGroup struct {
	Clusters []string `json:"clusters"`
	UpgradeOutcome
}

// GroupUpgrades puts Clusters with the same outcome together, in the order of GroupResults.
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

// UpgradeClusters checks what an upgrade of Kubernetes to a version would mean for a HelmOp in Clusters. A Cluster that
// cannot be checked does not stop the others: its result says why.
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
			outcome = unchecked(err, children[results[i].Release])
		}
		results[i].UpgradeOutcome = outcome
	})
	return results, nil
}

// unchecked returns the outcome of a release that could not be checked. A Cluster that is not ready is a failure if it
// has the release, because the upgrade can break that release.
func unchecked(err error, child *addonsv1.HelmOpRelease) UpgradeOutcome {
	outcome := UpgradeOutcome{State: stateOf(err), Message: err.Error()}
	if outcome.State == StateNotReady && child != nil {
		outcome.State = StateFailed
		outcome.Message += "; the Cluster has a release that is not checked"
	}
	return outcome
}

// upgrade checks one Cluster. child is the existing HelmOpRelease; nil if there is none.
func (p *Previewer) upgrade(ctx context.Context, helmOp *addonsv1.HelmOp, cluster client.ObjectKey,
	child *addonsv1.HelmOpRelease, version string,
) (UpgradeOutcome, error) {
	u := &upgrade{Previewer: p, version: version}
	var err error
	if u.to, err = apilifecycle.ParseVersion(version); err != nil {
		return UpgradeOutcome{}, err
	}
	if u.release, err = p.Release(ctx, helmOp, cluster); err != nil {
		return UpgradeOutcome{}, err
	}
	if !u.release.IsReady {
		return UpgradeOutcome{}, errNotReady
	}
	kept := u.keep(child)
	u.paused = pausedOf(u.release, child)
	if u.target, err = p.target(ctx, u.release); err != nil {
		return UpgradeOutcome{}, err
	}
	if err := u.read(ctx); err != nil {
		return UpgradeOutcome{}, err
	}
	from, err := apilifecycle.ParseVersion(u.present.KubeVersion)
	if err != nil {
		return UpgradeOutcome{}, err
	}
	outcome := UpgradeOutcome{State: StateClear, From: from.String()}
	versions := from.StepsTo(u.to)
	if len(versions) == 0 {
		outcome.Message = fmt.Sprintf("the cluster runs %s already", from)
		return outcome, nil
	}
	for _, one := range versions {
		outcome.Steps = append(outcome.Steps, one.String())
	}
	if outcome.Findings, err = u.check(ctx, versions, kept); err != nil {
		return UpgradeOutcome{}, err
	}
	if slices.ContainsFunc(outcome.Findings, func(finding upgradecheck.Finding) bool { return finding.ToDo }) {
		outcome.State = StateToDo
	}
	return outcome, nil
}

// Another returns a Previewer for another HelmOp. It shares what was read, and which Clusters did not answer the check
// of an upgrade.
func (p *Previewer) Another() *Previewer {
	other := New(p.Options)
	other.silent = p.silent
	return other
}

// read reads what the cluster has now. A Cluster that did not answer is not asked for the next HelmOps.
func (u *upgrade) read(ctx context.Context) error {
	if silent, ok := u.silent.Load(u.target.Key); ok {
		return silent.(error)
	}
	bounded, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	name := u.release.HelmOpRelease.Spec.Release
	var err error
	u.present, err = u.Engine.Present(bounded, u.target, name.Namespace, name.Name)
	if ctx.Err() == nil && (errors.Is(err, helmerr.ErrUnreachable) || errors.Is(err, helmerr.ErrRequestDeadline) ||
		bounded.Err() != nil) {
		u.silent.Store(u.target.Key, err)
	}
	return err
}

// upgrade is the check of one release.
type upgrade struct {
	*Previewer
	// version is the version of the upgrade as the user named it, and to its minor version.
	version string
	to      apilifecycle.Version
	release *Release
	target  model.Target
	present helmclient.Present
	// paused is why HelmOp does not upgrade the release now, with the way out; empty if it does.
	paused string
}

// pausedOf returns why HelmOp does not upgrade a release now, with the way out; empty if it does. child is nil if there
// is no release.
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

// keep returns why HelmOp keeps the release as it is, with the way out; empty if HelmOp upgrades the release.
func (u *upgrade) keep(child *addonsv1.HelmOpRelease) string {
	if child == nil {
		return ""
	}
	if number, pinned := apiutil.PinOf(child); pinned {
		u.release.HelmOpRelease = child
		return fmt.Sprintf("the Cluster is pinned to HelmOp revision %d: unpin it (kubectl helmop unpin), and check again",
			number)
	}
	// By the UID, the records of this object differ from those of a lost one.
	u.release.HelmOpRelease.UID = child.UID
	if releasespec.IsDone(&u.release.HelmOpRelease.Spec, child) {
		return "HelmOp installed the release once (reconcileStrategy InstallOnce) and leaves it as it is: change its " +
			"objects yourself"
	}
	return ""
}

// check returns the findings for the versions of the upgrade.
func (u *upgrade) check(ctx context.Context, versions []apilifecycle.Version, kept string) (
	[]upgradecheck.Finding, error,
) {
	if kept == "" && u.release.unresolved != nil {
		return nil, u.release.unresolved
	}
	artifact := &u.release.HelmOpRelease.Spec.Artifact
	release := &upgradecheck.Release{Chart: versionOf(artifact), Digest: apiutil.ArtifactIdentity(artifact),
		Present: upgradecheck.Objects{Objects: u.present.Objects, Hooks: u.present.Hooks}, IsAhead: u.release.isAhead,
		Kept: kept, Paused: u.paused, RunsTests: u.runsTests()}
	steps := make([]upgradecheck.Step, len(versions))
	all := slices.Concat(u.present.Objects, u.present.Hooks)
	files := make([][]*unstructured.Unstructured, len(versions))
	for i, version := range versions {
		steps[i].Version = version
		if kept != "" {
			continue
		}
		var err error
		if files[i], err = u.render(ctx, &steps[i]); err != nil {
			return nil, fmt.Errorf("the check for %s: %w", version, err)
		}
		all = append(all, steps[i].Rendered.Objects...)
		all = append(all, steps[i].Rendered.Hooks...)
	}
	last := len(steps) - 1
	if u.release.isAhead && kept == "" && steps[last].Digest != release.Digest {
		var err error
		if release.Ahead, err = u.ahead(ctx); err != nil {
			return nil, fmt.Errorf("the check for the running version: %w", err)
		}
	}
	definitions, err := u.definitions(ctx, all)
	if err != nil {
		return nil, err
	}
	release.Present.Definitions = definitions
	for i := range steps {
		steps[i].Rendered.Definitions, err = definitionsAfter(definitions, files[i], steps[i].Rendered.Objects,
			u.replacesCRDs())
		if err != nil {
			return nil, err
		}
	}
	return upgradecheck.Check(release, steps), nil
}

// runsTests reports whether HelmOp runs the tests of the chart.
func (u *upgrade) runsTests() bool {
	return releasespec.PolicyOf(&u.release.HelmOpRelease.Spec).Test.Enabled
}

// versionOf returns the version of an artifact for messages.
func versionOf(artifact *addonsv1.ResolvedArtifact) string {
	return cmp.Or(artifact.Version, artifact.Tag, artifact.Digest)
}

// exact returns the exact version of Kubernetes for a step: the named version for the last step, otherwise the first
// patch version. It has the suffix of the running version, because a vendor appends one to each version: a kubeVersion
// without a prerelease excludes them. A suffix that the user names takes precedence.
func (u *upgrade) exact(step apilifecycle.Version) string {
	suffix := apilifecycle.SuffixOf(u.present.KubeVersion)
	named, err := utilversion.ParseGeneric(u.version)
	if err != nil || step != u.to {
		return step.String() + ".0" + suffix
	}
	if full, err := utilversion.ParseSemantic(u.version); err == nil && full.PreRelease()+full.BuildMetadata() != "" {
		return "v" + full.String()
	}
	return fmt.Sprintf("%s.%d%s", step, named.Patch(), suffix)
}

// at returns the release with the artifact for a step. If HelmOp upgrades the release ahead, it is the artifact for the
// last step, because Cluster API asks once.
func (u *upgrade) at(ctx context.Context, step apilifecycle.Version) (*Release, error) {
	if u.release.isAhead {
		step = u.to
	}
	ref, err := u.release.refAt(u.exact(step))
	if err != nil {
		return nil, err
	}
	artifact, unresolved := u.artifactOf(ctx, u.release.HelmOp, ref)
	if unresolved != nil {
		return nil, unresolved
	}
	changed := *u.release
	changed.HelmOpRelease = u.release.HelmOpRelease.DeepCopy()
	changed.HelmOpRelease.Spec.Artifact = *artifact
	return &changed, nil
}

// ahead renders the chart of the last step for the running version: HelmOp upgrades the release before Kubernetes.
func (u *upgrade) ahead(ctx context.Context) (*upgradecheck.Ahead, error) {
	running, err := apilifecycle.ParseVersion(u.present.KubeVersion)
	if err != nil {
		return nil, err
	}
	ahead := &upgradecheck.Ahead{Step: upgradecheck.Step{Version: running}, To: u.to}
	if _, err := u.renderFor(ctx, &ahead.Step, u.present.KubeVersion, u.Engine.Render); err != nil {
		return nil, err
	}
	for _, object := range slices.Concat(ahead.Rendered.Objects, ahead.Rendered.Hooks) {
		kind := object.GroupVersionKind()
		isIdle := slices.Contains(ahead.Rendered.Hooks, object) && upgradecheck.IsTest(object) && !u.runsTests()
		if apilifecycle.IsOfKubernetes(kind.Group) && !u.present.Serves(kind) && !isIdle {
			ahead.NotServed = append(ahead.NotServed, object)
		}
	}
	return ahead, nil
}

// render sets the chart and the objects of a step, and returns the objects in the folders crds that would be applied.
func (u *upgrade) render(ctx context.Context, step *upgradecheck.Step) ([]*unstructured.Unstructured, error) {
	version := u.exact(step.Version)
	upgraded := helmclient.Upgraded{KubeVersion: version, Serves: func(kind schema.GroupVersionKind) bool {
		stage, _ := apilifecycle.Definitions{}.At(kind, step.Version)
		return stage != apilifecycle.Removed
	}}
	return u.renderFor(ctx, step, version, func(ctx context.Context, target model.Target, desired model.Desired,
		options model.Options, chart *bundle.Chart, values map[string]any,
	) (helmclient.DryRun, error) {
		return u.Engine.RenderUpgraded(ctx, target, desired, options, chart, values, upgraded)
	})
}

// renderWith renders a chart for a cluster.
type renderWith func(context.Context, model.Target, model.Desired, model.Options, *bundle.Chart, map[string]any) (
	helmclient.DryRun, error)

// renderFor is render for an exact version of Kubernetes.
func (u *upgrade) renderFor(ctx context.Context, step *upgradecheck.Step, version string, with renderWith) (
	[]*unstructured.Unstructured, error,
) {
	release, err := u.at(ctx, step.Version)
	if err != nil {
		return nil, err
	}
	artifact := &release.HelmOpRelease.Spec.Artifact
	step.Chart, step.Digest = versionOf(artifact), apiutil.ArtifactIdentity(artifact)
	chart, err := u.chart(ctx, release)
	if err != nil {
		return nil, err
	}
	if step.Constraint = helmclient.ExcludingConstraint(chart, version); step.Constraint != "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	desired, options := u.desired(ctx, release)
	rendered, err := with(ctx, u.target, desired, options, chart, release.Values)
	if isOfChart(err) {
		step.Failure = err.Error()
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	objects, hooks, files, err := rendered.Parts()
	step.Rendered.Objects, step.Rendered.Hooks = objects, hooks
	return files, err
}

// isOfChart reports whether the chart, its values or its postRender are the cause of an error.
func isOfChart(err error) bool {
	return slices.ContainsFunc([]error{helmerr.ErrChartFailed, helmerr.ErrInvalidChart, helmerr.ErrInvalidValues,
		helmerr.ErrPostRender, helmerr.ErrRenderLimit}, func(kind error) bool { return errors.Is(err, kind) })
}

// definitions returns the CustomResourceDefinitions of the cluster for objects, with the rights of the kubeconfig: the
// identity of the release need not read them.
func (u *upgrade) definitions(ctx context.Context, objects []*unstructured.Unstructured) (
	apilifecycle.Definitions, error,
) {
	kinds := map[schema.GroupKind]bool{}
	for _, object := range objects {
		if kind := object.GroupVersionKind().GroupKind(); !apilifecycle.IsOfKubernetes(kind.Group) {
			kinds[kind] = true
		}
	}
	definitions := apilifecycle.Definitions{}
	if len(kinds) == 0 {
		return definitions, nil
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	target := u.target
	target.Impersonate = ""
	found, err := u.Engine.Definitions(ctx, target, u.release.HelmOpRelease.Spec.Release.Namespace,
		slices.Collect(maps.Keys(kinds)))
	for _, one := range found {
		definitions.Add(one)
	}
	return definitions, err
}

// definitionsAfter returns the definitions of a cluster after a rendering is applied: with those in templates, and with
// those in the folders crds that are missing or, if so, replaced.
func definitionsAfter(cluster apilifecycle.Definitions, files, rendered []*unstructured.Unstructured,
	replaces bool,
) (apilifecycle.Definitions, error) {
	all := apilifecycle.Definitions{}
	if replaces {
		maps.Copy(all, cluster)
	}
	for _, object := range files {
		if err := addDefinition(all, object); err != nil {
			return nil, err
		}
	}
	if !replaces {
		maps.Copy(all, cluster)
	}
	for _, object := range rendered {
		if err := addDefinition(all, object); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// replacesCRDs reports whether the next action replaces the objects in the folders crds.
func (u *upgrade) replacesCRDs() bool {
	_, options := releasespec.DesiredOf(u.release.HelmOpRelease)
	if u.present.Revision > 0 {
		return options.Upgrade.CRDs == model.CRDsCreateReplace
	}
	return options.Install.CRDs == model.CRDsCreateReplace
}

// addDefinition adds an object if it is a CustomResourceDefinition.
func addDefinition(definitions apilifecycle.Definitions, object *unstructured.Unstructured) error {
	if object.GroupVersionKind() != apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition") {
		return nil
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition); err != nil {
		return fmt.Errorf("the CustomResourceDefinition %s of the chart: %w", object.GetName(), err)
	}
	definitions.Add(definition)
	return nil
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgraderun checks what an upgrade of Kubernetes would break in a release. It reads the release and the
// CustomResourceDefinitions from the cluster, and renders the chart for each step of the upgrade. Package upgradecheck
// computes the findings. The manager and the command upgrade-check use package upgraderun.
//
// # Contract
//
//   - It only reads: it writes nothing to a cluster and sends no dry runs.
//   - Callers provide the artifacts and the charts of the steps. If this fails, the check fails: it never omits a step.
//     If a chart cannot be rendered because of its templates or values, this is a finding.
//   - Each request to the cluster has its own timeout.
package upgraderun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradecheck"
)

// requestTimeout is the timeout of each read of the cluster and of each rendering, so that a cluster that does not
// answer does not use all the time of the caller.
const requestTimeout = time.Minute

// Engine reads releases in their clusters and renders charts for them.
type Engine interface {
	Present(ctx context.Context, target model.Target, namespace, name string,
		use func(objects, hooks []*unstructured.Unstructured)) (dryrun.Present, error)
	Definitions(ctx context.Context, target model.Target, namespace string, kinds []schema.GroupKind) (
		[]*apiextensionsv1.CustomResourceDefinition, error)
	Render(ctx context.Context, target model.Target, desired model.Desired, options model.Options, chart *bundle.Chart,
		values map[string]any) (dryrun.Result, error)
	RenderUpgraded(ctx context.Context, target model.Target, desired model.Desired, options model.Options,
		chart *bundle.Chart, values map[string]any, upgraded dryrun.Upgraded) (dryrun.Result, error)
}

// Check is the check of one release.
type Check struct {
	Engine Engine
	Target model.Target

	// Release is the desired release. Values are its values for the chart.
	Release *addonsv1.HelmOpRelease
	Values  map[string]any

	// Desired returns the desired state of a release with the artifact of a step, and its options.
	Desired func(*addonsv1.HelmOpRelease) (model.Desired, model.Options)

	// Artifact returns the artifact for an exact version of Kubernetes. Chart returns the chart of an artifact. The chart
	// is shared: do not change it.
	Artifact func(ctx context.Context, version string) (*addonsv1.ResolvedArtifact, error)
	Chart    func(ctx context.Context, artifact *addonsv1.ResolvedArtifact) (*bundle.Chart, error)

	// Version is the target version of the upgrade, in the form in which the user wrote it.
	Version string
	// Plan contains the exact versions of the steps that Cluster API has planned. It is used if it ends with Version.
	// Without a plan, each minor version up to Version is a step.
	Plan []string

	// IsAhead means that HelmOp upgrades the release before each step of the upgrade.
	IsAhead bool
	// Initial is the version whose artifact the release gets before the first step, if this is not the version of the
	// first step. Steps that are newer than Initial use the artifact for the last step. Initial is empty if each step
	// uses its own artifact.
	Initial string
	// Kept is the reason why HelmOp does not change the release, and what the user can do; empty if HelmOp upgrades the
	// release. If it is set, the check is about the current objects of the release.
	Kept string
	// Paused is the reason why HelmOp does not upgrade the release now, and what the user can do; empty if HelmOp upgrades
	// it.
	Paused string
	// Unnamed omits the names of objects from the findings: names may contain values of Secrets, and these values are not
	// known.
	Unnamed bool
}

// Result is the result of a check.
type Result struct {
	// Running is the version that the cluster runs.
	Running string
	// From is the minor version that the cluster runs. Steps are the versions of the upgrade. Steps is empty if the
	// cluster already runs the version.
	From  apilifecycle.Version
	Steps []apilifecycle.Version

	// Chart is the version of the add-on for the last step; empty if HelmOp does not change the release.
	Chart string

	Findings []upgradecheck.Finding
}

// ToDo returns the findings that require an action of the user before the upgrade.
func (r *Result) ToDo() []upgradecheck.Finding {
	var found []upgradecheck.Finding
	for i := range r.Findings {
		if r.Findings[i].ToDo {
			found = append(found, r.Findings[i])
		}
	}
	return found
}

// Kept returns why HelmOp does not change a release, and what the user can do; empty if HelmOp upgrades the release.
// spec is the desired spec of the release.
func Kept(release *addonsv1.HelmOpRelease, spec *addonsv1.HelmOpReleaseSpec) string {
	if number, pinned := apiutil.PinOf(release); pinned {
		return fmt.Sprintf("the Cluster is pinned to HelmOp revision %d: unpin it (kubectl helmop unpin), and check again",
			number)
	}
	if releasespec.IsDone(spec, release) {
		wayOut := "HelmOp installed the release once (reconcileStrategy InstallOnce) and leaves it as it is: change its " +
			"objects yourself"
		if before := spec.BeforeClusterUpgrade; before != nil && before.Preflight == addonsv1.UpgradePreflightRequired {
			wayOut += ", and set spec.beforeClusterUpgrade.preflight to Ignored, because the check reads Helm's record, which " +
				"still has them; otherwise the upgrade continues after the timeout"
		}
		return wayOut
	}
	return ""
}

// run is a Check with the data that it has read from the cluster.
type run struct {
	*Check
	present dryrun.Present
	// installed are the objects of the release.
	installed upgradecheck.Objects
	steps     []step
}

// Run carries out the check.
func (c *Check) Run(ctx context.Context) (Result, error) {
	to, err := apilifecycle.ParseVersion(c.Version)
	if err != nil {
		return Result{}, err
	}
	r := &run{Check: c}
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	name := c.Release.Spec.Release
	r.present, err = c.Engine.Present(bounded, c.Target, name.Namespace, name.Name,
		func(objects, hooks []*unstructured.Unstructured) {
			r.installed = upgradecheck.ObjectsOf(objects, hooks)
		})
	if err != nil {
		return Result{}, err
	}
	result := Result{Running: r.present.KubeVersion}
	if result.From, err = apilifecycle.ParseVersion(r.present.KubeVersion); err != nil {
		return Result{}, err
	}
	minors, err := result.From.StepsTo(to)
	if err != nil {
		return Result{}, err
	}
	if r.steps = stepsOf(r.present.KubeVersion, c.Version, minors, c.Plan); len(r.steps) == 0 {
		return result, nil
	}
	for _, one := range r.steps {
		result.Steps = append(result.Steps, one.minor)
	}
	steps, release, err := r.read(ctx)
	if err != nil {
		return Result{}, err
	}
	result.Chart, result.Findings = steps[len(steps)-1].Chart, upgradecheck.Check(release, steps)
	return result, nil
}

// read renders the steps of the upgrade. It also reads the definitions of the cluster.
func (r *run) read(ctx context.Context) ([]upgradecheck.Step, *upgradecheck.Release, error) {
	artifact := &r.Release.Spec.Artifact
	release := &upgradecheck.Release{Chart: versionOf(artifact), Digest: apiutil.ArtifactIdentity(artifact),
		Present: r.installed, IsAhead: r.IsAhead, Kept: r.Kept, Paused: r.Paused, RunsTests: r.runsTests(),
		Unnamed: r.Unnamed}
	steps := make([]upgradecheck.Step, len(r.steps))
	all := r.installed.All()
	files := make([]apilifecycle.Definitions, len(r.steps))
	for i, one := range r.steps {
		steps[i].Version = one.minor
		if r.Kept != "" {
			continue
		}
		var err error
		if files[i], err = r.render(ctx, &steps[i], one); err != nil {
			return nil, nil, fmt.Errorf("the check for %s: %w", one.minor, err)
		}
		all = append(all, steps[i].Rendered.All()...)
	}
	var err error
	if release.Ahead, err = r.ahead(ctx, release.Digest, steps); err != nil {
		return nil, nil, err
	}
	definitions, err := r.definitions(ctx, all)
	if err != nil {
		return nil, nil, err
	}
	release.Present.Definitions = definitions
	for i := range steps {
		rendered := &steps[i].Rendered
		rendered.Definitions = definitionsAfter(definitions, files[i], rendered.Definitions,
			r.replacesCRDs())
	}
	return steps, release, nil
}

// runsTests reports whether HelmOp runs the tests of the chart.
func (r *run) runsTests() bool { return releasespec.PolicyOf(&r.Release.Spec).Test.Enabled }

// versionOf returns the version of an artifact for messages.
func versionOf(artifact *addonsv1.ResolvedArtifact) string {
	return cmp.Or(artifact.Version, artifact.Tag, artifact.Digest)
}

// ahead renders the chart of each step for the version before the step, if HelmOp upgrades the release before
// Kubernetes. present identifies the current chart. If the chart is the same as for the version before, no additional
// rendering is needed.
func (r *run) ahead(ctx context.Context, present string, steps []upgradecheck.Step) ([]upgradecheck.Ahead, error) {
	if !r.IsAhead || r.Kept != "" {
		return nil, nil
	}
	var all []upgradecheck.Ahead
	before := step{exact: r.present.KubeVersion}
	for i, one := range r.steps {
		var err error
		if before.minor, err = apilifecycle.ParseVersion(before.exact); err != nil {
			return nil, err
		}
		if steps[i].Digest != present {
			ahead := upgradecheck.Ahead{Step: upgradecheck.Step{Version: before.minor}, To: one.minor}
			with := r.Engine.Render
			if i > 0 {
				with = r.upgradedTo(before)
			}
			if _, err := r.renderFor(ctx, &ahead.Step, one, before.exact, with); err != nil {
				return nil, fmt.Errorf("the check for %s, before %s: %w", before.minor, one.minor, err)
			}
			ahead.NotServed = r.notServed(&ahead.Rendered, before.minor, i == 0)
			all = append(all, ahead)
		}
		before, present = one, steps[i].Digest
	}
	return all, nil
}

// notServed returns the rendered objects whose API belongs to Kubernetes, but is not served by this version of
// Kubernetes. isRunning is true if the cluster runs this version now. Tests count only if HelmOp runs them.
func (r *run) notServed(rendered *upgradecheck.Objects, version apilifecycle.Version,
	isRunning bool,
) []inventory.Ref {
	refs := slices.Concat(rendered.Objects, rendered.Hooks)
	if r.runsTests() {
		refs = rendered.All()
	}
	var found []inventory.Ref
	for _, ref := range refs {
		kind := ref.GroupVersionKind()
		if !apilifecycle.IsOfKubernetes(kind.Group) {
			continue
		}
		isServed := r.present.Serves(kind)
		if !isRunning {
			known, _ := apilifecycle.OfKubernetes(kind)
			isIntroduced := !known.Introduced.IsZero() && version.Compare(known.Introduced) >= 0
			isRemoved := !known.Removed.IsZero() && version.Compare(known.Removed) >= 0
			isServed = (isServed || isIntroduced) && !isRemoved
		}
		if !isServed {
			found = append(found, ref)
		}
	}
	return found
}

// render sets the chart and the objects of a step, and the definitions in its templates. It returns the definitions in
// the folders crds that would be applied.
func (r *run) render(ctx context.Context, into *upgradecheck.Step, of step) (apilifecycle.Definitions, error) {
	return r.renderFor(ctx, into, of, of.exact, r.upgradedTo(of))
}

// upgradedTo returns the function that renders a chart for the cluster after a step.
func (r *run) upgradedTo(to step) renderWith {
	upgraded := dryrun.Upgraded{KubeVersion: to.exact, Serves: func(kind schema.GroupVersionKind) bool {
		stage, _ := apilifecycle.Definitions{}.At(kind, to.minor)
		return stage != apilifecycle.Removed
	}}
	return func(ctx context.Context, target model.Target, desired model.Desired, options model.Options,
		chart *bundle.Chart, values map[string]any,
	) (dryrun.Result, error) {
		return r.Engine.RenderUpgraded(ctx, target, desired, options, chart, values, upgraded)
	}
}

// renderWith renders a chart for a cluster.
type renderWith func(context.Context, model.Target, model.Desired, model.Options, *bundle.Chart, map[string]any) (
	dryrun.Result, error)

// versionFor returns the version of Kubernetes whose artifact the release has in a step.
func (r *run) versionFor(of step) string {
	if r.Initial == "" {
		return of.exact
	}
	if initial, err := apilifecycle.ParseVersion(r.Initial); err == nil && of.minor.Compare(initial) <= 0 {
		return r.Initial
	}
	return r.steps[len(r.steps)-1].exact
}

// renderFor does the same as render for an exact version of Kubernetes.
func (r *run) renderFor(ctx context.Context, into *upgradecheck.Step, of step, version string, with renderWith) (
	apilifecycle.Definitions, error,
) {
	artifact, err := r.Artifact(ctx, r.versionFor(of))
	if err != nil {
		return nil, err
	}
	into.Chart, into.Digest = versionOf(artifact), apiutil.ArtifactIdentity(artifact)
	chart, err := r.Chart(ctx, artifact)
	if err != nil {
		return nil, err
	}
	if into.Constraint = dryrun.ExcludingConstraint(chart, version); into.Constraint != "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	release := r.Release.DeepCopy()
	release.Spec.Artifact = *artifact
	desired, options := r.Desired(release)
	rendered, err := with(ctx, r.Target, desired, options, chart, r.Values)
	if failures.IsOfChart(err) {
		into.Failure = err.Error()
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files apilifecycle.Definitions
	var inTemplates, inFiles error
	err = rendered.Parts(func(objects, hooks, definitions []*unstructured.Unstructured) {
		into.Rendered = upgradecheck.ObjectsOf(objects, hooks)
		into.Rendered.Definitions, inTemplates = definitionsIn(objects)
		files, inFiles = definitionsIn(definitions)
	})
	return files, errors.Join(err, inTemplates, inFiles)
}

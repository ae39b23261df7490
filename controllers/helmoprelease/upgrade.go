// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/queue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradecheck"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgraderun"
)

const (
	// upgradeCheckTimeout is how long a check for an upgrade of Kubernetes may take. It holds a slot.
	upgradeCheckTimeout = 2 * time.Minute

	// firstUpgradeRetry and longestUpgradeRetry are the shortest and the longest wait before a failed check is repeated.
	firstUpgradeRetry   = 2 * time.Minute
	longestUpgradeRetry = time.Hour
)

// upgradeRetry is the retry of a check that failed. It is only in memory: a manager that starts tries at once, unless
// the former manager stopped during the check.
type upgradeRetry struct {
	inputs   string
	at       time.Time
	failures int
}

// upgradeCheck is a check of a release for an upgrade of Kubernetes.
type upgradeCheck struct {
	clusterlife.UpgradeToCheck

	// initial is the version whose artifact the release gets first if HelmOp upgrades it before Kubernetes and Cluster API
	// does not publish the steps; empty otherwise.
	initial string

	// inputs is the digest of what the result depends on; empty if it is not known.
	inputs string

	// isMarked is true if the status says that the check has begun. artifacts are the digests of the charts that it reads.
	isMarked  bool
	artifacts []string
}

// checkUpgrade checks the release for an upgrade of Kubernetes, if that is requested and nothing is known about it. It
// never ends the pass, and does not change what Ready depends on.
func (r *Reconciler) checkUpgrade(ctx context.Context, p *releasePass) (*ctrl.Result, error) {
	c, err := r.dueUpgradeCheck(ctx, p)
	if c == nil || err != nil {
		return nil, err
	}
	return nil, r.runUpgradeCheck(ctx, p, c)
}

// dueUpgradeCheck returns the check that must be made now; nil if there is none. It does not connect to the Cluster.
func (r *Reconciler) dueUpgradeCheck(ctx context.Context, p *releasePass) (*upgradeCheck, error) {
	upgrade, ok := clusterlife.UpgradeToCheckOf(p.cluster, p.release)
	if !ok || apiutil.IsManagement(p.object) {
		return nil, nil
	}
	c := &upgradeCheck{UpgradeToCheck: upgrade}
	if _, err := apilifecycle.ParseVersion(upgrade.Version); err != nil {
		return nil, r.reportUnchecked(ctx, p, c, err)
	}
	controlPlane, err := r.renderer.Objects.ReadRef(ctx, &clusterview.Objects{}, "control-plane", p.cluster.Namespace,
		p.cluster.Spec.ControlPlaneRef)
	if err != nil {
		return nil, r.reportUnchecked(ctx, p, c, err)
	}
	running := render.RunningVersion(controlPlane)
	isRequested := upgrade.IsPending || render.IsSameVersion(upgrade.Version, p.cluster.Spec.Topology.Version)
	switch {
	case upgrade.IsPending && !clusterlife.IsNewMinor(running, upgrade.Version):
		reportNoNewMinor(p.release, c)
		return nil, nil
	case isRequested && render.IsPlanPending(p.cluster, running):
		reportCheckPending(p.release, c, "Cluster API has not planned the steps of the upgrade yet")
		return nil, nil
	case isRequested:
		c.Plan = render.UpgradeSteps(p.cluster, render.SpecifiedVersion(controlPlane), running)
		c.initial = render.VersionWithoutPlan(p.cluster, running, p.release.Spec.KubernetesVersion)
	}
	// The labels choose overrides, and so the artifacts of the steps.
	c.inputs, err = apiutil.DigestOf(c.UpgradeToCheck, c.initial, running, p.release.Generation, helmRevisionOf(p),
		attempts.RetryRequest(p.release, p.helmOp), p.release.Annotations[addonsv1.PinnedRevisionAnnotation],
		p.cluster.Labels)
	if err != nil {
		return nil, err
	}
	r.recallAttempt(p, c)
	known, retry := p.release.Status.UpgradeCheck, &r.memoryOf(p.release).upgrade
	switch wait := retry.at.Sub(r.now()); {
	case known != nil && known.Inputs == c.inputs:
		return nil, nil
	case p.hasActed:
		reportCheckPending(p.release, c, "The release was changed just now")
		p.due(requeueAtOnce) // The next pass observes the new Helm revision.
		return nil, nil
	case retry.inputs == c.inputs && wait > 0:
		p.due(wait)
		return nil, nil
	}
	return c, nil
}

// runUpgradeCheck makes a check and reports its result. The pass has a connection to the Cluster.
func (r *Reconciler) runUpgradeCheck(ctx context.Context, p *releasePass, c *upgradeCheck) error {
	done, ok := r.slot(p)
	if !ok {
		reportCheckPending(p.release, c, "The check waits for a slot: the concurrency limit of the manager is reached")
		return nil
	}
	defer done()
	check, err := r.upgradeCheckOf(ctx, p, c)
	if err != nil {
		return r.reportUnchecked(ctx, p, c, err)
	}
	bounded, cancel := context.WithTimeout(ctx, upgradeCheckTimeout)
	defer cancel()
	result, err := check.Run(bounded)
	if err != nil {
		return r.reportUnchecked(ctx, p, c, err)
	}
	if !slices.ContainsFunc(result.Findings, isRenderingFailure) {
		for _, digest := range c.artifacts {
			r.rendered.Add(digest)
		}
	}
	r.memoryOf(p.release).upgrade = upgradeRetry{}
	r.reportUpgradeCheck(p, c, &result)
	return nil
}

// isRenderingFailure reports whether a finding is a chart that could not be rendered, maybe because it exceeds a limit.
func isRenderingFailure(finding upgradecheck.Finding) bool {
	return finding.Reason == upgradecheck.RenderingFails
}

// markUpgradeCheck writes that a check has begun, before it reads an artifact that this process has not rendered
// before. If the artifact then crashes the manager, for example because the node has no memory left, the next manager
// waits. The write takes place at most once for each check. The result of the check replaces it.
func (r *Reconciler) markUpgradeCheck(ctx context.Context, p *releasePass, c *upgradeCheck, digest string) error {
	c.artifacts = append(c.artifacts, digest)
	if c.isMarked || !r.rendered.IsNew(digest, &p.before.Status) {
		return nil
	}
	count := int64(1)
	if retry := r.memoryOf(p.release).upgrade; retry.inputs == c.inputs {
		count += int64(retry.failures)
	}
	marked := p.before.DeepCopy()
	if marked.Status.UpgradeCheck == nil {
		marked.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: c.Version}
	}
	marked.Status.UpgradeCheck.Attempt = &addonsv1.UpgradeCheckAttempt{Inputs: c.inputs, Count: count,
		StartedAt: metav1.NewTime(r.now())}
	if err := r.patchBefore(ctx, p, marked); err != nil {
		return fmt.Errorf("recording that the check begins: %w", err)
	}
	c.isMarked = true
	return nil
}

// recallAttempt reports a check without a result that a former manager began. This manager repeats it after a wait.
func (r *Reconciler) recallAttempt(p *releasePass, c *upgradeCheck) {
	known, retry := p.release.Status.UpgradeCheck, &r.memoryOf(p.release).upgrade
	if known == nil || known.Attempt == nil || known.Attempt.Inputs != c.inputs || retry.inputs == c.inputs {
		return
	}
	retry.inputs, retry.failures = c.inputs, int(known.Attempt.Count)
	retry.at = known.Attempt.StartedAt.Add(retry.wait(p.release))
	report.SetCondition(p.release, addonsv1.KubernetesUpgradeReadyCondition, metav1Unknown,
		addonsv1.UpgradeCheckFailedReason, "The manager stopped during the check, because a chart may need more memory than "+
			"the manager has: HelmOp tries again")
}

// wait returns the wait after the last failure.
func (u *upgradeRetry) wait(release *addonsv1.HelmOpRelease) time.Duration {
	return queue.Spread(backoff.Exponential(firstUpgradeRetry, longestUpgradeRetry, u.failures-1), release)
}

// helmRevisionOf returns the newest known Helm revision of a release; 0 if there is none.
func helmRevisionOf(p *releasePass) int64 {
	if newest, ok := p.observation.Newest(); ok {
		return int64(newest.Revision)
	}
	if known := p.release.Status.Release; known != nil {
		return known.Revision
	}
	return 0
}

// upgradeCheckOf returns the check of a release, with the artifacts of its HelmOp revision. A pinned release, and one
// that was installed once, need neither values nor charts.
func (r *Reconciler) upgradeCheckOf(ctx context.Context, p *releasePass, c *upgradeCheck) (*upgraderun.Check, error) {
	check := &upgraderun.Check{Engine: r.engine, Target: p.target, Release: p.release, Version: c.Version,
		Plan: c.Plan, Kept: upgraderun.Kept(p.release, &p.release.Spec)}
	if check.Kept != "" {
		check.Unnamed = true // The values from Secrets are not read, so they could not be hidden.
		return check, nil
	}
	if p.helmOp == nil {
		return nil, errors.New("the HelmOp of this release does not exist: the chart cannot be rendered without it")
	}
	revision, err := r.assigned.Revision(ctx, p.release, p.helmOp)
	if err != nil {
		return nil, err
	}
	variants, err := render.NewVariants(&revisionstore.WithRevision(p.helmOp, revision).Spec)
	if err != nil {
		return nil, err
	}
	if check.Values, err = r.renderInto(ctx, p); err != nil {
		return nil, err
	}
	check.IsAhead = p.release.Spec.BeforeClusterUpgrade != nil && p.cluster.Namespace == p.release.Namespace &&
		p.cluster.Spec.Topology.IsDefined()
	if check.IsAhead {
		check.Initial = c.initial
	}
	check.Desired = func(changed *addonsv1.HelmOpRelease) (model.Desired, model.Options) {
		desired, options := releasespec.DesiredOf(changed)
		desired.ManagementCluster = p.desired.ManagementCluster
		options.PostRender, options.SecretValues = p.options.PostRender, p.options.SecretValues
		return desired, options
	}
	artifactOf := revisionstore.ArtifactsOf(revision)
	check.Artifact = func(_ context.Context, version string) (*addonsv1.ResolvedArtifact, error) {
		chosen, err := variants.Of(p.cluster.Labels, version)
		if err != nil {
			return nil, err
		}
		artifact, err := artifactOf(chosen.Ref)
		if err != nil {
			return nil, fmt.Errorf("the artifact with %s, which %s would use, is not known: %w",
				apiutil.ReferenceText(&chosen.Ref), version, err)
		}
		return artifact, nil
	}
	check.Chart = func(ctx context.Context, artifact *addonsv1.ResolvedArtifact) (*bundle.Chart, error) {
		if err := r.markUpgradeCheck(ctx, p, c, artifact.Digest); err != nil {
			return nil, err
		}
		changed := p.release.DeepCopy()
		changed.Spec.Artifact = *artifact
		return r.charts.Get(ctx, changed, p.helmOp)
	}
	return check, nil
}

// checkUpgradeOfDone checks a release that was installed once and is left alone. It connects to the cluster only for a
// check, so a cluster that cannot be reached changes only the result of the check.
func (r *Reconciler) checkUpgradeOfDone(ctx context.Context, p *releasePass) error {
	if !apiutil.IsInitialized(p.cluster) {
		return nil
	}
	c, err := r.dueUpgradeCheck(ctx, p)
	if c == nil || err != nil {
		return err
	}
	denied, err := r.denied(ctx, p.releaseScope)
	if err != nil {
		return err
	}
	if denied != "" {
		reportCheckPending(p.release, c, denied)
		p.due(selection.DeniedTTL)
		return nil
	}
	// The conditions of the release do not change: they are about its installation.
	unreported := p.release.DeepCopy()
	conditions.Delete(unreported, addonsv1.ReadyCondition)
	var ok bool
	if p.target, ok = r.connect(ctx, unreported); !ok {
		reportCheckPending(p.release, c, cmp.Or(conditions.GetMessage(unreported, addonsv1.ReadyCondition),
			"HelmOp is connecting to the Cluster"))
		p.due(reconnectRetry(p.release, r.clusters.State(apiutil.ClusterKey(p.release))))
		return nil
	}
	p.target.Storage = r.records.Of(p.release, p.helmOp, r.references)
	p.desired, p.options = releasespec.DesiredOf(p.release)
	return r.runUpgradeCheck(ctx, p, c)
}

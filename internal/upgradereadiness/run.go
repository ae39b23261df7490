// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgradereadiness

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradecheck"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgraderun"
)

// runOf returns the check of a release, with the artifacts of its HelmOp revision. A pinned release and a release that
// is installed only once need neither values nor charts.
func (c *Checker) runOf(ctx context.Context, s *Subject, check *Check) (*upgraderun.Check, error) {
	run := &upgraderun.Check{Engine: c.Engine, Target: s.Target, Release: s.Release, Version: check.Version,
		Plan: check.Plan, Kept: upgraderun.Kept(s.Release, &s.Release.Spec)}
	if run.Kept != "" {
		run.Unnamed = true // The values from Secrets are not read, so the message could not hide them.
		return run, nil
	}
	if s.HelmOp == nil {
		return nil, errors.New("the HelmOp of this release does not exist: the chart cannot be rendered without it")
	}
	revision, err := c.Assigned.Revision(ctx, s.Release, s.HelmOp)
	if err != nil {
		return nil, err
	}
	variants, err := render.NewVariants(&revisionstore.WithRevision(s.HelmOp, revision).Spec)
	if err != nil {
		return nil, err
	}
	if run.Values, err = s.Values(ctx); err != nil {
		return nil, err
	}
	run.IsAhead = s.Release.Spec.BeforeClusterUpgrade != nil && s.Cluster.Namespace == s.Release.Namespace &&
		s.Cluster.Spec.Topology.IsDefined()
	if run.IsAhead {
		run.Initial = check.initial
	}
	run.Desired = func(changed *addonsv1.HelmOpRelease) (model.Desired, model.Options) {
		desired, options := releasespec.DesiredOf(changed)
		desired.ManagementCluster = s.Desired.ManagementCluster
		options.PostRender, options.SecretValues = s.Options.PostRender, s.Options.SecretValues
		return desired, options
	}
	artifactOf := revisionstore.ArtifactsOf(revision)
	run.Artifact = func(_ context.Context, version string) (*addonsv1.ResolvedArtifact, error) {
		chosen, err := variants.Of(s.Cluster.Labels, version)
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
	run.Chart = func(ctx context.Context, artifact *addonsv1.ResolvedArtifact) (*bundle.Chart, error) {
		changed := s.Release.DeepCopy()
		changed.Spec.Artifact = *artifact
		return c.chart(ctx, s, check, run, changed)
	}
	return run, nil
}

// chart writes the start of a check if needed, and returns the chart of a changed release.
func (c *Checker) chart(ctx context.Context, s *Subject, check *Check, run *upgraderun.Check,
	changed *addonsv1.HelmOpRelease,
) (*bundle.Chart, error) {
	desired, _ := run.Desired(changed)
	if err := c.mark(ctx, s, check, &desired); err != nil {
		return nil, err
	}
	return c.Charts.Get(ctx, changed, s.HelmOp)
}

// isRenderingFailure reports whether a finding is a chart that could not be rendered, for example because of a limit.
func isRenderingFailure(finding upgradecheck.Finding) bool {
	return finding.Reason == upgradecheck.RenderingFails
}

// mark writes the start of a check, if this process has not rendered a desired state for the same upgrade before. The
// artifact or the rendering may crash the manager, for example because the node has no memory left. The next manager
// then waits before a retry. There is at most one write for each check. The result of the check replaces it.
func (c *Checker) mark(ctx context.Context, s *Subject, check *Check, desired *model.Desired) error {
	// With another version of Kubernetes, a chart may render more.
	rendering, err := apiutil.DigestOf(attempts.RenderingOf(desired), check.UpgradeToCheck, check.initial)
	if err != nil {
		return err
	}
	check.renderings = append(check.renderings, rendering)
	if check.isMarked || !c.Rendered.IsNew(rendering) {
		return nil
	}
	count := int64(1)
	if retry := s.Retry; retry.Inputs == check.inputs {
		count += int64(retry.Failures)
	}
	marked := s.Before.DeepCopy()
	if marked.Status.UpgradeCheck == nil {
		marked.Status.UpgradeCheck = &addonsv1.UpgradeCheck{Version: check.Version}
	}
	marked.Status.UpgradeCheck.Attempt = &addonsv1.UpgradeCheckAttempt{Inputs: check.inputs, Count: count,
		StartedAt: metav1.NewTime(c.Now())}
	if err := s.Mark(ctx, marked); err != nil {
		return fmt.Errorf("recording that the check begins: %w", err)
	}
	check.isMarked = true
	return nil
}

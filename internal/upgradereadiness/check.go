// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgradereadiness

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/assignedvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgraderun"
)

const (
	// checkTimeout is the timeout of a check for an upgrade of Kubernetes. A check holds a slot.
	checkTimeout = 2 * time.Minute

	// firstRetry and longestRetry are the shortest and the longest delay before a failed check is repeated.
	firstRetry   = 2 * time.Minute
	longestRetry = time.Hour
)

// Retry is the state of a failed check. It exists only in memory, so a new manager retries at once, unless the former
// manager stopped during the check. The zero value has no failure.
type Retry struct {
	// Inputs identify the failed check. At is the time of the next try, and Failures is the number of failed tries.
	Inputs   string
	At       time.Time
	Failures int
}

// Checker makes the checks of releases.
type Checker struct {
	Engine   upgraderun.Engine
	Objects  *clusterview.Reader
	Charts   *artifacts.Charts
	Assigned *assignedvalues.Renderer
	Rendered *attempts.Rendered
	Now      func() time.Time
}

// Subject is a release in a pass, with the inputs and the results of its check. All inputs are required unless their
// comment says otherwise.
type Subject struct {
	Release *addonsv1.HelmOpRelease
	Cluster *clusterv1.Cluster
	Object  *unstructured.Unstructured

	// HelmOp is the HelmOp of the release; nil if it does not exist.
	HelmOp *addonsv1.HelmOp

	// Before is the release in the state of the API server.
	Before *addonsv1.HelmOpRelease

	// Retry is the state of failed checks.
	Retry *Retry

	// HelmRevision is the newest known Helm revision; 0 if there is none. HasActed is true if the pass has changed the
	// release.
	HelmRevision int64
	HasActed     bool

	// Target, Desired and Options have the values of the pass. Only Run needs these three fields and the functions
	// below.
	Target  model.Target
	Desired *model.Desired
	Options *model.Options

	// Values renders the values. It sets the secret values and the post-rendering in Options.
	Values func(context.Context) (map[string]any, error)

	// Mark writes the status of a changed copy of Before.
	Mark func(ctx context.Context, changed *addonsv1.HelmOpRelease) error

	// Acquire acquires a slot. If ok is false, the release is enqueued when it gets a slot.
	Acquire func() (done func(), ok bool)

	// RequeueAfter is the delay until the next pass; 0 if the check needs no pass. Set by Due and Run.
	RequeueAfter time.Duration

	// Blocked is the message for an Event about something to do before the upgrade. It is empty if the finding is not
	// new. Set by Run.
	Blocked string
}

// due schedules the next pass no later than after a delay. A delay of 0 or less has no effect.
func (s *Subject) due(delay time.Duration) { s.RequeueAfter = requeue.Sooner(s.RequeueAfter, delay) }

// Check is a check of a release for an upgrade of Kubernetes.
type Check struct {
	clusterlife.UpgradeToCheck

	// initial is the Kubernetes version whose artifact the release gets first. It is set if HelmOp upgrades the release
	// before Kubernetes and Cluster API does not publish the steps. Otherwise, it is empty.
	initial string

	// inputs is the digest of all inputs of the result; empty if it is not known.
	inputs string

	// isMarked is true if the status reports the start of the check. renderings are the digests of what the check renders.
	isMarked   bool
	renderings []string
}

// Due returns the check that must be made now; nil if there is none. It does not connect to the Cluster.
func (c *Checker) Due(ctx context.Context, s *Subject) (*Check, error) {
	upgrade, ok := clusterlife.UpgradeToCheckOf(s.Cluster, s.Release)
	if !ok || apiutil.IsManagement(s.Object) {
		return nil, nil
	}
	check := &Check{UpgradeToCheck: upgrade}
	if _, err := apilifecycle.ParseVersion(upgrade.Version); err != nil {
		return nil, c.unchecked(ctx, s, check, &reasons.InvalidVersionError{Err: err})
	}
	controlPlane, err := c.Objects.ReadRef(ctx, &clusterview.Objects{}, "control-plane", s.Cluster.Namespace,
		s.Cluster.Spec.ControlPlaneRef)
	if err != nil {
		return nil, c.unchecked(ctx, s, check, err)
	}
	publishesPlans, err := render.PublishesPlans(ctx, c.Objects, s.Cluster, controlPlane)
	if err != nil {
		return nil, c.unchecked(ctx, s, check, err)
	}
	running, specified := render.RunningVersion(controlPlane), render.SpecifiedVersion(controlPlane)
	isRequested := upgrade.IsPending || render.IsSameVersion(upgrade.Version, s.Cluster.Spec.Topology.Version)
	switch {
	case upgrade.IsPending && !clusterlife.IsNewMinor(running, upgrade.Version):
		reportNoNewMinor(s.Release, check)
		return nil, nil
	case isRequested && render.IsPlanPending(s.Cluster, specified, running, publishesPlans):
		Pending(s.Release, check, clusterlife.PlanPending)
		return nil, nil
	case isRequested:
		check.Plan = render.UpgradeSteps(s.Cluster, specified, running)
		check.initial = render.VersionWithoutPlan(s.Cluster, running, s.Release.Spec.KubernetesVersion, publishesPlans)
	}
	// The labels select overrides, which determine the artifacts of the steps.
	check.inputs, err = apiutil.DigestOf(check.UpgradeToCheck, check.initial, running, s.Release.Generation,
		s.HelmRevision, attempts.RetryRequest(s.Release, s.HelmOp),
		s.Release.Annotations[addonsv1.PinnedRevisionAnnotation], s.Cluster.Labels)
	if err != nil {
		return nil, err
	}
	c.recall(s, check)
	known, retry := s.Release.Status.UpgradeCheck, s.Retry
	switch wait := retry.At.Sub(c.Now()); {
	case known != nil && known.Inputs == check.inputs:
		return nil, nil
	case s.HasActed:
		Pending(s.Release, check, "The release was changed just now")
		s.due(time.Millisecond) // The next pass observes the new Helm revision.
		return nil, nil
	case retry.Inputs == check.inputs && wait > 0:
		s.due(wait)
		return nil, nil
	}
	return check, nil
}

// Run makes a check and reports its result. The pass must have a connection to the Cluster.
func (c *Checker) Run(ctx context.Context, s *Subject, check *Check) error {
	done, ok := s.Acquire()
	if !ok {
		Pending(s.Release, check, "The check waits for a slot: the concurrency limit of the manager is reached")
		return nil
	}
	defer done()
	run, err := c.runOf(ctx, s, check)
	if err != nil {
		return c.unchecked(ctx, s, check, err)
	}
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	result, err := run.Run(bounded)
	if err != nil {
		return c.unchecked(ctx, s, check, err)
	}
	if !slices.ContainsFunc(result.Findings, isRenderingFailure) {
		for _, rendering := range check.renderings {
			c.Rendered.Add(rendering)
		}
	}
	*s.Retry = Retry{}
	c.report(s, check, &result)
	return nil
}

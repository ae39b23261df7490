// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

func newRetry(o kube.Options) *cobra.Command {
	s := newSteer(o)
	var cluster string
	cmd := s.command("retry HELMOP...", "Retry failed and stalled releases now",
		`Retry failed and stalled releases now, with a fresh budget of retries. The command sets the annotation
addons.cluster.x-k8s.io/retry-requested-at on the HelmOp or, with --cluster, on one HelmOpRelease.

With spec.install.takeOwnership, a retry takes a release back that another HelmOp has taken over. So without --cluster,
the command then fails if there is such a release.

With --wait, the command waits for the releases that are Failed or Stalled when it starts, and fails if one of them
fails again. A release that is being deleted is done when it is uninstalled. If a release fails before Helm acts, for
example because the chart cannot be pulled, the command waits until --timeout, because the status does not show that
HelmOp tried again.`,
		`  # All failed releases of a HelmOp
  kubectl helmop retry calico

  # The release in one Cluster, and wait for the result
  kubectl helmop retry calico --cluster prod-1 --wait`, -1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			if cluster != "" {
				return s.retryRelease(ctx, c, name, cluster)
			}
			return s.retryHelmOp(ctx, c, name)
		})
	s.AddClusterFlag(cmd, &cluster, "Retry the release in this Cluster only.")
	return cmd
}

func (s *steer) retryHelmOp(ctx context.Context, c *kube.Client, name string) (waiter, error) {
	helmOp, err := c.HelmOp(ctx, name)
	if err != nil {
		return nil, err
	}
	releases, err := c.Releases(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	if lost := lostTitles(releases); len(lost) > 0 {
		return nil, refuse(helmOp, "another owner has taken over the release in %s. A retry of all releases would take it "+
			"back; to retry a single release, use %q", ofClusters(lost),
			s.Invocation().Command(helmOp, "retry", "--cluster", "CLUSTER"))
	}
	targets, others := retryTargets(helmOp, releases)
	changed, err := s.change(ctx, c, name, retryAll(s.requestTime()))
	if err != nil {
		return nil, err
	}
	switch {
	case !s.waits():
	case len(targets) == 0:
		s.Note("%s: no release is Failed or Stalled, so there is nothing to wait for", name)
	case len(others) > 0:
		s.Note("%s: not waiting for %s: %s", name, plural.Count(len(others), "Cluster", "Clusters"),
			plural.Few(others, fleetview.MaxNamedClusters))
	}
	return s.retryWaiter(c, changed, targets, releases, client.InNamespace(c.Namespace),
		client.MatchingLabels(apiutil.ChildSelector(changed))), nil
}

func (s *steer) retryRelease(ctx context.Context, c *kube.Client, name, cluster string) (waiter, error) {
	helmOp, err := c.HelmOp(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := refusePaused(helmOp); err != nil {
		return nil, err
	}
	release, err := c.Release(ctx, helmOp, cluster)
	if err != nil {
		return nil, err
	}
	before := release.DeepCopy()
	annotate(release, addonsv1.RetryRequestedAtAnnotation, s.requestTime())
	if err := c.Patch(ctx, release, client.MergeFrom(before), s.patchOptions()...); err != nil {
		return nil, kube.Explain(err)
	}
	s.done(release, "helmoprelease", "retry requested")
	return s.retryWaiter(c, helmOp, []string{apiutil.ClusterTitle(release)}, []*addonsv1.HelmOpRelease{before},
		kube.Named(release.Namespace, release.Name)...), nil
}

// retryWaiter waits until the releases in some Clusters were retried. targets are the titles of the Clusters. before
// are the releases before the request.
func (s *steer) retryWaiter(c *kube.Client, helmOp *addonsv1.HelmOp, targets []string,
	before []*addonsv1.HelmOpRelease, opts ...client.ListOption,
) waiter {
	attempt := newRetryAttempt(targets, before, helmOp.Annotations[addonsv1.RetryRequestedAtAnnotation])
	check := func(ctx context.Context, releases map[client.ObjectKey]*addonsv1.HelmOpRelease) (bool, string, error) {
		var all []*addonsv1.HelmOpRelease
		for _, release := range releases {
			if apiutil.HelmOpOf(release) == helmOp.Name {
				all = append(all, release)
			}
		}
		if attempt.isReplaced(all) {
			current, err := c.HelmOp(ctx, helmOp.Name)
			if err != nil {
				return false, "", err
			}
			attempt.ofHelmOp = current.Annotations[addonsv1.RetryRequestedAtAnnotation]
		}
		attempt.observe(all)
		switch {
		case len(attempt.waiting) > 0:
			return false, ofClusters(attempt.waiting), nil
		case len(attempt.failed) > 0:
			return false, "", refuse(helmOp, "the retry failed in %s; see %q", ofClusters(attempt.failed),
				s.Invocation().Command(helmOp, "describe", "--cluster", fleetview.Quoted(attempt.failed[0])))
		default:
			return true, "", nil
		}
	}
	return func(ctx context.Context) error {
		if len(targets) == 0 {
			return nil
		}
		err := waitUntil(ctx, s.observer(c, helmOp.Name), &addonsv1.HelmOpReleaseList{},
			func(releases map[client.ObjectKey]*addonsv1.HelmOpRelease) (bool, string, error) {
				return check(ctx, releases)
			}, opts...)
		if errors.Is(err, errTimedOut) && attempt.lastError != "" {
			return kube.WithText(fmt.Sprintf("%v; the last error is of Cluster %s", err, attempt.lastError), err)
		}
		return err
	}
}

// ofClusters returns the number of Clusters and the names of the first Clusters.
func ofClusters(clusters []string) string {
	return fmt.Sprintf("%s: %s", plural.Count(len(clusters), "Cluster", "Clusters"),
		plural.Few(clusters, fleetview.MaxNamedClusters))
}

// retryAll requests a retry of the failed releases of a HelmOp.
func retryAll(value string) request {
	return func(helmOp *addonsv1.HelmOp) (string, error) {
		if err := refusePaused(helmOp); err != nil {
			return "", err
		}
		annotate(helmOp, addonsv1.RetryRequestedAtAnnotation, value)
		return "retry requested", nil
	}
}

// lostTitles returns the Clusters whose releases another HelmOp, or the HelmOp in another management cluster, has taken
// over, and whose releases a retry takes back. A user must name such a Cluster.
func lostTitles(releases []*addonsv1.HelmOpRelease) []string {
	var titles []string
	for _, release := range releases {
		if release.DeletionTimestamp.IsZero() && fleetview.RetryTakesBack(release) {
			titles = append(titles, apiutil.ClusterTitle(release))
		}
	}
	slices.Sort(titles)
	return titles
}

// retryTargets returns the Clusters to retry. The release of such a Cluster is Failed or Stalled, or the HelmOp failed
// for the Cluster before it had a release. others are the Clusters that are not Ready for another reason, with their
// states.
func retryTargets(helmOp *addonsv1.HelmOp, releases []*addonsv1.HelmOpRelease) (targets, others []string) {
	known := map[string]bool{}
	for _, release := range releases {
		title := apiutil.ClusterTitle(release)
		known[title] = true
		switch state, _ := fleetview.StateOf(release, 0); state {
		case fleetview.StateFailed, fleetview.StateStalled:
			targets = append(targets, title)
		case fleetview.StateReady, fleetview.StateDrifted:
		default:
			others = append(others, fmt.Sprintf("%s (%s)", title, state))
		}
	}
	for _, failure := range fleetview.FailuresOf(helmOp) {
		if !known[failure.Cluster] {
			targets = append(targets, failure.Cluster)
		}
	}
	slices.Sort(targets)
	slices.Sort(others)
	return targets, others
}

// retryAttempt holds the observations of releases after a request to retry.
type retryAttempt struct {
	targets []string
	// ofHelmOp is the annotation of the HelmOp. before are the requests that the targets handled last before the request.
	ofHelmOp string
	before   map[string]string
	// existed are the targets that have had a release.
	existed map[string]bool

	// waiting are the Clusters that are not done yet, with their reasons. failed are the Clusters that failed again.
	waiting, failed []string
	// lastError is the first error of a waiting Cluster, after the name of the Cluster.
	lastError string
}

func newRetryAttempt(targets []string, before []*addonsv1.HelmOpRelease, ofHelmOp string) *retryAttempt {
	a := &retryAttempt{targets: targets, ofHelmOp: ofHelmOp, existed: map[string]bool{}, before: map[string]string{}}
	for _, release := range before {
		title := apiutil.ClusterTitle(release)
		a.before[title], a.existed[title] = release.Status.LastRetryRequest, true
	}
	return a
}

// isReplaced reports whether the manager has handled another request for a target since the request. Another user may
// have changed the annotation of the HelmOp, so that the manager never handles the request.
func (a *retryAttempt) isReplaced(releases []*addonsv1.HelmOpRelease) bool {
	return slices.ContainsFunc(releases, func(release *addonsv1.HelmOpRelease) bool {
		handled, title := release.Status.LastRetryRequest, apiutil.ClusterTitle(release)
		return slices.Contains(a.targets, title) && handled != a.before[title] &&
			handled != attempts.RetryRequestWith(release, a.ofHelmOp)
	})
}

// observe updates the observations.
func (a *retryAttempt) observe(releases []*addonsv1.HelmOpRelease) {
	byTitle := map[string]*addonsv1.HelmOpRelease{}
	for _, release := range releases {
		byTitle[apiutil.ClusterTitle(release)] = release
	}
	a.waiting, a.failed, a.lastError = nil, nil, ""
	for _, title := range a.targets {
		release := byTitle[title]
		if release == nil {
			// A release that was deleted is not retried any more.
			if !a.existed[title] {
				a.waiting = append(a.waiting, title+" (no release)")
			}
			continue
		}
		a.existed[title] = true
		a.add(title, release)
	}
}

// add adds the state of a release.
func (a *retryAttempt) add(title string, release *addonsv1.HelmOpRelease) {
	state, why := fleetview.StateOf(release, 0)
	switch state {
	case fleetview.StateReady, fleetview.StateDrifted:
		return
	case fleetview.StateFailed, fleetview.StateStalled:
		if release.Status.LastRetryRequest == attempts.RetryRequestWith(release, a.ofHelmOp) && hasActed(release) {
			a.failed = append(a.failed, title)
			return
		}
	}
	reason, message := string(state), release.Status.LastError
	if why != nil && why.Reason != "" {
		reason = why.Reason
	}
	if message == "" && why != nil {
		message = why.Message
	}
	a.waiting = append(a.waiting, fmt.Sprintf("%s (%s)", title, reason))
	if a.lastError == "" && message != "" {
		a.lastError = title + ": " + message
	}
}

// hasActed reports whether the last attempt of a release has a result. The manager counts some attempts before they
// begin.
func hasActed(release *addonsv1.HelmOpRelease) bool {
	attempted := release.Status.LastAttemptedAt
	return attempted.IsZero() ||
		len(release.Status.History) > 0 && !release.Status.History[0].Time.Before(&attempted)
}

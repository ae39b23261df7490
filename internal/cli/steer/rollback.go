// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

func newRollback(o kube.Options) *cobra.Command {
	s := newSteer(o)
	var cluster string
	var number int64
	cmd := s.command("rollback HELMOP --cluster CLUSTER",
		"Return one Cluster to an earlier HelmOp revision and keep it there",
		`Return one Cluster to an earlier HelmOp revision and keep it there. All other Clusters follow the rollouts as before.
The command sets the annotation addons.cluster.x-k8s.io/pinned-revision on the HelmOpRelease of the Cluster. The
manager returns the Cluster at once, without waves and limits, even if the rollout is paused. To remove the annotation,
use "unpin".

The HelmOp revision must still exist, and must have the same release name and namespace in the Cluster. To return all
Clusters, use "rollout abort" while a rollout is in progress, and "rollout undo" later.`,
		`  kubectl helmop history calico
  kubectl helmop rollback calico --cluster prod-7 --to 6 --wait`, 1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			return s.pin(ctx, c, name, cluster, number)
		})
	s.AddClusterFlag(cmd, &cluster, "The Cluster to return.")
	cmd.Flags().Int64Var(&number, "to", 0,
		"The HelmOp revision to return to (default: the newest good one before the one that the release has).")
	_ = cmd.MarkFlagRequired("cluster")
	return cmd
}

func newUnpin(o kube.Options) *cobra.Command {
	s := newSteer(o)
	var cluster string
	cmd := s.command("unpin HELMOP --cluster CLUSTER", "Let one Cluster follow the rollouts again, after a rollback",
		`Let one Cluster follow the rollouts of a HelmOp again, after "rollback". The command removes the annotation
addons.cluster.x-k8s.io/pinned-revision of the HelmOpRelease. The Cluster is then updated to the current HelmOp revision
within the limits of spec.rollout.`,
		`  kubectl helmop unpin calico --cluster prod-7 --wait`, 1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			return s.unpin(ctx, c, name, cluster)
		})
	s.AddClusterFlag(cmd, &cluster, "The Cluster that is pinned.")
	_ = cmd.MarkFlagRequired("cluster")
	return cmd
}

func (s *steer) pin(ctx context.Context, c *kube.Client, name, cluster string, number int64) (waiter, error) {
	helmOp, release, err := s.releaseToSteer(ctx, c, name, cluster)
	if err != nil {
		return nil, err
	}
	all, err := c.Revisions(ctx, helmOp)
	if err != nil {
		return nil, kube.Explain(err)
	}
	if number, err = rollbackTo(helmOp, release, all, number); err != nil {
		return nil, err
	}
	value := strconv.FormatInt(number, 10)
	refused := pinRefusal(helmOp, release)
	if refused != "" && release.Annotations[addonsv1.PinnedRevisionAnnotation] == value {
		return nil, refuse(helmOp, "%s", refused)
	}
	before := release.DeepCopy()
	annotate(release, addonsv1.PinnedRevisionAnnotation, value)
	if err := c.Patch(ctx, release, client.MergeFrom(before), s.patchOptions()...); err != nil {
		return nil, kube.Explain(err)
	}
	s.done(release, "helmoprelease", fmt.Sprintf("pinned to HelmOp revision %d", number))
	return s.pinWaiter(c, release, name, number, refused), nil
}

func (s *steer) unpin(ctx context.Context, c *kube.Client, name, cluster string) (waiter, error) {
	helmOp, release, err := s.releaseToSteer(ctx, c, name, cluster)
	if err != nil {
		return nil, err
	}
	r, err := currentRollout(helmOp)
	if err != nil {
		return nil, err
	}
	if _, pinned := apiutil.PinOf(release); !pinned {
		s.done(release, "helmoprelease", "is not pinned")
		return func(context.Context) error { return nil }, nil
	}
	before := release.DeepCopy()
	delete(release.Annotations, addonsv1.PinnedRevisionAnnotation)
	if err := c.Patch(ctx, release, client.MergeFrom(before), s.patchOptions()...); err != nil {
		return nil, kube.Explain(err)
	}
	s.done(release, "helmoprelease", "follows the rollouts of the HelmOp again")
	goal := r.Revision
	if r.Phase == addonsv1.RolloutPhaseRolledBack || r.Phase == addonsv1.RolloutPhaseAborted {
		goal = r.LastGoodRevision
	}
	return s.pinWaiter(c, release, name, goal, pinRefusal(helmOp, release)), nil
}

// releaseToSteer reads a HelmOp that is neither paused nor being deleted, and its release in a Cluster.
func (s *steer) releaseToSteer(ctx context.Context, c *kube.Client, name, cluster string) (*addonsv1.HelmOp,
	*addonsv1.HelmOpRelease, error,
) {
	helmOp, err := c.HelmOp(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(refuseDeleting(helmOp), refusePaused(helmOp)); err != nil {
		return nil, nil, err
	}
	release, err := c.Release(ctx, helmOp, cluster)
	return helmOp, release, err
}

// rollbackTo returns the number of the HelmOp revision to which a release returns: the requested one. If wanted is 0,
// it is the newest good revision before the revision of the release. revisions has the newest last.
func rollbackTo(helmOp *addonsv1.HelmOp, release *addonsv1.HelmOpRelease, revisions []*addonsv1.HelmOpRevision,
	wanted int64,
) (int64, error) {
	var have []string
	found, own := int64(0), apiutil.RevisionOf(release)
	for _, revision := range revisions {
		number := revision.Spec.Number
		have = append(have, strconv.FormatInt(number, 10))
		if number == wanted || wanted == 0 && number < own && revision.Status.Good {
			found = number
		}
	}
	switch {
	case found > 0:
		return found, nil
	case len(have) == 0:
		return 0, refuse(helmOp, "there are no HelmOp revisions yet")
	case wanted == 0:
		return 0, refuse(helmOp, "there is no good HelmOp revision before HelmOp revision %d of the release; choose "+
			"one of %s with --to", own, strings.Join(have, ", "))
	default:
		return 0, refuse(helmOp, "there is no HelmOp revision %d; the existing ones are %s", wanted,
			strings.Join(have, ", "))
	}
}

// pinRefusal returns why the manager does not follow the pin of a release; empty if it follows the pin, or has not
// observed the pin yet.
func pinRefusal(helmOp *addonsv1.HelmOp, release *addonsv1.HelmOpRelease) string {
	for _, failure := range helmOp.Status.Failures {
		if failure.Reason == addonsv1.PinRefusedReason && failure.Cluster == apiutil.ClusterTitle(release) {
			return failure.Message
		}
	}
	return ""
}

// errReached ends the second wait of a pinWaiter.
var errReached = errors.New("reached")

// pinWaiter waits until a release is Ready with a HelmOp revision. It ends with an error if the release fails with this
// revision, or if the manager refuses the pin for a new reason.
func (s *steer) pinWaiter(c *kube.Client, release *addonsv1.HelmOpRelease, helmOp string, number int64,
	before string,
) waiter {
	key := client.ObjectKeyFromObject(release)
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error {
			check := func(releases map[client.ObjectKey]*addonsv1.HelmOpRelease) (bool, string, error) {
				return hasRevision(releases[key], number)
			}
			err := waitUntil(ctx, s.observer(c, helmOp), &addonsv1.HelmOpReleaseList{}, check,
				kube.Named(key.Namespace, key.Name)...)
			if err == nil {
				err = errReached
			}
			return err
		})
		group.Go(func() error {
			err := s.observer(c, helmOp).waiter(func(helmOp *addonsv1.HelmOp) (bool, string, error) {
				if why := pinRefusal(helmOp, release); why != "" && why != before {
					return false, "", refuse(helmOp, "%s", why)
				}
				return false, "", nil
			})(ctx)
			if errors.Is(err, errTimedOut) {
				return nil // The other wait says what it waited for.
			}
			return err
		})
		if err := group.Wait(); !errors.Is(err, errReached) {
			return err
		}
		return nil
	}
}

// hasRevision reports whether a release is Ready with a HelmOp revision. If not, waitsFor says what is missing. The
// release is nil if it was deleted.
func hasRevision(release *addonsv1.HelmOpRelease, number int64) (reached bool, waitsFor string, err error) {
	if release == nil {
		return false, "", errors.New("the release was deleted")
	}
	title, own := apiutil.ClusterTitle(release), apiutil.RevisionOf(release)
	if own != number {
		return false, fmt.Sprintf("HelmOp revision %d to be assigned to Cluster %s, which has %d", number, title, own), nil
	}
	if release.Status.ObservedGeneration != release.Generation {
		// The conditions, for example Stalled, are about the revision before.
		return false, "the manager to reconcile the release in Cluster " + title, nil
	}
	state, why := fleetview.StateOf(release, 0)
	switch state {
	case fleetview.StateReady, fleetview.StateDrifted:
		return true, "", nil
	case fleetview.StateFailed, fleetview.StateStalled:
		return false, "", fmt.Errorf("HelmOp revision %d failed in Cluster %s: %s", number, title, why.Message)
	default:
		return false, fmt.Sprintf("the release in Cluster %s, which is %s", title, state), nil
	}
}

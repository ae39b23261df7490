// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"fmt"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/attempts"
)

func newRollout(o kube.Options, more []*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Follow and steer the rollout of a HelmOp",
		Example: `  kubectl helmop rollout status calico
  kubectl helmop rollout promote calico`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return kube.Usagef("unknown command %q; see %q", args[0], cmd.CommandPath()+" --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRolloutStatus(o), newPromote(o), newContinue(o), newAbort(o), newUndo(o), newRolloutPause(o),
		newRolloutResume(o))
	cmd.AddCommand(more...)
	return cmd
}

func newRolloutStatus(o kube.Options) *cobra.Command {
	b := kube.NewBase(o)
	var follow bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status HELMOP",
		Short: "Follow a rollout until it is complete",
		Long: `Follow a rollout until it is complete. The command prints a line for each change, and what the rollout waits
for. It fails if the HelmOp is paused, stalled or being deleted, and if the rollout is paused by its failure budget,
rolled back or aborted.`,
		Example: `  kubectl helmop rollout status calico --timeout 2h
  kubectl helmop rollout status calico --watch=false`,
		Args:              kube.Args(1, 1),
		ValidArgsFunction: b.CompleteHelmOps(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return awaitRollout(cmd.Context(), &b, args[0], follow, timeout)
		},
	}
	b.Add(cmd)
	cmd.Flags().BoolVarP(&follow, "watch", "w", true, "Follow the rollout until it is complete.")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "How long to follow the rollout; 0 is without a limit.")
	return cmd
}

func awaitRollout(ctx context.Context, b *kube.Base, name string, follow bool, timeout time.Duration) error {
	c, err := b.Connect()
	if err != nil {
		return err
	}
	shown := ""
	show := func(helmOp *addonsv1.HelmOp) {
		summary := fleetview.SummaryOf(helmOp, b.Invocation())
		if line := summary.TimelessLine(false); line != shown {
			shown = line
			_, _ = fmt.Fprintln(b.Streams.Out, line)
		}
	}
	if !follow {
		helmOp, err := c.HelmOp(ctx, name)
		if err == nil {
			show(helmOp)
		}
		return err
	}
	ctx, cancel := kube.Bounded(ctx, timeout)
	defer cancel()
	o := &observer{client: c, helmOp: name, timeout: timeout}
	return o.waiter(func(helmOp *addonsv1.HelmOp) (bool, string, error) {
		show(helmOp)
		return isRolledOut(helmOp, func() ([]*addonsv1.HelmOpRelease, error) { return c.Releases(ctx, helmOp) })
	})(ctx)
}

// isRolledOut reports whether the rollout of the current spec is complete. The wait ends with an error if the rollout
// cannot complete without an action of a user. releases reads the releases of the HelmOp.
func isRolledOut(helmOp *addonsv1.HelmOp, releases func() ([]*addonsv1.HelmOpRelease, error)) (bool, string, error) {
	isCurrent := func(c *metav1.Condition) bool { return c != nil && c.ObservedGeneration == helmOp.Generation }
	stalled := conditions.Get(helmOp, addonsv1.StalledCondition)
	rollingOut := conditions.Get(helmOp, addonsv1.RollingOutCondition)
	switch {
	case !helmOp.DeletionTimestamp.IsZero():
		return false, "", refuseDeleting(helmOp)
	case apiutil.IsHelmOpPaused(helmOp):
		return false, "", refuse(helmOp, "it is paused, so nothing is rolled out; resume the HelmOp first")
	case helmOp.Status.ObservedGeneration != helmOp.Generation:
		return false, "the manager to reconcile the HelmOp", nil
	case isCurrent(stalled) && stalled.Status == metav1.ConditionTrue && endsRollout(helmOp, stalled.Reason):
		if stalled.Reason == addonsv1.ReleasesFailedReason {
			if all, err := releases(); err != nil || isRetrying(helmOp, all) {
				return false, "", err
			}
		}
		return false, "", refuse(helmOp, "%s: %s", stalled.Reason,
			fleetview.InlineCommand.ReplaceAllString(stalled.Message, ""))
	case !isCurrent(rollingOut):
		return false, "the manager to reconcile the HelmOp", nil
	case rollingOut.Status == metav1.ConditionUnknown:
		return false, fmt.Sprintf("the condition RollingOut, which is Unknown (%s): %s", rollingOut.Reason,
			rollingOut.Message), nil
	}
	isOver, r := rollingOut.Status == metav1.ConditionFalse, helmOp.Status.Rollout
	if r == nil {
		// Without a selected Cluster, there is nothing to roll out.
		return isOver, "", nil
	}
	switch r.Phase {
	case addonsv1.RolloutPhaseComplete:
		return isOver, "", nil
	case addonsv1.RolloutPhasePaused, addonsv1.RolloutPhaseRolledBack, addonsv1.RolloutPhaseAborted:
		return false, "", refuse(helmOp, "the rollout of HelmOp revision %d is %s", r.Revision, r.Phase)
	default:
		return false, "", nil
	}
}

// endsRollout reports whether the rollout of a HelmOp cannot complete without an action of a user, given the reason of
// the condition Stalled. Deletions concern other Clusters, so they do not end a rollout. Failed releases count for the
// failure budget. But if no wave is left to promote and no Cluster waits for maintenance, the rollout would never end:
// for example without spec.rollout, or with a maxFailures that the failures do not reach.
func endsRollout(helmOp *addonsv1.HelmOp, reason string) bool {
	switch r := helmOp.Status.Rollout; {
	case reason == addonsv1.ConfirmationRequiredReason:
		return false
	case reason != addonsv1.ReleasesFailedReason || r == nil:
		return true
	case helmOp.Spec.Rollout != nil && helmOp.Spec.Rollout.Paused:
		return false
	default:
		c := helmOp.Status.Clusters
		return !conditions.IsFalse(helmOp, addonsv1.RollingOutCondition) && r.Wave == "" && r.NextMaintenance.IsZero() &&
			(c == nil || c.Deferred == 0)
	}
}

// isRetrying reports whether a retry of Stalled releases is requested or has begun. Then the condition Stalled of the
// HelmOp is from before the retry, which does not change the generation of the HelmOp. A paused release has no retry
// before the end of the pause, and a release under deletion does not count for the rollout.
func isRetrying(helmOp *addonsv1.HelmOp, releases []*addonsv1.HelmOpRelease) bool {
	stalled := int32(0)
	for _, release := range releases {
		if !conditions.IsTrue(release, addonsv1.StalledCondition) || !release.DeletionTimestamp.IsZero() {
			continue
		}
		stalled++
		if conditions.IsTrue(release, addonsv1.PausedCondition) {
			continue
		}
		if s := (attempts.Subject{Release: release, HelmOp: helmOp}); s.NewRetryRequest() != "" {
			return true
		}
	}
	return helmOp.Status.Clusters != nil && stalled < helmOp.Status.Clusters.Stalled
}

func newPromote(o kube.Options) *cobra.Command {
	s := newSteer(o)
	var wave string
	var revision int64
	cmd := s.command("promote HELMOP", "Promote a wave: the next wave begins",
		`Promote a wave: the next wave begins. Without --wave, the command promotes the wave whose promotion the rollout waits
for. With --wave, it also promotes all waves before this wave. The command sets the annotation
addons.cluster.x-k8s.io/rollout-promote for the current revision.`,
		`  kubectl helmop rollout promote calico
  kubectl helmop rollout promote calico --wave canary --revision 7 --wait`, 1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			return s.changeTo(ctx, c, name, ofRevision(revision, promote(wave)), isPromoted)
		})
	cmd.Flags().StringVar(&wave, "wave", "", "The wave to promote, with all waves before it, also before they are done.")
	addRevision(cmd, &revision)
	return cmd
}

// addRevision adds the flag for the HelmOp revision to whose rollout a request applies.
func addRevision(cmd *cobra.Command, revision *int64) {
	cmd.Flags().Int64Var(revision, "revision", 0,
		"Fail if the rollout is of another HelmOp revision, for example because a tag was moved; 0 is any HelmOp revision.")
}

func newContinue(o kube.Options) *cobra.Command {
	s := newSteer(o)
	var revision int64
	cmd := s.command("continue HELMOP", "Continue a rollout whose failure budget is spent",
		`Continue a rollout whose failure budget is spent. The failures so far no longer count. The command sets the
annotation addons.cluster.x-k8s.io/rollout-continue for the current revision, and removes rollout-abort of the same
revision.`,
		`  kubectl helmop rollout continue calico`, 1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			last, err := lastContinue(ctx, c, name)
			if err != nil {
				return nil, err
			}
			changed, err := s.change(ctx, c, name, ofRevision(revision, continueRollout(last)))
			if err != nil {
				return nil, err
			}
			return s.continueWaiter(c, changed, last), nil
		})
	addRevision(cmd, &revision)
	return cmd
}

// continueWaiter waits until the manager has handled the request to continue a rollout, or the request of another user
// that has replaced it. last is the request that the manager handled last before the request.
func (s *steer) continueWaiter(c *kube.Client, changed *addonsv1.HelmOp, last string) waiter {
	number, value := changed.Status.Rollout.Revision, changed.Annotations[addonsv1.RolloutContinueAnnotation]
	key := client.ObjectKey{Namespace: changed.Namespace, Name: apiutil.RevisionName(changed.Name, number)}
	return func(ctx context.Context) error {
		check := func(revisions map[client.ObjectKey]*addonsv1.HelmOpRevision) (bool, string, error) {
			revision := revisions[key]
			if revision == nil {
				return false, "", refuse(changed, "HelmOp revision %d was deleted", number)
			}
			if handled := revision.Status.LastContinueRequest; handled != last && handled != value {
				current, err := c.HelmOp(ctx, changed.Name)
				if err != nil {
					return false, "", err
				}
				value = current.Annotations[addonsv1.RolloutContinueAnnotation]
			}
			return isContinued(revision, value)
		}
		return waitUntil(ctx, s.observer(c, changed.Name), &addonsv1.HelmOpRevisionList{}, check,
			kube.Named(key.Namespace, key.Name)...)
	}
}

// lastContinue returns the last handled request to continue the current rollout.
func lastContinue(ctx context.Context, c *kube.Client, name string) (string, error) {
	helmOp, err := c.HelmOp(ctx, name)
	if err != nil || helmOp.Status.Rollout == nil {
		return "", err
	}
	revision := &addonsv1.HelmOpRevision{}
	err = c.Get(ctx, client.ObjectKey{Namespace: helmOp.Namespace,
		Name: apiutil.RevisionName(name, helmOp.Status.Rollout.Revision)}, revision)
	return revision.Status.LastContinueRequest, kube.Explain(client.IgnoreNotFound(err))
}

func newAbort(o kube.Options) *cobra.Command {
	s := newSteer(o)
	var revision int64
	cmd := s.command("abort HELMOP", "Abort a rollout: all Clusters return to the last known good revision",
		`Abort a rollout: all Clusters return to the last known good revision, and stay there until the spec changes. The
command sets the annotation addons.cluster.x-k8s.io/rollout-abort for the current revision.

With --wait, the command fails if a Cluster did not return, for example because its release failed, or because the
Cluster is unreachable or paused. Clusters that the rollout had not reached do not count.`,
		`  kubectl helmop rollout abort calico --wait`, 1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			changed, err := s.change(ctx, c, name, ofRevision(revision, abortRollout))
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				return s.observer(c, name).waiter(isReturned(changed, func() ([]*addonsv1.HelmOpRelease, error) {
					return c.Releases(ctx, changed)
				}))(ctx)
			}, nil
		})
	addRevision(cmd, &revision)
	return cmd
}

func newRolloutPause(o kube.Options) *cobra.Command {
	s := newSteer(o)
	return s.command("pause HELMOP", "Pause a rollout: no other Cluster gets the HelmOp revision",
		`Pause a rollout: no other Cluster gets the HelmOp revision, and no release is deleted because its Cluster is no
longer selected. Installed releases are still repaired. The command sets spec.rollout.paused to true.`,
		`  kubectl helmop rollout pause calico`, 1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			return s.changeTo(ctx, c, name, setRolloutPaused(true), isObserved)
		})
}

func newRolloutResume(o kube.Options) *cobra.Command {
	s := newSteer(o)
	return s.command("resume HELMOP", "Resume a rollout that spec.rollout.paused stopped",
		`Resume a rollout that spec.rollout.paused stopped. The command sets spec.rollout.paused to false. For a rollout whose
failure budget is spent, use "rollout continue".`,
		`  kubectl helmop rollout resume calico`, 1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			return s.changeTo(ctx, c, name, setRolloutPaused(false), isObserved)
		})
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/brake"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

func newConfirm(o kube.Options) *cobra.Command {
	s := newSteer(o)
	var yes bool
	cmd := s.command("confirm HELMOP", "Confirm deletions that wait for a confirmation",
		`Confirm deletions that wait because more releases would be deleted at once than spec.maxDeletions allows. The command
shows the releases, asks, and then sets the annotation addons.cluster.x-k8s.io/confirm-deletions to the value of
status.deletions.confirmation. The value is for the shown releases only. If the set changes meanwhile, nothing is
deleted.`,
		`  # Show what would be deleted, and confirm after a question
  kubectl helmop confirm calico

  # Only show what would be deleted
  kubectl helmop confirm calico --dry-run=server`, 1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			return s.confirm(ctx, c, name, yes)
		})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "Do not ask.")
	return cmd
}

func (s *steer) confirm(ctx context.Context, c *kube.Client, name string, yes bool) (waiter, error) {
	helmOp, err := c.HelmOp(ctx, name)
	if err != nil {
		return nil, err
	}
	if waiting := helmOp.Status.Deletions; waiting != nil && waiting.Waiting > 0 {
		what, err := s.deletions(ctx, c, helmOp)
		if err == nil {
			err = s.askDeletions(ctx, what, yes)
		}
		if err != nil {
			return nil, err
		}
		return s.changeTo(ctx, c, name, confirmDeletions(waiting.Confirmation),
			func(*addonsv1.HelmOp) goal { return isConfirmed(waiting.Confirmation) })
	}
	return s.confirmObjects(ctx, c, helmOp, yes)
}

func nothingWaits(helmOp *addonsv1.HelmOp) error {
	return refuse(helmOp, "no deletions wait for a confirmation")
}

// confirmObjects confirms the deletion of objects in the management cluster. The release may be there though the HelmOp
// now selects Clusters: then it is being uninstalled.
func (s *steer) confirmObjects(ctx context.Context, c *kube.Client, helmOp *addonsv1.HelmOp, yes bool) (
	waiter, error,
) {
	release, err := c.Release(ctx, helmOp, apiutil.ManagementTitle)
	if apierrors.IsNotFound(err) && helmOp.Spec.ManagementCluster == nil {
		return nil, nothingWaits(helmOp)
	}
	if err != nil {
		return nil, err
	}
	confirmation, what := heldObjects(release)
	if confirmation == "" {
		return nil, nothingWaits(helmOp)
	}
	if err := s.askDeletions(ctx, what+"\n", yes); err != nil {
		return nil, err
	}
	if _, err := s.change(ctx, c, helmOp.Name, confirmObjects(confirmation)); err != nil {
		return nil, err
	}
	key := client.ObjectKeyFromObject(release)
	check := func(releases map[client.ObjectKey]*addonsv1.HelmOpRelease) (bool, string, error) {
		if releases[key] == nil {
			return true, "", nil
		}
		return areObjectsConfirmed(releases[key], confirmation)
	}
	return func(ctx context.Context) error {
		return waitUntil(ctx, s.observer(c, helmOp.Name), &addonsv1.HelmOpReleaseList{}, check,
			kube.Named(key.Namespace, key.Name)...)
	}, nil
}

// askDeletions shows what will be deleted, and asks for a confirmation.
func (s *steer) askDeletions(ctx context.Context, what string, yes bool) error {
	return s.ask(ctx, what, "Confirm these deletions? They cannot be undone. [y/N]", "nothing was confirmed", yes)
}

// confirmationValue matches the value for a confirmation in the message of a release in the management cluster.
var confirmationValue = regexp.MustCompile(regexp.QuoteMeta(addonsv1.ConfirmDeletionsAnnotation) + `=(\S+)`)

// heldObjects returns the value that confirms the deletion of objects in the management cluster, and a text with the
// names of the objects. Both are empty if the release does not wait for a confirmation.
func heldObjects(release *addonsv1.HelmOpRelease) (confirmation, what string) {
	message := conditions.GetMessage(release, addonsv1.ReadyCondition)
	match := confirmationValue.FindStringSubmatch(message)
	if match == nil {
		return "", ""
	}
	return match[1], fleetview.InlineCommand.ReplaceAllString(message, "")
}

// deletions returns a text with the names of the releases whose deletion waits.
func (s *steer) deletions(ctx context.Context, c *kube.Client, helmOp *addonsv1.HelmOp) (string, error) {
	leaving, err := leavingReleases(ctx, c, helmOp)
	switch {
	case apierrors.IsForbidden(err):
		s.Note("warning: %v. The message of the HelmOp names only some of the Clusters", err)
	case err != nil:
		return "", err
	case !isWaitingFor(helmOp.Status.Deletions, leaving):
		s.Note("warning: the command cannot list the releases that wait: the fleet changed, or the manager has other " +
			"rights. The message of the HelmOp names only some of the Clusters")
	default:
		return leavingText(leaving)
	}
	message := conditions.GetMessage(helmOp, addonsv1.DeletionsHeldCondition)
	return fleetview.InlineCommand.ReplaceAllString(message, "") + "\n", nil
}

// isWaitingFor reports whether the status of a HelmOp requires a confirmation of the deletion of exactly these
// releases.
func isWaitingFor(waiting *addonsv1.DeletionStatus, releases []*addonsv1.HelmOpRelease) bool {
	titles := make([]string, 0, len(releases))
	for _, release := range releases {
		titles = append(titles, apiutil.ClusterTitle(release))
	}
	return waiting.Confirmation == brake.Confirmation(waiting.WaitingSince.Time, titles)
}

// leavingText returns a text with the names of the releases whose deletion waits.
func leavingText(releases []*addonsv1.HelmOpRelease) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "The deletion of %s waits, because these Clusters are no longer selected:\n",
		plural.Count(len(releases), "release", "releases"))
	t := kube.NewTable(false, false, "CLUSTER", "RELEASE", "RELEASE-NAMESPACE", "VERSION")
	for _, release := range releases {
		version := ""
		if release.Status.Release != nil {
			version = release.Status.Release.Version
		}
		t.Add(apiutil.ClusterTitle(release), release.Spec.Release.Name, release.Spec.Release.Namespace, version)
	}
	err := t.Write(&b)
	return b.String(), err
}

// leavingReleases lists the releases that a HelmOp deletes because it no longer selects their Clusters.
func leavingReleases(ctx context.Context, c *kube.Client, helmOp *addonsv1.HelmOp) ([]*addonsv1.HelmOpRelease, error) {
	selector, err := selection.SelectorOf(helmOp)
	if err != nil {
		return nil, err
	}
	releases, err := c.Releases(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	namespace := helmOp.Namespace
	if slices.ContainsFunc(releases, func(r *addonsv1.HelmOpRelease) bool {
		return apiutil.ClusterKey(r).Namespace != helmOp.Namespace
	}) {
		namespace = metav1.NamespaceAll
	}
	clusters, _, err := kube.ListAll[*unstructured.Unstructured](ctx, c, apiutil.NewClusterList(),
		client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	known := fleetview.ByKey(clusters)
	releases = slices.DeleteFunc(releases, func(r *addonsv1.HelmOpRelease) bool {
		return !mayLeave(helmOp, r, known[apiutil.ClusterKey(r)])
	})
	var leaving []*addonsv1.HelmOpRelease
	for _, release := range releases {
		selected, err := selector.Selects(ctx, c, known[apiutil.ClusterKey(release)])
		if client.IgnoreNotFound(err) != nil {
			return nil, kube.Explain(err)
		}
		if !selected {
			leaving = append(leaving, release)
		}
	}
	slices.SortFunc(leaving, func(a, b *addonsv1.HelmOpRelease) int {
		return strings.Compare(apiutil.ClusterTitle(a), apiutil.ClusterTitle(b))
	})
	return leaving, nil
}

// mayLeave reports whether the manager will delete a release if its Cluster is not selected: now, or when the Cluster
// is not paused any more. It is false if the Cluster does not exist, or the manager does not serve it. The manager
// decides in the same way, see rollout.IsLeaving.
func mayLeave(helmOp *addonsv1.HelmOp, release *addonsv1.HelmOpRelease, object *unstructured.Unstructured) bool {
	return object != nil && object.GetDeletionTimestamp().IsZero() && release.DeletionTimestamp.IsZero() &&
		apiutil.ShardTitle(object) == apiutil.ShardTitle(helmOp) &&
		release.Status.State != string(model.StateForeign) &&
		conditions.GetReason(release, addonsv1.ReadyCondition) != addonsv1.ClusterAccessDeniedReason
}

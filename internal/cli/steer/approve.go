// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

func newApprove(o kube.Options) *cobra.Command {
	s := newSteer(o)
	var digest string
	var yes bool
	cmd := s.command("approve HELMOP", "Approve what a rollout applies, if it waits for an approval",
		`Approve what the rollout of a HelmOp applies, if spec.rollout.approval is Required. The command shows the digest of the
inputs of all releases and a summary, asks, and then sets the annotation addons.cluster.x-k8s.io/rollout-approve. Only
the shown digest is approved. If an input or the set of Clusters changes meanwhile, the manager refuses the approval.`,
		`  # Show what waits, and approve it after a question
  kubectl helmop approve calico

  # In a pipeline, approve the digest that a person has looked at
  kubectl helmop approve calico --digest 5e8d1f0a9b3c4d2e8f7061a2b3c4d5e6 --yes --wait`, 1,
		func(ctx context.Context, c *kube.Client, name string) (waiter, error) {
			return s.approve(ctx, c, name, digest, yes)
		})
	cmd.Flags().StringVar(&digest, "digest", "", "Approve only if this is the present digest.")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "Do not ask.")
	return cmd
}

func (s *steer) approve(ctx context.Context, c *kube.Client, name, digest string, yes bool) (waiter, error) {
	helmOp, err := c.HelmOp(ctx, name)
	if err != nil {
		return nil, err
	}
	waiting, err := waitingApproval(helmOp)
	switch {
	case err != nil:
		return nil, err
	case digest != "" && digest != waiting.Digest:
		return nil, refuse(helmOp, "the present digest of HelmOp revision %d is %s, not %q: an input or the set of Clusters "+
			"has changed; look at the changes again", waiting.Revision, waiting.Digest, digest)
	}
	what, err := approvalText(ctx, c, helmOp, waiting)
	if err == nil {
		err = s.ask(ctx, what, "Approve this digest? [y/N]", "nothing was approved", yes)
	}
	if err != nil {
		return nil, err
	}
	return s.changeTo(ctx, c, name, approve(waiting.Revision, waiting.Digest),
		func(*addonsv1.HelmOp) goal { return isApproved(waiting.Revision, waiting.Digest) })
}

// waitingApproval returns the part of a HelmOp that waits for an approval.
func waitingApproval(helmOp *addonsv1.HelmOp) (*addonsv1.RolloutApproval, error) {
	r, err := currentRollout(helmOp)
	switch {
	case err != nil:
		return nil, err
	case r.Approval == nil:
		return nil, refuse(helmOp, "spec.rollout.approval is not Required, so nothing waits for an approval")
	case r.Approval.Approved:
		return nil, refuse(helmOp, "nothing waits for an approval: HelmOp revision %d is approved", r.Approval.Revision)
	case r.Approval.Digest == "":
		return nil, refuse(helmOp, "there is no digest to approve yet: no release is rendered for any Cluster")
	default:
		return r.Approval, nil
	}
}

// approvalText describes the part of a HelmOp that waits for an approval.
func approvalText(ctx context.Context, c *kube.Client, helmOp *addonsv1.HelmOp,
	waiting *addonsv1.RolloutApproval,
) (string, error) {
	revision := &addonsv1.HelmOpRevision{}
	key := client.ObjectKey{Namespace: helmOp.Namespace, Name: apiutil.RevisionName(helmOp.Name, waiting.Revision)}
	if err := c.Get(ctx, key, revision); err != nil {
		return "", kube.Explain(err)
	}
	changes := plural.Count(waiting.Waiting, "Cluster", "Clusters")
	if revision.Status.Approval != nil || revision.Status.Good {
		changes += ", after the HelmOp revision was approved"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "HelmOp %s/%s, HelmOp revision %d\n", helmOp.Namespace, helmOp.Name, waiting.Revision)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "digest\t%s\n", waiting.Digest)
	if chart := revision.Spec.Artifact; chart != nil {
		fmt.Fprintf(t, "chart\t%s, %s\n", chart.Version, chart.Digest)
	}
	fmt.Fprintf(t, "changes\t%s\n", changes)
	err := t.Flush()
	return b.String(), err
}

// approve approves a digest of a HelmOp revision. The user must have seen the digest.
func approve(revision int64, digest string) request {
	return func(helmOp *addonsv1.HelmOp) (string, error) {
		waiting, err := waitingApproval(helmOp)
		switch {
		case err != nil:
			return "", err
		case waiting.Revision != revision || waiting.Digest != digest:
			return "", refuse(helmOp, "what waits for an approval changed at the same time; repeat the command")
		}
		annotate(helmOp, addonsv1.RolloutApproveAnnotation, approval.Request(revision, digest))
		return fmt.Sprintf("HelmOp revision %d approved", revision), nil
	}
}

// isApproved reports whether the manager has accepted the approval. The wait ends with an error if the digest changed
// before the approval.
func isApproved(revision int64, digest string) goal {
	return func(helmOp *addonsv1.HelmOp) (bool, string, error) {
		r := helmOp.Status.Rollout
		switch {
		case r == nil || r.Approval == nil:
			return true, "", nil // Approvals are no longer required.
		case r.Approval.Revision != revision:
			return false, "", superseded(helmOp, revision)
		case r.Approval.Approved:
			return true, "", nil
		case r.Approval.Digest != digest:
			return false, "", refuse(helmOp, "the digest changed to %s, so the approval has no effect; look at the changes, "+
				"and repeat the command", r.Approval.Digest)
		default:
			return false, "the manager to accept the approval", nil
		}
	}
}

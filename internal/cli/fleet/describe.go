// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// maxDescribedEvents is the maximum number of Events on a page.
const maxDescribedEvents = 10

// describe is the command "describe".
type describe struct {
	kube.Base
	cluster string
}

func newDescribe(o kube.Options) *cobra.Command {
	d := &describe{Base: kube.NewBase(o)}
	cmd := &cobra.Command{
		Use:   "describe HELMOP",
		Short: "Describe a HelmOp, or its release in one Cluster, and what to do next",
		Long: `Describe a HelmOp, or its release in one Cluster: what is desired, what is observed, what happened last, and
what to do next.`,
		Example: `  # The HelmOp: source, conditions, rollout, failures, Events
  kubectl helmop describe calico

  # Its release in one Cluster: conditions, actions, drift, Events
  kubectl helmop describe calico --cluster prod-1`,
		Args:              kube.Args(1, 1),
		ValidArgsFunction: d.CompleteHelmOps(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := d.Connect()
			if err != nil {
				return err
			}
			helmOp, err := c.HelmOp(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if d.cluster == "" {
				return d.helmOp(cmd.Context(), c, helmOp)
			}
			return d.release(cmd.Context(), c, helmOp)
		},
	}
	d.Add(cmd)
	d.AddClusterFlag(cmd, &d.cluster, "Describe the release in this Cluster.")
	return cmd
}

func (d *describe) helmOp(ctx context.Context, c *kube.Client, helmOp *addonsv1.HelmOp) error {
	events, err := eventsOf(ctx, c, subject{helmOp.Namespace, apiutil.HelmOpKind, helmOp.Name})
	if err != nil {
		d.Note("warning: the Events cannot be read: %v", err)
	}
	p := &kube.Page{}
	describeSpec(p, helmOp)
	if err := p.Section("Conditions", conditionsTable(helmOp.Status.Conditions, d.Now())); err != nil {
		return err
	}
	if err := describeRollout(p, helmOp, d.Now()); err != nil {
		return err
	}
	if held := helmOp.Status.Deletions; held != nil && held.Waiting > 0 {
		fmt.Fprintf(p, "\nDeletions:\n  %s for a confirmation since %s\n",
			plural.Count(held.Waiting, "release waits", "releases wait"),
			fleetview.Age(d.Now(), held.WaitingSince.Time))
	}
	if failures := fleetview.FailuresOf(helmOp); len(failures) > 0 {
		t := kube.NewTable(true, false, "CLUSTER", "REASON", "MESSAGE")
		for _, failure := range failures {
			t.Add(failure.Cluster, failure.Reason, kube.Clip(failure.Message, true))
		}
		if err := p.Section("Failures", t); err != nil {
			return err
		}
	}
	return d.finish(p, events, fleetview.NextForHelmOp(helmOp, d.Invocation()))
}

// finish writes the Events and the next steps, and prints the page.
func (d *describe) finish(p *kube.Page, events []event, next []fleetview.Step) error {
	t := kube.NewTable(true, false, "LAST-SEEN", "TYPE", "REASON", "MESSAGE")
	for _, e := range events[max(0, len(events)-maxDescribedEvents):] {
		t.Add(e.lastSeen(d.Now()), e.Type, e.Reason, kube.Clip(e.Message, true))
	}
	if err := p.Section("Events", t); err != nil {
		return err
	}
	lines := []string{"Nothing: no user action is needed."}
	if len(next) > 0 {
		lines = nil
	}
	for _, step := range next {
		lines = append(lines, step.String())
	}
	p.List("What to do next", lines)
	_, err := io.WriteString(d.Streams.Out, p.String())
	return err
}

// describeSpec writes the desired state of a HelmOp.
func describeSpec(p *kube.Page, helmOp *addonsv1.HelmOp) {
	spec := &helmOp.Spec
	p.Field("Name", helmOp.Name)
	p.Field("Namespace", helmOp.Namespace)
	if !helmOp.DeletionTimestamp.IsZero() {
		p.Field("Deleting", "since "+helmOp.DeletionTimestamp.UTC().Format(time.RFC3339))
	}
	p.Field("Source", apiutil.ArtifactURL(&spec.Source)+" "+apiutil.ReferenceText(&spec.Source.Ref))
	if artifact := helmOp.Status.Artifact; artifact != nil {
		p.Field("Resolved to", strings.TrimSpace(artifact.Version+" "+artifact.Digest))
		if from := artifact.Provenance; from != nil {
			p.Field("Made from", strings.TrimSpace(from.Source+" "+from.Revision))
		}
		if by := artifact.Verification; by != nil {
			p.Field("Signed by", strings.Join(by.Signers, "\n"))
		}
	}
	if spec.ManagementCluster != nil {
		p.Field("Clusters", "the "+apiutil.ManagementTitle)
	} else {
		p.Field("Clusters", selectorText(spec.ClusterSelector))
	}
	if counts := helmOp.Status.Clusters; counts != nil {
		p.Field("Counts", countsText(counts))
	}
	p.Field("Release", releaseText(&spec.Release, helmOp.Name))
	var after []string
	for _, dependency := range spec.DependsOn {
		after = append(after, dependency.Name)
	}
	p.Field("Depends on", strings.Join(after, ", "))
	if spec.Paused {
		p.Field("Paused", "by spec.paused")
	}
}

func selectorText(selector *metav1.LabelSelector) string {
	if text := metav1.FormatLabelSelector(selector); text != kube.None {
		return text
	}
	return "all"
}

func releaseText(template *addonsv1.ReleaseTemplate, helmOp string) string {
	name, namespace := template.Name, template.Namespace
	if name == "" {
		name = helmOp
	}
	if namespace == "" {
		namespace = apiutil.DefaultReleaseNamespace
	}
	return name + " in namespace " + namespace
}

func countsText(c *addonsv1.ClusterCounts) string {
	parts := []string{fmt.Sprintf("%d selected, %d up to date, %d ready", c.Selected, c.UpToDate, c.Ready)}
	for _, count := range []struct {
		n    int32
		what string
	}{{c.Failed, "failed"}, {c.Stalled, "stalled"}, {c.Unreachable, "unreachable"}, {c.Drifted, "drifted"},
		{c.Waiting, "waiting for the control plane"}, {c.Blocked, "waiting for dependencies"},
		{c.Deferred, "waiting for maintenance"}, {c.Paused, "paused"}, {c.Pinned, "pinned"}} {
		if count.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	return strings.Join(parts, ", ")
}

// conditionsTable returns the conditions, Ready first.
func conditionsTable(conditions []metav1.Condition, now time.Time) *kube.Table {
	t := kube.NewTable(true, false, "TYPE", "STATUS", "REASON", "SINCE", "MESSAGE")
	for _, c := range fleetview.SortedConditions(conditions) {
		t.Add(c.Type, string(c.Status), c.Reason, fleetview.Age(now, c.LastTransitionTime.Time), kube.Clip(c.Message, true))
	}
	return t
}

// describeRollout writes the rollout and its waves.
func describeRollout(p *kube.Page, helmOp *addonsv1.HelmOp, now time.Time) error {
	summary := fleetview.SummaryOf(helmOp, fleetview.Program{})
	r := summary.Rollout
	if r == nil {
		return nil
	}
	p.WriteString("\nRollout:\n")
	fmt.Fprintf(p, "  %s\n", upperFirst(summary.Progress(now)))
	if r.LastGoodRevision > 0 {
		fmt.Fprintf(p, "  The last known good revision is %d\n", r.LastGoodRevision)
	}
	if helmOp.Spec.Rollout == nil || len(helmOp.Spec.Rollout.Waves) == 0 {
		return nil
	}
	t := kube.NewTable(true, false, "WAVE", "STATE", "CLUSTERS", "PROMOTION")
	states := fleetview.WaveStates(helmOp)
	for i := range helmOp.Spec.Rollout.Waves {
		wave := &helmOp.Spec.Rollout.Waves[i]
		promotion := wave.Promotion
		if promotion == "" {
			promotion = addonsv1.WavePromotionAutomatic
		}
		t.Add(wave.Name, states[i], selectorText(&wave.ClusterSelector), string(promotion))
	}
	return p.Section("Waves", t)
}

func (d *describe) release(ctx context.Context, c *kube.Client, helmOp *addonsv1.HelmOp) error {
	release, err := c.Release(ctx, helmOp, d.cluster)
	if err != nil {
		return err
	}
	events, err := eventsOf(ctx, c, subject{release.Namespace, "HelmOpRelease", release.Name})
	if err != nil {
		d.Note("warning: the Events cannot be read: %v", err)
	}
	w := fleetview.NewWorld([]*addonsv1.HelmOp{helmOp}, nil, nil)
	row := w.RowOf(release)
	now := d.Now()
	p := &kube.Page{}
	describeRelease(p, release, &row, now)
	if err := p.Section("Conditions", conditionsTable(release.Status.Conditions, now)); err != nil {
		return err
	}
	if err := p.Section("Actions, the newest first", actionsTable(release, now)); err != nil {
		return err
	}
	if drift := release.Status.Drift; drift != nil && drift.Differing > 0 {
		title := fmt.Sprintf("Drift (%s)", plural.Count(drift.Differing, "object", "objects"))
		if err := p.Section(title, driftTable(drift)); err != nil {
			return err
		}
	}
	if len(release.Status.Tests) > 0 {
		t := kube.NewTable(true, false, "TEST", "PHASE", "COMPLETED")
		for _, test := range release.Status.Tests {
			t.Add(test.Name, test.Phase, fleetview.Age(now, test.CompletedAt.Time))
		}
		if err := p.Section("Tests", t); err != nil {
			return err
		}
	}
	return d.finish(p, events, fleetview.NextForRelease(helmOp, release, &row, d.Invocation()))
}

// describeRelease writes the desired and the observed state of a release.
func describeRelease(p *kube.Page, release *addonsv1.HelmOpRelease, row *fleetview.Row, now time.Time) {
	spec, status := &release.Spec, &release.Status
	p.Field("Name", release.Name)
	p.Field("Namespace", release.Namespace)
	p.Field("HelmOp", row.HelmOp)
	p.Field("Cluster", row.Cluster)
	state := string(row.State)
	if !row.Since.IsZero() {
		state += " since " + fleetview.Age(now, row.Since.Time)
	}
	p.Field("State", state)
	if row.Message != "" {
		p.Field("Message", row.Reason+": "+row.Message)
	}
	p.Field("Helm release", spec.Release.Name+" in namespace "+spec.Release.Namespace)
	p.Field("Desired", strings.TrimSpace(spec.Artifact.Version+" "+spec.Artifact.Digest))
	if r := status.Release; r != nil {
		observed := fmt.Sprintf("%s %s, Helm revision %d, %s", r.Chart, r.Version, r.Revision, r.Status)
		if !r.LastDeployed.IsZero() {
			observed += ", last action " + fleetview.Age(now, r.LastDeployed.Time) + " ago"
		}
		p.Field("Observed", observed)
	} else {
		p.Field("Observed", "no Helm release")
	}
	p.Field("HelmOp revision", kube.Number(row.HelmOpRevision))
	if status.Failures > 0 {
		p.Field("Failed tries", kube.Number(int64(status.Failures)))
	}
	if !strings.Contains(row.Message, status.LastError) {
		p.Field("Last error", status.LastError)
	}
	if !status.NextTryAt.IsZero() {
		p.Field("Next try", fmt.Sprintf("%s (in %s)", status.NextTryAt.UTC().Format(time.RFC3339),
			until(now, status.NextTryAt.Time)))
	}
}

// until returns the duration from now to a time, as a text.
func until(now, at time.Time) string {
	if at.Before(now) {
		return "0s"
	}
	return fleetview.Age(at, now)
}

func actionsTable(release *addonsv1.HelmOpRelease, now time.Time) *kube.Table {
	t := kube.NewTable(true, false, "WHEN", "ACTION", "RESULT", "HELM-REVISION", "VERSION", "WHY")
	for _, action := range release.Status.History {
		result := "failed"
		if action.Succeeded {
			result = "succeeded"
		}
		revision := kube.Number(action.Revision)
		if action.FromRevision > 0 && action.Revision > 0 {
			revision = fmt.Sprintf("%d to %d", action.FromRevision, action.Revision)
		}
		t.Add(fleetview.Age(now, action.Time.Time)+" ago", action.Action, result, revision, action.ChartVersion,
			kube.Clip(action.Reason, true))
	}
	return t
}

func driftTable(drift *addonsv1.DriftStatus) *kube.Table {
	t := kube.NewTable(true, false, "OBJECT", "DIFFERS", "CHANGED-BY")
	for _, object := range drift.Objects {
		name := object.Name
		if object.Namespace != "" {
			name = object.Namespace + "/" + name
		}
		differs := strings.Join(object.Paths, ", ")
		if object.Missing {
			differs = "missing"
		}
		t.Add(object.Kind+" "+name, differs, object.Manager)
	}
	return t
}

func upperFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

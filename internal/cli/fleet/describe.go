// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// maxDescribedEvents is how many Events a page shows.
const maxDescribedEvents = 10

// describe is the command "describe".
type describe struct {
	base
	cluster string
}

func newDescribe(o Options) *cobra.Command {
	d := &describe{base: newBase(o)}
	cmd := &cobra.Command{
		Use:   "describe HELMOP",
		Short: "Describe a HelmOp, or its release in one Cluster, and what to do next",
		Long: `Describe a HelmOp, or its release in one Cluster: what is desired, what is observed, what happened last, and
what to do next.`,
		Example: `  # The HelmOp: source, conditions, rollout, failures, Events
  kubectl helmop describe calico

  # Its release in one Cluster: conditions, actions, drift, Events
  kubectl helmop describe calico --cluster prod-1`,
		Args:              names(1, 1),
		ValidArgsFunction: d.completeHelmOps(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := d.connect()
			if err != nil {
				return err
			}
			helmOp, err := c.helmOp(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if d.cluster == "" {
				return d.helmOp(cmd.Context(), c, helmOp)
			}
			return d.release(cmd.Context(), c, helmOp)
		},
	}
	d.add(cmd)
	addClusterFlag(cmd, &d.base, &d.cluster, "Describe the release in this Cluster.")
	return cmd
}

// addClusterFlag adds --cluster for one Cluster.
func addClusterFlag(cmd *cobra.Command, b *base, value *string, usage string) {
	cmd.Flags().StringVar(value, "cluster", "",
		usage+" NAME, or NAMESPACE/NAME for a Cluster of another namespace than the HelmOp's.")
	_ = cmd.RegisterFlagCompletionFunc("cluster", b.completeClusters)
}

func (d *describe) helmOp(ctx context.Context, c *fleetClient, helmOp *addonsv1.HelmOp) error {
	events, err := c.eventsOf(ctx, subject{helmOp.Namespace, apiutil.HelmOpKind, helmOp.Name})
	if err != nil {
		d.note("warning: the Events cannot be read: %v", err)
	}
	p := &page{}
	describeSpec(p, helmOp)
	if err := p.section("Conditions", conditionsTable(helmOp.Status.Conditions, d.Now())); err != nil {
		return err
	}
	if err := describeRollout(p, helmOp, d.Now()); err != nil {
		return err
	}
	if held := helmOp.Status.Deletions; held != nil && held.Waiting > 0 {
		fmt.Fprintf(p, "\nDeletions:\n  %s for a confirmation since %s\n",
			plural.Count(held.Waiting, "release waits", "releases wait"),
			age(d.Now(), held.WaitingSince.Time))
	}
	if len(helmOp.Status.Failures) > 0 {
		t := newTable(true, false, "CLUSTER", "REASON", "MESSAGE")
		for _, failure := range helmOp.Status.Failures {
			t.add(failure.Cluster, failure.Reason, clip(failure.Message, true))
		}
		if err := p.section("Failures", t); err != nil {
			return err
		}
	}
	return d.finish(p, events, nextForHelmOp(helmOp, d.program()))
}

// finish writes the Events and the next steps, and prints the page.
func (d *describe) finish(p *page, events []event, next []Step) error {
	t := newTable(true, false, "LAST-SEEN", "TYPE", "REASON", "MESSAGE")
	for _, e := range events[max(0, len(events)-maxDescribedEvents):] {
		t.add(e.lastSeen(d.Now()), e.Type, e.Reason, clip(e.Message, true))
	}
	if err := p.section("Events", t); err != nil {
		return err
	}
	lines := []string{"Nothing: no one has to act."}
	if len(next) > 0 {
		lines = nil
	}
	for _, step := range next {
		lines = append(lines, step.String())
	}
	p.list("What to do next", lines)
	_, err := io.WriteString(d.Streams.Out, p.String())
	return err
}

// describeSpec writes the desired state of a HelmOp.
func describeSpec(p *page, helmOp *addonsv1.HelmOp) {
	spec := &helmOp.Spec
	p.field("Name", helmOp.Name)
	p.field("Namespace", helmOp.Namespace)
	if !helmOp.DeletionTimestamp.IsZero() {
		p.field("Deleting", "since "+helmOp.DeletionTimestamp.UTC().Format(time.RFC3339))
	}
	p.field("Source", spec.Source.URL+" "+referenceOf(&spec.Source.Ref))
	if artifact := helmOp.Status.Artifact; artifact != nil {
		p.field("Resolved to", strings.TrimSpace(artifact.Version+" "+artifact.Digest))
		if from := artifact.Provenance; from != nil {
			p.field("Made from", strings.TrimSpace(from.Source+" "+from.Revision))
		}
		if by := artifact.Verification; by != nil {
			p.field("Signed by", strings.Join(by.Signers, "\n"))
		}
	}
	if spec.ManagementCluster != nil {
		p.field("Clusters", "the "+apiutil.ManagementTitle)
	} else {
		p.field("Clusters", selectorText(spec.ClusterSelector))
	}
	if counts := helmOp.Status.Clusters; counts != nil {
		p.field("Counts", countsText(counts))
	}
	p.field("Release", releaseText(&spec.Release, helmOp.Name))
	var after []string
	for _, dependency := range spec.DependsOn {
		after = append(after, dependency.Name)
	}
	p.field("Depends on", strings.Join(after, ", "))
	if spec.Paused {
		p.field("Paused", "by spec.paused")
	}
}

func selectorText(selector *metav1.LabelSelector) string {
	if text := metav1.FormatLabelSelector(selector); text != none {
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

// referenceOf returns the reference of a source in words.
func referenceOf(ref *addonsv1.ArtifactReference) string {
	var parts []string
	for _, part := range []struct{ name, value string }{
		{"tag", ref.Tag}, {"digest", ref.Digest}, {"semver", ref.Semver}, {"tagFilter", ref.TagFilter},
	} {
		if part.value != "" {
			parts = append(parts, part.name+" "+part.value)
		}
	}
	return strings.Join(parts, ", ")
}

func countsText(c *addonsv1.ClusterCounts) string {
	parts := []string{fmt.Sprintf("%d selected, %d up to date, %d ready", c.Selected, c.UpToDate, c.Ready)}
	for _, count := range []struct {
		n    int32
		what string
	}{{c.Failed, "failed"}, {c.Stalled, "stalled"}, {c.Unreachable, "unreachable"}, {c.Drifted, "drifted"},
		{c.Waiting, "waiting for the control plane"}, {c.Blocked, "waiting for dependencies"}, {c.Paused, "paused"}} {
		if count.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	return strings.Join(parts, ", ")
}

// conditionsTable returns the conditions, Ready first.
func conditionsTable(conditions []metav1.Condition, now time.Time) *table {
	t := newTable(true, false, "TYPE", "STATUS", "REASON", "SINCE", "MESSAGE")
	sorted := slices.Clone(conditions)
	slices.SortStableFunc(sorted, func(a, b metav1.Condition) int {
		switch {
		case a.Type == b.Type:
			return 0
		case a.Type == addonsv1.ReadyCondition:
			return -1
		case b.Type == addonsv1.ReadyCondition:
			return 1
		default:
			return strings.Compare(a.Type, b.Type)
		}
	})
	for _, c := range sorted {
		t.add(c.Type, string(c.Status), c.Reason, age(now, c.LastTransitionTime.Time), clip(c.Message, true))
	}
	return t
}

// describeRollout writes the rollout and its waves.
func describeRollout(p *page, helmOp *addonsv1.HelmOp, now time.Time) error {
	r := helmOp.Status.Rollout
	if r == nil {
		return nil
	}
	p.WriteString("\nRollout:\n")
	summary := summaryOf(helmOp, program{})
	fmt.Fprintf(p, "  %s\n", upperFirst(summary.progress(now)))
	if r.LastGoodRevision > 0 {
		fmt.Fprintf(p, "  The last known good revision is %d\n", r.LastGoodRevision)
	}
	if helmOp.Spec.Rollout == nil || len(helmOp.Spec.Rollout.Waves) == 0 {
		return nil
	}
	t := newTable(true, false, "WAVE", "STATE", "CLUSTERS", "PROMOTION")
	reached := false
	for i := range helmOp.Spec.Rollout.Waves {
		wave := &helmOp.Spec.Rollout.Waves[i]
		state := "Done"
		switch {
		case isEnded(r.Phase) && r.Phase != addonsv1.RolloutPhaseComplete:
			state = ""
		case wave.Name == r.Wave:
			state, reached = "Current", true
		case reached:
			state = "Not begun"
		case r.Phase == addonsv1.RolloutPhasePaused:
			// The status names no wave then.
			state = ""
		}
		promotion := wave.Promotion
		if promotion == "" {
			promotion = addonsv1.WavePromotionAutomatic
		}
		t.add(wave.Name, state, selectorText(&wave.ClusterSelector), string(promotion))
	}
	return p.section("Waves", t)
}

func (d *describe) release(ctx context.Context, c *fleetClient, helmOp *addonsv1.HelmOp) error {
	release, err := c.release(ctx, helmOp, d.cluster)
	if err != nil {
		return err
	}
	events, err := c.eventsOf(ctx, subject{release.Namespace, "HelmOpRelease", release.Name})
	if err != nil {
		d.note("warning: the Events cannot be read: %v", err)
	}
	w := &world{helmOps: byKey([]*addonsv1.HelmOp{helmOp})}
	row := w.rowOf(release)
	now := d.Now()
	p := &page{}
	describeRelease(p, release, &row, now)
	if err := p.section("Conditions", conditionsTable(release.Status.Conditions, now)); err != nil {
		return err
	}
	if err := p.section("Actions, the newest first", actionsTable(release, now)); err != nil {
		return err
	}
	if drift := release.Status.Drift; drift != nil && drift.Differing > 0 {
		title := fmt.Sprintf("Drift (%s)", plural.Count(drift.Differing, "object", "objects"))
		if err := p.section(title, driftTable(drift)); err != nil {
			return err
		}
	}
	if len(release.Status.Tests) > 0 {
		t := newTable(true, false, "TEST", "PHASE", "COMPLETED")
		for _, test := range release.Status.Tests {
			t.add(test.Name, test.Phase, age(now, test.CompletedAt.Time))
		}
		if err := p.section("Tests", t); err != nil {
			return err
		}
	}
	return d.finish(p, events, nextForRelease(helmOp, release, &row, d.program()))
}

// describeRelease writes the desired and the observed state of a release.
func describeRelease(p *page, release *addonsv1.HelmOpRelease, row *Row, now time.Time) {
	spec, status := &release.Spec, &release.Status
	p.field("Name", release.Name)
	p.field("Namespace", release.Namespace)
	p.field("HelmOp", row.HelmOp)
	p.field("Cluster", row.Cluster)
	state := string(row.State)
	if !row.Since.IsZero() {
		state += " since " + age(now, row.Since.Time)
	}
	p.field("State", state)
	if row.Message != "" {
		p.field("Message", row.Reason+": "+row.Message)
	}
	p.field("Helm release", spec.Release.Name+" in namespace "+spec.Release.Namespace)
	p.field("Desired", strings.TrimSpace(spec.Artifact.Version+" "+spec.Artifact.Digest))
	if r := status.Release; r != nil {
		observed := fmt.Sprintf("%s %s, Helm revision %d, %s", r.Chart, r.Version, r.Revision, r.Status)
		if !r.LastDeployed.IsZero() {
			observed += ", last action " + age(now, r.LastDeployed.Time) + " ago"
		}
		p.field("Observed", observed)
	} else {
		p.field("Observed", "no Helm release")
	}
	p.field("HelmOp revision", number(row.HelmOpRevision))
	if status.Failures > 0 {
		p.field("Failed tries", number(int64(status.Failures)))
	}
	if !strings.Contains(row.Message, status.LastError) {
		p.field("Last error", status.LastError)
	}
	if !status.NextTryAt.IsZero() {
		p.field("Next try", fmt.Sprintf("%s (in %s)", status.NextTryAt.UTC().Format(time.RFC3339),
			until(now, status.NextTryAt.Time)))
	}
}

// until returns how long it is until a time.
func until(now, at time.Time) string {
	if at.Before(now) {
		return "0s"
	}
	return age(at, now)
}

func actionsTable(release *addonsv1.HelmOpRelease, now time.Time) *table {
	t := newTable(true, false, "WHEN", "ACTION", "RESULT", "HELM-REVISION", "VERSION", "WHY")
	for _, action := range release.Status.History {
		result := "failed"
		if action.Succeeded {
			result = "succeeded"
		}
		revision := number(action.Revision)
		if action.FromRevision > 0 && action.Revision > 0 {
			revision = fmt.Sprintf("%d to %d", action.FromRevision, action.Revision)
		}
		t.add(age(now, action.Time.Time)+" ago", action.Action, result, revision, action.ChartVersion,
			clip(action.Reason, true))
	}
	return t
}

func driftTable(drift *addonsv1.DriftStatus) *table {
	t := newTable(true, false, "OBJECT", "DIFFERS", "CHANGED-BY")
	for _, object := range drift.Objects {
		name := object.Name
		if object.Namespace != "" {
			name = object.Namespace + "/" + name
		}
		differs := strings.Join(object.Paths, ", ")
		if object.Missing {
			differs = "missing"
		}
		t.add(object.Kind+" "+name, differs, object.Manager)
	}
	return t
}

func upperFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

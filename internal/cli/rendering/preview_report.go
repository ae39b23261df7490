// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"fmt"
	"io"
	"strings"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

// Preview is the output of "preview -o json".
type Preview struct {
	HelmOp    string `json:"helmOp"`
	Namespace string `json:"namespace"`

	// Clusters is the number of all Clusters. The other fields are the numbers of Clusters in a state.
	Clusters int `json:"clusters"`
	Differ   int `json:"differ"`
	Same     int `json:"same"`
	NotReady int `json:"notReady"`
	Pinned   int `json:"pinned"`
	Failed   int `json:"failed"`

	// ApprovalDigest is the digest that a user has to approve for these changes. It is empty in three cases: the HelmOp
	// requires no approval, some selected Clusters are not previewed, or the inputs of a release are not known.
	ApprovalDigest string `json:"approvalDigest,omitempty"`

	// Deferred are the Clusters in which the change would wait for maintenance now.
	Deferred []DeferredCluster `json:"deferred,omitempty"`

	Groups []preview.Group `json:"groups"`
}

// DeferredCluster is a Cluster in which a change would wait for maintenance.
type DeferredCluster struct {
	Cluster string `json:"cluster"`
	// Why is the reason and the end of the wait.
	Why string `json:"why"`
}

// newReport counts the Clusters in groups. results are the results that the groups combine.
func newReport(helmOp *addonsv1.HelmOp, results []preview.Result, groups []preview.Group) *Preview {
	report := &Preview{HelmOp: helmOp.Name, Namespace: helmOp.Namespace, Groups: groups}
	for i := range results {
		if results[i].Deferred != "" {
			report.Deferred = append(report.Deferred, DeferredCluster{results[i].Cluster, results[i].Deferred})
		}
	}
	for i := range groups {
		n := len(groups[i].Clusters)
		report.Clusters += n
		switch groups[i].State {
		case preview.StateDiffers:
			report.Differ += n
		case preview.StateSame:
			report.Same += n
		case preview.StateNotReady:
			report.NotReady += n
		case preview.StatePinned:
			report.Pinned += n
		case preview.StateFailed:
			report.Failed += n
		}
	}
	return report
}

// print prints a report, and returns the error for the exit code.
func (p *previewing) print(report *Preview) error {
	if err := p.output.Write(p.Streams.Out, report, func(out io.Writer) error {
		_, err := io.WriteString(out, report.text(p.summary, p.Invocation()))
		return err
	}); err != nil {
		return err
	}
	switch {
	case report.Failed > 0:
		return fmt.Errorf("%s could not be previewed; see above",
			plural.Count(report.Failed, "Cluster", "Clusters"))
	case report.Differ > 0:
		return kube.ErrDiffers
	case report.Clusters == 0 && p.labelSelector != "":
		return fmt.Errorf("nothing was previewed: the HelmOp selects no Cluster with the labels %q; check --selector",
			p.labelSelector)
	default:
		return nil
	}
}

// text returns the report for people: a summary and the differences of each group. With summary, it leaves out the
// differences. program is the program in the recommended command.
func (r *Preview) text(summary bool, program fleetview.Program) string {
	var out strings.Builder
	fmt.Fprintf(&out, "HelmOp %q in %s: %s\n", r.HelmOp, plural.Count(r.Clusters, "Cluster", "Clusters"), r.counts())
	for i := range r.Groups {
		group := &r.Groups[i]
		fmt.Fprintf(&out, "  %s: %s\n", r.title(group), group.Summary())
	}
	r.writeDeferred(&out)
	if r.ApprovalDigest != "" {
		fmt.Fprintf(&out, "The digest of these releases is %s. To approve exactly them when they wait for an approval:\n"+
			"  %s approve %s -n %s --digest %[1]s%[5]s\n",
			r.ApprovalDigest, program.Name, r.HelmOp, r.Namespace, program.Flags)
	}
	if summary {
		return out.String()
	}
	for i := range r.Groups {
		group := &r.Groups[i]
		if group.State != preview.StateDiffers {
			continue
		}
		fmt.Fprintf(&out, "\n# %s (%s)\n", r.title(group), strings.ToLower(group.Action))
		writeOutcome(&out, &group.Outcome)
	}
	return out.String()
}

// writeDeferred writes a line for each reason why changes would wait for maintenance.
func (r *Preview) writeDeferred(out io.Writer) {
	var causes []string
	clusters := map[string][]string{}
	for _, d := range r.Deferred {
		if clusters[d.Why] == nil {
			causes = append(causes, d.Why)
		}
		clusters[d.Why] = append(clusters[d.Why], d.Cluster)
	}
	for _, why := range causes {
		_, _ = fmt.Fprintf(out, "The change would wait for maintenance in %s, because %s\n",
			plural.Few(clusters[why], fleetview.MaxNamedClusters), why)
	}
}

// counts returns the numbers of Clusters.
func (r *Preview) counts() string {
	return countsOf("the HelmOp selects none", []count{{r.Differ, "differ"}, {r.Same, "same"}, {r.NotReady, "not ready"},
		{r.Pinned, "pinned"}, {r.Failed, "failed"}})
}

// count is the number of Clusters or releases in a state.
type count struct {
	n    int
	what string
}

// countsOf returns the counts in one line, without zeros. If all counts are zero, it returns none.
func countsOf(none string, counts []count) string {
	var parts []string
	for _, one := range counts {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	if len(parts) == 0 {
		return none
	}
	return strings.Join(parts, ", ")
}

// title returns a title with the Clusters of a group.
func (r *Preview) title(group *preview.Group) string { return titleOf(group.Clusters, r.Clusters) }

// titleOf returns a title with some Clusters. all is the number of all Clusters.
func titleOf(clusters []string, all int) string {
	n := len(clusters)
	if n == 1 {
		return clusters[0]
	}
	named := strings.Join(clusters[:min(n, fleetview.MaxNamedClusters)], ", ")
	if n > fleetview.MaxNamedClusters {
		named += ", ..."
	}
	return fmt.Sprintf("%d of %d alike: %s", n, all, named)
}

// writeOutcome writes the message, the hooks and the changes of an outcome.
func writeOutcome(out io.Writer, outcome *preview.Outcome) {
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	if outcome.Message != "" {
		line("# %s", outcome.Message)
	}
	for _, hook := range outcome.Hooks {
		line("# the hook %s would run (%s)", hook.Kind+" "+strings.TrimPrefix(hook.Namespace+"/"+hook.Name, "/"), hook.Event)
	}
	for i := range outcome.Changes {
		change := &outcome.Changes[i]
		if change.Reason != "" {
			sign := "#"
			if change.Fails {
				sign = "!"
			}
			line("%s %s %s: %s: %s", sign, change.Kind, strings.TrimPrefix(change.Namespace+"/"+change.Name, "/"),
				change.Reason, change.Message)
		}
		_, _ = io.WriteString(out, change.Diff)
	}
}

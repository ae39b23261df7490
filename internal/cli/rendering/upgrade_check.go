// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

// upgradeChecking is the command "upgrade-check".
type upgradeChecking struct {
	kube.Base
	Source
	choice
	to      string
	version apilifecycle.Version
	// absent are the names in --cluster that no HelmOp selects.
	absent  []string
	output  kube.Output
	timeout time.Duration
}

func newUpgradeCheck(o kube.Options) *cobra.Command {
	u := &upgradeChecking{Base: kube.NewBase(o)}
	cmd := &cobra.Command{
		Use:   "upgrade-check --to VERSION [HELMOP...]",
		Short: "Show what an upgrade of Kubernetes would break in the releases of a fleet, before the upgrade",
		Long: `Show what an upgrade of Kubernetes would break in the releases of a fleet, before the upgrade.

For each HelmOp and each of its Clusters, the command compares two things with the version of Kubernetes: the objects
that the release has now, and the objects that its chart renders for that version. It shows

- objects with an API that the version does not serve, or that is deprecated there, with the API to use instead,
- charts whose kubeVersion excludes the version, or that cannot be rendered for it,
- the version of the add-on that spec.refsByKubernetesVersion chooses for it, if that is another one.

Hooks are checked, too; tests are remarks unless spec.test.mode is Enabled. Each line says what to do. A "!" marks what
must be done before the upgrade; the other lines are remarks. Cluster API upgrades one minor version at a time, so each
minor version in between is checked, and each line has the first version in which it matters. With
spec.beforeClusterUpgrade, the chart for the new version is also checked for the running version. Without a HelmOp, all
HelmOps of the namespace are checked; run the command for each namespace with HelmOps. Clusters with the same result are
shown once.

The APIs of Kubernetes are those that this program was built with, k8s.io/api. The APIs of CustomResourceDefinitions are
those of the Cluster and of the chart. Nothing is written in any cluster, and nothing is sent as a dry run.

The command needs the rights of "render", and the right to list the HelmOps, the HelmOpReleases and the Clusters. For
the management cluster as a target, it also gets customresourcedefinitions.

The exit code is 0 if there is nothing to do, 1 if there is something to do, and higher if a release could not be
checked, if a name of --cluster or the labels of -l match no Cluster, or if all Clusters run a newer version. A Cluster
without the release that is not ready yet changes nothing.`,
		Example: `  # May the Clusters go to Kubernetes 1.37?
  kubectl helmop upgrade-check --to v1.37

  # One HelmOp in the Clusters of a wave
  kubectl helmop upgrade-check --to v1.37 calico -l tier=canary

  # For a script
  kubectl helmop upgrade-check --to v1.37 --cluster prod-1 -o json`,
		Args:              kube.Args(0, -1),
		ValidArgsFunction: u.CompleteHelmOps(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := u.run(cmd.Context(), args)
			if err != nil && !errors.Is(err, kube.ErrDiffers) {
				return kube.NoResult(err)
			}
			return err
		},
	}
	u.Add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&u.to, "to", "", "The version of Kubernetes to check, such as v1.37 (required).")
	u.choice.add(flags, "Check")
	u.output.Add(cmd, "text", "json", "yaml")
	flags.DurationVar(&u.timeout, "timeout", 5*time.Minute, "How long the command may take; 0 is without a limit.")
	u.ReadFlags.Add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("cluster", u.CompleteClusters)
	return cmd
}

func (u *upgradeChecking) validate() (err error) {
	if err := u.output.Validate(); err != nil {
		return err
	}
	if u.to == "" {
		return kube.Usagef("the version of Kubernetes is missing: set --to")
	}
	if u.version, err = apilifecycle.ParseVersion(u.to); err != nil {
		return kube.Usagef("--to: %v", err)
	}
	return u.choice.validate()
}

func (u *upgradeChecking) run(ctx context.Context, args []string) (err error) {
	if err := u.validate(); err != nil {
		return err
	}
	ctx, cancel := kube.Bounded(ctx, u.timeout)
	defer cancel()
	c, err := u.Connect()
	if err != nil {
		return err
	}
	helmOps, err := namedHelmOps(ctx, c, args)
	if err != nil {
		return err
	}
	previewer, end, err := u.Previewer(c, &u.Base, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if known := apilifecycle.KnownVersion(); !known.IsZero() && u.version.Compare(known) > 0 {
		u.Note("note: this program knows the APIs of Kubernetes %s. Of later versions, it knows the planned removals only",
			known)
	}
	u.absent = slices.Clone(u.clusters)
	report := &UpgradeCheck{To: u.to, Namespace: c.Namespace}
	for _, helmOp := range helmOps {
		// Each HelmOp needs its own Previewer, because HelmOps may verify the same chart in different ways.
		if err := u.check(ctx, previewer.Another(), helmOp, report); err != nil {
			report.HelmOps = append(report.HelmOps, UpgradeOfHelmOp{HelmOp: helmOp.Name, Error: kube.Explain(err).Error()})
			report.FailedHelmOps++
		}
	}
	return u.print(report)
}

// check adds the result of one HelmOp to a report.
func (u *upgradeChecking) check(ctx context.Context, previewer *preview.Previewer, helmOp *addonsv1.HelmOp,
	report *UpgradeCheck,
) error {
	keys, err := u.choice.of(ctx, previewer, helmOp)
	if err != nil {
		return err
	}
	u.absent = slices.DeleteFunc(u.absent, func(name string) bool {
		return slices.Contains(keys, clusterNamed(helmOp, name))
	})
	results, err := previewer.UpgradeClusters(ctx, helmOp, keys, u.to)
	if err != nil {
		return err
	}
	groups, err := preview.GroupUpgrades(results)
	if err != nil {
		return err
	}
	report.add(helmOp.Name, groups)
	return nil
}

// UpgradeCheck is the output of "upgrade-check -o json".
type UpgradeCheck struct {
	// To is the version of Kubernetes.
	To        string `json:"to"`
	Namespace string `json:"namespace"`

	// Releases is the number of all releases. The other fields are the numbers of releases in a state.
	Releases int `json:"releases"`
	ToDo     int `json:"toDo"`
	Clear    int `json:"clear"`
	NotReady int `json:"notReady"`
	Failed   int `json:"failed"`

	// FailedHelmOps is the number of HelmOps that could not be checked in any Cluster.
	FailedHelmOps int `json:"failedHelmOps"`

	HelmOps []UpgradeOfHelmOp `json:"helmOps"`

	// steps is the number of releases whose Clusters would be upgraded. newer is the number of releases whose Clusters
	// have a newer version.
	steps, newer int
}

// UpgradeOfHelmOp is the result of one HelmOp.
type UpgradeOfHelmOp struct {
	HelmOp string                 `json:"helmOp"`
	Groups []preview.UpgradeGroup `json:"groups"`

	// Error is the reason if the HelmOp could not be checked in any Cluster.
	Error string `json:"error,omitempty"`
}

// add adds the groups of a HelmOp.
func (c *UpgradeCheck) add(helmOp string, groups []preview.UpgradeGroup) {
	c.HelmOps = append(c.HelmOps, UpgradeOfHelmOp{HelmOp: helmOp, Groups: groups})
	for i := range groups {
		n := len(groups[i].Clusters)
		c.Releases += n
		switch groups[i].State {
		case preview.StateToDo:
			c.ToDo += n
		case preview.StateClear:
			c.Clear += n
			c.countSteps(&groups[i])
		case preview.StateNotReady:
			c.NotReady += n
		default:
			c.Failed += n
		}
	}
}

// countSteps counts the releases without findings by the versions of their Clusters.
func (c *UpgradeCheck) countSteps(group *preview.UpgradeGroup) {
	to, err := apilifecycle.ParseVersion(c.To)
	if err != nil {
		return
	}
	from, err := apilifecycle.ParseVersion(group.From)
	switch {
	case len(group.Steps) > 0:
		c.steps += len(group.Clusters)
	case err == nil && from.Compare(to) > 0:
		c.newer += len(group.Clusters)
	}
}

// unchecked returns an error if the command did not check everything that the user requested.
func (u *upgradeChecking) unchecked(report *UpgradeCheck) error {
	switch {
	case report.FailedHelmOps > 0:
		return fmt.Errorf("%s could not be checked; see above", plural.Count(report.FailedHelmOps, "HelmOp", "HelmOps"))
	case len(u.absent) > 0:
		return fmt.Errorf("no HelmOp selects the %s %s: check --cluster, and the selectors of the HelmOps",
			plural.Word(len(u.absent), "Cluster", "Clusters"), strings.Join(u.absent, ", "))
	case report.Failed > 0:
		return fmt.Errorf("%s could not be checked; see above", plural.Count(report.Failed, "release", "releases"))
	case report.Releases == 0 && u.labelSelector != "":
		return fmt.Errorf("nothing was checked: no HelmOp selects a Cluster with the labels %q; check --selector",
			u.labelSelector)
	case report.Releases == 0:
		return fmt.Errorf("nothing was checked: no HelmOp of namespace %q selects a Cluster; check --namespace",
			report.Namespace)
	case report.newer == report.Releases:
		return fmt.Errorf("nothing was checked: all Clusters run a newer version than %s; check --to", u.version)
	default:
		return nil
	}
}

// print prints a report, and returns the error for the exit code.
func (u *upgradeChecking) print(report *UpgradeCheck) error {
	if err := u.output.Write(u.Streams.Out, report, func(out io.Writer) error {
		_, err := io.WriteString(out, report.text())
		return err
	}); err != nil {
		return err
	}
	err := u.unchecked(report)
	switch {
	case err != nil:
		return err
	case report.ToDo > 0:
		return kube.ErrDiffers
	case report.Clear == report.Releases && report.steps == 0:
		u.Note("note: nothing was checked: all Clusters run %s or a newer version already", u.version)
	}
	return nil
}

// text returns the report for people: a summary and, for each HelmOp, the groups of Clusters with their findings.
func (c *UpgradeCheck) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "Kubernetes %s, %s: %s\n", c.To, plural.Count(c.Releases, "release", "releases"), c.counts())
	for _, one := range c.HelmOps {
		clusters := 0
		for i := range one.Groups {
			clusters += len(one.Groups[i].Clusters)
		}
		if clusters == 0 && one.Error == "" {
			continue
		}
		fmt.Fprintf(&out, "\nHelmOp %q\n", one.HelmOp)
		if one.Error != "" {
			fmt.Fprintf(&out, "  not checked: %s\n", strings.Join(strings.Fields(one.Error), " "))
		}
		for i := range one.Groups {
			writeUpgrade(&out, &one.Groups[i], clusters)
		}
	}
	return out.String()
}

// counts returns the numbers of releases.
func (c *UpgradeCheck) counts() string {
	return countsOf("no release was checked", []count{{c.ToDo, "with something to do"},
		{c.Clear, "with nothing to do"}, {c.NotReady, "not ready"}, {c.Failed, "failed"}})
}

// writeUpgrade writes the result of a group of Clusters. clusters is the number of all Clusters.
func writeUpgrade(out *strings.Builder, group *preview.UpgradeGroup, clusters int) {
	summary := group.Message
	switch {
	case summary != "":
	case group.State == preview.StateToDo:
		summary = "something to do"
	default:
		summary = "nothing to do"
	}
	if len(group.Steps) > 0 {
		summary = fmt.Sprintf("%s to %s: %s", group.From, strings.Join(group.Steps, ", "), summary)
	}
	fmt.Fprintf(out, "  %s: %s\n", titleOf(group.Clusters, clusters), strings.Join(strings.Fields(summary), " "))
	for i := range group.Findings {
		finding := &group.Findings[i]
		sign := " "
		if finding.ToDo {
			sign = "!"
		}
		fmt.Fprintf(out, "  %s %s %s: %s\n      Way out: %s.\n", sign, finding.Step, finding.Reason,
			strings.Join(strings.Fields(finding.Message), " "), finding.WayOut)
	}
}

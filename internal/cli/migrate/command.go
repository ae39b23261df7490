// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
)

// defaultTimeout is how long the command waits for adoptions and deletions.
const defaultTimeout = 10 * time.Minute

// migration is the command "migrate".
type migration struct {
	kube.Base
	comparison rendering.Source

	from   string
	output kube.Output

	// release, chartURL, chart, chartSecret and chartCertSecret are for --from helm.
	release, chartURL, chart, chartSecret, chartCertSecret string
	// names are the names of objects that the user gave.
	names       []string
	apply, undo bool
	// acceptInstall is for --from fleet.
	acceptInstall bool
	preview       bool
	timeout       time.Duration
	// heldDelay is how long all missing releases must need a user before the command ends. After this time, the command
	// also reports that no manager has read a HelmOp.
	heldDelay time.Duration
	client    *kube.Client
	tool      tool
}

// Commands returns the commands of the package.
func Commands(o kube.Options) []*cobra.Command { return []*cobra.Command{newMigrate(o)} }

func newMigrate(o kube.Options) *cobra.Command {
	m := &migration{Base: kube.NewBase(o), heldDelay: heldDelay}
	cmd := &cobra.Command{
		Use:   "migrate --from " + strings.Join(toolNames, "|") + " [NAME...]",
		Short: "Take over releases from another tool",
		Long: `Take over releases from another tool.

The command reads the objects of the other tool in a namespace, or those with the given names:

  caaph  HelmChartProxies of the Cluster API add-on provider for Helm
  flux   HelmReleases of Flux whose kubeConfig is the one of a Cluster
  fleet  HelmOps of Fleet with releases in Clusters
  helm   none: it reads the release --release in all Clusters of the namespace

For each, it prints the HelmOp that replaces the object, what a HelmOp cannot express, and what the HelmOp would change
in each Cluster. Without --apply and --undo it writes nothing. With -o yaml it prints the HelmOps only.

With --apply, the command hands the releases over:

  1. It pauses the object of the other tool.
  2. It creates the HelmOp, and before that the annotations or labels on Clusters that the HelmOp needs.
  3. It waits until HelmOp has adopted each release, without a new Helm revision, and prints each problem at once.
  4. It deletes the object of the other tool, in a way that does not uninstall the releases.

Fleet does not hand a release over. With --accept-install, the command sets keepResources in the HelmOp of Fleet,
creates a paused HelmOp, and waits until Fleet has stored the option in all clusters. Then it deletes the HelmOp of
Fleet, and ends the pause: HelmOp installs the chart over the objects, and install hooks run.

An annotation on the object has the step: repeat the command after an interruption. Until step 4, --undo returns to the
other tool: it deletes the HelmOp, leaves the releases installed, and ends the pause.

The command uses your rights: to read and write the objects of the other tool, HelmOps, and the metadata of Clusters.`,
		Example: `  # What would happen?
  kubectl helmop migrate --from caaph

  # The HelmOps, for a Git repository
  kubectl helmop migrate --from caaph -o yaml

  # Hand over one HelmChartProxy, and then all others
  kubectl helmop migrate --from caaph calico --apply
  kubectl helmop migrate --from caaph --apply`,
		Args: kube.Args(0, -1),
		RunE: func(cmd *cobra.Command, args []string) error { return m.run(cmd.Context(), args) },
	}
	m.Add(cmd)
	m.comparison.ReadFlags.Add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&m.from, "from", "", "Tool to migrate from: "+strings.Join(toolNames, ", ")+".")
	flags.StringVar(&m.release, "release", "", "With --from helm, the release: NAMESPACE/NAME.")
	flags.StringVar(&m.chartURL, "chart-url", "",
		"With --from helm, the OCI repository of the chart, oci://HOST/REPOSITORY, or the https:// address of its chart "+
			"repository: a release does not name it.")
	flags.StringVar(&m.chart, "chart", "",
		"With --from helm, the name of the chart in its chart repository (default: the name in the release).")
	flags.StringVar(&m.chartSecret, "chart-secret", "", "With --from helm, the name of the Secret with the login for "+
		"--chart-url, see spec.source.secretRef.")
	flags.StringVar(&m.chartCertSecret, "chart-cert-secret", "", "With --from helm, the name of the Secret with the "+
		"certificates for --chart-url, see spec.source.certSecretRef.")
	flags.BoolVar(&m.apply, "apply", false, "Hand the releases over to HelmOp.")
	flags.BoolVar(&m.undo, "undo", false, "Return to the other tool. Possible until its objects are being deleted.")
	flags.BoolVar(&m.acceptInstall, "accept-install", false, "With --from fleet, accept that HelmOp installs the charts "+
		"again, over the objects of the releases. --apply needs it.")
	flags.BoolVar(&m.preview, "preview", true, "Show what the HelmOps would change in their Clusters. With "+
		"--from fleet --apply, false also leaves out the check that the HelmOps can be installed.")
	m.output.Add(cmd, "a report", "yaml")
	flags.DurationVar(&m.timeout, "timeout", defaultTimeout, "How long the command may take, with --apply for each "+
		"HelmOp; 0 is without a limit.")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(toolNames, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (m *migration) validate() error {
	switch {
	case m.toolOf() == nil:
		return kube.Usagef("--from %q is unknown; use one of %s", m.from, strings.Join(toolNames, ", "))
	case m.from != "helm" && (m.release != "" || !reflect.ValueOf(m.chartSource()).IsZero()):
		return kube.Usagef("--release, --chart and the flags --chart-... are for --from helm")
	case m.from != "fleet" && m.acceptInstall:
		return kube.Usagef("--accept-install is for --from fleet")
	case m.from == "fleet" && m.apply && !m.acceptInstall:
		return kube.Usagef("Fleet does not hand a release over: HelmOp installs each chart over the objects of the " +
			"release, as a new Helm revision, and install hooks of the chart run; add --accept-install, and try one HelmOp " +
			"first")
	case m.apply && m.undo:
		return kube.Usagef("--apply and --undo cannot be used together")
	case m.output.IsData() && (m.apply || m.undo):
		return kube.Usagef("--output cannot be used with --apply and --undo")
	default:
		return m.output.Validate()
	}
}

// chartSource returns the location of the chart of a release, for --from helm.
func (m *migration) chartSource() addonsv1.ArtifactSource {
	source := addonsv1.ArtifactSource{URL: m.chartURL, Chart: m.chart}
	if m.chartSecret != "" {
		source.SecretRef = &addonsv1.SecretReference{Name: m.chartSecret}
	}
	if m.chartCertSecret != "" {
		source.CertSecretRef = &addonsv1.SecretReference{Name: m.chartCertSecret}
	}
	return source
}

func (m *migration) run(ctx context.Context, names []string) error {
	if err := m.validate(); err != nil {
		return err
	}
	m.names = names
	// handOver uses the timeout for each item.
	bounded, cancel := kube.Bounded(ctx, m.timeout)
	defer cancel()
	var err error
	m.tool = m.toolOf()
	if m.client, err = m.Connect(append(m.tool.kinds(), corev1.SchemeGroupVersion.WithKind("Secret"))...); err != nil {
		return err
	}
	plan, err := m.tool.plan(bounded, m.client)
	if err != nil {
		return err
	}
	if err := choose(plan, names); err != nil {
		return err
	}
	if len(plan.Items) == 0 {
		m.Note("namespace %q has nothing to migrate from %s", m.client.Namespace, m.from)
		return nil
	}
	if m.undo {
		return m.handBack(bounded, plan)
	}
	if err := m.settleGaps(bounded, plan); err != nil {
		return err
	}
	switch {
	case m.apply:
		return m.handOver(ctx, plan)
	case m.output.IsData():
		return m.printHelmOps(plan)
	default:
		return m.report(bounded, plan)
	}
}

// choose keeps the items whose objects or HelmOps have one of the names. Without names, it keeps all.
func choose(plan *migrate.Plan, names []string) error {
	if len(names) == 0 {
		return nil
	}
	found := map[string]bool{}
	plan.Items = slices.DeleteFunc(plan.Items, func(item migrate.Item) bool {
		isNamed := false
		for _, name := range names {
			if item.HelmOp != nil && item.HelmOp.Name == name ||
				slices.ContainsFunc(item.From, func(o migrate.Object) bool { return o.Name == name }) {
				isNamed, found[name] = true, true
			}
		}
		return !isNamed
	})
	var errs []error
	for _, name := range names {
		if !found[name] {
			errs = append(errs, fmt.Errorf("there is no %q to migrate; check -n and --context", name))
		}
	}
	return errors.Join(errs...)
}

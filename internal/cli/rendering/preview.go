// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/approval"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

// previewing is the command "preview".
type previewing struct {
	kube.Base
	Source
	proposal
	clusters      []string
	labelSelector string
	output        kube.Output
	summary       bool
	showSecrets   bool
	timeout       time.Duration

	// clusterFile, kubeVersion and apiVersions describe a Cluster that the command does not connect to.
	clusterFile, kubeVersion string
	apiVersions              []string
}

func newPreview(o kube.Options) *cobra.Command {
	p := &previewing{Base: kube.NewBase(o)}
	cmd := &cobra.Command{
		Use:   "preview [HELMOP]",
		Short: "Show what a HelmOp would change in its Clusters, before it changes anything",
		Long: `Show what a HelmOp would change in its Clusters, before it changes anything.

The command uses the HelmOp in the management cluster, with another version or other values if you set them. With -f, it
uses the HelmOp in a file, which need not exist in the management cluster. The command renders the chart for each
Cluster with the code of the manager: with the values for the Cluster, its Kubernetes version and its API groups. It
then sends each new or changed object to the API server of the Cluster as a dry run, with the identity of the release.
The API server checks the object, runs its admission webhooks, and stores nothing. The command shows the difference
between the object in the Cluster and the result.

Clusters with the same result are shown once. Names of the Cluster are then shown as <cluster>. Changes that the Cluster
would refuse are marked with "!": immutable fields, kinds that the Cluster does not serve, objects of other releases,
missing rights. Data of Secrets, and values that come from Secrets, are shown as digests: equal digests are equal
secrets.

The preview is what the next action would do now in all Clusters. It ignores waves, pauses and dependencies. A release
that already has the desired chart, values and options has no changes. Clusters that have a release, but that the HelmOp
does not select, are shown, too: HelmOp would uninstall their releases. A release whose name or namespace changes would
be uninstalled before the new one is installed.

If the HelmOp requires approvals, and all selected Clusters are previewed, the command also prints the digest of these
releases. An approval of this digest applies exactly these charts, values and options. Clusters without a control plane
are not part of the digest.

The command needs the right to read the HelmOp, the objects that it refers to, and the kubeconfig Secrets of the
Clusters. With -f, --set-version or --values it also needs the right to create or update the HelmOp: the management
cluster checks it as a dry run.

With --cluster-file nothing is compared: the command prints the objects that an installation would create in the Cluster
of the file, like "render", and connects to no cluster. The file has the Cluster and the objects that the Cluster and
the HelmOp refer to, Secrets with values for example. The HelmOp is used as in its file, without defaults of its API.

The exit codes are those of "kubectl diff": 0 without differences, 1 with differences, higher if a Cluster could not be
previewed, if the HelmOp does not select a Cluster of --cluster and has no release in it, or if the labels of -l match
no Cluster. A Cluster without the release that is not ready yet does not change the exit code.`,
		Example: `  # What would a new version change?
  kubectl helmop preview calico --set-version 3.30.3

  # The same, in one line for each group of Clusters
  kubectl helmop preview calico --set-version 3.30.3 --summary

  # What would a HelmOp in a pull request change in the Clusters of a wave?
  kubectl helmop preview -f helmop.yaml -l tier=canary

  # What would be installed in a Cluster that does not exist yet?
  kubectl helmop preview -f helmop.yaml --cluster-file cluster.yaml --kube-version 1.34

  # For a script
  kubectl helmop preview -f helmop.yaml -o json`,
		Args:              kube.Args(0, 1),
		ValidArgsFunction: p.CompleteHelmOps(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := p.run(cmd.Context(), args)
			if err != nil && !errors.Is(err, kube.ErrDiffers) {
				return kube.NoResult(err)
			}
			return err
		},
	}
	p.addFlags(cmd)
	return cmd
}

func (p *previewing) addFlags(cmd *cobra.Command) {
	p.Add(cmd)
	p.proposal.add(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&p.clusters, "cluster", nil, "Preview these Clusters only: NAME, or NAMESPACE/NAME for a "+
		"Cluster of another namespace.")
	flags.StringVarP(&p.labelSelector, "selector", "l", "", "Preview the selected Clusters with these labels only.")
	flags.BoolVar(&p.summary, "summary", false, "Print a line for each group of Clusters, and no differences.")
	flags.BoolVar(&p.showSecrets, "show-secrets", false,
		"Show values that come from Secrets, and the data of Secrets.")
	p.output.Add(cmd, "text", "json", "yaml")
	flags.DurationVar(&p.timeout, "timeout", 5*time.Minute, "How long the command may take; 0 is without a limit.")
	flags.StringVar(&p.clusterFile, "cluster-file", "", "Render for the Cluster in this file, and connect to no cluster.")
	flags.StringVar(&p.kubeVersion, "kube-version", "",
		"With --cluster-file, the version of Kubernetes (default: that of the Cluster).")
	flags.StringSliceVar(&p.apiVersions, "api-versions", nil,
		"With --cluster-file, further APIs that the Cluster serves: GROUP/VERSION or GROUP/VERSION/KIND.")
	p.ReadFlags.Add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("cluster", p.CompleteClusters)
}

// validate checks the flags and returns the label selector.
func (p *previewing) validate(args []string) (labels.Selector, error) {
	if err := p.output.Validate(); err != nil {
		return nil, err
	}
	switch {
	case len(args) == 0 && p.file == "":
		return nil, kube.Usagef("the HelmOp is missing: name it, or set -f")
	case len(args) > 0 && p.file != "":
		return nil, kube.Usagef("a name and -f cannot be used together")
	case p.output.IsData() && p.summary:
		return nil, kube.Usagef("--summary cannot be used with -o %s", p.output.Format)
	case len(p.clusters) > 0 && p.labelSelector != "":
		return nil, kube.Usagef("--cluster and --selector cannot be used together")
	}
	if p.clusterFile != "" {
		if p.file == "" || p.output.IsData() || p.summary || len(p.clusters) > 0 || p.labelSelector != "" {
			return nil, kube.Usagef("--cluster-file needs -f, and cannot be used with --cluster, --selector, --output " +
				"and --summary")
		}
	} else if p.kubeVersion != "" || len(p.apiVersions) > 0 {
		return nil, kube.Usagef("--kube-version and --api-versions need --cluster-file")
	}
	selector, err := labels.Parse(p.labelSelector)
	if err != nil {
		return nil, kube.Usagef("--selector %q: %v", p.labelSelector, err)
	}
	return selector, nil
}

func (p *previewing) run(ctx context.Context, args []string) (err error) {
	selector, err := p.validate(args)
	if err != nil {
		return err
	}
	ctx, cancel := kube.Bounded(ctx, p.timeout)
	defer cancel()
	if p.clusterFile != "" {
		return p.offline(ctx)
	}
	c, err := p.Connect()
	if err != nil {
		return err
	}
	helmOp, err := p.proposal.helmOp(ctx, &p.Base, c, args)
	if err != nil {
		return err
	}
	previewer, end, err := p.Previewer(c, &p.Base, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	matches := func(cluster *unstructured.Unstructured) bool {
		return selector.Matches(labels.Set(cluster.GetLabels()))
	}
	if len(p.clusters) > 0 {
		matches = nil
	}
	clusters, err := p.keys(ctx, previewer, helmOp, matches)
	if err != nil {
		return kube.Explain(err)
	}
	key := []byte(rand.Text())
	if p.showSecrets {
		key = nil
	}
	results, err := previewer.Clusters(ctx, helmOp, clusters, matches, key)
	if err != nil {
		return kube.Explain(err)
	}
	groups, err := preview.GroupResults(results)
	if err != nil {
		return err
	}
	report := newReport(helmOp, results, groups)
	if approval.IsRequired(helmOp) && len(p.clusters) == 0 && selector.Empty() {
		report.ApprovalDigest = preview.ApprovalDigest(results)
	}
	return p.print(report)
}

// keys returns the Clusters to preview: those that the user named, or the selected Clusters that match.
func (p *previewing) keys(ctx context.Context, previewer *preview.Previewer, helmOp *addonsv1.HelmOp,
	matches func(*unstructured.Unstructured) bool,
) ([]client.ObjectKey, error) {
	if len(p.clusters) == 0 {
		return previewer.Selected(ctx, helmOp, matches)
	}
	keys := make([]client.ObjectKey, 0, len(p.clusters))
	for _, name := range p.clusters {
		keys = append(keys, clusterNamed(helmOp, name))
	}
	return keys, nil
}

// proposal is a HelmOp that is not stored: a HelmOp of the management cluster with changes, or a HelmOp in a file.
type proposal struct {
	file, version string
	valueFiles    []string
}

func (p *proposal) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&p.file, "filename", "f", "", "File with the HelmOp; - is the standard input.")
	flags.StringVar(&p.version, "set-version", "", "Tag or digest to use instead of spec.source.ref.")
	flags.StringSliceVar(&p.valueFiles, "values", nil,
		"Files with values to merge over spec.values. Later files take precedence.")
}

// isSet reports whether the HelmOp is in a file or has changes.
func (p *proposal) isSet() bool { return p.file != "" || p.version != "" || len(p.valueFiles) > 0 }

// helmOp returns the HelmOp in the form in which the management cluster would store it.
func (p *proposal) helmOp(ctx context.Context, b *kube.Base, c *kube.Client, args []string) (*addonsv1.HelmOp, error) {
	helmOp := &addonsv1.HelmOp{}
	if p.file == "" {
		if err := c.ReadHelmOp(ctx, args[0], helmOp); err != nil {
			return nil, err
		}
	} else if err := p.decode(b, helmOp, c.Namespace); err != nil {
		return nil, err
	}
	if !p.isSet() {
		return helmOp, nil
	}
	if err := p.change(b, helmOp); err != nil {
		return nil, err
	}
	return helmOp, kube.Explain(storeDry(ctx, c, helmOp))
}

// change applies the changes in the flags to a HelmOp.
func (p *proposal) change(b *kube.Base, helmOp *addonsv1.HelmOp) error {
	values, err := ReadValues(p.valueFiles)
	if err != nil {
		return err
	}
	if p.version != "" && len(helmOp.Spec.RefsByKubernetesVersion) > 0 {
		b.Note("warning: --set-version does not change spec.refsByKubernetesVersion")
	}
	return changeHelmOp(helmOp, p.version, values)
}

// decode reads the HelmOp from the file. If the HelmOp has no namespace, it gets the namespace of the command.
func (p *proposal) decode(b *kube.Base, helmOp *addonsv1.HelmOp, namespace string) error {
	data, err := readFile(p.file, b.Streams.In)
	if err != nil {
		return kube.Usagef("-f: %v", err)
	}
	if err := yaml.UnmarshalStrict(data, helmOp); err != nil {
		return kube.Usagef("-f %s: not a HelmOp: %v", p.file, err)
	}
	if helmOp.Kind != "HelmOp" || helmOp.APIVersion != addonsv1.GroupVersion.String() || helmOp.Name == "" {
		return kube.Usagef("-f %s: not a HelmOp: want apiVersion %s, kind HelmOp and a name", p.file, addonsv1.GroupVersion)
	}
	if helmOp.Namespace == "" {
		helmOp.Namespace = cmp.Or(namespace, "default")
	}
	return nil
}

func readFile(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(name)
}

// ReadValues merges the values of files; later files take precedence.
func ReadValues(files []string) (map[string]any, error) {
	merged := map[string]any{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, kube.Usagef("--values: %v", err)
		}
		values := map[string]any{}
		if err := yaml.Unmarshal(data, &values); err != nil {
			return nil, kube.Usagef("--values: %s: %v", name, err)
		}
		merged = bundle.MergeValues(merged, values)
	}
	return merged, nil
}

// changeHelmOp sets the version of a HelmOp, unless the version is empty. It merges values over spec.values.
func changeHelmOp(helmOp *addonsv1.HelmOp, version string, values map[string]any) error {
	switch {
	case strings.HasPrefix(version, "sha256:"):
		helmOp.Spec.Source.Ref = addonsv1.ArtifactReference{Digest: version}
	case version != "":
		helmOp.Spec.Source.Ref = addonsv1.ArtifactReference{Tag: version}
	}
	if len(values) == 0 {
		return nil
	}
	merged := map[string]any{}
	if helmOp.Spec.Values != nil {
		if err := json.Unmarshal(helmOp.Spec.Values.Raw, &merged); err != nil {
			return fmt.Errorf("spec.values: %w", err)
		}
	}
	data, err := json.Marshal(bundle.MergeValues(merged, values))
	helmOp.Spec.Values = &apiextensionsv1.JSON{Raw: data}
	return err
}

// storeDry brings the HelmOp into the form that the API server would store: validated and with defaults. If the HelmOp
// exists, the result has its status.
func storeDry(ctx context.Context, c client.Client, helmOp *addonsv1.HelmOp) error {
	return kube.RetryOnConflict(func() error {
		live := &addonsv1.HelmOp{}
		err := c.Get(ctx, client.ObjectKeyFromObject(helmOp), live)
		if apierrors.IsNotFound(err) && !kube.IsKindMissing(err) {
			return c.Create(ctx, helmOp, client.DryRunAll)
		}
		if err != nil {
			return err
		}
		live.Spec = helmOp.Spec
		live.Labels, live.Annotations = union(live.Labels, helmOp.Labels), union(live.Annotations, helmOp.Annotations)
		if err := c.Update(ctx, live, client.DryRunAll); err != nil {
			return err
		}
		*helmOp = *live
		return nil
	})
}

// union returns the entries of both maps. The second map takes precedence.
func union(a, b map[string]string) map[string]string {
	both := maps.Clone(a)
	if both == nil {
		return b
	}
	maps.Copy(both, b)
	return both
}

// GroupTitle returns a title with the Clusters of a group. clusters is the number of all Clusters.
func GroupTitle(group *preview.Group, clusters int) string {
	report := &Preview{Clusters: clusters}
	return report.title(group)
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

// rendering is the common part of "values" and "render": the release of one HelmOp in one Cluster.
type rendering struct {
	kube.Base
	cluster     string
	showSecrets bool
	timeout     time.Duration
}

func (r *rendering) addFlags(cmd *cobra.Command) {
	r.Add(cmd)
	r.AddClusterFlag(cmd, &r.cluster, "The Cluster to render for (required unless the HelmOp has "+
		"spec.managementCluster).")
	cmd.Flags().BoolVar(&r.showSecrets, "show-secrets", false,
		"Show values that come from Secrets, and the data of Secrets.")
	cmd.Flags().DurationVar(&r.timeout, "timeout", 2*time.Minute, "How long the command may take; 0 is without a limit.")
}

// key returns the key of the Cluster that the user named.
func (r *rendering) key(helmOp *addonsv1.HelmOp) (client.ObjectKey, error) {
	if r.cluster == "" && helmOp.Spec.ManagementCluster == nil {
		return client.ObjectKey{}, kube.Usagef("the Cluster is missing: set --cluster")
	}
	return clusterNamed(helmOp, r.cluster), nil
}

// clusterNamed returns the key of a Cluster that the user named as NAME or NAMESPACE/NAME. An empty name is the
// management cluster.
func clusterNamed(helmOp *addonsv1.HelmOp, title string) client.ObjectKey {
	switch namespace, name, ok := strings.Cut(title, "/"); {
	case helmOp.Spec.ManagementCluster != nil && (title == "" || title == clusterlink.Management.Name):
		return clusterlink.Management
	case ok:
		return client.ObjectKey{Namespace: namespace, Name: name}
	default:
		return client.ObjectKey{Namespace: helmOp.Namespace, Name: title}
	}
}

// release renders the values of a HelmOp for the Cluster.
func (r *rendering) release(ctx context.Context, name string, options preview.Options) (*preview.Previewer,
	*preview.Release, error,
) {
	c, err := r.Connect()
	if err != nil {
		return nil, nil, err
	}
	helmOp, err := c.HelmOp(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	key, err := r.key(helmOp)
	if err != nil {
		return nil, nil, err
	}
	previewer, err := newPreviewer(c, options, &r.Base, nil)
	if err != nil {
		return nil, nil, err
	}
	release, err := previewer.Release(ctx, helmOp, key)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return nil, nil, kube.WithText(fmt.Sprintf("the release cannot be rendered: %v", err), err)
	}
	if err != nil {
		return nil, nil, kube.Explain(err)
	}
	if !release.IsSelected {
		r.Note("warning: HelmOp %q does not select Cluster %q; this is what it would install there", name, r.cluster)
	}
	return previewer, release, nil
}

// masker returns the Masker of a release. It returns nil if secrets are shown.
func (r *rendering) masker(release *preview.Release) *preview.Masker {
	if r.showSecrets {
		return nil
	}
	return preview.NewMasker(release.SecretValues)
}

func newValues(o kube.Options) *cobra.Command {
	r := &rendering{Base: kube.NewBase(o)}
	cmd := &cobra.Command{
		Use:   "values HELMOP",
		Short: "Print the values of a HelmOp for one Cluster",
		Long: `Print the values of a HelmOp for one Cluster, as its templates and layers yield them now: valuesFrom, values,
valuesTemplate and overrides. The values.yaml of the chart is not included. Values that come from Secrets are shown as
[redacted].

The command reads the objects that the HelmOp refers to with your rights, Secrets included.`,
		Example: `  kubectl helmop values calico --cluster prod-1
  kubectl helmop values calico --cluster prod-1 --show-secrets > values.yaml`,
		Args:              kube.Args(1, 1),
		ValidArgsFunction: r.CompleteHelmOps(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.values(cmd.Context(), args[0]) },
	}
	r.addFlags(cmd)
	return cmd
}

func (r *rendering) values(ctx context.Context, name string) error {
	ctx, cancel := kube.Bounded(ctx, r.timeout)
	defer cancel()
	_, release, err := r.release(ctx, name, preview.Options{})
	if err != nil {
		return err
	}
	if masker := r.masker(release); masker != nil {
		text, err := masker.Values(release.Values)
		if err != nil {
			return err
		}
		_, err = io.WriteString(r.Streams.Out, text)
		return err
	}
	text, err := yaml.Marshal(release.Values)
	if err != nil {
		return err
	}
	_, err = r.Streams.Out.Write(text)
	return err
}

// chartRendering is the command "render".
type chartRendering struct {
	rendering
	Source
	noHooks, noCRDs bool
}

func newRender(o kube.Options) *cobra.Command {
	r := &chartRendering{rendering: rendering{Base: kube.NewBase(o)}}
	cmd := &cobra.Command{
		Use:   "render HELMOP",
		Short: "Print the objects that a HelmOp would install in one Cluster",
		Long: `Print the objects that a HelmOp would install in one Cluster now, with its chart, its values and its
postRender. Nothing is changed in any cluster.

The chart is the artifact that the manager resolved last, with the signatures that the HelmOp requires. It is rendered
for the Kubernetes version and the API groups of the Cluster, with the lookups of the chart, and as an upgrade if the
Cluster has the release. CRDs come first, hooks last, and the notes of the chart are printed on standard error. Data of
Secrets, and values that come from Secrets, are shown as [redacted].

The command reads the objects that the HelmOp refers to, and the kubeconfig Secret of the Cluster, with your rights. It
pulls the chart with the credentials of the HelmOp, or with those of your Docker configuration.`,
		Example: `  kubectl helmop render calico --cluster prod-1
  kubectl helmop render calico --cluster prod-1 --no-hooks | kubectl diff --kubeconfig prod-1.kubeconfig -f -`,
		Args:              kube.Args(1, 1),
		ValidArgsFunction: r.CompleteHelmOps(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0]) },
	}
	r.addFlags(cmd)
	cmd.Flags().BoolVar(&r.noHooks, "no-hooks", false, "Leave hooks out.")
	cmd.Flags().BoolVar(&r.noCRDs, "no-crds", false, "Leave the folder crds out.")
	r.ReadFlags.Add(cmd)
	return cmd
}

func (r *chartRendering) run(ctx context.Context, name string) (err error) {
	ctx, cancel := kube.Bounded(ctx, r.timeout)
	defer cancel()
	options, end, err := r.Source.options()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	previewer, release, err := r.release(ctx, name, options)
	if err != nil {
		return err
	}
	rendered, err := previewer.Render(ctx, release)
	if err != nil {
		return kube.Explain(err)
	}
	var texts []string
	if !r.noCRDs {
		texts = append(texts, rendered.CRDs...)
	}
	texts = append(texts, rendered.Manifest)
	if !r.noHooks {
		texts = append(texts, rendered.Hooks...)
	}
	masker := r.masker(release)
	if err := writeDocuments(r.Streams.Out, masker, texts); err != nil {
		return err
	}
	if rendered.Notes != "" {
		notes := rendered.Notes
		if masker != nil {
			notes = masker.Text(notes)
		}
		r.Note("NOTES:\n%s", notes)
	}
	return nil
}

// writeDocuments prints the YAML documents in texts. If masker is not nil, it hides secrets.
func writeDocuments(out io.Writer, masker *preview.Masker, texts []string) error {
	for _, text := range texts {
		reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			content := strings.TrimSpace(strings.TrimPrefix(string(document), "---\n"))
			if content == "" {
				continue
			}
			if masker != nil {
				content = strings.TrimSpace(masker.Document(content))
			}
			if _, err := fmt.Fprintf(out, "---\n%s\n", content); err != nil {
				return err
			}
		}
	}
	return nil
}

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
	"oras.land/oras-go/v2/registry"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/bill"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

// These are output formats of other projects.
const (
	formatSPDX      = "spdx"
	formatCycloneDX = "cyclonedx"
)

// billing is the command "bill".
type billing struct {
	kube.Base
	Source
	proposal
	choice
	allNamespaces bool
	offline       bool
	noLookup      bool
	from          string
	missingIn     string
	plainHTTP     bool
	output        kube.Output
	timeout       time.Duration

	// target is the value of --missing-in.
	target registry.Reference
}

// Missing is the output of "bill --missing-in -o json".
type Missing struct {
	// Registry is the value of --missing-in.
	Registry string         `json:"registry"`
	Missing  []bill.Missing `json:"missing"`
	// Unknown are the artifacts for which the list has no digest or no attached artifacts. The registry may lack them,
	// too.
	Unknown []bill.Unknown `json:"unknown,omitempty"`
}

func newBill(o kube.Options) *cobra.Command {
	b := &billing{Base: kube.NewBase(o)}
	cmd := &cobra.Command{
		Use:   "bill [HELMOP...]",
		Short: "List the charts, images, CRDs and signatures that HelmOps install",
		Long: `List the charts, images, CRDs and signatures that HelmOps install in their Clusters.

For each Cluster, the charts are rendered as "preview" does: with the code of the manager, and with the values, the
Kubernetes version and the API groups of the Cluster. The list has each chart with its digest, the images of all
containers and image volumes, hooks included, and the CRDs. Clusters with the same list are shown once. A Cluster that
has no control plane yet is rendered for the Kubernetes version in its object; --offline does this for all Clusters.

The registries of the images are asked for their digests, and for the signatures, attestations and other artifacts that
refer to charts and images, with the credentials of the HelmOp or of your Docker configuration. For charts, the list
also has what spec.source.verify requires, and who signed the chart. The command does not find images that
programs get by arguments, variables or fields of custom resources.

With -f, --set-version or --values, the command lists what a new or changed HelmOp would install, as in "preview".

--missing-in lists what a registry of an air gap does not have, under the names that "mirror" gives to copies. Artifacts
are compared by their digests where these are known. The exit code is 1 if something is missing. "mirror --from-bill"
copies what is missing. --from reads a list that -o json or -o yaml has written, and needs no management cluster.

The exit code is greater than 1 if the contents of a Cluster cannot be read, or if a registry does not answer or
does not have an artifact of the list. A warning says why. It is also greater than 1 if there are no HelmOps, or if the
labels of -l match no Cluster.`,
		Example: `  # What do the HelmOps of this namespace install?
  kubectl helmop bill

  # A list for a scanner
  kubectl helmop bill -A -o cyclonedx > fleet.cdx.json

  # Copy all of it to the registry of an air gap
  kubectl helmop bill -o json > bill.json
  kubectl helmop mirror --from-bill bill.json --to oci://mirror.example.com/base

  # Is all of it there?
  kubectl helmop bill --from bill.json --missing-in oci://mirror.example.com/base

  # What does a new version need that the registry does not have?
  kubectl helmop bill calico --set-version 3.30.3 --missing-in oci://mirror.example.com/base`,
		Args:              kube.Args(0, -1),
		ValidArgsFunction: b.CompleteHelmOps(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := b.run(cmd.Context(), args)
			if err != nil && !errors.Is(err, kube.ErrDiffers) {
				return kube.NoResult(err)
			}
			return err
		},
	}
	b.addFlags(cmd)
	return cmd
}

func (b *billing) addFlags(cmd *cobra.Command) {
	b.Add(cmd)
	b.proposal.add(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&b.allNamespaces, "all-namespaces", "A", false, "List the HelmOps of all namespaces.")
	b.choice.add(flags, "List")
	flags.BoolVar(&b.offline, "offline", false,
		"Connect to no workload cluster, and render for the Kubernetes versions in the Cluster objects.")
	flags.BoolVar(&b.noLookup, "no-lookup", false,
		"Do not ask registries for the digests of images, and for signatures of charts and images.")
	flags.StringVar(&b.from, "from", "", "Read the list from this file, which -o json or -o yaml has written; - is the "+
		"standard input.")
	flags.StringVar(&b.missingIn, "missing-in", "",
		"List what is missing in this registry, below the start of the repositories: oci://HOST/PREFIX.")
	flags.BoolVar(&b.plainHTTP, "plain-http", false, "Use HTTP instead of HTTPS for the registry of --missing-in.")
	flags.DurationVar(&b.timeout, "timeout", 10*time.Minute, "How long the command may take; 0 is without a limit.")
	b.output.Add(cmd, "tables", "wide", "json", "yaml", formatSPDX, formatCycloneDX)
	b.ReadFlags.Add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("cluster", b.CompleteClusters)
}

func (b *billing) validate(args []string) (err error) {
	if err := b.output.Validate(); err != nil {
		return err
	}
	isChanged := b.version != "" || len(b.valueFiles) > 0
	switch {
	case b.from != "" && (len(args) > 0 || b.file != "" || isChanged || len(b.clusters) > 0 || b.labelSelector != "" ||
		b.allNamespaces || b.offline || b.noLookup):
		return kube.Usagef("--from cannot be used with HelmOps and with the flags that choose or change them")
	case b.file != "" && (len(args) > 0 || b.allNamespaces):
		return kube.Usagef("-f cannot be used with names of HelmOps and with --all-namespaces")
	case isChanged && b.file == "" && len(args) != 1:
		return kube.Usagef("--set-version and --values need the name of one HelmOp, or -f")
	case b.allNamespaces && len(args) > 0:
		return kube.Usagef("names of HelmOps and --all-namespaces cannot be used together")
	case b.missingIn != "" && (b.output.Format == formatSPDX || b.output.Format == formatCycloneDX):
		return kube.Usagef("--missing-in cannot be used with -o %s", b.output.Format)
	}
	if err := b.choice.validate(); err != nil {
		return err
	}
	if b.missingIn == "" {
		return nil
	}
	b.target, err = parsePrefix(b.missingIn)
	return err
}

// parsePrefix parses oci://HOST/PREFIX.
func parsePrefix(text string) (registry.Reference, error) {
	bare, ok := strings.CutPrefix(text, "oci://")
	prefix, err := registry.ParseReference(strings.TrimSuffix(bare, "/"))
	if !ok || err != nil || prefix.Reference != "" {
		return prefix, kube.Usagef("--missing-in %q: want oci://HOST/PREFIX, without a tag or a digest", text)
	}
	return prefix, nil
}

func (b *billing) run(ctx context.Context, args []string) (err error) {
	if err := b.validate(args); err != nil {
		return err
	}
	ctx, cancel := kube.Bounded(ctx, b.timeout)
	defer cancel()
	options, end, err := b.Source.options()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	list, err := b.list(ctx, args, options)
	if err != nil {
		return kube.Explain(err)
	}
	for _, unknown := range list.Unknown() {
		b.Note("warning: %s: %s", unknown.Name, unknown.Message)
	}
	if b.missingIn != "" {
		err = b.printMissing(ctx, list)
	} else {
		err = b.print(list)
	}
	if problem := list.Problem(); problem != nil && (err == nil || errors.Is(err, kube.ErrDiffers)) {
		return problem
	}
	return err
}

// list makes the bill or reads it from a file.
func (b *billing) list(ctx context.Context, args []string, options preview.Options) (*bill.Bill, error) {
	if b.from != "" {
		data, err := readFile(b.from, b.Streams.In)
		if err != nil {
			return nil, kube.Usagef("--from: %v", err)
		}
		list, err := bill.Read(data)
		if err != nil {
			return nil, kube.Usagef("--from %s: %v", b.from, err)
		}
		return list, nil
	}
	c, err := b.Connect()
	if err != nil {
		return nil, err
	}
	if b.allNamespaces {
		c.Namespace = ""
	}
	helmOps, err := b.helmOps(ctx, c, args)
	if err != nil {
		return nil, err
	}
	options.Resolves = true
	previewer, err := newPreviewer(c, options, &b.Base, nil)
	if err != nil {
		return nil, err
	}
	subjects, err := b.subjects(ctx, previewer, helmOps)
	if err != nil {
		return nil, err
	}
	making := bill.Options{Namespace: c.Namespace, Offline: b.offline}
	if !b.noLookup {
		making.Registry = b.registries
	}
	return bill.Make(ctx, subjects, making)
}

// helmOps returns the HelmOps to list.
func (b *billing) helmOps(ctx context.Context, c *kube.Client, args []string) ([]*addonsv1.HelmOp, error) {
	if b.proposal.isSet() {
		helmOp, err := b.proposal.helmOp(ctx, &b.Base, c, args)
		return []*addonsv1.HelmOp{helmOp}, err
	}
	return namedHelmOps(ctx, c, args)
}

// subjects returns the HelmOps with their Clusters.
func (b *billing) subjects(ctx context.Context, previewer *preview.Previewer,
	helmOps []*addonsv1.HelmOp,
) ([]bill.Subject, error) {
	var subjects []bill.Subject
	for _, helmOp := range helmOps {
		own := previewer.Another()
		keys, err := b.choice.of(ctx, own, helmOp)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, bill.Subject{HelmOp: helmOp, Clusters: keys, Previewer: own})
	}
	for _, name := range b.clusters {
		if !slices.ContainsFunc(subjects, func(s bill.Subject) bool {
			return slices.Contains(s.Clusters, clusterNamed(s.HelmOp, name))
		}) {
			return nil, kube.Usagef("no HelmOp selects the Cluster %q", name)
		}
	}
	hasClusters := slices.ContainsFunc(subjects, func(s bill.Subject) bool { return len(s.Clusters) > 0 })
	switch {
	case len(helmOps) == 0:
		return nil, errors.New("nothing was listed: there are no HelmOps; check --namespace and --context")
	case !hasClusters && b.labelSelector != "":
		return nil, fmt.Errorf("nothing was listed: no HelmOp selects a Cluster with the labels %q; check --selector",
			b.labelSelector)
	default:
		return subjects, nil
	}
}

func (b *billing) print(list *bill.Bill) error {
	out := b.Streams.Out
	switch b.output.Format {
	case formatSPDX:
		return list.WriteSPDX(out, b.Now())
	case formatCycloneDX:
		return list.WriteCycloneDX(out, b.Now())
	default:
		return b.output.Write(out, list, func(out io.Writer) error { return list.WriteText(out, b.output.IsWide()) })
	}
}

// printMissing prints the artifacts that the registry lacks, and returns the error for the exit code.
func (b *billing) printMissing(ctx context.Context, list *bill.Bill) error {
	missing, err := list.MissingIn(ctx, b.registries, b.target, oci.Access{Insecure: b.plainHTTP})
	if err != nil {
		return err
	}
	if err := b.output.Write(b.Streams.Out, Missing{b.missingIn, missing, list.Unknown()}, func(out io.Writer) error {
		return bill.WriteMissing(out, b.missingIn, missing, list.Problem() != nil, b.output.IsWide())
	}); err != nil || len(missing) == 0 {
		return err
	}
	return kube.ErrDiffers
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	kubectlget "k8s.io/kubectl/pkg/cmd/get"
	kubectl "k8s.io/kubectl/pkg/cmd/util"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// The kinds of "get", in the order of its help.
const (
	getHelmOps   = "helmops"
	getReleases  = "releases"
	getRevisions = "revisions"
)

// getResources maps the names that users may type to the resources of the API.
var getResources = map[string]string{
	getHelmOps: "helmops", "helmop": "helmops", "hop": "helmops",
	getReleases: "helmopreleases", "release": "helmopreleases", "helmopreleases": "helmopreleases",
	"hopr":       "helmopreleases",
	getRevisions: "helmoprevisions", "revision": "helmoprevisions", "helmoprevisions": "helmoprevisions",
	"hoprv": "helmoprevisions",
}

// get is the command "get". It works like kubectl's command, but only for the kinds of HelmOp. It finds releases and
// revisions by the name of their HelmOp.
type get struct {
	kube.Base
	*kubectlget.GetOptions
}

func newGet(o kube.Options) *cobra.Command {
	g := &get{Base: kube.NewBase(o)}
	g.GetOptions = kubectlget.NewGetOptions(o.Program, g.Streams)
	cmd := &cobra.Command{
		Use:   "get [helmops|releases|revisions] [HELMOP...]",
		Short: "Print HelmOps, releases or HelmOp revisions as kubectl does",
		Long: `Print HelmOps, releases or HelmOp revisions as kubectl does.

The columns and the output formats are those of "kubectl get", and most of its flags. Names are those of HelmOps: "get
releases calico" prints the HelmOpReleases of the HelmOp calico in all its Clusters, and "get revisions calico" its
HelmOpRevisions. Without names, all objects of the namespace are printed; without a kind, the HelmOps.`,
		Example: `  # The HelmOps of all namespaces
  kubectl helmop get -A

  # The releases of calico with more columns, and again after each change
  kubectl helmop get releases calico -o wide -w

  # What a HelmOp revision of calico has assigned
  kubectl helmop get revisions calico -o yaml

  # The versions in all Clusters
  kubectl helmop get releases calico -o custom-columns=CLUSTER:.spec.clusterRef.name,VERSION:.status.release.version`,
		Args:              kube.Args(0, -1),
		ValidArgsFunction: g.complete,
		RunE:              func(cmd *cobra.Command, args []string) error { return g.run(cmd, args) },
	}
	g.Add(cmd)
	g.PrintFlags.AddFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&g.AllNamespaces, "all-namespaces", "A", false, "Print the objects of all namespaces.")
	flags.BoolVarP(&g.Watch, "watch", "w", false, "After the objects, print each object that changes.")
	flags.BoolVar(&g.WatchOnly, "watch-only", false, "Print each object that changes, and nothing before.")
	flags.BoolVar(&g.OutputWatchEvents, "output-watch-events", false, "With --watch, print events with their objects.")
	flags.StringVarP(&g.LabelSelector, "selector", "l", "", "Print objects with these labels only.")
	flags.StringVar(&g.FieldSelector, "field-selector", "", "Print objects with these fields only: metadata.name, for "+
		"example.")
	return cmd
}

func (g *get) run(cmd *cobra.Command, args []string) error {
	kind, names := getHelmOps, args
	if len(args) > 0 {
		kind, names = args[0], args[1:]
	}
	resource, ok := getResources[kind]
	if !ok {
		return kube.Usagef("%q is not a kind; use %s, %s or %s, and then names of HelmOps", kind, getHelmOps, getReleases,
			getRevisions)
	}
	if len(names) > 0 && g.AllNamespaces {
		return kube.Usagef("names and --all-namespaces cannot be used together")
	}
	if resource != getHelmOps && len(names) > 0 {
		if err := g.selectOf(cmd.Context(), names); err != nil {
			return err
		}
		names = nil
	}
	factory := kubectl.NewFactory(uncached{g.ConfigFlags, &g.Base})
	args = append([]string{resource + "." + addonsv1.GroupVersion.Version + "." + addonsv1.GroupVersion.Group}, names...)
	if err := g.Complete(factory, cmd, args); err != nil {
		return kube.Explain(err)
	}
	if err := g.Validate(); err != nil {
		return kube.Usagef("%v", err)
	}
	return explainAll(g.Run(factory, args))
}

// explainAll explains each error of an aggregate, in which kubectl's code returns its errors. An aggregate hides the
// types of its errors, and the exit code depends on them.
func explainAll(err error) error {
	var aggregate utilerrors.Aggregate
	if !errors.As(err, &aggregate) {
		return kube.Explain(err)
	}
	var explained []error
	for _, one := range utilerrors.Flatten(aggregate).Errors() {
		explained = append(explained, kube.Explain(one))
	}
	return errors.Join(explained...)
}

// selectOf selects the objects of the named HelmOps. Each HelmOp must exist.
func (g *get) selectOf(ctx context.Context, names []string) error {
	selector, err := labels.Parse(g.LabelSelector)
	if err != nil {
		return kube.Usagef("--selector %q: %v", g.LabelSelector, err)
	}
	c, err := g.Connect()
	if err != nil {
		return err
	}
	values := make([]string, 0, len(names))
	for _, name := range names {
		helmOp, err := c.HelmOp(ctx, name)
		if err != nil {
			return err
		}
		values = append(values, apiutil.ChildSelector(helmOp)[addonsv1.HelmOpNameLabel])
	}
	of, err := labels.NewRequirement(addonsv1.HelmOpNameLabel, selection.In, values)
	if err != nil {
		return err
	}
	g.LabelSelector = selector.Add(*of).String()
	return nil
}

// complete completes the kind first, and then the names of HelmOps.
func (g *get) complete(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return g.CompleteHelmOps(-1)(cmd, args[1:], prefix)
	}
	kinds := slices.DeleteFunc([]string{getHelmOps, getReleases, getRevisions},
		func(kind string) bool { return !strings.HasPrefix(kind, prefix) })
	return kinds, cobra.ShellCompDirectiveNoFileComp
}

// uncached connects kubectl's code to the management cluster, without its cache of APIs on the disk.
type uncached struct {
	*genericclioptions.ConfigFlags
	base *kube.Base
}

// ToRESTConfig implements genericclioptions.RESTClientGetter.
func (u uncached) ToRESTConfig() (*rest.Config, error) { return u.base.RestConfig() }

// ToDiscoveryClient implements genericclioptions.RESTClientGetter.
func (u uncached) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	config, err := u.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return memory.NewMemCacheClient(client), nil
}

// ToRESTMapper implements genericclioptions.RESTClientGetter. It needs no discovery, because the kinds are known.
func (u uncached) ToRESTMapper() (meta.RESTMapper, error) { return kube.Mapper(), nil }

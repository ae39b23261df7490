// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"context"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

// choice selects some of the Clusters of a HelmOp by --cluster or by -l.
type choice struct {
	clusters      []string
	labelSelector string
	selector      labels.Selector
}

// add adds the flags. verb is the first word of their texts.
func (c *choice) add(flags *pflag.FlagSet, verb string) {
	flags.StringSliceVar(&c.clusters, "cluster", nil,
		verb+" these Clusters only: NAME, or NAMESPACE/NAME for a Cluster of another namespace.")
	flags.StringVarP(&c.labelSelector, "selector", "l", "", verb+" the selected Clusters with these labels only.")
}

func (c *choice) validate() (err error) {
	if len(c.clusters) > 0 && c.labelSelector != "" {
		return kube.Usagef("--cluster and --selector cannot be used together")
	}
	if c.selector, err = labels.Parse(c.labelSelector); err != nil {
		return kube.Usagef("--selector %q: %v", c.labelSelector, err)
	}
	return nil
}

// of returns the chosen Clusters of a HelmOp.
func (c *choice) of(ctx context.Context, previewer *preview.Previewer, helmOp *addonsv1.HelmOp) ([]client.ObjectKey,
	error,
) {
	keys, err := previewer.Selected(ctx, helmOp, func(cluster *unstructured.Unstructured) bool {
		return c.selector.Matches(labels.Set(cluster.GetLabels()))
	})
	return slices.DeleteFunc(keys, func(key client.ObjectKey) bool {
		if key == clusterlink.Management && !c.selector.Empty() {
			return true // The management cluster has no labels.
		}
		return len(c.clusters) > 0 && !slices.ContainsFunc(c.clusters, func(name string) bool {
			return clusterNamed(helmOp, name) == key
		})
	}), err
}

// namedHelmOps reads HelmOps by name. Without names, it reads all HelmOps of the namespace that are not under deletion.
func namedHelmOps(ctx context.Context, c *kube.Client, names []string) ([]*addonsv1.HelmOp, error) {
	if len(names) == 0 {
		helmOps, _, err := kube.ListAll[*addonsv1.HelmOp](ctx, c, &addonsv1.HelmOpList{}, client.InNamespace(c.Namespace))
		return slices.DeleteFunc(helmOps, func(h *addonsv1.HelmOp) bool { return h.DeletionTimestamp != nil }),
			kube.Explain(err)
	}
	var helmOps []*addonsv1.HelmOp
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		helmOp, err := c.HelmOp(ctx, name)
		if err != nil {
			return nil, err
		}
		helmOps = append(helmOps, helmOp)
	}
	return helmOps, nil
}

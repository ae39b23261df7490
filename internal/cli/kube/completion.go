// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// completionTimeout limits the requests of a completion, because the shell waits for it.
const completionTimeout = 3 * time.Second

// CompleteHelmOps completes the names of HelmOps, for up to "most" arguments. A negative number means no limit.
func (b *Base) CompleteHelmOps(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return b.completeNames(cmd, addonsv1.GroupVersion.String(), "HelmOpList", false, prefix)
	}
}

// CompleteWaves completes the names of waves: the waves of the HelmOps in the arguments or, without arguments, of all
// HelmOps.
func (b *Base) CompleteWaves(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := completionContext(cmd)
	defer cancel()
	c, err := b.Connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	helmOps, _, err := ListAll[*addonsv1.HelmOp](ctx, c, &addonsv1.HelmOpList{}, client.InNamespace(c.Namespace))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	for _, helmOp := range helmOps {
		if helmOp.Spec.Rollout == nil || len(args) > 0 && !slices.Contains(args, helmOp.Name) {
			continue
		}
		for i := range helmOp.Spec.Rollout.Waves {
			name := helmOp.Spec.Rollout.Waves[i].Name
			if strings.HasPrefix(name, prefix) && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completionContext bounds the requests of a completion.
func completionContext(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(ctx, completionTimeout)
}

// CompleteClusters completes the names of Clusters.
func (b *Base) CompleteClusters(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return b.completeNames(cmd, clusterv1.GroupVersion.String(), "ClusterList", false, prefix)
}

// completeNamespaces completes the names of namespaces.
func (b *Base) completeNamespaces(cmd *cobra.Command, _ []string, prefix string) (
	[]string, cobra.ShellCompDirective,
) {
	return b.completeNames(cmd, corev1.SchemeGroupVersion.String(), "NamespaceList", true, prefix)
}

// completeNames returns the names of the objects of a kind. If the API server does not answer, it returns nothing.
func (b *Base) completeNames(cmd *cobra.Command, apiVersion, kind string, cluster bool, prefix string) (
	[]string, cobra.ShellCompDirective,
) {
	ctx, cancel := completionContext(cmd)
	defer cancel()
	c, err := b.Connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}}
	var opts []client.ListOption
	if !cluster {
		opts = append(opts, client.InNamespace(c.Namespace))
	}
	items, _, err := ListAll[*metav1.PartialObjectMetadata](ctx, c, list, opts...)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	for _, item := range items {
		if strings.HasPrefix(item.Name, prefix) {
			found = append(found, item.Name)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

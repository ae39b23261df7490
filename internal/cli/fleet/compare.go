// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

// Comparison previews HelmOps for other commands, as "preview" does. The HelmOps need not exist.
type Comparison struct{ source chartSource }

// Add adds the flags for access to registries.
func (c *Comparison) Add(cmd *cobra.Command) { c.source.add(cmd) }

// Groups returns what a HelmOp would change in its Clusters. Secrets are hidden. wrap returns a reader of the
// management cluster that shows changes of Clusters that are not made yet; nil shows the Clusters as they are.
func (c *Comparison) Groups(ctx context.Context, b *kube.Base, helmOp *addonsv1.HelmOp,
	wrap func(client.Reader) client.Reader,
) (groups []preview.Group, err error) {
	management, err := b.Connect()
	if err != nil {
		return nil, err
	}
	stored := helmOp.DeepCopy()
	if err := storeDry(ctx, management, stored); err != nil {
		return nil, kube.Explain(err)
	}
	options, end, err := c.source.options()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	options.Resolves = true
	previewer, err := newPreviewerWith(management, options, b, wrap)
	if err != nil {
		return nil, err
	}
	clusters, err := previewer.Selected(ctx, stored, nil)
	if err != nil {
		return nil, kube.Explain(err)
	}
	results, err := previewer.Clusters(ctx, stored, clusters, []byte(rand.Text()))
	if err != nil {
		return nil, kube.Explain(err)
	}
	return preview.GroupResults(results)
}

// GroupTitle names the Clusters of a group, one of so many.
func GroupTitle(group *preview.Group, clusters int) string {
	report := &Preview{Clusters: clusters}
	return report.title(group)
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// ReleaseSpec returns the spec of the release for a Cluster, from the outcome of a Program. helmOp is the current
// HelmOp: its settings for the Cluster, for the storage and for the deletion apply at once, whatever the revision of
// the Program is.
func (p *Program) ReleaseSpec(helmOp *addonsv1.HelmOp, cluster client.ObjectKey, rendered outcome, chosen choice,
	artifact *addonsv1.ResolvedArtifact,
) *addonsv1.HelmOpReleaseSpec {
	now, options := &helmOp.Spec, chosen.Options
	SetImpersonation(&options, now)
	spec := &addonsv1.HelmOpReleaseSpec{
		ClusterRef:       apiutil.ClusterRefOf(helmOp.Namespace, cluster),
		Release:          rendered.Release,
		Artifact:         *artifact,
		ValuesDigest:     rendered.ValuesDigest,
		PostRenderDigest: rendered.PostRenderDigest,
		ReleaseOptions:   options,
		ClusterOptions:   now.ClusterOptions,
		Storage:          now.Storage,
		DeletionPolicy:   now.DeletionPolicy,
	}
	if p.Ahead {
		spec.KubernetesVersion = chosen.Version
	}
	return spec
}

// SetImpersonation sets the ServiceAccount that a HelmOp impersonates for all requests to the management cluster.
func SetImpersonation(options *addonsv1.ReleaseOptions, now *addonsv1.HelmOpSpec) {
	if now.ManagementCluster != nil {
		options.ImpersonateServiceAccountName = now.ManagementCluster.ImpersonateServiceAccountName
	}
}

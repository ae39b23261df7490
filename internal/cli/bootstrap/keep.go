// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bootstrap"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// keepPath keeps the folder that the cluster already uses, unless the command line has a folder. Other folders of the
// artifact may contain the Clusters of other management clusters. An empty --cluster-path, for example from an unset
// variable, counts as missing.
func (b *ociCommand) keepPath(ctx context.Context, plan *plan) error {
	if b.clusterPath != "" {
		return nil
	}
	applier, err := b.applier(nil)
	if err != nil {
		return err
	}
	folder, found, err := applier.StatePath(ctx)
	if err != nil {
		return err
	}
	if found {
		if plan.path = folder; folder != "" {
			b.say("--cluster-path is not set: the cluster keeps using the folder %s", folder)
		}
		return nil
	}
	applied, err := applier.AppliedState(ctx)
	if err != nil {
		return err
	}
	if applied != "" {
		return kube.Usagef(
			"%s, and its folder is unknown; set --cluster-path (\".\" for the whole artifact)", applied)
	}
	b.say("--cluster-path is not set: the cluster uses the whole artifact at %s", plan.state.URL())
	return nil
}

// keepSource keeps the fields of the HelmOps for which the command line has no value. For example, an update without a
// key must not remove the requirement for signatures.
func (b *ociCommand) keepSource(
	ctx context.Context,
	applier *bootstrap.Applier,
	objects []*unstructured.Unstructured,
) error {
	for _, one := range []struct {
		field, flag string
		silent      bool
	}{
		{"verify", "verify-key", b.verifyKey == ""},
		{"interval", "interval", !b.intervalGiven},
		// A CA cannot be combined with the identity of a cloud or with HTTP.
		{"certSecretRef", "ca-file", b.CAFile == "" && !b.isCloud() && !b.PlainHTTP},
	} {
		if !one.silent {
			continue
		}
		kept, err := applier.Keep(ctx, objects, one.field)
		if err != nil {
			return err
		}
		if kept {
			b.say("--%s is not set: spec.source.%s of the HelmOps is kept", one.flag, one.field)
		}
	}
	return nil
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bootstrap"
)

// keepPath has the state of the cluster stay that of the folder which it is from, unless the run names one: the artifact may have what
// makes the Clusters of others. An empty name, of a variable that is not set say, is none.
func (b *bootstrapOCI) keepPath(ctx context.Context, plan *bootstrapPlan) error {
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
			b.say("without --cluster-path, the state of the cluster stays that in %s", folder)
		}
		return nil
	}
	applied, err := applier.AppliedState(ctx)
	if err != nil {
		return err
	}
	if applied != "" {
		return usageError{fmt.Errorf("%s, and from which folder is not known: give --cluster-path, which is . for all of the artifact", applied)}
	}
	b.say("without --cluster-path, the state of the cluster is all of the artifact at %s", plan.state.name())
	return nil
}

// keepSource has the HelmOps keep what else the run says nothing of: an update from where the key is not at hand must not drop the demand
// for signatures.
func (b *bootstrapOCI) keepSource(ctx context.Context, applier *bootstrap.Applier, objects []*unstructured.Unstructured) error {
	for _, one := range []struct {
		field, flag string
		silent      bool
	}{
		{"verify", "verify-key", b.verifyKey == ""},
		{"interval", "interval", !b.intervalGiven},
		// One goes with neither.
		{"certSecretRef", "ca-file", b.caFile == "" && !b.isCloud() && !b.plainHTTP},
	} {
		if !one.silent {
			continue
		}
		kept, err := applier.Keep(ctx, objects, one.field)
		if err != nil {
			return err
		}
		if kept {
			b.say("without --%s, spec.source.%s of the HelmOps stays as it is", one.flag, one.field)
		}
	}
	return nil
}

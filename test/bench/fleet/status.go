/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// status counts what is written to the management cluster while the releases of a big fleet turn ready, first installed,
// then upgraded. A target that is missed is an error.
func status(ctx context.Context, b *bench) error {
	const namespace = "big"
	if err := b.fleet(ctx, namespace, map[string]int{"c": b.healthy}); err != nil {
		return err
	}
	manager, err := b.env.StartManager(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = manager.Stop(context.WithoutCancel(ctx)) }()
	helmOp := b.helmOp(namespace, "big")
	since := time.Now()
	if err := b.env.Client.Create(ctx, helmOp); err != nil {
		return err
	}
	if err := b.counted(ctx, "install", helmOp, since); err != nil {
		return err
	}
	since = time.Now()
	if err := b.change(ctx, helmOp, "two"); err != nil {
		return err
	}
	return b.counted(ctx, "upgrade", helmOp, since)
}

// counted waits until a HelmOp is Ready with all of its Clusters and tells what was written since.
func (b *bench) counted(ctx context.Context, phase string, helmOp *addonsv1.HelmOp, since time.Time) error {
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		if err := b.env.Client.Get(ctx, client.ObjectKeyFromObject(helmOp), helmOp); err != nil {
			return false, err
		}
		s := &helmOp.Status
		return s.ObservedGeneration == helmOp.Generation && conditions.IsTrue(helmOp, addonsv1.ReadyCondition) &&
			s.Clusters != nil && int(s.Clusters.Ready) == b.healthy && s.Clusters.UpToDate == s.Clusters.Ready, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w: %+v", phase, err, helmOp.Status.Clusters)
	}
	took := time.Since(since)
	writes := map[string]int{}
	requests, err := b.env.Management.Server.Requests(apiserver.Since(since), apiserver.ByUser(environment.User), apiserver.Writes())
	if err != nil {
		return err
	}
	for _, r := range requests {
		writes[r.Resource]++
	}
	fmt.Printf("%s of %d Clusters: ready after %.1f s; writes to HelmOps: %d, target %d; all writes: %v\n",
		phase, b.healthy, took.Seconds(), writes["helmops"], b.maxWrites, writes)
	if writes["helmops"] > b.maxWrites {
		return fmt.Errorf("%s: %d writes to HelmOps, target %d", phase, writes["helmops"], b.maxWrites)
	}
	return nil
}

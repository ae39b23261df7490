// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// pollInterval is the time between two checks of the objects.
const pollInterval = 200 * time.Millisecond

// follower prints the changes since the last check.
type follower struct {
	progress *progress
	printed  map[string]string
}

// note prints news about a subject, unless it was printed before.
func (f *follower) note(subject, news string) {
	if news == "" || f.printed[subject] == news {
		return
	}
	f.printed[subject] = news
	f.progress.say("%-16s %s", subject, news)
}

// follow prints the changes until all checks pass.
func (d *demo) follow(ctx context.Context) error {
	f := &follower{progress: d.progress, printed: map[string]string{}}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		done, err := d.check(ctx, f)
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the HelmOp is not ready (%s): %w", f.printed["HelmOp "+helmOpName], errors.Join(ctx.Err(), err))
		case <-d.manager.Done():
			return d.manager.Unexpected()
		case <-ticker.C:
		}
	}
}

// check checks the objects, prints their changes and reports whether the HelmOp is ready and every Cluster up. The
// caller may ignore an error and call again.
func (d *demo) check(ctx context.Context, f *follower) (bool, error) {
	up, err := d.checkClusters(ctx, f)
	if err != nil {
		return false, err
	}
	releases := &addonsv1.HelmOpReleaseList{}
	if err := d.env.Client.List(ctx, releases, client.InNamespace(namespace)); err != nil {
		return false, err
	}
	for i := range releases.Items {
		release := &releases.Items[i]
		cluster := release.Spec.ClusterRef.Name
		f.note("release in "+cluster, describeRelease(release))
	}
	helmOp := &addonsv1.HelmOp{}
	if err := d.env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: helmOpName}, helmOp); err != nil {
		return false, err
	}
	if resolved := conditions.Get(helmOp, addonsv1.ResolvedCondition); resolved != nil {
		f.note("source", resolved.Message)
	}
	ready := conditions.Get(helmOp, addonsv1.ReadyCondition)
	if ready == nil {
		return false, nil
	}
	f.note("HelmOp "+helmOpName, fmt.Sprintf("%s: %s", ready.Reason, ready.Message))
	return up && conditions.IsTrue(helmOp, addonsv1.ReadyCondition) && verifyHelmOp(helmOp, releases.Items) == nil, nil
}

// checkClusters reports whether every Cluster is up.
func (d *demo) checkClusters(ctx context.Context, f *follower) (bool, error) {
	up := true
	for _, desired := range demoClusters() {
		cluster := &clusterv1.Cluster{}
		if err := d.env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: desired.name}, cluster); err != nil {
			return false, err
		}
		if cluster.Status.Initialization.ControlPlaneInitialized == nil ||
			!*cluster.Status.Initialization.ControlPlaneInitialized {
			up = false
			continue
		}
		f.note("Cluster "+desired.name, "control plane initialized")
	}
	return up, nil
}

// describeRelease returns the state of a release.
func describeRelease(release *addonsv1.HelmOpRelease) string {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	switch {
	case ready == nil, ready.Status == metav1.ConditionTrue && release.Status.Release == nil:
		return "" // The rest of the status is written soon.
	case ready.Status != metav1.ConditionTrue:
		return fmt.Sprintf("%s: %s", ready.Reason, ready.Message)
	}
	observed := release.Status.Release
	return fmt.Sprintf("%s, Helm revision %d, chart %s %s", observed.Status, observed.Revision, observed.Chart,
		observed.Version)
}

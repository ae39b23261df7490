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

// pollInterval is how often the objects are looked at.
const pollInterval = 200 * time.Millisecond

// follower says what is new since it looked last.
type follower struct {
	progress *progress
	said     map[string]string
}

// note says what is new about a subject; what was said before is not repeated.
func (f *follower) note(subject, news string) {
	if news == "" || f.said[subject] == news {
		return
	}
	f.said[subject] = news
	f.progress.say("%-16s %s", subject, news)
}

// follow says what happens until all is as it should be.
func (d *demo) follow(ctx context.Context) error {
	f := &follower{progress: d.progress, said: map[string]string{}}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		done, err := d.look(ctx, f)
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the HelmOp is not ready (%s): %w", f.said["HelmOp "+helmOpName], errors.Join(ctx.Err(), err))
		case <-d.manager.Done():
			return d.manager.Unexpected()
		case <-ticker.C:
		}
	}
}

// look tells whether the HelmOp is ready and every Cluster up. An error may pass.
func (d *demo) look(ctx context.Context, f *follower) (bool, error) {
	up, err := d.lookAtClusters(ctx, f)
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

// lookAtClusters tells whether every Cluster is up.
func (d *demo) lookAtClusters(ctx context.Context, f *follower) (bool, error) {
	up := true
	for _, wanted := range demoClusters() {
		cluster := &clusterv1.Cluster{}
		if err := d.env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: wanted.name}, cluster); err != nil {
			return false, err
		}
		if cluster.Status.Initialization.ControlPlaneInitialized == nil ||
			!*cluster.Status.Initialization.ControlPlaneInitialized {
			up = false
			continue
		}
		f.note("Cluster "+wanted.name, "control plane initialized")
	}
	return up, nil
}

// describeRelease says how a release stands.
func describeRelease(release *addonsv1.HelmOpRelease) string {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	switch {
	case ready == nil, ready.Status == metav1.ConditionTrue && release.Status.Release == nil:
		return "" // The rest of the status is about to follow.
	case ready.Status != metav1.ConditionTrue:
		return fmt.Sprintf("%s: %s", ready.Reason, ready.Message)
	}
	observed := release.Status.Release
	return fmt.Sprintf("%s, revision %d, chart %s %s", observed.Status, observed.Revision, observed.Chart,
		observed.Version)
}

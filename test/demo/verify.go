// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// verifyHelmOp returns an error that names the failed checks of the HelmOp and its releases.
func verifyHelmOp(helmOp *addonsv1.HelmOp, releases []addonsv1.HelmOpRelease) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, condition := range []string{addonsv1.ReadyCondition, addonsv1.ResolvedCondition} {
		if !conditions.IsTrue(helmOp, condition) {
			wrong("HelmOp %s: condition %s is not true: %s", helmOp.Name, condition,
				conditionText(conditions.Get(helmOp, condition)))
		}
	}
	if !conditions.IsFalse(helmOp, addonsv1.RollingOutCondition) {
		wrong("HelmOp %s: condition %s is not false: %s", helmOp.Name, addonsv1.RollingOutCondition,
			conditionText(conditions.Get(helmOp, addonsv1.RollingOutCondition)))
	}
	if helmOp.Status.ObservedGeneration != helmOp.Generation {
		wrong("HelmOp %s: the status is of generation %d, not %d", helmOp.Name, helmOp.Status.ObservedGeneration,
			helmOp.Generation)
	}
	matching := matchingClusters()
	counts := addonsv1.ClusterCounts{}
	if helmOp.Status.Clusters != nil {
		counts = *helmOp.Status.Clusters
	}
	if want := int32(len(matching)); counts != (addonsv1.ClusterCounts{Selected: want, UpToDate: want, Ready: want}) {
		wrong("HelmOp %s: want %d Clusters selected, up to date and ready and nothing else, got %+v", helmOp.Name, want,
			counts)
	}
	clusters := map[string]bool{}
	for i := range releases {
		release := &releases[i]
		clusters[release.Spec.ClusterRef.Name] = true
		if !conditions.IsTrue(release, addonsv1.ReadyCondition) {
			wrong("HelmOpRelease %s is not ready: %s", release.Name,
				conditionText(conditions.Get(release, addonsv1.ReadyCondition)))
		}
	}
	if len(releases) != len(matching) {
		wrong("want %d HelmOpReleases, got %d", len(matching), len(releases))
	}
	for _, cluster := range matching {
		if !clusters[cluster.name] {
			wrong("Cluster %s has no HelmOpRelease", cluster.name)
		}
	}
	return errors.Join(errs...)
}

// verifyWorkload returns an error that names the failed checks of a workload cluster.
func verifyWorkload(cluster demoCluster, found *workload, version string) error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("Cluster "+cluster.name+": "+format, args...))
	}
	if !cluster.matches {
		if len(found.releases) > 0 || found.namespace || found.configMap != nil || found.daemonSetCIDR != "" {
			wrong("the Cluster is not selected, but has objects of HelmOp: %+v", *found)
		}
		return errors.Join(errs...)
	}
	if len(found.releases) != 1 {
		wrong("want one revision of one release, got %v", found.releases)
	} else {
		release := found.releases[0]
		want := fmt.Sprintf("%s/%s, Helm revision 1, deployed, chart %s-%s", releaseNamespace, releaseName, chartName,
			version)
		if release.String() != want {
			wrong("want release %s, got %s", want, release)
		}
	}
	for key, want := range map[string]string{"podCIDR": cluster.podCIDR, "cluster": cluster.name,
		"region": cluster.region} {
		if got := found.configMap[key]; got != want {
			wrong("ConfigMap %s: want %s %q, got %q", releaseName, key, want, got)
		}
	}
	if found.daemonSetCIDR != cluster.podCIDR {
		wrong("DaemonSet %s: want POD_CIDR %q, got %q", releaseName, cluster.podCIDR, found.daemonSetCIDR)
	}
	return errors.Join(errs...)
}

// verifyLog returns an error if an API server refused a request of the manager, which has only the permissions of a
// release.
func verifyLog(log []byte) error {
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(" is forbidden: ")) {
			return fmt.Errorf("a request of the manager was refused: %s", bytes.TrimSpace(line))
		}
	}
	return nil
}

func conditionText(condition *metav1.Condition) string {
	if condition == nil {
		return "not set"
	}
	return fmt.Sprintf("%s, %s: %s", condition.Status, condition.Reason, condition.Message)
}

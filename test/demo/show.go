// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// show prints the objects of the management cluster, and the releases in each workload cluster.
func (d *demo) show(ctx context.Context) error {
	output, err := d.env.Management.Kubectl(ctx, "get", "hop,hopr")
	if err != nil {
		return fmt.Errorf("kubectl get hop,hopr: %w", err)
	}
	d.progress.say("the objects of the management cluster:\n\n    $ kubectl get hop,hopr\n%s", indent(output.Stdout))
	d.progress.say("the releases in the workload clusters:\n")
	for _, cluster := range demoClusters() {
		found, err := d.read(ctx, cluster)
		if err != nil {
			return err
		}
		d.progress.print("%s\n", describeWorkload(cluster, found))
	}
	return nil
}

func (d *demo) read(ctx context.Context, cluster demoCluster) (*workload, error) {
	server := d.env.Management.Provider.Server(client.ObjectKey{Namespace: namespace, Name: cluster.name})
	if server == nil {
		return nil, fmt.Errorf("the Cluster %s has no running API server", cluster.name)
	}
	found, err := readWorkload(ctx, server.RESTConfig())
	if err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", cluster.name, err)
	}
	return found, nil
}

func describeWorkload(cluster demoCluster, found *workload) string {
	text := &strings.Builder{}
	fmt.Fprintf(text, "    %s\n", cluster.name)
	if len(found.releases) == 0 && found.configMap == nil && found.daemonSetCIDR == "" {
		fmt.Fprintf(text, "        nothing: no Helm release, no namespace %s\n", releaseNamespace)
	}
	for _, release := range found.releases {
		fmt.Fprintf(text, "        Helm release     %s\n", release)
	}
	if found.configMap != nil {
		fmt.Fprintf(text, "        ConfigMap %s  podCIDR %s, region %s, greeting %q\n",
			releaseName, found.configMap["podCIDR"], found.configMap["region"], found.configMap["greeting"])
	}
	if found.daemonSetCIDR != "" {
		fmt.Fprintf(text, "        DaemonSet %s  POD_CIDR=%s\n", releaseName, found.daemonSetCIDR)
	}
	return text.String()
}

// verify returns an error that names all failed checks.
func (d *demo) verify(ctx context.Context) error {
	helmOp := &addonsv1.HelmOp{}
	if err := d.env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: helmOpName}, helmOp); err != nil {
		return err
	}
	releases := &addonsv1.HelmOpReleaseList{}
	if err := d.env.Client.List(ctx, releases, client.InNamespace(namespace)); err != nil {
		return err
	}
	log, err := os.ReadFile(d.manager.LogFile())
	if err != nil {
		return err
	}
	errs := []error{verifyHelmOp(helmOp, releases.Items), verifyLog(log)}
	for _, cluster := range demoClusters() {
		found, err := d.read(ctx, cluster)
		if err != nil {
			return err
		}
		errs = append(errs, verifyWorkload(cluster, found, chartVersion))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("checks failed: %w", err)
	}
	d.progress.say("all checks passed")
	return nil
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// helmopProgram is the plugin of kubectl. It is a link to the demo itself, which saves building another program.
const helmopProgram = "kubectl-helmop"

// runHelmop runs a command of kubectl helmop, and returns its exit code.
func runHelmop() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.RunAs(ctx, helmopProgram, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
}

// toolsDir is the folder, in the work folder, with links to programs for the user.
const toolsDir = "bin"

// writeTools writes the kubeconfigs, and links to programs for the user.
func (d *demo) writeTools(context.Context) error {
	kubeconfig, err := d.env.Management.Server.Kubeconfig()
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.kubeconfig("management"), kubeconfig, 0o600); err != nil {
		return err
	}
	for _, cluster := range demoClusters() {
		server := d.env.Management.Provider.Server(client.ObjectKey{Namespace: namespace, Name: cluster.name})
		if server == nil {
			return fmt.Errorf("the Cluster %s has no running API server", cluster.name)
		}
		kubeconfig, err := server.Kubeconfig()
		if err != nil {
			return err
		}
		if err := os.WriteFile(d.kubeconfig(cluster.name), kubeconfig, 0o600); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(d.path(toolsDir), 0o700); err != nil {
		return err
	}
	for _, program := range []string{binaries.Kubectl, binaries.Clusterctl} {
		if err := os.Symlink(d.programs.Path(program), d.path(toolsDir, program)); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return os.Symlink(self, d.path(toolsDir, helmopProgram))
}

func (d *demo) kubeconfig(cluster string) string { return d.path(cluster + ".kubeconfig") }

// next lists commands for the user. The arguments are the work folder and the log of the manager.
const next = `
Try, in another terminal:

    export PATH=%[1]s/bin:$PATH KUBECONFIG=%[1]s/management.kubeconfig

    # Label the third Cluster: HelmOp installs the release. Then read the ConfigMap in the Cluster.
    kubectl label cluster west addons=hello
    kubectl get hop,hopr
    kubectl --kubeconfig=%[1]s/west.kubeconfig -n hello-system get configmap hello -o yaml

    # Change the values, then the version of the chart: each creates a new revision in every Cluster.
    kubectl patch hop hello --type=merge -p '{"spec":{"values":{"greeting":"Good evening, {{ .Cluster.metadata.name }}"}}}'
    kubectl patch hop hello --type=merge -p '{"spec":{"source":{"ref":{"semver":"2.x"}}}}'
    kubectl get hopr -o wide
    kubectl helmop events hello

    # See the Clusters on a page that renews itself. Run the next commands in another terminal meanwhile.
    kubectl helmop ui --open

    # Break the values of one Cluster. See what is wrong, in which Cluster, and what to do. Then correct the values.
    kubectl patch hop hello --type=merge -p '{"spec":{"values":{"greeting":"{{ if eq .Cluster.metadata.name \"north\" }}{{ fail \"no\" }}{{ end }}"}}}'
    kubectl helmop status
    kubectl helmop describe hello --cluster north
    kubectl patch hop hello --type=merge -p '{"spec":{"values":{"greeting":"Hello"}}}'
    kubectl helmop status

    # Preview an earlier version before you return to the HelmOp revision that had it, and watch the rollout.
    kubectl helmop history hello
    kubectl helmop preview hello --set-version 1.1.0
    kubectl helmop rollout undo hello --to-revision 1
    kubectl helmop rollout status hello

    # Remove the label, delete a Cluster, delete the HelmOp: HelmOp uninstalls the releases.
    kubectl label cluster north addons-
    kubectl delete cluster south
    kubectl delete hop hello

    # Read the log of HelmOp.
    tail -f %[2]s

Ctrl-C stops everything.
`

func (d *demo) printNext() {
	d.progress.print(next, d.dir, d.manager.LogFile())
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// Values of helmop.yaml, with which the outcome is compared.
const (
	namespace        = "default"
	helmOpName       = "hello"
	chartName        = "hello"
	releaseName      = "hello"
	releaseNamespace = "hello-system"
	selectorLabel    = "addons"

	// chartVersion is the highest pushed version in the range of helmop.yaml.
	chartVersion = "1.1.0"
)

// managerDir is the folder of the manager's program, in the work folder.
const managerDir = "manager"

// stopTimeout is how long all programs may take to stop.
const stopTimeout = 30 * time.Second

//go:embed helmop.yaml
var helmOpYAML string

// demoCluster is one of the Clusters of the demo.
type demoCluster struct {
	name, podCIDR, region string
	// matches is true if the selector of the HelmOp selects the Cluster.
	matches bool
}

func demoClusters() []demoCluster {
	return []demoCluster{
		{name: "north", podCIDR: "10.1.0.0/16", region: "arctic", matches: true},
		{name: "south", podCIDR: "10.2.0.0/16", region: "antarctic", matches: true},
		{name: "west", podCIDR: "10.3.0.0/16", region: "pacific"},
	}
}

func matchingClusters() []demoCluster {
	var matching []demoCluster
	for _, cluster := range demoClusters() {
		if cluster.matches {
			matching = append(matching, cluster)
		}
	}
	return matching
}

// demo holds the running parts of the demo.
type demo struct {
	progress *progress
	dir      string
	timeout  time.Duration

	// programs are the programs of the test bed, nil before they are ready.
	programs *binaries.Set
	// env is the started environment, nil before the start.
	env *environment.Environment
	// built is closed when the build of the manager has ended. It is nil before the build starts. buildErr is the error
	// of a failed build.
	built    chan struct{}
	buildErr error
	// manager is the manager of HelmOp, nil before the start.
	manager *environment.Manager
	// complete is true if all checks passed.
	complete bool
}

// play runs all steps, and returns an error if a check fails.
func (d *demo) play(ctx context.Context) error {
	if err := d.progress.timed("the programs of Kubernetes, Cluster API and the registry are ready", func() (err error) {
		d.programs, err = binaries.Ensure(ctx, binaries.Options{Programs: binaries.Basic(), Progress: d.progress.lines()})
		return err
	}); err != nil {
		return err
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	for _, step := range []func(context.Context) error{
		d.start, d.createClusters, d.applyHelmOp, d.startManager, d.follow, d.writeTools, d.show, d.verify,
	} {
		err := step(ctx)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && parent.Err() == nil {
			return fmt.Errorf("the demo took longer than %s: %w", d.timeout, err)
		}
		if err != nil {
			return err
		}
	}
	d.complete = true
	return nil
}

// start starts the management cluster and the registry, and installs HelmOp. It builds the manager in parallel.
func (d *demo) start(ctx context.Context) error {
	root, err := binaries.RepositoryRoot()
	if err != nil {
		return err
	}
	began := time.Now()
	d.built = make(chan struct{})
	go func() {
		defer close(d.built)
		if _, d.buildErr = testbed.BuildManager(ctx, root, d.path(managerDir)); d.buildErr == nil {
			d.progress.say("built the manager of HelmOp (%s)", seconds(time.Since(began)))
		}
	}()
	env, err := environment.Start(ctx, environment.Options{
		Dir:           d.dir,
		Progress:      func(step string) { d.progress.say("%s", step) },
		Output:        d.progress.lines(),
		NoManager:     true,
		Programs:      binaries.Basic(),
		ManagerBinary: d.path(managerDir, "helmop-manager"),
	})
	d.env = env
	return err
}

// startManager starts the manager of HelmOp.
func (d *demo) startManager(ctx context.Context) error {
	select {
	case <-d.built:
		if d.buildErr != nil {
			return fmt.Errorf("building the manager: %w", d.buildErr)
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	var err error
	return d.progress.timed("started the manager of HelmOp as ServiceAccount "+environment.ServiceAccount+
		", with the permissions of config/default", func() error {
		d.manager, err = d.env.StartManager(ctx)
		return err
	})
}

// stop stops everything that was started.
func (d *demo) stop() error {
	if d.built != nil {
		<-d.built // The build ends with the context of the demo at the latest.
	}
	if d.env == nil {
		return nil
	}
	// The user's Ctrl-C has ended all other contexts.
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return d.env.Stop(ctx)
}

func (d *demo) createClusters(ctx context.Context) error {
	for _, cluster := range demoClusters() {
		labels := map[string]string{}
		labelled := "without a label"
		if cluster.matches {
			labels[selectorLabel] = helmOpName
			labelled = fmt.Sprintf("with the label %s=%s", selectorLabel, helmOpName)
		}
		if _, err := d.env.Management.CreateCluster(ctx, testbed.ClusterOptions{
			Namespace: namespace, Name: cluster.name, Labels: labels, PodCIDRs: []string{cluster.podCIDR},
			Region: cluster.region,
			// With controllers, a DaemonSet gets its Pods.
			Controllers: true,
		}); err != nil {
			return fmt.Errorf("creating Cluster %s: %w", cluster.name, err)
		}
		d.progress.say("created Cluster %-5s  pods %s, %s", cluster.name, cluster.podCIDR, labelled)
	}
	return nil
}

// applyHelmOp creates the Secrets with the credentials of the registry and applies the HelmOp, before the Clusters are
// up.
func (d *demo) applyHelmOp(ctx context.Context) error {
	if err := d.env.CreateRegistrySecrets(ctx, namespace); err != nil {
		return fmt.Errorf("creating the Secrets with the access to the registry: %w", err)
	}
	file := d.path("helmop.yaml")
	text := strings.ReplaceAll(helmOpYAML, "REGISTRY", d.env.Registry.Host())
	_, text, _ = strings.Cut(text, "\n") // The first line explains the placeholder.
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	d.progress.say("applying this HelmOp:\n\n%s", indent(text))
	if _, err := d.env.Management.Kubectl(ctx, "apply", "-f", file); err != nil {
		return fmt.Errorf("applying %s: %w", file, err)
	}
	return nil
}

// path returns a path in the work folder.
func (d *demo) path(elements ...string) string {
	return filepath.Join(append([]string{d.dir}, elements...)...)
}

func indent(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = "    " + line
		}
	}
	return strings.Join(lines, "")
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
)

// fleetNamespace is the namespace of the releases of Fleet in the workload clusters.
const fleetNamespace = "fleet-apps"

// fleetInterval is how often the simulation of Fleet looks at all objects.
const fleetInterval = 200 * time.Millisecond

// Annotations of the charts in the records of Fleet.
const (
	fleetBundleID = "fleet.cattle.io/bundle-id"
	fleetKeep     = "fleet.cattle.io/keep-resources"
)

// fleetSimulation simulates Fleet. Its controllers create a Bundle and BundleDeployments for each HelmOp. An agent for
// each cluster installs, upgrades and uninstalls releases, or stops managing them. TestMigrateFleetReal compares it
// with Fleet.
type fleetSimulation struct {
	scenario  *scenario
	workloads []*workload
	users     map[string]*helmUser

	mutex     sync.Mutex
	isRunning bool
	faults    []string
}

// simulateFleet starts a simulation of Fleet whose agents do not run yet. It is stopped at the end of the test.
func (s *scenario) simulateFleet(workloads []*workload) *fleetSimulation {
	s.Helper()
	fleet := &fleetSimulation{scenario: s, workloads: workloads, users: map[string]*helmUser{}}
	for _, w := range workloads {
		s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + w.name}})
		fleet.users[w.name] = w.helmUserIn(fleetNamespace)
	}
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		fleet.run(ctx)
	}()
	s.Cleanup(func() {
		cancel()
		<-done
	})
	return fleet
}

// setAgents implements fleetUnderTest.
func (f *fleetSimulation) setAgents(_ *scenario, run bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.isRunning = run
}

// deleted implements fleetUnderTest.
func (f *fleetSimulation) deleted(*scenario) []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.faults)
}

func (f *fleetSimulation) run(ctx context.Context) {
	ticker := time.NewTicker(fleetInterval)
	defer ticker.Stop()
	for {
		if err := f.pass(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
			f.scenario.Logf("simulation of Fleet: %v", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// pass reconciles all HelmOps once.
func (f *fleetSimulation) pass(ctx context.Context) error {
	var errs []error
	for name := range fleetReleases {
		errs = append(errs, f.control(ctx, name))
		f.mutex.Lock()
		isRunning := f.isRunning
		f.mutex.Unlock()
		if isRunning {
			for _, w := range f.workloads {
				errs = append(errs, f.agent(ctx, name, w))
			}
		}
	}
	return errors.Join(errs...)
}

// read reads an object of Fleet. found is false if there is none.
func (f *fleetSimulation) read(ctx context.Context, object *unstructured.Unstructured) (found bool, err error) {
	err = f.scenario.client.Get(ctx, client.ObjectKeyFromObject(object), object)
	return err == nil, client.IgnoreNotFound(err)
}

func (f *fleetSimulation) deployment(name string, w *workload) *unstructured.Unstructured {
	s := f.scenario
	object := toolObject(migrate.FleetDeploymentKind, s.namespace+"-"+w.name, name, nil)
	object.SetLabels(map[string]string{migrate.FleetBundleLabel: name, migrate.FleetBundleNamespaceLabel: s.namespace,
		"fleet.cattle.io/cluster": w.name, "fleet.cattle.io/cluster-namespace": s.namespace})
	return object
}

// control is the controllers of Fleet for a HelmOp.
func (f *fleetSimulation) control(ctx context.Context, name string) error {
	c, namespace := f.scenario.client, f.scenario.namespace
	helmOp := toolObject(migrate.FleetHelmOpKind, namespace, name, nil)
	if found, err := f.read(ctx, helmOp); err != nil || !found {
		return err
	}
	bundle := toolObject(migrate.FleetBundleKind, namespace, name, map[string]any{})
	if helmOp.GetDeletionTimestamp() != nil {
		errs := []error{client.IgnoreNotFound(c.Delete(ctx, bundle))}
		for _, w := range f.workloads {
			errs = append(errs, client.IgnoreNotFound(c.Delete(ctx, f.deployment(name, w))))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		helmOp.SetFinalizers(nil)
		return client.IgnoreNotFound(c.Update(ctx, helmOp))
	}
	if len(helmOp.GetFinalizers()) == 0 {
		helmOp.SetFinalizers([]string{"fleet.cattle.io/helmop-finalizer"})
		return c.Update(ctx, helmOp)
	}
	if err := c.Create(ctx, bundle); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	keep, _, _ := unstructured.NestedBool(helmOp.Object, "spec", "keepResources")
	id := fmt.Sprintf("options-%t", keep)
	spec := map[string]any{"deploymentID": id, "stagedDeploymentID": id, "options": map[string]any{"keepResources": keep}}
	for _, w := range f.workloads {
		deployment := f.deployment(name, w)
		found, err := f.read(ctx, deployment)
		if err != nil {
			return err
		}
		if current, _, _ := unstructured.NestedString(deployment.Object, "spec", "deploymentID"); current == id {
			continue
		}
		deployment.Object["spec"] = spec
		write := func() error { return c.Create(ctx, deployment) }
		if found {
			write = func() error { return c.Update(ctx, deployment) }
		}
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// agent is the agent of Fleet in a cluster, for a HelmOp.
func (f *fleetSimulation) agent(ctx context.Context, name string, w *workload) error {
	user, deployment := f.users[w.name], f.deployment(name, w)
	newest, err := user.config.Releases.Last(fleetReleases[name])
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return err
	}
	found, err := f.read(ctx, deployment)
	if err != nil {
		return err
	}
	if !found {
		return f.cleanUp(user, name, newest)
	}
	id, _, _ := unstructured.NestedString(deployment.Object, "spec", "deploymentID")
	if applied, _, _ := unstructured.NestedString(deployment.Object, "status", "appliedDeploymentID"); applied == id {
		return nil
	}
	keep, _, _ := unstructured.NestedBool(deployment.Object, "spec", "options", "keepResources")
	deployed, err := f.deploy(ctx, user, name, w, keep, newest != nil)
	if err != nil {
		return err
	}
	deployment.Object["status"] = map[string]any{"appliedDeploymentID": id, "ready": true, "nonModified": true,
		"release": fmt.Sprintf("%s/%s:%d", deployed.Namespace, deployed.Name, deployed.Version)}
	return f.scenario.client.Status().Update(ctx, deployment)
}

// deploy installs or upgrades a release.
func (f *fleetSimulation) deploy(ctx context.Context, user *helmUser, name string, w *workload, keep, exists bool) (
	*release.Release, error,
) {
	chart := *user.chart
	metadata := *chart.Metadata
	metadata.Annotations = maps.Clone(metadata.Annotations)
	if metadata.Annotations == nil {
		metadata.Annotations = map[string]string{}
	}
	metadata.Annotations[fleetBundleID], metadata.Annotations[fleetKeep] = name, strconv.FormatBool(keep)
	chart.Metadata = &metadata
	values := map[string]any{"cluster": w.name, "greeting": "fleet",
		"podCIDR": f.scenario.cluster(w.name).Spec.ClusterNetwork.Pods.CIDRBlocks[0]}
	if exists {
		upgrade := action.NewUpgrade(user.config)
		upgrade.Namespace, upgrade.PostRenderer, upgrade.MaxHistory = fleetNamespace, fleetLabels(name), 2
		return upgrade.RunWithContext(ctx, fleetReleases[name], &chart, values)
	}
	install := action.NewInstall(user.config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = fleetReleases[name], fleetNamespace, true
	install.PostRenderer = fleetLabels(name)
	return install.RunWithContext(ctx, &chart, values)
}

// cleanUp acts like Fleet's agent after the BundleDeployment of a release was deleted: it deletes the records or
// uninstalls the release. newest is the newest record of the release.
func (f *fleetSimulation) cleanUp(user *helmUser, name string, newest *release.Release) error {
	if newest == nil || newest.Chart.Metadata.Annotations[fleetBundleID] != name {
		return nil
	}
	if newest.Chart.Metadata.Annotations[fleetKeep] != "true" {
		f.mutex.Lock()
		f.faults = append(f.faults, newest.Name+" is uninstalled")
		f.mutex.Unlock()
		_, err := action.NewUninstall(user.config).Run(newest.Name)
		return err
	}
	if newest.Name != name {
		// Fleet looks for records with the name of the BundleDeployment, and finds none.
		return nil
	}
	history, err := user.config.Releases.History(newest.Name)
	if err != nil {
		return err
	}
	for _, record := range history {
		if record.Chart.Metadata.Annotations[fleetBundleID] != name {
			continue
		}
		if _, err := user.config.Releases.Delete(record.Name, record.Version); err != nil {
			return err
		}
	}
	return nil
}

// fleetLabels is the post renderer of Fleet: it marks all objects with the name of the BundleDeployment.
type fleetLabels string

// Run implements postrender.PostRenderer.
func (l fleetLabels) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	var marked bytes.Buffer
	for document := range strings.SplitSeq(rendered.String(), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) == 0 {
			continue
		}
		object.SetAnnotations(map[string]string{"objectset.rio.cattle.io/id": string(l)})
		data, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		marked.WriteString("---\n")
		marked.Write(data)
	}
	return &marked, nil
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// tool is a tool of another project. Its programs reconcile objects in the management cluster.
type tool struct {
	Fleet
	programs []program
	// objects returns the objects for a log level, in the order in which they are written.
	objects func(level string) []*unstructured.Unstructured

	running  []*process.Process
	versions []string
}

// program is one program of a tool.
type program struct {
	// folder is the folder of hack/tools that pins the module.
	folder, module string
	start          func(context.Context, testbed.ToolOptions) (*process.Process, error)
	args           []string
}

func (t *tool) Start(ctx context.Context) error {
	for _, p := range t.programs {
		opts := testbed.ToolOptions{Root: t.Root, Dir: filepath.Join(t.Dir, p.folder), Args: p.args, User: t.User()}
		started, err := p.start(ctx, opts)
		if err != nil {
			return err
		}
		t.running = append(t.running, started)
		version, err := opts.Version(ctx, p.folder, p.module)
		if err != nil {
			return err
		}
		t.versions = append(t.versions, strings.Join(append([]string{p.module, version}, p.args...), " "))
	}
	return nil
}

func (t *tool) PIDs() []int {
	pids := make([]int, len(t.running))
	for i, p := range t.running {
		pids[i] = p.PID()
	}
	return pids
}

func (t *tool) Versions() string { return strings.Join(t.versions, ", ") }

func (t *tool) User() string { return "bench-" + t.Name }

// object returns an object in the namespace of the Clusters.
func (t *tool) object(kind schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(t.Name)
	object.SetName(name)
	return object
}

// chartsURL is the folder of the charts in the registry.
func (t *tool) chartsURL() string { return "oci://" + t.World.Env.Registry.Host() + "/charts" }

// each calls do for all objects.
func (t *tool) each(level string, do func(*unstructured.Unstructured) error) error {
	for _, object := range t.objects(level) {
		if err := do(object); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func (t *tool) Install(ctx context.Context) error {
	return t.each(InstalledLevel, func(o *unstructured.Unstructured) error { return t.World.Env.Client.Create(ctx, o) })
}

func (t *tool) Upgrade(ctx context.Context) error {
	return t.each(UpgradedLevel, func(o *unstructured.Unstructured) error {
		patch, err := json.Marshal(map[string]any{"spec": o.Object["spec"]})
		if err != nil {
			return err
		}
		return t.World.Env.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch))
	})
}

func (t *tool) Uninstall(ctx context.Context) error {
	return t.each(UpgradedLevel, func(o *unstructured.Unstructured) error { return t.World.Env.Client.Delete(ctx, o) })
}

// Explain returns the status of the last object.
func (t *tool) Explain(ctx context.Context) string {
	all := t.objects(InstalledLevel)
	last := all[len(all)-1]
	if err := t.World.Env.Client.Get(ctx, client.ObjectKeyFromObject(last), last); err != nil {
		return err.Error()
	}
	status, err := json.Marshal(last.Object["status"])
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %s: %.1000s", last.GetKind(), last.GetName(), status)
}

// Stop kills the programs: some of them would wait for minutes for their own work.
func (t *tool) Stop(context.Context) error {
	var errs []error
	for _, p := range t.running {
		errs = append(errs, p.Unexpected(), p.Kill())
	}
	return errors.Join(errs...)
}

// templatedValues are the values of a release as a template of a tool that renders values for each Cluster.
func templatedValues(level string) string {
	return fmt.Sprintf("cluster: '{{ .Cluster.metadata.name }}'\nlogLevel: %s\n", level)
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"slices"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

// Result holds everything that the next installation or upgrade of a release would apply. It contains the values of the
// release, also values from Secrets.
type Result struct {
	// Revision is the Helm revision that the action would create. It is 1 for an installation.
	Revision int

	// Manifest has the objects as YAML documents, in the order in which Helm creates them. It has no hooks.
	Manifest string

	// Hooks are the manifests of the hooks, including tests. CRDs are the files in the folders crds.
	Hooks, CRDs []string

	// Notes is the rendered NOTES.txt of the chart.
	Notes string

	// within calls a function with memory for the release; nil if there is no bound.
	within func(use func(*actionmemory.Lease) error) error
}

// parsedResult is a Result with the parsed objects of the session that rendered it.
type parsedResult struct {
	Result
	// hooks are the hooks in the types of Helm. crds are the objects in the folders crds.
	hooks []*release.Hook
	crds  []*crds.Object
	// announced are the kinds that the cluster serves only after the CRDs are applied.
	announced []schema.GroupVersionKind
}

// Objects calls use with all objects, including hooks and the objects in the folders crds, see [Result.Parts].
func (r *Result) Objects(use func([]*unstructured.Unstructured)) error {
	return r.Parts(func(objects, hooks, definitions []*unstructured.Unstructured) {
		use(slices.Concat(definitions, objects, hooks))
	})
}

// Parts calls use with the objects of the rendering, the objects of its hooks, and the objects in the folders crds. It
// waits until there is memory to parse them. use must not keep the objects: Parts reserves memory for them only until
// use returns. Without an error, Parts calls use once.
func (r *Result) Parts(use func(objects, hooks, definitions []*unstructured.Unstructured)) error {
	within := r.within
	if within == nil {
		within = func(use func(*actionmemory.Lease) error) error { return use(nil) }
	}
	return within(func(lease *actionmemory.Lease) error {
		objects, err := manifests.Decode(lease, r.Manifest)
		if err != nil {
			return err
		}
		hooks, err := manifests.Decode(lease, r.Hooks...)
		if err != nil {
			return err
		}
		definitions, err := manifests.Decode(lease, r.CRDs...)
		if err != nil {
			return err
		}
		lease.Settle()
		use(objects, hooks, definitions)
		return nil
	})
}

// reader reads and renders a release with a session, and changes nothing.
type reader struct{ *session.Session }

// render renders a release. next describes the release for the templates. For an adoption, the options of an upgrade
// apply, even if next is an installation.
func (s reader) render(j session.Job, next chartutil.ReleaseOptions) (rendered parsedResult, err error) {
	rendered.Revision = next.Revision
	policy, skipsSchema, values := j.Options.Install.CRDs, j.Options.Install.DisableSchemaValidation, j.Values
	if next.IsUpgrade || j.Decision.Action == model.ActionAdopt {
		policy, skipsSchema = j.Options.Upgrade.CRDs, j.Options.Upgrade.DisableSchemaValidation
		if values, _, err = s.UpgradeValues(j); err != nil {
			return rendered, err
		}
	}
	if err := rendering.CheckChart(j.Chart); err != nil {
		return rendered, err
	}
	source := j.Source(values)
	if !skipsSchema {
		if err := s.Renderer.CheckValues(s.Ctx, source); err != nil {
			return rendered, err
		}
	}
	if policy != model.CRDsSkip {
		files, err := s.Renderer.CRDs(s.Ctx, source)
		if err != nil {
			return rendered, err
		}
		for _, file := range files {
			rendered.CRDs = append(rendered.CRDs, string(file.File.Data))
		}
		if rendered.crds, err = s.CRDs.Read(s.Memory, files); err != nil {
			return rendered, err
		}
		s.announce(&rendered, policy)
	}
	err = s.renderManifest(j, source, next, &rendered)
	return rendered, err
}

// announce adds the kinds of CRDs to the capabilities that templates see. The action would apply these CRDs before it
// renders the chart.
func (s reader) announce(rendered *parsedResult, policy model.CRDPolicy) {
	capabilities := s.Config.Capabilities
	rendered.announced = crds.Announced(rendered.crds, policy, capabilities.APIVersions)
	capabilities.APIVersions = crds.WithKinds(capabilities.APIVersions, rendered.announced)
}

// nextRelease returns the description of the release for the templates. It is an installation if the cluster does not
// have the release.
func nextRelease(desired model.Desired, observation model.Observation) chartutil.ReleaseOptions {
	next := chartutil.ReleaseOptions{Name: desired.Name, Namespace: desired.Namespace, Revision: 1, IsInstall: true}
	newest, ok := observation.Newest()
	if !ok || release.Status(newest.Status) == release.StatusUninstalled {
		return next
	}
	next.IsInstall, next.IsUpgrade, next.Revision = false, true, newest.Revision+1
	return next
}

// renderManifest sets the manifest, the hooks and the notes of a rendering.
func (s reader) renderManifest(j session.Job, source rendering.Source, next chartutil.ReleaseOptions,
	rendered *parsedResult,
) (err error) {
	install := s.DryRun(j.Desired, next.IsUpgrade)
	if install.PostRenderer, err = s.PostRenderer(j); err != nil {
		return err
	}
	literal, err := s.Render(source, next)
	if err != nil {
		return err
	}
	defer s.Memory.Parsed()
	rls, err := install.Run(literal, rendering.CopyValues(source.Values))
	if err != nil {
		return err
	}
	rendered.Manifest, rendered.Notes = rls.Manifest, rls.Info.Notes
	rendered.hooks = rls.Hooks
	for _, hook := range rls.Hooks {
		rendered.Hooks = append(rendered.Hooks, hook.Manifest)
	}
	return nil
}

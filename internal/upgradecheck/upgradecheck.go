// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgradecheck finds what an upgrade of Kubernetes would break in a release. Its input are the objects of the
// release, and the rendered objects of its chart for each step of the upgrade.
//
// # Contract
//
//   - The functions are pure. The caller renders the charts, and reads the release and the CustomResourceDefinitions.
//   - Each problem is reported once, at the first step in which it matters, with a text that says what the user can do.
//   - A removed or unknown API is a task (ToDo) if a chart renders it, or if no chart replaces the release. If only the
//     current release has an object in a removed API, the finding is a remark: the engine finds the object in a version
//     that the cluster serves. While the release is paused, it is a task, because no upgrade replaces the object.
//   - A hook that is only a test is a remark, unless HelmOp runs the tests.
//   - A deprecation is a remark: the upgrade breaks nothing.
package upgradecheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Reason is the kind of a finding.
type Reason string

// The reasons.
const (
	// VersionChanges means that spec.refsByKubernetesVersion selects another version of the add-on.
	VersionChanges Reason = "VersionChanges"
	// KubeVersionExcluded means that the chart does not support the version of Kubernetes.
	KubeVersionExcluded Reason = addonsv1.KubeVersionExcludedReason
	// RenderingFails means that the chart cannot be rendered for the version of Kubernetes.
	RenderingFails Reason = addonsv1.RenderingFailsReason
	// APIRemoved, APIUnknown and APIDeprecated are the stages of an API that objects use.
	APIRemoved    Reason = addonsv1.APIRemovedReason
	APIUnknown    Reason = addonsv1.APIUnknownReason
	APIDeprecated Reason = "APIDeprecated"
	// APINotServed means that the chart is used before the upgrade, and the running version does not serve an API.
	APINotServed Reason = addonsv1.APINotServedReason
)

// Finding is a result of the check: a task or a remark.
type Finding struct {
	// Step is the first version of Kubernetes in which the finding matters.
	Step   string `json:"step"`
	Reason Reason `json:"reason"`

	// ToDo is true if the user must do something before this step.
	ToDo bool `json:"toDo"`

	// APIVersion, Kind and Objects identify the objects that use an API. InRelease means that the release has them now.
	// InChart means that the chart still renders them. Hook means that they are hooks.
	APIVersion string   `json:"apiVersion,omitempty"`
	Kind       string   `json:"kind,omitempty"`
	Objects    []string `json:"objects,omitempty"`
	InRelease  bool     `json:"inRelease,omitempty"`
	InChart    bool     `json:"inChart,omitempty"`
	Hook       bool     `json:"hook,omitempty"`

	// Message says what happens, and why. WayOut says what the user can do.
	Message string `json:"message"`
	WayOut  string `json:"wayOut"`
}

// Objects are references to the objects of a release or of a rendering. The objects themselves are not part of it,
// because a check keeps the Objects of all steps, and the objects of one rendering may have megabytes.
type Objects struct {
	// Tests are the hooks that run only as tests. Hooks are the other hooks.
	Objects, Hooks, Tests []inventory.Ref
	// Definitions are the CustomResourceDefinitions of the kinds.
	Definitions apilifecycle.Definitions
}

// ObjectsOf returns the references to objects and hooks, without Definitions.
func ObjectsOf(objects, hooks []*unstructured.Unstructured) Objects {
	all := Objects{Objects: inventory.FromObjects(objects)}
	for _, hook := range hooks {
		if isTest(hook) {
			all.Tests = append(all.Tests, inventory.Of(hook))
		} else {
			all.Hooks = append(all.Hooks, inventory.Of(hook))
		}
	}
	return all
}

// All returns the references to all objects and hooks.
func (o *Objects) All() []inventory.Ref { return slices.Concat(o.Objects, o.Hooks, o.Tests) }

// Step is one minor version of the upgrade.
type Step struct {
	Version apilifecycle.Version

	// Chart is the version of the chart for this step. Digest identifies the chart.
	Chart, Digest string

	// Constraint is the kubeVersion of the chart if it excludes the version; empty otherwise.
	Constraint string
	// Failure is the reason why the chart cannot be rendered. It is empty if the chart can be rendered, or if the
	// constraint excludes the version.
	Failure string

	// Rendered are the rendered objects.
	Rendered Objects
}

// Release is the release of a HelmOp in a Cluster.
type Release struct {
	// Chart is the desired version of the chart now. Digest identifies the chart.
	Chart, Digest string

	// Present are the current objects of the release; empty if it is not installed.
	Present Objects

	// IsAhead means that spec.beforeClusterUpgrade upgrades the release before each step of the upgrade.
	IsAhead bool
	// Ahead has one entry for each step whose chart differs from the chart of the version before: the objects that this
	// chart renders for the version before.
	Ahead []Ahead

	// RunsTests means that HelmOp runs the tests of the chart. If it is false, hooks that are only tests are remarks.
	RunsTests bool

	// Kept is the reason why no chart replaces the release, for example because the Cluster is pinned, and what the user
	// can do. It is empty if the steps have rendered objects.
	Kept string

	// Paused is the reason why HelmOp does not upgrade the release now, and what the user can do; empty if HelmOp upgrades
	// it. The steps still have rendered objects, because the pause will end.
	Paused string

	// Unnamed omits the names of objects from messages, because names may contain values of Secrets.
	Unnamed bool
}

// Ahead describes the chart of a step that is already used before this step.
type Ahead struct {
	// Step contains the version before the step.
	Step
	// NotServed are the rendered objects in an API of Kubernetes that the version before the step does not serve.
	NotServed []inventory.Ref
	// To is the version of the step.
	To apilifecycle.Version
}

// use is how one object uses an API.
type use struct {
	kind schema.GroupVersionKind
	name string
	hook bool
	// isTest means that the hook runs only as a test.
	isTest bool
}

// uses holds the stages of an object in the steps: the first step with each stage, and whether the release or the chart
// has the object then.
type uses struct {
	first              map[apilifecycle.Stage]apilifecycle.Version
	known              map[apilifecycle.Stage]apilifecycle.Lifecycle
	inRelease, inChart map[apilifecycle.Stage]bool
}

// Check returns the findings of an upgrade in the order of its steps. Tasks come before remarks.
func Check(release *Release, steps []Step) []Finding {
	findings := ahead(release)
	all := map[use]*uses{}
	present, chart, digest := release.Present, release.Chart, release.Digest
	reported := map[string]bool{}
	for i := range steps {
		step := &steps[i]
		note(all, present, step.Version, false)
		if release.Kept != "" {
			continue
		}
		if step.Digest != digest {
			findings = append(findings, changes(release, step, chart))
		}
		switch problem := step.Chart + step.Constraint + step.Failure; {
		case step.Constraint == "" && step.Failure == "":
			note(all, step.Rendered, step.Version, true)
			if step.Digest != digest {
				present = step.Rendered // The release is upgraded before the next step.
			}
		case !reported[problem]:
			reported[problem] = true
			findings = append(findings, excluded(step))
		}
		chart, digest = step.Chart, step.Digest
	}
	findings = append(findings, apis(release, steps, all)...)
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(stepIndex(steps, a.Step), stepIndex(steps, b.Step)), order(a.ToDo, b.ToDo))
	})
	return findings
}

func stepIndex(steps []Step, version string) int {
	return slices.IndexFunc(steps, func(step Step) bool { return step.Version.String() == version })
}

// order compares two flags for sorting: true comes before false.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// note adds the stages of objects in a step.
func note(all map[use]*uses, objects Objects, version apilifecycle.Version, isChart bool) {
	for _, list := range []struct {
		refs         []inventory.Ref
		hook, isTest bool
	}{{objects.Objects, false, false}, {objects.Hooks, true, false}, {objects.Tests, true, true}} {
		for _, ref := range list.refs {
			key := use{ref.GroupVersionKind(), title(ref), list.hook, list.isTest}
			stage, known := objects.Definitions.At(key.kind, version)
			if stage == apilifecycle.Current {
				continue
			}
			found := all[key]
			if found == nil {
				found = &uses{first: map[apilifecycle.Stage]apilifecycle.Version{},
					known:     map[apilifecycle.Stage]apilifecycle.Lifecycle{},
					inRelease: map[apilifecycle.Stage]bool{}, inChart: map[apilifecycle.Stage]bool{}}
				all[key] = found
			}
			if _, ok := found.first[stage]; !ok {
				found.first[stage], found.known[stage] = version, known
			}
			found.inChart[stage] = found.inChart[stage] || isChart
			found.inRelease[stage] = found.inRelease[stage] || !isChart
		}
	}
}

// isTest reports whether a hook runs only as a test.
func isTest(hook *unstructured.Unstructured) bool { return !model.Options{}.MayRun(hook, false) }

func title(ref inventory.Ref) string { return strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/") }

// changes returns the finding about a change of the add-on's version.
func changes(release *Release, step *Step, before string) Finding {
	wayOut := "HelmOp upgrades the release when the control plane runs " + step.Version.String() +
		". To upgrade it before, set spec.beforeClusterUpgrade"
	if release.IsAhead {
		wayOut = "nothing: HelmOp upgrades the release before Kubernetes (spec.beforeClusterUpgrade)"
	}
	return Finding{Step: step.Version.String(), Reason: VersionChanges, WayOut: wayOut,
		Message: fmt.Sprintf("spec.refsByKubernetesVersion chooses version %s of the add-on instead of %s", step.Chart,
			before)}
}

// ahead returns the findings about charts that are used before their steps.
func ahead(release *Release) []Finding {
	if release.Kept != "" {
		return nil
	}
	var findings []Finding
	for i := range release.Ahead {
		findings = append(findings, aheadOf(&release.Ahead[i])...)
	}
	return findings
}

func aheadOf(a *Ahead) []Finding {
	wayOut := fmt.Sprintf("HelmOp upgrades the release before Kubernetes (spec.beforeClusterUpgrade): choose a version "+
		"of the chart for \">=%s\" that also works with %s, or remove spec.beforeClusterUpgrade",
		strings.TrimPrefix(a.To.String(), "v"), a.Version)
	if a.Constraint != "" || a.Failure != "" {
		finding := excluded(&a.Step)
		finding.WayOut = wayOut
		return []Finding{finding}
	}
	objects := map[schema.GroupVersionKind][]string{}
	for _, ref := range a.NotServed {
		kind := ref.GroupVersionKind()
		objects[kind] = append(objects[kind], title(ref))
	}
	findings := make([]Finding, 0, len(objects))
	for kind, names := range objects {
		slices.Sort(names)
		findings = append(findings, Finding{Step: a.Version.String(), Reason: APINotServed, ToDo: true, InChart: true,
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Objects: names, WayOut: wayOut,
			Message: fmt.Sprintf("%s of %s is not served by %s, before the upgrade to %s: chart %s renders %s", kind.Kind,
				kind.GroupVersion(), a.Version, a.To, a.Chart, listed(names))})
	}
	slices.SortFunc(findings, func(x, y Finding) int { return strings.Compare(x.Message, y.Message) })
	return findings
}

// excluded returns the finding about a chart that cannot be used in a step.
func excluded(step *Step) Finding {
	finding := Finding{Step: step.Version.String(), ToDo: true, Reason: KubeVersionExcluded,
		Message: fmt.Sprintf("chart %s excludes %s: its kubeVersion is %q", step.Chart, step.Version, step.Constraint),
		WayOut:  raise("a version of the chart that supports it", step.Version)}
	if step.Constraint == "" {
		finding.Reason = RenderingFails
		finding.Message = fmt.Sprintf("chart %s cannot be rendered for %s: %s", step.Chart, step.Version, step.Failure)
	}
	return finding
}

// raise returns the instruction to use another version of the chart.
func raise(what string, version apilifecycle.Version) string {
	return fmt.Sprintf("set spec.source.ref to %s, or add it to spec.refsByKubernetesVersion for \">=%s\"", what,
		strings.TrimPrefix(version.String(), "v"))
}

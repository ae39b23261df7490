// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgradecheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// deprecationGuide is the page on which the Kubernetes project lists removed APIs.
const deprecationGuide = "https://kubernetes.io/docs/reference/using-api/deprecation-guide/"

// problem is an API whose objects are reported together.
type problem struct {
	kind               schema.GroupVersionKind
	stage              apilifecycle.Stage
	first              apilifecycle.Version
	hook               bool
	isIdle             bool // The hook is a test that HelmOp does not run.
	inRelease, inChart bool
}

// apis returns the findings about APIs. Objects of a kind with the same problem share one finding. The result omits a
// deprecation if the API of the object is removed later in the upgrade.
func apis(release *Release, steps []Step, all map[use]*uses) []Finding {
	objects := map[problem][]string{}
	lifecycles := map[problem]apilifecycle.Lifecycle{}
	for key, found := range all {
		for _, stage := range []apilifecycle.Stage{apilifecycle.Removed, apilifecycle.Unknown, apilifecycle.Deprecated} {
			first, ok := found.first[stage]
			if !ok {
				continue
			}
			one := problem{kind: key.kind, stage: stage, first: first, hook: key.hook,
				isIdle: key.isTest && !release.RunsTests, inRelease: found.inRelease[stage],
				inChart: found.inChart[stage]}
			objects[one] = append(objects[one], key.name)
			lifecycles[one] = found.known[stage]
			break
		}
	}
	findings := make([]Finding, 0, len(objects))
	for one, names := range objects {
		slices.Sort(names)
		findings = append(findings, newFinding(release, steps, one, lifecycles[one], names))
	}
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.APIVersion, b.APIVersion),
			strings.Compare(a.Objects[0], b.Objects[0]), order(a.Hook, b.Hook))
	})
	return findings
}

func newFinding(release *Release, steps []Step, one problem, known apilifecycle.Lifecycle, names []string) Finding {
	isToDo := one.stage != apilifecycle.Deprecated && !one.isIdle &&
		(one.inChart || release.Kept != "" || release.Paused != "" || !hasRendering(steps, one.first))
	finding := Finding{Step: one.first.String(), Reason: reasons[one.stage], ToDo: isToDo,
		APIVersion: one.kind.GroupVersion().String(), Kind: one.kind.Kind, Objects: names, Hook: one.hook,
		InRelease: one.inRelease, InChart: one.inChart}
	finding.Message = fmt.Sprintf("%s of %s %s: %s", one.kind.Kind, finding.APIVersion, describe(one, known),
		who(release, steps, one, names))
	finding.WayOut = wayOut(release, one, known, isToDo)
	return finding
}

var reasons = map[apilifecycle.Stage]Reason{apilifecycle.Removed: APIRemoved, apilifecycle.Unknown: APIUnknown,
	apilifecycle.Deprecated: APIDeprecated}

// hasRendering reports whether the chart could be rendered for a step.
func hasRendering(steps []Step, version apilifecycle.Version) bool {
	at := stepIndex(steps, version.String())
	return at >= 0 && steps[at].Constraint == "" && steps[at].Failure == ""
}

// describe describes the stage of an API, with its dates and its replacement.
func describe(one problem, known apilifecycle.Lifecycle) string {
	var text string
	switch {
	case one.stage == apilifecycle.Unknown && known.IsUndated:
		text = "is an alpha or beta version, and k8s.io/api does not say where it is served"
	case one.stage == apilifecycle.Unknown:
		text = "is not known to k8s.io/api: it is new, or was removed long ago"
	case one.stage == apilifecycle.Removed && known.Removed.IsZero():
		text = "is not served according to the CustomResourceDefinition"
	case one.stage == apilifecycle.Removed:
		text = "is not served since " + known.Removed.String()
	case known.Deprecated.IsZero():
		text = "is deprecated according to the CustomResourceDefinition"
	default:
		text = "is deprecated since " + known.Deprecated.String()
		if !known.Removed.IsZero() {
			text += " and not served from " + known.Removed.String()
		}
	}
	if known.Warning != "" {
		text += fmt.Sprintf(" (%q)", known.Warning)
	}
	if replacement := nameOf(known.Replacement, one.kind); replacement != "" {
		text += ", use " + replacement
	}
	return text
}

// nameOf returns the name of a replacement: its version, and its kind if the kind differs; empty if there is none.
func nameOf(replacement, replaced schema.GroupVersionKind) string {
	switch {
	case replacement.Empty():
		return ""
	case replacement.Kind == replaced.Kind:
		return replacement.GroupVersion().String()
	default:
		return replacement.Kind + " of " + replacement.GroupVersion().String()
	}
}

// mostNames is the largest number of objects that a message names.
const mostNames = 3

// listed returns the names of some objects for a message.
func listed(names []string) string {
	what := strings.Join(names[:min(len(names), mostNames)], ", ")
	if more := len(names) - mostNames; more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	return what
}

// who returns a text that says what uses the API.
func who(release *Release, steps []Step, one problem, names []string) string {
	what := listed(names)
	switch {
	case release.Unnamed && one.hook:
		what = plural.Count(len(names), "hook", "hooks")
	case release.Unnamed:
		what = plural.Count(len(names), "object", "objects")
	case one.hook:
		what = "the hook " + what
	}
	chart := release.Chart
	if at := stepIndex(steps, one.first.String()); at >= 0 && release.Kept == "" {
		chart = steps[at].Chart
	}
	switch {
	case one.inRelease && one.inChart:
		return fmt.Sprintf("the release has %s, and chart %s renders it again", what, chart)
	case one.inChart:
		return fmt.Sprintf("chart %s renders %s", chart, what)
	default:
		return "the release has " + what
	}
}

// noRollback is the remark for a release with objects in an API that a version does not serve.
const noRollback = "After the Kubernetes upgrade, a rollback to the present Helm revision is not possible"

// wayOut returns a text that says what the user can do.
func wayOut(release *Release, one problem, known apilifecycle.Lifecycle, isToDo bool) string {
	other := "a version of the chart that does not use this API"
	if replacement := nameOf(known.Replacement, one.kind); replacement != "" {
		other = "a version of the chart that uses " + replacement
	}
	switch {
	case one.isIdle && one.stage != apilifecycle.Deprecated:
		return "nothing: HelmOp does not run the tests of the release (spec.test.mode)"
	case release.Kept != "":
		return release.Kept
	case one.stage != apilifecycle.Deprecated && !one.inChart && release.Paused != "":
		return release.Paused
	case one.stage == apilifecycle.Deprecated && !one.inChart:
		return "nothing: the chart does not use the API any more"
	case one.stage == apilifecycle.Deprecated:
		return "nothing before this upgrade; later, set spec.source.ref to " + other
	case !isToDo && one.hook:
		return "nothing before this upgrade: HelmOp's next upgrade of the release replaces the hook. " + noRollback
	case !isToDo:
		return "nothing before this upgrade: the chart does not use the API any more. HelmOp's next upgrade of the " +
			"release finds the objects in the version that the cluster serves; until then, drift detection cannot check them. " +
			noRollback
	case one.stage == apilifecycle.Unknown:
		return "look the API up in " + deprecationGuide + "; if it is removed, " + raise(other, one.first)
	default:
		return raise(other, one.first)
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// setFleetTargets selects the Clusters by a label. If a target has its own options, the value of the label is the name
// of the target, and an override selects the Clusters with this value. The releases get the versions of their targets.
func (r *fleetReader) setFleetTargets(item *Item, from *fleetHelmOp, placed []fleetPlace) {
	item.selectMarked(r.capi)
	spec, targets := &item.HelmOp.Spec, from.Spec.Targets
	for n := range item.Releases {
		item.Releases[n].Version = spec.Source.Ref.Tag
	}
	isKept := from.Spec.KeepResources && !IsKeptByMigration(&from.ObjectMeta)
	for at := range targets {
		if targets[at].KeepResources && !isKept {
			item.block(fmt.Sprintf("spec.targets[%d].keepResources", at), "HelmOp keeps the objects of all releases or of "+
				"none; set keepResources in the spec itself, or remove the option")
		}
		if helm := targets[at].Helm; helm != nil && helm.TimeoutSeconds < 0 && from.Spec.Helm.TimeoutSeconds > 0 {
			item.block(fmt.Sprintf("spec.targets[%d].helm.timeoutSeconds", at), "a number below 0 removes the timeout of "+
				"spec.helm, and an override of HelmOp cannot remove it; set a timeout, or make an object of its own for these "+
				"clusters")
		}
	}
	if !slices.ContainsFunc(targets, func(t fleetTarget) bool { return t.isCustomized(from) }) {
		return
	}
	key := markKey(addonsv1.MigratedClusterLabelPrefix, item.HelmOp.Name)
	spec.ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: key, Operator: metav1.LabelSelectorOpExists}}}
	for n, place := range placed {
		at := r.match(targets, place.fleet)
		if at < 0 || targets[at].DoNotDeploy {
			item.block("spec.targets", "no target selects Fleet's Cluster %s any more; wait until Fleet has removed its "+
				"release, or correct the targets", place.fleet.Name)
			continue
		}
		if helm := targets[at].Helm; helm != nil && helm.Version != "" {
			item.Releases[n].Version = helm.Version
		}
		cluster := item.Releases[n].Cluster
		for m := range item.Marks {
			if item.Marks[m].Cluster == cluster {
				item.Marks[m].Value = targetName(targets, at)
			}
		}
	}
	var last []addonsv1.Override
	for at := range targets {
		if !targets[at].isCustomized(from) {
			continue
		}
		selector := metav1.LabelSelector{MatchLabels: map[string]string{key: targetName(targets, at)}}
		first, second := item.fleetOverrides(from, &targets[at], fmt.Sprintf("spec.targets[%d]", at))
		for _, override := range first {
			override.Name, override.ClusterSelector = targetName(targets, at), selector
			// In Fleet, valuesFrom takes precedence over the values of targets.
			spec.Overrides = slices.Insert(spec.Overrides, len(spec.Overrides)-countValuesFrom(spec.Overrides), override)
		}
		for _, override := range second {
			override.Name, override.ClusterSelector = targetName(targets, at)+"-values-from", selector
			last = append(last, override)
		}
	}
	spec.Overrides = append(spec.Overrides, last...)
}

// countValuesFrom is 1 if the last override comes from spec.helm.valuesFrom.
func countValuesFrom(overrides []addonsv1.Override) int {
	if len(overrides) > 0 && overrides[len(overrides)-1].Name == "values-from" {
		return 1
	}
	return 0
}

// generatedName matches the names that the conversion generates for overrides. A target with such a name must be
// renamed.
var generatedName = regexp.MustCompile(`^target[0-9]+$|(^|-)values-from$`)

// targetName returns a name for a target that is valid as the value of a label and unique among the targets.
func targetName(targets []fleetTarget, at int) string {
	name := targets[at].Name
	isUsed := slices.ContainsFunc(targets[:at], func(t fleetTarget) bool { return t.Name == name })
	if isUsed || len(name) > 50 || len(validation.IsDNS1123Label(name)) > 0 || generatedName.MatchString(name) {
		return fmt.Sprintf("target%03d", at)
	}
	return name
}

// isCustomized reports whether a target has options that differ from the options of the HelmOp.
func (t *fleetTarget) isCustomized(from *fleetHelmOp) bool {
	helm := t.Helm
	return t.ServiceAccount != "" || t.CorrectDrift != nil || t.Diff != nil || len(t.DownstreamResources) > 0 ||
		helm != nil && (len(helm.Values)+len(helm.TemplateValues)+len(helm.ValuesFrom) > 0 || helm.TimeoutSeconds > 0 ||
			helm.Force || helm.Atomic || helm.DisablePreProcess ||
			helm.Repo != "" && helm.Repo != from.Spec.Helm.Repo || helm.Chart != "" && helm.Chart != from.Spec.Helm.Chart ||
			helm.Version != "" && helm.Version != from.Spec.Helm.Version)
}

// fleetOverrides converts the options of a target to two overrides: one goes before, and one after the override for
// spec.helm.valuesFrom.
func (i *Item) fleetOverrides(from *fleetHelmOp, target *fleetTarget, field string) (
	first, second []addonsv1.Override,
) {
	override := addonsv1.Override{ReleaseOptions: i.fleetReleaseOptions(field, &target.fleetOptions,
		from.Spec.CreateNamespace)}
	if *override.Install == (addonsv1.InstallOptions{}) {
		override.Install = nil
	}
	if *override.Upgrade == (addonsv1.UpgradeOptions{}) {
		override.Upgrade = nil
	}
	if ignore := i.fleetIgnoreRules(field+".diff", &target.fleetOptions); len(ignore) > 0 {
		if override.DriftDetection == nil {
			override.DriftDetection = &addonsv1.DriftDetectionOptions{}
		}
		override.DriftDetection.Ignore = append(slices.Clone(i.HelmOp.Spec.DriftDetection.Ignore), ignore...)
	}
	if target.CorrectDrift != nil && !target.CorrectDrift.Enabled {
		if override.DriftDetection == nil {
			override.DriftDetection = &addonsv1.DriftDetectionOptions{}
		}
		override.DriftDetection.Mode = addonsv1.DriftModeWarn
	}
	if helm := target.Helm; helm != nil {
		base := from.Spec.Helm
		if helm.Repo != "" && helm.Repo != base.Repo || helm.Chart != "" && helm.Chart != base.Chart {
			i.block(field+".helm", "an override of HelmOp has the chart of the HelmOp; make an object of its own for this chart")
		}
		if helm.DisablePreProcess && !base.DisablePreProcess {
			i.block(field+".helm.disablePreProcess", "an override of HelmOp reads templates as the HelmOp does; set the option "+
				"in spec.helm, or make an object of its own")
		}
		if helm.Version != "" && helm.Version != base.Version {
			ref := refOf(helm.Version)
			override.Ref = &ref
			if ref.Semver != "" {
				i.block(field+".helm.version", "it is not an exact version, so Fleet could upgrade the releases during the "+
					"migration; set the exact version of the releases, wait until Fleet is ready, and repeat the command")
			}
		}
		for _, key := range slices.Sorted(maps.Keys(helm.TemplateValues)) {
			if _, found := base.TemplateValues[key]; found {
				i.block(field+".helm.templateValues", "Fleet replaces the key %q of spec.helm.templateValues, and HelmOp merges "+
					"the two; move the key from spec.helm to the targets", key)
			}
		}
		override.Values, override.ValuesTemplate = i.fleetValues(field+".helm", helm, base.DisablePreProcess,
			base.TemplateValues)
		copied := slices.Concat(from.Spec.DownstreamResources, target.DownstreamResources)
		if references := i.fleetReferences(field+".helm.valuesFrom", helm.ValuesFrom, copied); len(references) > 0 {
			second = append(second, addonsv1.Override{ValuesFrom: references})
		}
	}
	return []addonsv1.Override{override}, second
}

// match returns the index of the first target that selects a cluster; -1 if there is none.
func (r *fleetReader) match(targets []fleetTarget, cluster *fleetCluster) int {
	var groups []*fleetClusterGroup
	for _, group := range r.groups {
		if group.Namespace == cluster.Namespace && group.Spec.Selector != nil &&
			selects(group.Spec.Selector, cluster.Labels) {
			groups = append(groups, group)
		}
	}
	if len(groups) == 0 {
		groups = append(groups, &fleetClusterGroup{})
	}
	return slices.IndexFunc(targets, func(target fleetTarget) bool {
		return slices.ContainsFunc(groups, func(group *fleetClusterGroup) bool { return target.matches(cluster, group) })
	})
}

// matches reports whether a target selects a cluster as a member of a group. All criteria must match, and a target
// without criteria selects no cluster.
func (t *fleetTarget) matches(cluster *fleetCluster, group *fleetClusterGroup) bool {
	if t.ClusterName == "" && t.ClusterGroup == "" && t.ClusterSelector == nil && t.ClusterGroupSelector == nil {
		return false
	}
	return (t.ClusterName == "" || t.ClusterName == cluster.Name ||
		t.ClusterName == cluster.Labels[fleetDisplayNameLabel]) &&
		(t.ClusterGroup == "" || t.ClusterGroup == group.Name) &&
		(t.ClusterGroupSelector == nil || selects(t.ClusterGroupSelector, group.Labels)) &&
		(t.ClusterSelector == nil || selects(t.ClusterSelector, cluster.Labels))
}

// selects reports whether a selector selects an object with these labels. An invalid selector selects nothing.
func selects(selector *metav1.LabelSelector, of map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(of))
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// Fleet's agent writes these annotations into the chart of a Helm revision. With them, the agent finds releases whose
// BundleDeployment was deleted.
const (
	fleetBundleAnnotation = "fleet.cattle.io/bundle-id"
	fleetKeepAnnotation   = "fleet.cattle.io/keep-resources"
)

// FleetKeeps reports whether Fleet's agent keeps the objects of a release when its BundleDeployment is deleted.
// Otherwise, missing says what is missing.
func FleetKeeps(object *unstructured.Unstructured) (keeps bool, missing string) {
	deployment := &fleetDeployment{}
	if err := decode(object, deployment); err != nil {
		return false, fmt.Sprintf("the BundleDeployment cannot be read: %v", err)
	}
	if !deployment.Spec.Options.KeepResources {
		return false, "Fleet has not passed on spec.keepResources"
	}
	missing = deployment.missing()
	return missing == "", missing
}

// FleetRecordKeeps reports whether the newest record of a release has the option with which Fleet's agent keeps the
// objects, and the version of the chart that HelmOp installs. Otherwise, missing says what is missing. record is nil if
// the release has none.
func FleetRecordKeeps(release *Release, record *Record) (keeps bool, missing string) {
	where := fmt.Sprintf("Cluster %s: ", release.Cluster.Name)
	switch {
	case record == nil:
		return false, where + "Helm has no record of the release"
	case record.ChartAnnotations[fleetBundleAnnotation] != release.Owner.Name:
		return false, where + "the newest record of the release is not by Fleet"
	case record.Status != "deployed":
		return false, where + "the newest record of the release is " + record.Status
	case record.ChartAnnotations[fleetKeepAnnotation] != "true":
		return false, where + "the newest record of the release does not have the option keepResources"
	case release.Version != "" && strings.TrimPrefix(record.Version, "v") != strings.TrimPrefix(release.Version, "v"):
		return false, fmt.Sprintf("%sthe release has version %s of the chart, and HelmOp would install %s; set "+
			"spec.helm.version of Fleet's HelmOp to the version that you want, and wait until Fleet is ready", where,
			record.Version, release.Version)
	default:
		return true, ""
	}
}

// FleetHasForgotten reports whether Fleet's agent has finished its work on a release whose BundleDeployment was
// deleted. Otherwise, missing says what is missing. The agent deletes the records of a release that has the name of the
// BundleDeployment. It keeps the records of a release with another name, and ignores this release because of the option
// keepResources. record is the newest record; nil if there is none.
func FleetHasForgotten(release *Release, record *Record) (hasForgotten bool, missing string) {
	switch {
	case record == nil || record.ChartAnnotations[fleetBundleAnnotation] == "":
		return true, ""
	case release.Name != release.Owner.Name && record.ChartAnnotations[fleetKeepAnnotation] == "true":
		return true, ""
	default:
		return false, fmt.Sprintf("Cluster %s: the agent of Fleet has not deleted its records of the release; check the "+
			"agent, or delete the Secrets sh.helm.release.v1.%s.v* in namespace %q", release.Cluster.Name, release.Name,
			release.Namespace)
	}
}

// IsKeptByMigration reports whether the migration has set spec.keepResources of a HelmOp of Fleet.
func IsKeptByMigration(object metav1.Object) bool {
	return object.GetAnnotations()[addonsv1.MigrationKeptAnnotation] != ""
}

// keptGeneration returns the generation that a HelmOp of Fleet had when the migration set its spec.keepResources.
func (h *fleetHelmOp) keptGeneration() int64 {
	if h.Spec.KeepResources {
		return h.Generation
	}
	return h.Generation + 1
}

// IsFleetSource reports whether a HelmOp was made from the current spec of a HelmOp of Fleet. Fleet must keep the
// objects of this HelmOp, or the command must be about to set this option.
func IsFleetSource(helmOp *addonsv1.HelmOp, object *unstructured.Unstructured) bool {
	from := &fleetHelmOp{}
	generation, _, _ := strings.Cut(helmOp.Annotations[addonsv1.MigrationSourceAnnotation], "/")
	return decode(object, from) == nil && generation == strconv.FormatInt(from.keptGeneration(), 10)
}

// HasSameSource reports whether two HelmOps were made from the same spec of a HelmOp of Fleet.
func HasSameSource(a, b *addonsv1.HelmOp) bool {
	first, _, _ := strings.Cut(a.Annotations[addonsv1.MigrationSourceAnnotation], "/")
	second, _, _ := strings.Cut(b.Annotations[addonsv1.MigrationSourceAnnotation], "/")
	return first == second
}

// ContinueFleet returns the item for a HelmOp whose migration has begun, and whose HelmOp of Fleet was deleted. ok is
// false for another HelmOp. clusters are the Clusters in its namespace. The item is blocked if Clusters have lost their
// label.
func ContinueFleet(helmOp *addonsv1.HelmOp, clusters []*metav1.PartialObjectMetadata) (item Item, ok bool) {
	step, _ := Step(helmOp)
	parts := strings.Split(helmOp.Annotations[addonsv1.MigratedFromAnnotation], "/")
	if step != StepInstalling || len(parts) != 3 || parts[0] != FleetHelmOpKind.Kind {
		return Item{}, false
	}
	version := FleetHelmOpKind.GroupVersion().String()
	item = Item{HelmOp: helmOp, From: []Object{{APIVersion: version, Kind: parts[0], Namespace: parts[1], Name: parts[2]}}}
	key := markKey(addonsv1.MigratedClusterLabelPrefix, helmOp.Name)
	for _, cluster := range clusters {
		if cluster.Labels[key] == "" {
			continue
		}
		item.Releases = append(item.Releases, Release{
			Cluster: types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name},
			Owner:   Object{APIVersion: version, Kind: FleetDeploymentKind.Kind, Name: parts[2]},
			Name:    helmOp.Spec.Release.Name, Namespace: helmOp.Spec.Release.Namespace})
	}
	_, text, _ := strings.Cut(helmOp.Annotations[addonsv1.MigrationSourceAnnotation], "/")
	// A HelmOp without the annotation must have one Cluster.
	want, _ := strconv.Atoi(text)
	if missing := max(want, 1) - len(item.Releases); missing > 0 {
		item.block("metadata", "%d of the Clusters with a release do not have the label %s, by which the HelmOp selects "+
			"them; set the label again, or, if the Clusters are gone, the number of Clusters in the annotation %s of the HelmOp",
			missing, key, addonsv1.MigrationSourceAnnotation)
	}
	return item, true
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// FleetObjects are the objects of Fleet that a conversion reads.
type FleetObjects struct {
	HelmOps, Deployments, Clusters, Groups []*unstructured.Unstructured

	// Secrets holds the Secrets with the access to charts, by their names. They are in the namespace of the HelmOps. A
	// Secret that the user may not read is not in the map.
	Secrets map[string]FleetSecret

	// Migrated are all HelmOps in the namespace except those of Fleet. Earlier runs may have migrated dependencies.
	Migrated []*addonsv1.HelmOp
}

// FleetSecret is the part of a Secret with the access to a chart that a conversion needs. It contains no credential.
type FleetSecret struct {
	// HasCA is true if the Secret has certificates of certificate authorities. IsHTTP is true if the Secret selects plain
	// HTTP.
	HasCA, IsHTTP bool
}

// FleetSecretName returns the name of the Secret with the access to the chart of a HelmOp of Fleet; empty if the HelmOp
// has none.
func FleetSecretName(helmOp *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(helmOp.Object, "spec", "helmSecretName")
	return name
}

// ReadFleetSecret reads the content of a Secret with the access to a chart.
func ReadFleetSecret(data map[string][]byte) FleetSecret {
	isHTTP, err := strconv.ParseBool(string(data["basicHTTP"]))
	return FleetSecret{HasCA: len(data["cacerts"]) > 0, IsHTTP: err == nil && isHTTP}
}

// FromFleet converts HelmOps of Fleet. clusters is the metadata of all Clusters of Cluster API in their namespaces. The
// HelmOps of the Plan are paused: otherwise they would change releases that Fleet still manages.
func FromFleet(objects FleetObjects, clusters []*metav1.PartialObjectMetadata) *Plan {
	reader := newFleetReader(objects, clusters)
	plan, dependencies := &Plan{}, map[Object][]fleetDependency{}
	for _, object := range objects.HelmOps {
		item, dependsOn := reader.item(object)
		plan.Items, dependencies[item.From[0]] = append(plan.Items, item), dependsOn
	}
	for i := range plan.Items {
		if item := &plan.Items[i]; item.HelmOp != nil {
			item.setFleetDependencies(plan, objects.Migrated, dependencies[item.From[0]])
		}
	}
	plan.sort()
	return plan
}

// fleetReader converts HelmOps of Fleet.
type fleetReader struct {
	deployments []*fleetDeployment
	clusters    map[types.NamespacedName]*fleetCluster
	groups      []*fleetClusterGroup
	capi        map[types.NamespacedName]*metav1.PartialObjectMetadata
	secrets     map[string]FleetSecret

	// unreadable are the errors of objects that the conversion of each HelmOp needs.
	unreadable []string
}

func newFleetReader(objects FleetObjects, clusters []*metav1.PartialObjectMetadata) *fleetReader {
	reader := &fleetReader{secrets: objects.Secrets, clusters: map[types.NamespacedName]*fleetCluster{},
		capi: map[types.NamespacedName]*metav1.PartialObjectMetadata{}}
	for _, cluster := range clusters {
		reader.capi[types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}] = cluster
	}
	reader.deployments = decodeAll[fleetDeployment](reader, objects.Deployments)
	reader.groups = decodeAll[fleetClusterGroup](reader, objects.Groups)
	for _, cluster := range decodeAll[fleetCluster](reader, objects.Clusters) {
		reader.clusters[types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}] = cluster
	}
	return reader
}

// decodeAll decodes objects, and adds errors to the reader.
func decodeAll[T any](reader *fleetReader, objects []*unstructured.Unstructured) []*T {
	var all []*T
	for _, object := range objects {
		decoded := new(T)
		if err := decode(object, decoded); err != nil {
			reader.unreadable = append(reader.unreadable, fmt.Sprintf("%s cannot be read: %v", ObjectOf(object), err))
			continue
		}
		all = append(all, decoded)
	}
	return all
}

// item converts a HelmOp of Fleet. Its dependencies are converted later, when all HelmOps are known.
func (r *fleetReader) item(object *unstructured.Unstructured) (Item, []fleetDependency) {
	item := Item{From: []Object{ObjectOf(object)}}
	from := &fleetHelmOp{}
	if err := decode(object, from); err != nil {
		item.block("spec", "the object cannot be read: %v", err)
		return item, nil
	}
	if from.Spec.Helm == nil {
		item.block("spec.helm", "the object names no chart")
		return item, nil
	}
	item.HelmOp = newHelmOp(from.Namespace, from.Name, item.From[0].Origin())
	item.HelmOp.Spec.Paused = true
	install(item.HelmOp).Adoption = ""
	for _, why := range r.unreadable {
		item.block("metadata", "%s", why)
	}
	step, _ := Step(object)
	placed := r.addFleetReleases(&item, from, step != "")
	r.setFleetSource(&item, from)
	item.setFleetOptions(from)
	r.setFleetValues(&item, from, placed)
	r.setFleetTargets(&item, from, placed)
	item.HelmOp.Annotations[addonsv1.MigrationSourceAnnotation] = fmt.Sprintf("%d/%d",
		from.keptGeneration(), len(item.Clusters()))
	item.checkTemplates("spec.helm")
	item.blockManaged(&from.ObjectMeta)
	if from.Spec.Paused {
		item.block("spec.paused", "the object is paused; resume it, so that its releases are up to date when HelmOp takes "+
			"them over")
	}
	if from.DeletionTimestamp != nil && step != StepDetaching {
		item.block("metadata", "the object is being deleted, and Fleet uninstalls its releases")
	}
	return item, from.Spec.DependsOn
}

// fleetPlace is a cluster that has a release of a HelmOp of Fleet.
type fleetPlace struct {
	fleet *fleetCluster
	capi  *metav1.PartialObjectMetadata
}

// addFleetReleases adds the releases of the BundleDeployments of a HelmOp of Fleet, and returns their clusters. After
// the migration has begun, it ignores whether a release is ready: the migration itself changes the releases.
func (r *fleetReader) addFleetReleases(item *Item, from *fleetHelmOp, hasBegun bool) []fleetPlace {
	var placed []fleetPlace
	names, namespaces := map[string]bool{}, map[string]bool{}
	for _, deployment := range r.deployments {
		if deployment.Labels[FleetBundleLabel] != from.Name ||
			deployment.Labels[FleetBundleNamespaceLabel] != from.Namespace {
			continue
		}
		cluster := types.NamespacedName{Namespace: deployment.Labels[fleetClusterNamespaceLabel],
			Name: deployment.Labels[fleetClusterLabel]}
		where := fmt.Sprintf("BundleDeployment %s/%s", deployment.Namespace, deployment.Name)
		place, why := r.placeOf(cluster, from.Namespace)
		if why != "" {
			item.block(where, "%s", why)
			continue
		}
		if why := deployment.missing(); why != "" && !hasBegun {
			item.block(where, "its release in Cluster %s is not ready: %s", place.capi.Name, why)
		} else if !deployment.Status.NonModified && !hasBegun {
			item.gap(where, "objects in Cluster %s differ from the release, and HelmOp changes them back", place.capi.Name)
		}
		namespace, name, ok := parseFleetRelease(deployment.Status.Release)
		if !ok {
			if hasBegun {
				item.block(where, "it has no release: Fleet has failed to deploy it; see its status")
			}
			continue
		}
		placed = append(placed, place)
		names[name], namespaces[namespace] = true, true
		item.Releases = append(item.Releases, Release{
			Cluster: types.NamespacedName{Namespace: place.capi.Namespace, Name: place.capi.Name},
			Owner: Object{APIVersion: FleetDeploymentKind.GroupVersion().String(), Kind: FleetDeploymentKind.Kind,
				Namespace: deployment.Namespace, Name: deployment.Name},
			Name: name, Namespace: namespace})
	}
	if len(names) > 1 || len(namespaces) > 1 {
		item.block("spec.targets", "the releases have different names or namespaces; make an object of each name and "+
			"namespace, or write the HelmOp by hand")
	}
	item.HelmOp.Spec.Release = addonsv1.ReleaseTemplate{Name: nonEmpty(from.Spec.Helm.ReleaseName, from.Name),
		Namespace: nonEmpty(nonEmpty(from.Spec.TargetNamespace, from.Spec.DefaultNamespace), apiutil.DefaultReleaseNamespace)}
	if len(item.Releases) > 0 {
		item.HelmOp.Spec.Release.Name = item.Releases[0].Name
		item.HelmOp.Spec.Release.Namespace = item.Releases[0].Namespace
	}
	if len(item.Releases) == 0 {
		item.block("spec.targets", "it has no release in a Cluster of namespace %q; write a HelmOp by hand, and delete this "+
			"object", from.Namespace)
	}
	return placed
}

// excludeCluster is the advice for a cluster that is not a Cluster of Cluster API.
const excludeCluster = "keep this object in Fleet, or exclude the cluster in spec.targets; Fleet then uninstalls the " +
	"release there"

// placeOf returns the Cluster of Cluster API for a cluster of Fleet, or the reason why there is none. If Fleet's add-on
// provider for Cluster API imported the cluster, the Cluster is an owner of the object. Otherwise the object names the
// kubeconfig of the Cluster.
func (r *fleetReader) placeOf(key types.NamespacedName, namespace string) (place fleetPlace, why string) {
	cluster := r.clusters[key]
	if cluster == nil {
		return place, fmt.Sprintf("Fleet's Cluster %s is not in the namespace of the object, or does not exist; the release "+
			"would have no owner: "+excludeCluster, key)
	}
	var candidates []types.NamespacedName
	for _, owner := range cluster.OwnerReferences {
		if owner.Kind == apiutil.ClusterKind && strings.HasPrefix(owner.APIVersion, clusterv1.GroupVersion.Group+"/") {
			candidates = append(candidates, types.NamespacedName{Namespace: cluster.Namespace, Name: owner.Name})
		}
	}
	if name, ok := strings.CutSuffix(cluster.Spec.KubeConfigSecret, kubeconfigSuffix); ok {
		candidates = append(candidates, types.NamespacedName{Name: name,
			Namespace: nonEmpty(cluster.Spec.KubeConfigSecretNamespace, cluster.Namespace)})
	}
	for _, candidate := range candidates {
		if capi := r.capi[candidate]; capi != nil && candidate.Namespace == namespace {
			return fleetPlace{fleet: cluster, capi: capi}, ""
		}
	}
	return place, fmt.Sprintf("Fleet's Cluster %s is not a Cluster of Cluster API in namespace %q; the release would "+
		"have no owner: "+excludeCluster, key, namespace)
}

// missing returns why the release of a BundleDeployment is not ready; empty if it is. Fleet's agent also stores the ID
// of a deployment that failed. Then there is no release.
func (d *fleetDeployment) missing() string {
	switch {
	case d.DeletionTimestamp != nil:
		return "the BundleDeployment is being deleted"
	case d.Spec.Paused || d.Spec.OffSchedule:
		return "it is paused, or outside of its schedule"
	case d.Spec.DeploymentID != d.Spec.StagedDeploymentID:
		return "the rollout has not released the newest options to it"
	case d.Status.AppliedDeploymentID != d.Spec.DeploymentID:
		return "the agent has not deployed the newest options"
	case d.Status.Release == "":
		return "the agent could not deploy it; see its status"
	case !d.Status.Ready:
		return "its objects are not ready"
	default:
		return ""
	}
}

// parseFleetRelease reads "namespace/name:revision".
func parseFleetRelease(text string) (namespace, name string, ok bool) {
	namespace, rest, hasNamespace := strings.Cut(text, "/")
	name, _, hasRevision := strings.Cut(rest, ":")
	return namespace, name, hasNamespace && hasRevision && namespace != "" && name != ""
}

// setFleetDependencies converts dependencies between Bundles to dependencies between HelmOps.
func (i *Item) setFleetDependencies(plan *Plan, migrated []*addonsv1.HelmOp, dependencies []fleetDependency) {
	for _, dependency := range dependencies {
		if dependency.Name == "" {
			i.gap("spec.dependsOn", "HelmOp depends on HelmOps by their names; the release does not wait for Bundles of "+
				"a selector")
			continue
		}
		at := slices.IndexFunc(plan.Items, func(other Item) bool {
			return other.HelmOp != nil && other.HelmOp != i.HelmOp && other.HelmOp.Namespace == i.HelmOp.Namespace &&
				other.From[0].Name == dependency.Name
		})
		name := ""
		if at >= 0 {
			name = plan.Items[at].HelmOp.Name
		} else {
			origin := Object{Kind: FleetHelmOpKind.Kind, Namespace: i.HelmOp.Namespace, Name: dependency.Name}.Origin()
			for _, helmOp := range migrated {
				if helmOp.Annotations[addonsv1.MigratedFromAnnotation] == origin && helmOp.Name != i.HelmOp.Name {
					name = helmOp.Name
				}
			}
		}
		if name == "" {
			i.gap("spec.dependsOn", "the Bundle %q is not migrated to a HelmOp of this namespace; the release does not wait "+
				"for it", dependency.Name)
			continue
		}
		if states := dependency.AcceptedStates; len(states) > 0 && !slices.Equal(states, []string{"Ready"}) {
			i.gap("spec.dependsOn", "HelmOp waits until the release of %q is Ready, and not for other states", dependency.Name)
		}
		if !slices.ContainsFunc(i.HelmOp.Spec.DependsOn, func(d addonsv1.Dependency) bool { return d.Name == name }) {
			i.HelmOp.Spec.DependsOn = append(i.HelmOp.Spec.DependsOn, addonsv1.Dependency{Name: name})
		}
	}
}

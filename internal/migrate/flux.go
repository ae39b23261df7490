// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

const (
	// kubeconfigSuffix is the end of the name of the Secret with the kubeconfig of a Cluster.
	kubeconfigSuffix = "-kubeconfig"

	// fluxNameLabel is a label that Flux sets on all objects of a release.
	fluxNameLabel = "helm.toolkit.fluxcd.io/name"
)

// FluxObjects are the objects that a migration from Flux reads.
type FluxObjects struct {
	// Releases are the HelmReleases.
	Releases []*unstructured.Unstructured

	// Sources are the OCIRepositories and HelmRepositories.
	Sources []*unstructured.Unstructured

	// Clusters are all Clusters of the namespace.
	Clusters []*metav1.PartialObjectMetadata

	// HelmOps are all HelmOps of the namespace. They show which migrations have begun.
	HelmOps []*addonsv1.HelmOp
}

// FromFlux converts HelmReleases that install charts in Clusters by their kubeconfigs. HelmReleases become one HelmOp
// if they differ only in their Cluster, if their dependencies also differ only in their Cluster, and if the Clusters
// are in the same shard. A HelmRelease whose migration has not begun joins the HelmOp of an equal HelmRelease whose
// migration has begun: the command may have been interrupted while it paused the HelmReleases.
func FromFlux(objects FluxObjects) *Plan {
	reader := newFluxReader(objects)
	converted := fluxItems{reader: reader, numbers: map[types.NamespacedName]int{}, keys: map[int]string{}}
	begun := map[Object]string{}
	for i, object := range objects.Releases {
		item, dependsOn := reader.item(object)
		_, begun[item.From[0]] = Step(object)
		converted.items = append(converted.items, fluxItem{item, dependsOn, begun[item.From[0]]})
		converted.numbers[client.ObjectKeyFromObject(object)] = i
	}
	plan, alike := &Plan{}, map[string]int{}
	var dependencies [][]fluxDependency
	for _, n := range converted.order() {
		item := &converted.items[n]
		if item.HelmOp != nil {
			key, more := converted.groupKeys(n)
			group, isJoined := alike[key]
			if !isJoined {
				group = len(plan.Items)
			}
			for _, key := range append(more, key) {
				if _, ok := alike[key]; !ok {
					alike[key] = group
				}
			}
			if isJoined {
				plan.Items[group].join(&item.Item)
				continue
			}
		}
		plan.Items, dependencies = append(plan.Items, item.Item), append(dependencies, item.dependsOn)
	}
	plan.nameUniquely(reader, begun)
	for i := range plan.Items {
		if item := &plan.Items[i]; item.HelmOp != nil {
			item.selectMarked(reader.clusters)
			item.setDependencies(reader, plan, dependencies[i])
		}
	}
	plan.sort()
	return plan
}

// fluxItem is the conversion of one HelmRelease.
type fluxItem struct {
	Item
	dependsOn []fluxDependency
	// begun is the name of the HelmOp of a migration that has begun; empty before.
	begun string
}

// fluxItems are all HelmReleases.
type fluxItems struct {
	reader *fluxReader
	items  []fluxItem
	// numbers are the indexes of the HelmReleases in items.
	numbers map[types.NamespacedName]int
	// keys caches the results of likeness.
	keys map[int]string
}

// order returns the indexes of all items in the order in which groups are formed. Items whose migration has begun come
// first.
func (f *fluxItems) order() []int {
	var begun, others []int
	for n := range f.items {
		if f.items[n].begun != "" {
			begun = append(begun, n)
		} else {
			others = append(others, n)
		}
	}
	return append(begun, others...)
}

// groupKeys returns the key of the group of an item, and further keys of this group. Items whose migration has not
// begun join the group if they have one of these keys. For items whose migration to the same HelmOp has begun,
// dependencies are ignored: the HelmOp exists, and a dependency may be deleted.
func (f *fluxItems) groupKeys(n int) (key string, more []string) {
	if begun := f.items[n].begun; begun != "" {
		return f.digest(n, begun), []string{f.likeness(n)}
	}
	return f.likeness(n), nil
}

// likeness returns a key that is equal for HelmReleases that differ only in their Cluster, whose Clusters have the same
// shard, and whose dependencies have equal keys and the same Cluster as the HelmRelease.
func (f *fluxItems) likeness(n int) string {
	if key, ok := f.keys[n]; ok {
		return key
	}
	item := &f.items[n]
	f.keys[n] = item.From[0].Name // This value ends the recursion in a cycle of dependencies.
	var dependencies []any
	for _, dependency := range item.dependsOn {
		key := types.NamespacedName{Namespace: nonEmpty(dependency.Namespace, item.HelmOp.Namespace), Name: dependency.Name}
		other, ok := f.numbers[key]
		isOfCluster := ok && f.items[other].HelmOp != nil && slices.Equal(f.items[other].Clusters(), item.Clusters())
		if name := f.migratedTo(&item.Item, key, other, isOfCluster); name != "" {
			key = types.NamespacedName{Name: "HelmOp " + name}
		} else if isOfCluster {
			key = types.NamespacedName{Name: f.likeness(other)}
		}
		dependencies = append(dependencies, []any{key, dependency.ReadyExpr})
	}
	var shards []string
	for _, cluster := range item.Clusters() {
		shards = append(shards, apiutil.ShardTitle(f.reader.clusters[cluster]))
	}
	f.keys[n] = f.digest(n, []any{shards, dependencies})
	return f.keys[n]
}

// migratedTo returns the name of the existing HelmOp for a dependency of an item; empty if there is none. If
// isOfCluster is true, other is the index of the dependency.
func (f *fluxItems) migratedTo(item *Item, dependency types.NamespacedName, other int, isOfCluster bool) string {
	if !isOfCluster {
		return f.reader.migrated(item, dependency)
	}
	begun := f.items[other].begun
	if f.reader.helmOps[types.NamespacedName{Namespace: dependency.Namespace, Name: begun}] == nil {
		return ""
	}
	return begun
}

// digest returns a text that is equal for items with the same HelmOp and the same value of other.
func (f *fluxItems) digest(n int, other any) string {
	item := &f.items[n]
	// Marshalling cannot fail: all parts have types that JSON can represent.
	data, _ := json.Marshal([]any{item.HelmOp.Namespace, item.HelmOp.Name, item.HelmOp.Spec, item.Gaps, other})
	return apiutil.HexDigest(string(data))
}

// join adds the objects of another item with the same HelmOp.
func (i *Item) join(other *Item) {
	i.From, i.Releases = append(i.From, other.From...), append(i.Releases, other.Releases...)
}

// nameUniquely makes the names of the HelmOps of a namespace unique. A HelmOp of a migration that has begun keeps its
// name. Other items do not get the name of an existing HelmOp of other Clusters: the label in the selector of the
// HelmOp has this name, so a HelmOp that replaced the existing HelmOp would also select the other Clusters.
func (p *Plan) nameUniquely(reader *fluxReader, begun map[Object]string) {
	used := map[types.NamespacedName]bool{}
	for _, isBegun := range []bool{true, false} {
		for i := range p.Items {
			item := &p.Items[i]
			if item.HelmOp == nil || (begun[item.From[0]] != "") != isBegun {
				continue
			}
			base := nonEmpty(begun[item.From[0]], item.HelmOp.Name)
			key := types.NamespacedName{Namespace: item.HelmOp.Namespace, Name: base}
			if isBegun && used[key] {
				item.block("metadata", "its migration to HelmOp %s has begun together with others, from which the object differs "+
					"now; revert the change of the object, and repeat the command", base)
			}
			isTaken := func() bool {
				existing := reader.helmOps[key]
				return used[key] || existing != nil && item.Origin() != existing.Annotations[addonsv1.MigratedFromAnnotation] &&
					!item.isSelected(existing, reader.clusters)
			}
			for n := 2; !isBegun && isTaken(); n++ {
				key.Name = fmt.Sprintf("%s-%d", base, n)
			}
			used[key], item.HelmOp.Name = true, key.Name
		}
	}
}

// setDependencies converts dependencies between HelmReleases to dependencies between HelmOps.
func (i *Item) setDependencies(reader *fluxReader, plan *Plan, dependencies []fluxDependency) {
	for _, dependency := range dependencies {
		namespace := nonEmpty(dependency.Namespace, i.HelmOp.Namespace)
		at := slices.IndexFunc(plan.Items, func(other Item) bool {
			return other.HelmOp != nil && other.HelmOp.Namespace == i.HelmOp.Namespace &&
				slices.ContainsFunc(other.From, func(o Object) bool {
					return o.Namespace == namespace && o.Name == dependency.Name
				})
		})
		name := ""
		if at >= 0 && plan.Items[at].HelmOp != i.HelmOp {
			name = plan.Items[at].HelmOp.Name
		} else if at < 0 {
			name = reader.migrated(i, types.NamespacedName{Namespace: namespace, Name: dependency.Name})
		}
		if name == "" {
			i.gap("spec.dependsOn", "%s/%s is not migrated to a HelmOp of this namespace; the release does not wait for it",
				namespace, dependency.Name)
			continue
		}
		if dependency.ReadyExpr != "" {
			i.gap("spec.dependsOn", "the readyExpr of %q is about a HelmRelease; write one about a HelmOpRelease",
				dependency.Name)
		}
		if !slices.ContainsFunc(i.HelmOp.Spec.DependsOn, func(d addonsv1.Dependency) bool { return d.Name == name }) {
			i.HelmOp.Spec.DependsOn = append(i.HelmOp.Spec.DependsOn, addonsv1.Dependency{Name: name})
		}
	}
}

// fluxReader converts HelmReleases.
type fluxReader struct {
	sources  map[crossName]*fluxSource
	clusters map[types.NamespacedName]*metav1.PartialObjectMetadata
	helmOps  map[types.NamespacedName]*addonsv1.HelmOp
	// shared has the ConfigMaps and Secrets with values to which HelmReleases of several Clusters refer.
	shared map[crossName]bool
}

// newFluxReader returns a reader of objects. It sorts the HelmReleases.
func newFluxReader(objects FluxObjects) *fluxReader {
	reader := &fluxReader{sources: map[crossName]*fluxSource{}, clusters: byKey(objects.Clusters),
		helmOps: byKey(objects.HelmOps), shared: map[crossName]bool{}}
	for _, object := range objects.Sources {
		source := &fluxSource{}
		if err := decode(object, source); err == nil {
			reader.sources[crossName{object.GetKind(), object.GetName(), object.GetNamespace()}] = source
		}
	}
	slices.SortFunc(objects.Releases, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	users := map[crossName]types.NamespacedName{}
	for _, object := range objects.Releases {
		release := &helmRelease{}
		if err := decode(object, release); err != nil {
			continue
		}
		cluster, _ := reader.clusterOf(release)
		for _, from := range release.Spec.ValuesFrom {
			key := crossName{from.Kind, from.Name, release.Namespace}
			if user, ok := users[key]; ok && user != cluster {
				reader.shared[key] = true
			}
			users[key] = cluster
		}
	}
	return reader
}

// migrated returns the name of the HelmOp to which an earlier run migrated a dependency of an item; empty if there is
// none. A HelmOp names only the first object from which it was made. Its other Clusters are found by their label.
func (r *fluxReader) migrated(item *Item, dependency types.NamespacedName) string {
	origin := Object{Kind: HelmReleaseKind.Kind, Namespace: dependency.Namespace, Name: dependency.Name}.Origin()
	var names []string
	for key, helmOp := range r.helmOps {
		if key.Namespace != item.HelmOp.Namespace || key.Namespace != dependency.Namespace {
			continue
		}
		if helmOp.Annotations[addonsv1.MigratedFromAnnotation] == origin {
			return key.Name
		}
		for _, cluster := range item.Clusters() {
			labels := map[string]string{}
			if found := r.clusters[cluster]; found != nil {
				labels = found.Labels
			}
			_, isMarked := labels[markKey(addonsv1.MigratedClusterLabelPrefix, key.Name)]
			if isMarked && isFromFlux(helmOp) && !slices.Contains(names, key.Name) &&
				isNamedAfter(key.Name, unqualified(dependency.Name, cluster.Name)) {
				names = append(names, key.Name)
			}
		}
	}
	if len(names) != 1 {
		return ""
	}
	return names[0]
}

// isNamedAfter reports whether nameUniquely may have made a name from a base name.
func isNamedAfter(name, base string) bool {
	number, found := strings.CutPrefix(name, base+"-")
	_, err := strconv.Atoi(number)
	return name == base || found && err == nil
}

// item converts a HelmRelease. Its dependencies are converted later, when all HelmOps are known.
func (r *fluxReader) item(object *unstructured.Unstructured) (Item, []fluxDependency) {
	item := Item{From: []Object{ObjectOf(object)}}
	release := &helmRelease{}
	if err := decode(object, release); err != nil {
		item.block("spec", "the object cannot be read: %v", err)
		return item, nil
	}
	cluster, why := r.clusterOf(release)
	if why != "" {
		item.block("spec.kubeConfig", "%s", why)
		return item, nil
	}
	item.HelmOp = newHelmOp(release.Namespace, unqualified(release.Name, cluster.Name), r.originOf(object))
	item.addFluxRelease(release, cluster, object)
	item.setFluxChart(r, release)
	item.setFluxValues(r, release, cluster)
	item.setFluxOptions(release)
	item.setFluxPostRender(release)
	item.checkTemplates("spec.values")
	item.blockManaged(withoutOwnLabels(release))
	if release.Spec.Suspend && release.Annotations[addonsv1.MigrationAnnotation] == "" {
		item.block("spec.suspend", "the object is suspended; resume it, so that its release is up to date when "+
			"HelmOp adopts it")
	}
	step, _ := Step(object)
	isDetaching := release.Spec.Suspend && step == StepDetaching
	if release.DeletionTimestamp != nil && !isDetaching {
		item.block("metadata", "the object is being deleted, and Flux uninstalls its release")
	}
	return item, release.Spec.DependsOn
}

// originOf returns the value of MigratedFromAnnotation of the HelmOp for a HelmRelease. If the migration has begun, it
// is the value in the existing HelmOp: the HelmRelease from which the HelmOp was made, or its Cluster, may be deleted.
func (r *fluxReader) originOf(object *unstructured.Unstructured) string {
	if _, begun := Step(object); begun != "" {
		helmOp := r.helmOps[types.NamespacedName{Namespace: object.GetNamespace(), Name: begun}]
		if helmOp != nil && isFromFlux(helmOp) {
			return helmOp.Annotations[addonsv1.MigratedFromAnnotation]
		}
	}
	return ObjectOf(object).Origin()
}

// isFromFlux reports whether a HelmOp was made from a HelmRelease.
func isFromFlux(helmOp *addonsv1.HelmOp) bool {
	return strings.HasPrefix(helmOp.Annotations[addonsv1.MigratedFromAnnotation], HelmReleaseKind.Kind+"/")
}

// clusterOf returns the Cluster of a HelmRelease, or the reason why it has none.
func (r *fluxReader) clusterOf(release *helmRelease) (cluster types.NamespacedName, why string) {
	config := release.Spec.KubeConfig
	if config == nil || config.SecretRef == nil {
		return cluster, "it has no kubeConfig.secretRef, so that the release is not in a Cluster of Cluster API; for the " +
			"management cluster, write a HelmOp with spec.managementCluster"
	}
	// A Secret without the suffix may be the kubeconfig of any cluster.
	name, isOfCluster := strings.CutSuffix(config.SecretRef.Name, kubeconfigSuffix)
	cluster = types.NamespacedName{Namespace: release.Namespace, Name: name}
	if !isOfCluster || r.clusters[cluster] == nil {
		return cluster, fmt.Sprintf("the Secret %q is not the kubeconfig of a Cluster of namespace %q",
			config.SecretRef.Name, release.Namespace)
	}
	return cluster, ""
}

// withoutOwnLabels returns the metadata of a HelmRelease without the labels that mark it as part of Flux's own release.
func withoutOwnLabels(release *helmRelease) *metav1.ObjectMeta {
	meta := release.ObjectMeta.DeepCopy()
	if meta.Labels[fluxNameLabel] == release.Name {
		delete(meta.Labels, fluxNameLabel)
	}
	return meta
}

// addFluxRelease adds the release that is named in the status of a HelmRelease.
func (i *Item) addFluxRelease(release *helmRelease, cluster types.NamespacedName, object *unstructured.Unstructured) {
	if len(release.Status.History) == 0 {
		i.block("status.history", "it has no release yet; wait until Flux has installed the release")
		return
	}
	latest := release.Status.History[0]
	if latest.Status != "deployed" {
		i.gap("status.history", "the release is %s: HelmOp cannot adopt it without a new Helm revision", latest.Status)
	}
	i.HelmOp.Spec.Release = addonsv1.ReleaseTemplate{
		Name: qualified(latest.Name, cluster.Name), Namespace: qualified(latest.Namespace, cluster.Name),
	}
	storage := nonEmpty(release.Spec.StorageNamespace, release.Namespace)
	if storage = nonEmpty(release.Status.StorageNamespace, storage); storage != latest.Namespace {
		i.block("spec.storageNamespace", "HelmOp stores the records of a release in the namespace of the release; move the "+
			"Secrets %q in namespace %q of the Cluster to namespace %q, see docs/migration.md",
			"sh.helm.release.v1."+latest.Name+".*", storage, latest.Namespace)
	}
	i.Releases = append(i.Releases, Release{Cluster: cluster, Owner: ObjectOf(object), Name: latest.Name,
		Namespace: latest.Namespace, Revision: latest.Version})
}

// clusterName is a template for the name of the Cluster.
const clusterName = "{{ .ClusterName }}"

// qualified returns a name in which a template replaces the name of the Cluster.
func qualified(text, cluster string) string {
	if parts, ok := partsOf(text, cluster); ok {
		return escape(parts[0]) + clusterName + escape(parts[1])
	}
	return escape(text)
}

// unqualified returns a name without the name of the Cluster.
func unqualified(text, cluster string) string {
	parts, ok := partsOf(text, cluster)
	if !ok {
		return text
	}
	rest := strings.Trim(parts[0], "-") + "-" + strings.Trim(parts[1], "-")
	return nonEmpty(strings.Trim(rest, "-"), text)
}

// partsOf splits a name at the name of the Cluster. The name of the Cluster must be the whole name, or a part between
// dashes.
func partsOf(text, cluster string) (parts [2]string, ok bool) {
	before, after, found := strings.Cut("-"+text+"-", "-"+cluster+"-")
	if !found || cluster == "" {
		return parts, false
	}
	before, after = strings.TrimPrefix(before+"-", "-"), strings.TrimSuffix("-"+after, "-")
	return [2]string{before, after}, true
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

const (
	// kubeconfigSuffix ends the name of the Secret with the kubeconfig of a Cluster.
	kubeconfigSuffix = "-kubeconfig"

	// fluxNameLabel is a label that Flux sets on all objects of a release.
	fluxNameLabel = "helm.toolkit.fluxcd.io/name"
)

// FromFlux converts HelmReleases that install charts in Clusters by their kubeconfigs. HelmReleases that differ only in
// their Cluster, and whose dependencies do, become one HelmOp. sources are the OCIRepositories and HelmRepositories,
// and clusters are the names of all Clusters.
func FromFlux(releases, sources []*unstructured.Unstructured, clusters []types.NamespacedName) *Plan {
	reader := fluxReader{sources: map[crossName]*fluxSource{}, clusters: clusters}
	for _, object := range sources {
		source := &fluxSource{}
		if err := decode(object, source); err == nil {
			reader.sources[crossName{object.GetKind(), object.GetName(), object.GetNamespace()}] = source
		}
	}
	slices.SortFunc(releases, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	converted := fluxItems{numbers: map[types.NamespacedName]int{}, keys: map[int]string{}}
	begun := map[Object]string{}
	for i, object := range releases {
		item, dependsOn := reader.item(object)
		_, begun[item.From[0]] = Step(object)
		converted.items = append(converted.items, fluxItem{item, dependsOn, begun[item.From[0]]})
		converted.numbers[client.ObjectKeyFromObject(object)] = i
	}
	plan, alike := &Plan{}, map[string]int{}
	var dependencies [][]fluxDependency
	for n := range converted.items {
		item := &converted.items[n]
		if item.HelmOp != nil {
			key := converted.likeness(n)
			if i, ok := alike[key]; ok {
				plan.Items[i].join(&item.Item)
				continue
			}
			alike[key] = len(plan.Items)
		}
		plan.Items, dependencies = append(plan.Items, item.Item), append(dependencies, item.dependsOn)
	}
	plan.nameUniquely(begun)
	for i := range plan.Items {
		if item := &plan.Items[i]; item.HelmOp != nil {
			item.selectMarked()
			item.setDependencies(plan, dependencies[i])
		}
	}
	plan.sort()
	return plan
}

// fluxItem is a HelmRelease that is converted alone.
type fluxItem struct {
	Item
	dependsOn []fluxDependency
	// begun is the name of the HelmOp to which the migration has begun; empty before.
	begun string
}

// fluxItems are all HelmReleases.
type fluxItems struct {
	items []fluxItem
	// numbers are the places of the HelmReleases in items.
	numbers map[types.NamespacedName]int
	// keys are the known results of likeness.
	keys map[int]string
}

// likeness is the same for HelmReleases that differ only in their Cluster, and whose dependencies are alike and for the
// same Cluster. The dependencies of a HelmRelease whose migration has begun do not count.
func (f *fluxItems) likeness(n int) string {
	if key, ok := f.keys[n]; ok {
		return key
	}
	item := &f.items[n]
	f.keys[n] = item.From[0].Name // It ends a circle of dependencies.
	var dependencies []any
	for _, dependency := range item.dependsOn {
		if item.begun != "" {
			break // The HelmOp exists, and the command may have deleted the dependency.
		}
		key := types.NamespacedName{Namespace: nonEmpty(dependency.Namespace, item.HelmOp.Namespace), Name: dependency.Name}
		other, ok := f.numbers[key]
		if ok && f.items[other].HelmOp != nil && slices.Equal(f.items[other].Clusters(), item.Clusters()) {
			key = types.NamespacedName{Name: f.likeness(other)}
		}
		dependencies = append(dependencies, []any{key, dependency.ReadyExpr})
	}
	// All parts are of types that can be written as JSON.
	data, _ := json.Marshal([]any{item.HelmOp.Namespace, item.HelmOp.Name, item.HelmOp.Spec, dependencies, item.Gaps,
		item.begun})
	f.keys[n] = apiutil.HexDigest(string(data))
	return f.keys[n]
}

// join adds the objects of an item with the same HelmOp.
func (i *Item) join(other *Item) {
	i.From, i.Releases = append(i.From, other.From...), append(i.Releases, other.Releases...)
}

// nameUniquely gives each HelmOp of a namespace another name. A HelmOp of a migration that has begun keeps its name.
func (p *Plan) nameUniquely(begun map[Object]string) {
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
			for n := 2; used[key] && !isBegun; n++ {
				key.Name = fmt.Sprintf("%s-%d", base, n)
			}
			used[key], item.HelmOp.Name = true, key.Name
		}
	}
}

// setDependencies converts dependencies between HelmReleases to those between HelmOps.
func (i *Item) setDependencies(plan *Plan, dependencies []fluxDependency) {
	for _, dependency := range dependencies {
		namespace := nonEmpty(dependency.Namespace, i.HelmOp.Namespace)
		at := slices.IndexFunc(plan.Items, func(other Item) bool {
			return other.HelmOp != nil && other.HelmOp.Namespace == i.HelmOp.Namespace &&
				slices.ContainsFunc(other.From, func(o Object) bool {
					return o.Namespace == namespace && o.Name == dependency.Name
				})
		})
		if at < 0 || at < len(plan.Items) && plan.Items[at].HelmOp == i.HelmOp {
			i.gap("spec.dependsOn", "%s/%s is not migrated to a HelmOp of this namespace; the release does not wait for it",
				namespace, dependency.Name)
			continue
		}
		if dependency.ReadyExpr != "" {
			i.gap("spec.dependsOn", "the readyExpr of %q is about a HelmRelease; write one about a HelmOpRelease",
				dependency.Name)
		}
		name := plan.Items[at].HelmOp.Name
		if !slices.ContainsFunc(i.HelmOp.Spec.DependsOn, func(d addonsv1.Dependency) bool { return d.Name == name }) {
			i.HelmOp.Spec.DependsOn = append(i.HelmOp.Spec.DependsOn, addonsv1.Dependency{Name: name})
		}
	}
}

// fluxReader converts HelmReleases.
type fluxReader struct {
	sources  map[crossName]*fluxSource
	clusters []types.NamespacedName
}

// item converts a HelmRelease. Its dependencies are converted when all HelmOps are known.
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
	item.HelmOp = newHelmOp(release.Namespace, unqualified(release.Name, cluster.Name), item.From[0].Origin())
	item.addFluxRelease(release, cluster, object)
	item.setFluxChart(r, release)
	item.setFluxValues(release)
	item.setFluxOptions(release)
	item.setFluxPostRender(release)
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

// clusterOf returns the Cluster of a HelmRelease, or why it has none.
func (r *fluxReader) clusterOf(release *helmRelease) (cluster types.NamespacedName, why string) {
	config := release.Spec.KubeConfig
	if config == nil || config.SecretRef == nil {
		return cluster, "it has no kubeConfig.secretRef, so that the release is not in a Cluster of Cluster API; for the " +
			"management cluster, write a HelmOp with spec.managementCluster"
	}
	cluster = types.NamespacedName{Namespace: release.Namespace,
		Name: strings.TrimSuffix(config.SecretRef.Name, kubeconfigSuffix)}
	if !slices.Contains(r.clusters, cluster) {
		return cluster, fmt.Sprintf("the Secret %q is not the kubeconfig of a Cluster of namespace %q",
			config.SecretRef.Name, release.Namespace)
	}
	return cluster, ""
}

// withoutOwnLabels returns the metadata of a HelmRelease without the labels that say that Flux itself manages it as
// part of its own release.
func withoutOwnLabels(release *helmRelease) *metav1.ObjectMeta {
	meta := release.ObjectMeta.DeepCopy()
	if meta.Labels[fluxNameLabel] == release.Name {
		delete(meta.Labels, fluxNameLabel)
	}
	return meta
}

// addFluxRelease adds the release that the status of a HelmRelease names.
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

// qualified returns a name in which a template replaces the name of the Cluster, if that is a part of the name.
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

// partsOf divides a name at the name of the Cluster: the whole name, or a part between dashes.
func partsOf(text, cluster string) (parts [2]string, ok bool) {
	before, after, found := strings.Cut("-"+text+"-", "-"+cluster+"-")
	if !found || cluster == "" {
		return parts, false
	}
	before, after = strings.TrimPrefix(before+"-", "-"), strings.TrimSuffix("-"+after, "-")
	return [2]string{before, after}, true
}

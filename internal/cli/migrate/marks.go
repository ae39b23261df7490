// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
)

// markedReader is a reader of the management cluster that shows the Clusters with their marks, before the marks are
// written.
type markedReader struct {
	client.Reader
	marks []migrate.Mark
}

// Get implements client.Reader.
func (r markedReader) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	opts ...client.GetOption,
) error {
	if err := r.Reader.Get(ctx, key, object, opts...); err != nil {
		return err
	}
	r.mark(object)
	return nil
}

// List implements client.Reader.
func (r markedReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := r.Reader.List(ctx, list, opts...); err != nil {
		return err
	}
	return meta.EachListItem(list, func(object runtime.Object) error {
		r.mark(object.(client.Object))
		return nil
	})
}

// mark sets the marks on a Cluster.
func (r markedReader) mark(object client.Object) {
	_, isTyped := object.(*clusterv1.Cluster)
	kind := object.GetObjectKind().GroupVersionKind()
	if !isTyped && (kind.Group != clusterv1.GroupVersion.Group || kind.Kind != apiutil.ClusterKind) {
		return
	}
	for _, mark := range r.marks {
		if mark.Cluster == client.ObjectKeyFromObject(object) {
			setMark(object, mark)
		}
	}
}

// setMark sets a label or an annotation.
func setMark(object metav1.Object, mark migrate.Mark) {
	if !mark.IsLabel {
		annotate(object, mark.Key, mark.Value)
		return
	}
	labels := maps.Clone(object.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[mark.Key] = mark.Value
	object.SetLabels(labels)
}

// removeMark removes a label or an annotation if it has the value of the mark.
func removeMark(object metav1.Object, mark migrate.Mark) {
	all := maps.Clone(object.GetAnnotations())
	if mark.IsLabel {
		all = maps.Clone(object.GetLabels())
	}
	if all[mark.Key] != mark.Value {
		return
	}
	delete(all, mark.Key)
	if mark.IsLabel {
		object.SetLabels(all)
	} else {
		object.SetAnnotations(all)
	}
}

// labelOf returns the label by which the HelmOp of an item selects Clusters; empty if it selects no label of the
// migration.
func labelOf(item *migrate.Item) string {
	for _, mark := range item.Marks {
		if mark.IsLabel {
			return mark.Key
		}
	}
	return ""
}

// selecting returns the sorted names of the HelmOps that select a label. It omits the HelmOp of an item.
func selecting(helmOps []*addonsv1.HelmOp, label string, item *migrate.Item) []string {
	var names []string
	for _, helmOp := range helmOps {
		if helmOp.Name != item.HelmOp.Name && migrate.SelectsLabel(helmOp, label) {
			names = append(names, helmOp.Name)
		}
	}
	slices.Sort(names)
	return names
}

// leftLabels returns the sorted labels of migrations on the Clusters of an item that none of the HelmOps selects.
func leftLabels(item *migrate.Item, clusters []*metav1.PartialObjectMetadata, helmOps []*addonsv1.HelmOp) []string {
	left := map[string]bool{}
	for _, cluster := range clusters {
		isInItem := slices.ContainsFunc(item.Releases, func(r migrate.Release) bool {
			return r.Cluster == client.ObjectKeyFromObject(cluster)
		})
		for label := range cluster.Labels {
			if isInItem && strings.HasPrefix(label, addonsv1.MigratedClusterLabelPrefix+"/") &&
				len(selecting(helmOps, label, item)) == 0 {
				left[label] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(left))
}

// noteLabels prints that no HelmOp of an item exists, and the labels that an interrupted run of --undo may have left on
// the Clusters of the item.
func (m *migration) noteLabels(ctx context.Context, item *migrate.Item) error {
	clusters, err := clusterMetadata(ctx, m.client)
	if err != nil {
		return err
	}
	helmOps, err := helmOpsOf(ctx, m.client)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s: its migration has not begun: HelmOp %s/%s does not exist", item.Title(),
		item.HelmOp.Namespace, item.HelmOp.Name)
	if labels := leftLabels(item, clusters, helmOps); len(labels) > 0 {
		text += "; its Clusters have labels of a former migration: " + strings.Join(labels, ", ") + "; if --undo was " +
			"interrupted, and no HelmOp of another namespace selects these labels, remove them"
	}
	m.Note("%s", text)
	return nil
}

// checkUnselected returns an error if another HelmOp selects the label of an item: HelmOp would uninstall or change its
// releases in the Clusters that lose the label.
func (m *migration) checkUnselected(ctx context.Context, item *migrate.Item) error {
	label := labelOf(item)
	if label == "" {
		return nil
	}
	helmOps, err := helmOpsOf(ctx, m.client)
	if err != nil {
		return err
	}
	if others := selecting(helmOps, label, item); len(others) > 0 {
		return fmt.Errorf("HelmOp %s/%s selects the label %s, too, and would uninstall or change its releases if Clusters "+
			"lost the label; let it select another label, and repeat the command", item.HelmOp.Namespace, others[0], label)
	}
	return nil
}

// staleMarks returns the labels of an item on Clusters that are not part of the item. clusters are all Clusters.
func staleMarks(item *migrate.Item, clusters []*metav1.PartialObjectMetadata) []migrate.Mark {
	label := labelOf(item)
	var stale []migrate.Mark
	for _, cluster := range clusters {
		mark := migrate.Mark{Cluster: client.ObjectKeyFromObject(cluster), IsLabel: true, Key: label,
			Value: cluster.Labels[label]}
		if mark.Value != "" && !slices.ContainsFunc(item.Marks, func(m migrate.Mark) bool {
			return m.Cluster == mark.Cluster && m.Key == mark.Key
		}) {
			stale = append(stale, mark)
		}
	}
	return stale
}

// editMarks changes the Clusters of marks. It ignores Clusters that no longer exist.
func editMarks(ctx context.Context, c *kube.Client, marks []migrate.Mark,
	change func(metav1.Object, migrate.Mark),
) error {
	byCluster, order := map[types.NamespacedName][]migrate.Mark{}, []types.NamespacedName{}
	for _, mark := range marks {
		if byCluster[mark.Cluster] == nil {
			order = append(order, mark.Cluster)
		}
		byCluster[mark.Cluster] = append(byCluster[mark.Cluster], mark)
	}
	var errs []error
	for _, key := range order {
		ref := migrate.Object{APIVersion: clusterv1.GroupVersion.String(), Kind: apiutil.ClusterKind,
			Namespace: key.Namespace, Name: key.Name}
		_, err := edit(ctx, c, ref, func(object *unstructured.Unstructured) error {
			for _, mark := range byCluster[key] {
				change(object, mark)
			}
			return nil
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

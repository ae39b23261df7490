// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

// These are the steps for a tool that stops managing its releases without uninstalling them. Until the objects of the
// tool are deleted, the HelmOp is paused, and an annotation of the HelmOp contains the step of the migration. So the
// command continues after an interruption.

// isForgotten reports whether the HelmOp of an item continues a migration whose objects in the other tool are deleted.
func isForgotten(item *migrate.Item) bool {
	return item.HelmOp != nil && stepOf(item.HelmOp) == migrate.StepInstalling
}

// makeAgain is the advice for a HelmOp that does not match the objects of the tool.
const makeAgain = "delete the paused helmops.addons.cluster.x-k8s.io with --cascade=orphan, and repeat the command"

// checkSource returns an error for an existing HelmOp that was not made from the current objects of the tool.
func (m *migration) checkSource(item *migrate.Item, helmOp *addonsv1.HelmOp) error {
	if _, ok := m.tool.(forgetter); !ok || isForgotten(item) {
		return nil
	}
	if stepOf(helmOp) != migrate.StepInstalling {
		return fmt.Errorf("HelmOp %s/%s does not have the annotation %s: %s %s, which the command needs after the "+
			"objects of the tool are deleted; delete the HelmOp with --cascade=orphan, or let the command create it",
			helmOp.Namespace, helmOp.Name, addonsv1.MigrationAnnotation, migrate.StepInstalling, helmOp.Name)
	}
	if !migrate.HasSameSource(helmOp, item.HelmOp) {
		return fmt.Errorf("HelmOp %s/%s was made from another state of %s, see its annotation %s; %s", helmOp.Namespace,
			helmOp.Name, item.From[0], addonsv1.MigrationSourceAnnotation, makeAgain)
	}
	return nil
}

// checkPreview returns an error if the HelmOp of an item cannot be rendered or installed. This must be known before the
// tool stops managing the releases.
func (m *migration) checkPreview(ctx context.Context, item *migrate.Item) error {
	if _, ok := m.tool.(forgetter); !ok || !m.preview || isForgotten(item) {
		return nil
	}
	helmOp, err := m.planned(ctx, item)
	if err != nil {
		return err
	}
	groups, err := m.groups(ctx, item, helmOp)
	if err != nil {
		return fmt.Errorf("not migrated: there is no preview of its HelmOp: %w", err)
	}
	if failures := failuresOf(item, groups); len(failures) > 0 {
		return fmt.Errorf("not migrated: the HelmOp would fail, see kubectl helmop preview; correct this first:\n  %s",
			strings.Join(failures[:min(len(failures), maxMissing)], "\n  "))
	}
	return nil
}

// failuresOf returns texts about the Clusters of an item in which the HelmOp could not install the release, according
// to a preview.
func failuresOf(item *migrate.Item, groups []preview.Group) []string {
	var failures []string
	for i := range groups {
		if group := &groups[i]; isFailure(&group.Outcome) {
			failures = append(failures, fmt.Sprintf("Cluster %s: %s", group.Clusters[0], group.Summary()))
		}
	}
	for _, name := range uncovered(item, groups) {
		failures = append(failures, fmt.Sprintf("Cluster %s: %s", name, whyUncovered))
	}
	return failures
}

// isFailure reports whether a release cannot be rendered, installed or upgraded.
func isFailure(outcome *preview.Outcome) bool {
	if outcome.State == preview.StateFailed || outcome.Action == string(model.ActionRefuse) {
		return true
	}
	for i := range outcome.Changes {
		if outcome.Changes[i].Fails {
			return true
		}
	}
	return false
}

func (m *migration) awaitKept(ctx context.Context, item *migrate.Item) error {
	return m.tool.(forgetter).awaitKept(ctx, m.client, item)
}

func (m *migration) awaitForgotten(ctx context.Context, item *migrate.Item) error {
	return m.tool.(forgetter).awaitForgotten(ctx, m.client, item)
}

// awaitServed waits until a manager has read the HelmOp of an item. It prints a note if this takes long. Without a
// manager, for example because of its flag --watch-filter, no program would manage the releases after the deletion of
// the tool's objects.
func (m *migration) awaitServed(ctx context.Context, item *migrate.Item) error {
	if isForgotten(item) {
		return nil
	}
	objects, key := map[client.ObjectKey]*addonsv1.HelmOp{}, client.ObjectKeyFromObject(item.HelmOp)
	noted := make(chan struct{})
	timer := time.AfterFunc(m.heldDelay, func() {
		defer close(noted)
		m.Note("%s: %s", key.Name, whyUnserved)
	})
	defer func() {
		if !timer.Stop() {
			<-noted
		}
	}()
	err := kube.Follow(ctx, m.client, &addonsv1.HelmOpList{}, func(change kube.Change[*addonsv1.HelmOp]) (bool, error) {
		change.Apply(&objects)
		if objects[key] == nil {
			return true, errGone
		}
		return isServed(objects[key]), nil
	}, kube.Named(key.Namespace, key.Name)...)
	if err != nil && !errors.Is(err, errGone) {
		return kube.WithText(fmt.Sprintf("%s. HelmOp %s: %s; then repeat the command, or return with --undo", m.why(err), key,
			whyUnserved), err)
	}
	return err
}

// isServed reports whether the manager of the shard of a HelmOp has read the HelmOp.
func isServed(helmOp *addonsv1.HelmOp) bool {
	return helmOp.Status.Shard != nil && apiutil.IsOfShard(helmOp, *helmOp.Status.Shard)
}

// whyUnserved explains why no manager has read a HelmOp.
const whyUnserved = "no manager of HelmOp has reconciled it; check that a manager runs, and that its flags " +
	"--namespace, --shard and --watch-filter fit the namespace and the labels of the HelmOp"

// checkPaused returns an error if the HelmOp is not paused. The objects of the tool must not be deleted then, because
// both would change the releases.
func (m *migration) checkPaused(ctx context.Context, item *migrate.Item) error {
	if isForgotten(item) {
		return nil
	}
	helmOp, err := m.usable(ctx, item)
	if err == nil && (helmOp == nil || !helmOp.Spec.Paused) {
		return errResumed(item)
	}
	if err != nil {
		return err
	}
	for _, dependency := range helmOp.Spec.DependsOn {
		key := client.ObjectKey{Namespace: helmOp.Namespace, Name: dependency.Name}
		if err := m.client.Get(ctx, key, &addonsv1.HelmOp{}); err != nil {
			return fmt.Errorf("HelmOp %s/%s depends on HelmOp %s and would wait for it; migrate it first, or remove the "+
				"dependency: %w", helmOp.Namespace, helmOp.Name, dependency.Name, kube.Explain(err))
		}
	}
	return nil
}

// errResumed returns the error for a HelmOp that is not paused while its tool still manages the releases.
func errResumed(item *migrate.Item) error {
	return fmt.Errorf("HelmOp %s/%s is not paused, and %s still has the releases; pause the HelmOp, and repeat the "+
		"command", item.HelmOp.Namespace, item.HelmOp.Name, item.From[0])
}

// unmarkOthers removes the label of an item from all Clusters that are not part of the item: HelmOp would otherwise
// install the chart in a Cluster that lost its release between two runs.
func (m *migration) unmarkOthers(ctx context.Context, item *migrate.Item) error {
	if labelOf(item) == "" {
		return nil
	}
	clusters, err := clusterMetadata(ctx, m.client)
	if err != nil {
		return err
	}
	stale := staleMarks(item, clusters)
	if len(stale) == 0 {
		return nil
	}
	helmOp, err := m.usable(ctx, item)
	if err != nil {
		return err
	}
	if helmOp != nil && !helmOp.Spec.Paused {
		// HelmOp would uninstall the releases that it has installed in the Clusters.
		return errResumed(item)
	}
	if err := m.checkUnselected(ctx, item); err != nil {
		return err
	}
	for _, mark := range stale {
		m.Note("Cluster %s has no release of %s any more; the label %s is removed", mark.Cluster.Name, item.Title(),
			mark.Key)
	}
	return editMarks(ctx, m.client, stale, removeMark)
}

// endPause ends the pause of the HelmOp of an item. The objects of the tool must not exist: a program that manages them
// may have created them again.
func (m *migration) endPause(ctx context.Context, item *migrate.Item) error {
	if err := m.tool.(forgetter).checkGone(ctx, m.client, item); err != nil {
		return err
	}
	return m.editHelmOp(ctx, item, func(object *unstructured.Unstructured) {
		unstructured.RemoveNestedField(object.Object, "spec", "paused")
	})
}

func (m *migration) awaitInstallation(ctx context.Context, item *migrate.Item) error {
	return m.awaitReleases(ctx, item, releaseWords{"installation", "installed",
		"The objects of the releases are still there. Correct the HelmOp, and repeat the command"})
}

// complete removes the step from the HelmOp of an item.
func (m *migration) complete(ctx context.Context, item *migrate.Item) error {
	return m.editHelmOp(ctx, item, func(object *unstructured.Unstructured) {
		annotate(object, addonsv1.MigrationAnnotation, "")
	})
}

// editHelmOp changes the HelmOp of an item whose migration has begun.
func (m *migration) editHelmOp(ctx context.Context, item *migrate.Item, change func(*unstructured.Unstructured)) error {
	ref := migrate.Object{APIVersion: addonsv1.GroupVersion.String(), Kind: apiutil.HelmOpKind,
		Namespace: item.HelmOp.Namespace, Name: item.HelmOp.Name}
	object, err := edit(ctx, m.client, ref, func(object *unstructured.Unstructured) error {
		if stepOf(object) != migrate.StepInstalling ||
			object.GetAnnotations()[addonsv1.MigratedFromAnnotation] != item.Origin() {
			return fmt.Errorf("it is not the HelmOp of this migration any more; see its annotations")
		}
		change(object)
		return nil
	})
	if err == nil && object == nil {
		return fmt.Errorf("%s was deleted during the migration; create it again with -o yaml, and without spec.paused", ref)
	}
	return err
}

// refuseReleases returns an error if the HelmOp of an item has releases. For such a tool, --undo is possible only while
// the HelmOp has no releases.
func (m *migration) refuseReleases(item *migrate.Item, children []*addonsv1.HelmOpRelease) error {
	if _, ok := m.tool.(forgetter); !ok {
		return nil
	}
	for _, child := range children {
		if apiutil.HelmOpOf(child) == item.HelmOp.Name {
			return fmt.Errorf("HelmOp %s/%s has a release in Cluster %s already, although %s still has the release; pause the "+
				"HelmOp, and complete the migration with --apply", item.HelmOp.Namespace, item.HelmOp.Name,
				apiutil.ClusterKey(child).Name, item.From[0])
		}
	}
	return nil
}

// exists reports whether an object exists.
func exists(ctx context.Context, c *kube.Client, ref migrate.Object, object *unstructured.Unstructured) (bool, error) {
	err := read(ctx, c, ref, object)
	if apierrors.IsNotFound(err) && !kube.IsKindMissing(err) {
		return false, nil
	}
	return err == nil, kube.Explain(err)
}

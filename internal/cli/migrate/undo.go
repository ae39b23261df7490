// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// handBack returns the releases of a plan to the other tool.
func (m *migration) handBack(ctx context.Context, plan *migrate.Plan) error {
	var errs []error
	for i := range plan.Items {
		item := &plan.Items[i]
		undo := m.handBackAdvised
		if item.HelmOp == nil {
			undo = m.checkNotBegun
		}
		if err := undo(ctx, item); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", item.Title(), err))
		}
	}
	return errors.Join(errs...)
}

// checkNotBegun returns an error for an item that cannot be converted any more although its migration has begun.
func (m *migration) checkNotBegun(ctx context.Context, item *migrate.Item) error {
	begun, err := m.begun(ctx, item)
	if err != nil || len(begun) == 0 {
		return err
	}
	return fmt.Errorf("its migration has begun, and the object cannot be converted any more, which is needed to find the "+
		"HelmOp: %s; correct the object, and repeat the command", item.Gaps[0])
}

// handBackAdvised is handBackItem. It adds an advice to the error for a HelmOp of Fleet that a user deletes.
func (m *migration) handBackAdvised(ctx context.Context, item *migrate.Item) error {
	err := m.handBackItem(ctx, item)
	if !errors.Is(err, errFleetDeleted) {
		return err
	}
	helmOp, failure := m.existing(ctx, item)
	if failure != nil {
		return errors.Join(err, failure)
	}
	// Without the object, Fleet still has its other objects, and only --apply waits for their deletion.
	advice := "wait until it is gone, and complete the migration with --apply"
	if helmOp == nil {
		// Only the HelmOp and the labels say what --apply has to do when the object is gone.
		advice = "before it is gone, create the HelmOp that -o yaml prints, and set the labels that it needs; then " + advice
	}
	return fmt.Errorf("%w; %s", err, advice)
}

// handBackItem returns the releases of an item to the other tool. It does nothing if the migration has not begun.
func (m *migration) handBackItem(ctx context.Context, item *migrate.Item) error {
	begun, err := m.begun(ctx, item)
	if err != nil {
		return err
	}
	if isForgotten(item) {
		return errDetaching
	}
	if len(item.From) > 0 && len(begun) == 0 {
		m.Note("%s: its migration has not begun", item.Title())
		return nil
	}
	if err := m.checkObjects(ctx, item); err != nil {
		return err
	}
	helmOp, err := m.returnable(ctx, item)
	if err != nil {
		return err
	}
	if helmOp == nil && len(item.From) == 0 {
		return m.noteLabels(ctx, item)
	}
	if err := m.checkUnselected(ctx, item); err != nil {
		return err
	}
	for _, ref := range begun {
		if err := markReturning(ctx, m.client, item, ref); err != nil {
			return err
		}
	}
	// Another run with --apply may have created the HelmOp before it could find the step.
	if helmOp, err = m.returnable(ctx, item); err != nil {
		return err
	}
	if helmOp != nil {
		if err := m.deleteOrphaning(ctx, helmOp); err != nil {
			return err
		}
		m.done("HelmOp %s/%s deleted; its releases stay installed", helmOp.Namespace, helmOp.Name)
	}
	if err := editMarks(ctx, m.client, item.Marks, removeMark); err != nil {
		return err
	}
	if err := m.tool.resume(ctx, m.client, item); err != nil {
		return err
	}
	for _, ref := range begun {
		found, err := exists(ctx, m.client, ref, &unstructured.Unstructured{})
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%s was deleted during --undo, and no program manages the releases that stay installed; create "+
				"a HelmOp with install.takeOwnership: true for them", ref)
		}
		m.done("%s resumed", ref)
	}
	return nil
}

// begun returns the objects of an item whose migration has begun. It returns an error if the deletion of an object has
// begun.
func (m *migration) begun(ctx context.Context, item *migrate.Item) ([]migrate.Object, error) {
	var begun []migrate.Object
	for _, ref := range item.From {
		object := &unstructured.Unstructured{}
		err := read(ctx, m.client, ref, object)
		if client.IgnoreNotFound(err) != nil {
			return nil, kube.Explain(err)
		}
		if err != nil {
			continue
		}
		switch stepOf(object) {
		case migrate.StepDetaching:
			return nil, errDetaching
		case "":
		default:
			begun = append(begun, ref)
		}
	}
	return begun, nil
}

// checkObjects returns an error if a user deletes an object of an item whose migration has begun.
func (m *migration) checkObjects(ctx context.Context, item *migrate.Item) error {
	refs := item.From
	if _, ok := m.tool.(caaph); ok {
		refs = objectsOf(item)
	}
	for _, ref := range refs {
		object := &unstructured.Unstructured{}
		found, err := exists(ctx, m.client, ref, object)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if err := checkUndeleted(object); err != nil {
			return fmt.Errorf("%s: %w", ref, err)
		}
	}
	return nil
}

// returnable returns the HelmOp that --undo deletes; nil if there is none. It returns an error if the HelmOp has
// releases that the other tool does not have: these releases would then have no owner.
func (m *migration) returnable(ctx context.Context, item *migrate.Item) (*addonsv1.HelmOp, error) {
	helmOp, err := m.existing(ctx, item)
	if err != nil || helmOp == nil {
		return nil, err
	}
	if helmOp.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(helmOp, metav1.FinalizerOrphanDependents) {
		return nil, fmt.Errorf("HelmOp %s/%s is being deleted, but not by this command; wait until the HelmOp is gone, and "+
			"repeat the command", helmOp.Namespace, helmOp.Name)
	}
	children, err := m.childrenOf(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	if err := m.refuseReleases(item, children); err != nil {
		return nil, err
	}
	if others := otherClusters(item, helmOp, children); len(others) > 0 {
		return nil, fmt.Errorf("HelmOp %s/%s has %s in other Clusters, which would have no owner: %s; complete the "+
			"migration with --apply, or delete the HelmOp with --cascade=orphan and repeat the command", helmOp.Namespace,
			helmOp.Name,
			plural.Count(len(others), "release", "releases"), plural.Few(others, fleetview.MaxNamedClusters))
	}
	return helmOp, nil
}

// deleteOrphaning deletes a HelmOp, keeps its releases installed, and waits until the HelmOp no longer exists.
func (m *migration) deleteOrphaning(ctx context.Context, helmOp *addonsv1.HelmOp) error {
	err := m.client.Delete(ctx, helmOp, client.PropagationPolicy(metav1.DeletePropagationOrphan),
		client.Preconditions{UID: ptr.To(helmOp.UID)})
	if client.IgnoreNotFound(err) != nil {
		return kube.Explain(err)
	}
	objects := map[client.ObjectKey]*addonsv1.HelmOp{}
	return kube.Follow(ctx, m.client, &addonsv1.HelmOpList{}, func(change kube.Change[*addonsv1.HelmOp]) (bool, error) {
		change.Apply(&objects)
		current := objects[client.ObjectKeyFromObject(helmOp)]
		return current == nil || current.UID != helmOp.UID, nil
	}, kube.Named(helmOp.Namespace, helmOp.Name)...)
}

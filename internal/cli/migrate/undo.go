// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
)

// handBack returns the releases of a plan to the other tool.
func (m *migration) handBack(ctx context.Context, plan *migrate.Plan) error {
	var errs []error
	for i := range plan.Items {
		item := &plan.Items[i]
		if item.HelmOp == nil {
			continue
		}
		if err := m.handBackItem(ctx, item); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", item.Title(), err))
		}
	}
	return errors.Join(errs...)
}

func (m *migration) handBackItem(ctx context.Context, item *migrate.Item) error {
	for _, ref := range item.From {
		object := &unstructured.Unstructured{}
		err := read(ctx, m.client, ref, object)
		if client.IgnoreNotFound(err) != nil {
			return kube.Explain(err)
		}
		if err == nil && stepOf(object) == stepDetaching {
			return errors.New("its deletion has begun, so that the migration cannot be undone; complete it with --apply")
		}
	}
	helmOp, err := m.existing(ctx, item)
	if err != nil {
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
	for _, object := range item.From {
		m.done("%s resumed", object)
	}
	return nil
}

// deleteOrphaning deletes a HelmOp, leaves its releases installed, and waits until the HelmOp is gone.
func (m *migration) deleteOrphaning(ctx context.Context, helmOp *addonsv1.HelmOp) error {
	err := m.client.Delete(ctx, helmOp, client.PropagationPolicy(metav1.DeletePropagationOrphan))
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

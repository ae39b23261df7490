// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// AppliedState describes where the desired state in the cluster comes from; empty if there is no state. Helm's records
// count as a state even if the HelmOp was deleted, because a new HelmOp would continue from these records.
func (a *Applier) AppliedState(ctx context.Context) (string, error) {
	helmOp, err := a.state(ctx)
	if err != nil {
		return "", err
	}
	if helmOp != nil {
		source := helmOp.Spec.Source
		return fmt.Sprintf("HelmOp %s follows %s", StateHelmOp, strings.TrimSuffix(source.URL+":"+source.Ref.Tag, ":")), nil
	}
	records := &metav1.PartialObjectMetadataList{}
	records.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "SecretList"})
	err = a.bounded(ctx, func(ctx context.Context) error {
		return a.Client.List(
			ctx,
			records,
			client.InNamespace(Namespace),
			client.MatchingLabels{"owner": "helm", "name": StateHelmOp},
			client.Limit(1),
		)
	})
	if err != nil {
		return "", asking(err)
	}
	if len(records.Items) == 0 {
		return "", nil
	}
	return fmt.Sprintf(
		"HelmOp %s does not exist, but its release is still installed (Secret %s)",
		StateHelmOp,
		records.Items[0].Name,
	), nil
}

// StatePath returns the folder from which the desired state in the cluster is taken; empty for the whole artifact.
// found is false if there is no HelmOp.
func (a *Applier) StatePath(ctx context.Context) (folder string, found bool, err error) {
	helmOp, err := a.state(ctx)
	if err != nil || helmOp == nil {
		return "", false, err
	}
	return helmOp.Spec.Source.Path, true, nil
}

// state returns the HelmOp of the desired state; nil if there is none.
func (a *Applier) state(ctx context.Context) (*addonsv1.HelmOp, error) {
	helmOp := &addonsv1.HelmOp{}
	err := a.bounded(ctx, func(ctx context.Context) error {
		return a.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: StateHelmOp}, helmOp)
	})
	switch {
	// Without the CustomResourceDefinition there is no HelmOp either.
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, asking(err)
	}
	return helmOp, nil
}

func asking(err error) error {
	return fmt.Errorf("reading the state of the management cluster: %w", err)
}

// Keep copies a field of the source from the HelmOps in the cluster to the HelmOps that will be applied. Otherwise,
// applying would remove the field or reset it to its default. kept is true if Keep changed an object.
func (a *Applier) Keep(ctx context.Context, objects []*unstructured.Unstructured, field string) (kept bool, err error) {
	path := []string{"spec", "source", field}
	for _, object := range objects {
		if object.GetKind() != "HelmOp" {
			continue
		}
		now := object.DeepCopy()
		err := a.bounded(
			ctx,
			func(ctx context.Context) error { return a.Client.Get(ctx, client.ObjectKeyFromObject(object), now) },
		)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return kept, fmt.Errorf("reading %s: %w", Title(object), err)
		}
		value, has, _ := unstructured.NestedFieldCopy(now.Object, path...)
		wanted, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
		if !has || reflect.DeepEqual(value, wanted) {
			continue
		}
		kept = true
		if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			return kept, err
		}
	}
	return kept, nil
}

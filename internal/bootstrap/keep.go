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

// AppliedState tells what the desired state that is in the cluster comes from: what its HelmOp follows, or Helm's records of it where
// that HelmOp was deleted, since another one would go on from these. Empty if there is no state.
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
		return a.Client.List(ctx, records, client.InNamespace(Namespace), client.MatchingLabels{"owner": "helm", "name": StateHelmOp}, client.Limit(1))
	})
	if err != nil {
		return "", asking(err)
	}
	if len(records.Items) == 0 {
		return "", nil
	}
	return fmt.Sprintf("HelmOp %s is gone, but what it has installed is there (Secret %s)", StateHelmOp, records.Items[0].Name), nil
}

// StatePath tells the folder that the desired state in the cluster is taken from, empty for all of the artifact, and whether there is a
// HelmOp that says so.
func (a *Applier) StatePath(ctx context.Context) (folder string, found bool, err error) {
	helmOp, err := a.state(ctx)
	if err != nil || helmOp == nil {
		return "", false, err
	}
	return helmOp.Spec.Source.Path, true, nil
}

// state is the HelmOp of the desired state; nil if there is none.
func (a *Applier) state(ctx context.Context) (*addonsv1.HelmOp, error) {
	helmOp := &addonsv1.HelmOp{}
	err := a.bounded(ctx, func(ctx context.Context) error {
		return a.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: StateHelmOp}, helmOp)
	})
	switch {
	// Without the CustomResourceDefinition there is none, either.
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, asking(err)
	}
	return helmOp, nil
}

func asking(err error) error {
	return fmt.Errorf("asking the management cluster for its state: %w", err)
}

// Keep has HelmOps keep a field of their source of which whoever applies them says nothing: it would go, or have its default. It tells
// whether that makes a difference.
func (a *Applier) Keep(ctx context.Context, objects []*unstructured.Unstructured, field string) (kept bool, err error) {
	path := []string{"spec", "source", field}
	for _, object := range objects {
		if object.GetKind() != "HelmOp" {
			continue
		}
		now := object.DeepCopy()
		err := a.bounded(ctx, func(ctx context.Context) error { return a.Client.Get(ctx, client.ObjectKeyFromObject(object), now) })
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

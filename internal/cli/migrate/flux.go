// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
)

// flux is the helm-controller of Flux. It does nothing for a suspended HelmRelease. It does not uninstall the release
// of a HelmRelease that is deleted while it is suspended.
type flux struct{}

func (flux) kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{migrate.HelmReleaseKind, migrate.OCIRepositoryKind, migrate.HelmRepositoryKind}
}

func (flux) plan(ctx context.Context, c *kube.Client) (*migrate.Plan, error) {
	objects := migrate.FluxObjects{}
	var err error
	if objects.Releases, err = list(ctx, c, migrate.HelmReleaseKind); err != nil {
		return nil, err
	}
	for _, kind := range []schema.GroupVersionKind{migrate.OCIRepositoryKind, migrate.HelmRepositoryKind} {
		// A source may be in another namespace than its HelmReleases.
		found, err := listIn(ctx, c, kind, metav1.NamespaceAll)
		if err != nil && !kube.IsKindMissing(err) {
			return nil, err
		}
		objects.Sources = append(objects.Sources, found...)
	}
	if objects.Clusters, err = clusterMetadata(ctx, c); err != nil {
		return nil, err
	}
	if objects.HelmOps, err = helmOpsOf(ctx, c); err != nil {
		return nil, err
	}
	return migrate.FromFlux(objects), nil
}

// helmOpsOf returns the HelmOps in the namespace of a client; none if HelmOp is not installed.
func helmOpsOf(ctx context.Context, c *kube.Client) ([]*addonsv1.HelmOp, error) {
	helmOps, _, err := kube.ListAll[*addonsv1.HelmOp](ctx, c, &addonsv1.HelmOpList{}, client.InNamespace(c.Namespace))
	if kube.IsKindMissing(err) {
		return nil, nil
	}
	return helmOps, err
}

// clusterMetadata returns the metadata of the Clusters of the namespace of a client.
func clusterMetadata(ctx context.Context, c *kube.Client) ([]*metav1.PartialObjectMetadata, error) {
	found, _, err := kube.ListAll[*metav1.PartialObjectMetadata](ctx, c,
		apiutil.MetadataList(clusterv1.GroupVersion.WithKind(apiutil.ClusterKind)), client.InNamespace(c.Namespace))
	return found, err
}

func (flux) pause(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	for _, ref := range item.From {
		_, err := edit(ctx, c, ref, func(object *unstructured.Unstructured) error {
			if err := setPaused(object, item); err != nil {
				return err
			}
			return unstructured.SetNestedField(object.Object, true, "spec", "suspend")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (flux) resume(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	for _, ref := range slices.Backward(item.From) {
		_, err := edit(ctx, c, ref, func(object *unstructured.Unstructured) error {
			return endStep(object, func() { unstructured.RemoveNestedField(object.Object, "spec", "suspend") })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isSuspended reports whether Flux ignores a HelmRelease.
func isSuspended(object *unstructured.Unstructured) bool {
	suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend")
	return suspended
}

// detach marks all objects before it deletes the first one, so that --undo never finds only some of them.
func (flux) detach(ctx context.Context, c *kube.Client, item *migrate.Item) error {
	for _, ref := range item.From {
		if _, err := markDetaching(ctx, c, item, ref, isSuspended); err != nil {
			return err
		}
	}
	for _, ref := range item.From {
		if err := deleteSuspended(ctx, c, ref); err != nil {
			return err
		}
	}
	return nil
}

// deleteSuspended deletes a suspended HelmRelease, and waits until it no longer exists.
func deleteSuspended(ctx context.Context, c *kube.Client, ref migrate.Object) error {
	err := deleteChecked(ctx, c, ref, func(object *unstructured.Unstructured) error {
		if isSuspended(object) {
			return nil
		}
		return errors.New("is not suspended any more, so that its deletion would uninstall its release; stop the client " +
			"that resumes it, and repeat the command")
	})
	if err != nil {
		return err
	}
	return awaitGone(ctx, c, ref)
}

// awaitGone waits until an object no longer exists.
func awaitGone(ctx context.Context, c *kube.Client, ref migrate.Object) error {
	objects := map[client.ObjectKey]*unstructured.Unstructured{}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(ref.APIVersion)
	list.SetKind(ref.Kind + "List")
	return kube.Follow(ctx, c, list, func(change kube.Change[*unstructured.Unstructured]) (bool, error) {
		change.Apply(&objects)
		return len(objects) == 0, nil
	}, kube.Named(ref.Namespace, ref.Name)...)
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

func findHelmOp(helmOps []addonsv1.HelmOp, name string) *addonsv1.HelmOp {
	for i := range helmOps {
		if helmOps[i].Name == name {
			return &helmOps[i]
		}
	}
	return nil
}

// Exists reads an object that the cache does not have from the API server, and reports whether it exists.
func Exists(ctx context.Context, live client.Reader, key client.ObjectKey, into client.Object) (bool, error) {
	err := live.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", into.GetObjectKind().GroupVersionKind().Kind, key, err)
	}
	return true, nil
}

// ReadDependency returns the dependency on a HelmOp. If the cache does not have the HelmOp, it finds out whether the
// HelmOp belongs to another shard.
func ReadDependency(ctx context.Context, live client.Reader, shard, namespace string, named addonsv1.Dependency,
	helmOps []addonsv1.HelmOp,
) (Dependency, error) {
	d := newDependency(named, findHelmOp(helmOps, named.Name))
	if d.HelmOp != nil {
		return d, nil
	}
	other := &metav1.PartialObjectMetadata{}
	other.SetGroupVersionKind(addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))
	ok, err := Exists(ctx, live, client.ObjectKey{Namespace: namespace, Name: named.Name}, other)
	if ok && !apiutil.IsOfShard(other, shard) {
		d.otherShard = fmt.Sprintf("HelmOp %s is %s; dependsOn works within one shard only", named.Name,
			apiutil.ShardTitle(other))
	}
	return d, err
}

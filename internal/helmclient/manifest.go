// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

// Manifest calls use with the objects of a Helm revision, with their namespaces and without hooks. use may change the
// objects, but must not keep them: Manifest reserves memory for them only until use returns. Without an error, Manifest
// calls use once. The manifests of the revisions that Act created with KeepManifest are cached. For other revisions,
// Manifest reads the record, and caches the manifest if keep is true.
//
// An object without a namespace gets the namespace of the release, unless its kind is cluster-scoped in the cluster. An
// object of a kind that the cluster serves in no version also gets this namespace. For cluster-scoped objects, requests
// ignore the namespace. If discovery of the kind's group failed, Manifest returns an error.
//
// The error is an [*helmerr.Error]. Its kind is [helmerr.ErrStale] if the revision does not exist.
func (c *Client) Manifest(ctx context.Context, target model.Target, namespace, name string,
	revision int, keep bool, use func([]*unstructured.Unstructured),
) error {
	key := releaseKey(target, namespace, name)
	_, err := session.Read(ctx, c.connections.Shared.Actions, c.open, target, namespace, name,
		func(s *session.Session) (none struct{}, err error) {
			objects, err := c.manifest(s, key, revision, keep)
			if err == nil {
				s.Memory.Settle()
				use(objects)
			}
			return none, err
		})
	return err
}

func (c *Client) manifest(s *session.Session, key manifests.Key, revision int, keep bool,
) ([]*unstructured.Unstructured, error) {
	text, ok, err := c.manifests.Get(key, revision, s.Memory.Records)
	if err != nil {
		return nil, err
	}
	if !ok {
		record, err := s.Config.Releases.Get(key.Name, revision)
		if errors.Is(err, driver.ErrReleaseNotFound) {
			return nil, helmerr.New(helmerr.ErrStale, "Helm revision %d does not exist", revision)
		}
		if err != nil {
			return nil, fmt.Errorf("reading Helm revision %d: %w", revision, err)
		}
		text = record.Manifest
		if keep {
			c.manifests.Put(key, revision, text)
		}
	}
	objects, err := manifests.Decode(s.Memory, text)
	if err != nil {
		return nil, err
	}
	namespaces := s.Namespaces(key.Namespace)
	for _, object := range objects {
		// The mapper ignores the deadline, so check it here. The mapper runs discovery at most once.
		if err := s.Ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading Helm revision %d: %w", revision, err)
		}
		object.SetNamespace(namespaces.Of(object.GroupVersionKind(), object.GetNamespace()))
		if namespaces.Err != nil {
			return nil, fmt.Errorf("reading Helm revision %d: %w", revision, namespaces.Err)
		}
	}
	return objects, nil
}

// releaseKey returns the key of a release in the cache of manifests, and of its lock.
func releaseKey(target model.Target, namespace, name string) manifests.Key {
	return manifests.Key{Cluster: target.Key, Namespace: namespace, Name: name}
}

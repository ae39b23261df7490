// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// Manifest returns the objects of a revision, with namespaces filled in and without hooks. The caller may change the
// objects. The manifests that Act applied are cached; for other revisions, Manifest reads the record.
//
// An object without a namespace gets the namespace of the release, unless its kind is cluster-scoped in the cluster. An
// object whose kind the cluster does not serve also gets it. This is harmless, because readers of a cluster-scoped
// object ignore the namespace. If discovery of the kind's group failed, Manifest returns an error instead.
//
// The error is an [*helmerr.Error]; its kind is [helmerr.ErrStale] if the revision does not exist.
func (c *Client) Manifest(ctx context.Context, target model.Target, namespace, name string,
	revision int,
) ([]*unstructured.Unstructured, error) {
	objects, err := c.manifest(ctx, target, namespace, name, revision)
	if err != nil {
		return nil, helmerr.Observing(err)
	}
	return objects, nil
}

func (c *Client) manifest(ctx context.Context, target model.Target, namespace, name string,
	revision int,
) ([]*unstructured.Unstructured, error) {
	s, err := c.open(ctx, target, model.Desired{Name: name, Namespace: namespace}, &helmerr.LogBuffer{})
	if err != nil {
		return nil, err
	}
	if s.records != nil {
		defer s.records.Release()
	}
	key := manifestKey{cluster: target.Key, namespace: namespace, name: name}
	text, ok := c.manifests.get(key, revision)
	if !ok {
		record, err := s.config.Releases.Get(name, revision)
		if errors.Is(err, driver.ErrReleaseNotFound) {
			return nil, helmerr.New(helmerr.ErrStale, "Helm revision %d does not exist", revision)
		}
		if err != nil {
			return nil, fmt.Errorf("reading Helm revision %d: %w", revision, err)
		}
		text = record.Manifest
		c.manifests.put(key, revision, text)
	}
	objects, err := apply.DecodeManifest([]byte(text))
	if err != nil {
		return nil, err
	}
	namespaces := s.namespaces(namespace)
	for _, object := range objects {
		// The mapper has no deadline. It runs discovery at most once.
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading Helm revision %d: %w", revision, err)
		}
		object.SetNamespace(namespaces.of(object.GroupVersionKind(), object.GetNamespace()))
		if namespaces.err != nil {
			return nil, fmt.Errorf("reading Helm revision %d: %w", revision, namespaces.err)
		}
	}
	return objects, nil
}

// namespaces resolves the namespaces of objects.
type namespaces struct {
	mapper meta.RESTMapper
	// release is the namespace of the release.
	release string
	// scoped holds, for each kind that was looked up, whether the kind is or may be namespaced.
	scoped map[schema.GroupVersionKind]bool
	// err is the error of discovery.
	err error
}

func (s *session) namespaces(release string) *namespaces {
	n := &namespaces{release: release, scoped: map[schema.GroupVersionKind]bool{}}
	if s.config.RESTClientGetter != nil {
		// This implementation never returns an error.
		n.mapper, _ = s.config.RESTClientGetter.ToRESTMapper()
	}
	return n
}

// of returns the namespace of an object of a kind; named is the namespace in the manifest. An unknown kind counts as
// namespaced, as most kinds are. Without its namespace, an object would not be found; a superfluous namespace is
// ignored.
func (n *namespaces) of(kind schema.GroupVersionKind, named string) string {
	scoped, ok := n.scoped[kind]
	if !ok {
		scoped = n.lookUp(kind)
		n.scoped[kind] = scoped
	}
	switch {
	case !scoped:
		return ""
	case named == "":
		return n.release
	default:
		return named
	}
}

// lookUp reports whether a kind is namespaced according to the mapper, or may be.
func (n *namespaces) lookUp(kind schema.GroupVersionKind) bool {
	if n.mapper == nil {
		return true
	}
	mapping, err := n.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		if !meta.IsNoMatchError(err) {
			n.err = err
		}
		return true
	}
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace
}

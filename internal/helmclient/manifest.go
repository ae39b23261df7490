/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Manifest returns the objects of a revision, with namespaces filled in, hooks left out. They belong to the caller. What
// Act made is kept in memory; of any other revision the record is read. The error is an [*Error]: of the kind ErrStale
// where there is no such revision.
func (c *Client) Manifest(ctx context.Context, target Target, namespace, name string, revision int) ([]*unstructured.Unstructured, error) {
	objects, err := c.manifest(ctx, target, namespace, name, revision)
	if err != nil {
		return nil, observeError(err)
	}
	return objects, nil
}

func (c *Client) manifest(ctx context.Context, target Target, namespace, name string, revision int) ([]*unstructured.Unstructured, error) {
	s, err := c.open(ctx, target, Desired{Name: name, Namespace: namespace}, &logBuffer{})
	if err != nil {
		return nil, err
	}
	key := manifestKey{cluster: target.Key, namespace: namespace, name: name}
	text, ok := c.manifests.get(key, revision)
	if !ok {
		record, err := s.config.Releases.Get(name, revision)
		if errors.Is(err, driver.ErrReleaseNotFound) {
			return nil, errorOfKind(ErrStale, "there is no revision %d", revision)
		}
		if err != nil {
			return nil, fmt.Errorf("reading revision %d: %w", revision, err)
		}
		text = record.Manifest
		c.manifests.put(key, revision, text)
	}
	objects, err := decodeManifest([]byte(text))
	if err != nil {
		return nil, err
	}
	namespaces := s.namespaces(namespace)
	for _, object := range objects {
		// The mapper knows no deadline. It asks the cluster once at most.
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading revision %d: %w", revision, err)
		}
		object.SetNamespace(namespaces.of(object.GroupVersionKind(), object.GetNamespace()))
		if namespaces.err != nil {
			return nil, fmt.Errorf("reading revision %d: %w", revision, namespaces.err)
		}
	}
	return objects, nil
}

// namespaces tells in which namespaces objects are.
type namespaces struct {
	mapper  meta.RESTMapper
	release string
	// scoped tells of each kind that was asked for whether it has namespaces; unknown are those that the cluster does not
	// know.
	scoped  map[schema.GroupVersionKind]bool
	unknown map[schema.GroupVersionKind]bool
	// err is why it could not be learned what the cluster serves.
	err error
}

func (s *session) namespaces(release string) *namespaces {
	n := &namespaces{
		release: release, scoped: map[schema.GroupVersionKind]bool{}, unknown: map[schema.GroupVersionKind]bool{},
	}
	if s.config.RESTClientGetter != nil {
		// Ours never fails.
		n.mapper, _ = s.config.RESTClientGetter.ToRESTMapper()
	}
	return n
}

// of returns the namespace of an object of a kind, given the one in its manifest. A kind that is not known is taken for
// one with namespaces where the manifest names one.
func (n *namespaces) of(kind schema.GroupVersionKind, named string) string {
	scoped, ok := n.scoped[kind]
	if !ok && !n.unknown[kind] {
		scoped, ok = n.ask(kind)
	}
	if !ok {
		scoped = named != ""
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

// ask asks the mapper, once for each kind, whether a kind has namespaces; ok is false if that is not known.
func (n *namespaces) ask(kind schema.GroupVersionKind) (scoped, ok bool) {
	if n.mapper == nil {
		return false, false
	}
	mapping, err := n.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case meta.IsNoMatchError(err):
		n.unknown[kind] = true
		return false, false
	case err != nil:
		n.err = err
		return false, false
	}
	n.scoped[kind] = mapping.Scope.Name() == meta.RESTScopeNameNamespace
	return n.scoped[kind], true
}

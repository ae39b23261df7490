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

package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	kindSecret         = "Secret"
	kindConfigMap      = "ConfigMap"
	kindServiceAccount = "ServiceAccount"

	// maxRememberedReferences bounds the contents that are kept in memory. Each is at most 1 MiB by Kubernetes' own
	// limit, most are below 1 KiB. With more references than this, some are read again on each use.
	maxRememberedReferences = 1024
)

// errReferenceNotFound is returned for an object that a HelmOp names, or a key of it, that does not exist.
var errReferenceNotFound = errors.New("not found")

// errReferenceForbidden is returned for an object that a HelmOp names and the manager may not read.
var errReferenceForbidden = errors.New("the manager may not read it")

// referenceReader reads the Secrets, ConfigMaps and ServiceAccounts that HelmOps name. Only their metadata is cached for the whole
// management cluster; the content of one is read when a HelmOp names it, and again when its resource version changes.
type referenceReader struct {
	// metadata is a cached reader for PartialObjectMetadata.
	metadata client.Reader

	// live reads from the API server.
	live client.Reader

	contents *lru.Cache
}

func newReferenceReader(metadata, live client.Reader) *referenceReader {
	return &referenceReader{metadata: metadata, live: live, contents: lru.New(maxRememberedReferences)}
}

// reference is the content of a Secret, a ConfigMap or a ServiceAccount. It must not be changed.
type reference struct {
	secretType corev1.SecretType
	data       map[string][]byte
	// pullSecrets are the names of the image pull secrets of a ServiceAccount.
	pullSecrets     []string
	resourceVersion string
}

type referenceKey struct {
	kind string
	client.ObjectKey
}

// read returns the content of an object, or an error that wraps errReferenceNotFound.
func (r *referenceReader) read(ctx context.Context, kind, namespace, name string) (*reference, error) {
	key := referenceKey{kind: kind, ObjectKey: client.ObjectKey{Namespace: namespace, Name: name}}
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	if err := r.metadata.Get(ctx, key.ObjectKey, partial); err != nil {
		r.contents.Remove(key)
		return nil, r.readError(key, err)
	}
	if known, ok := r.contents.Get(key); ok {
		if ref := known.(*reference); ref.resourceVersion == partial.ResourceVersion {
			return ref, nil
		}
	}
	ref, err := r.readLive(ctx, key)
	if err != nil {
		return nil, r.readError(key, err)
	}
	r.contents.Add(key, ref)
	return ref, nil
}

func (r *referenceReader) readLive(ctx context.Context, key referenceKey) (*reference, error) {
	switch key.kind {
	case kindSecret:
		secret := &corev1.Secret{}
		if err := r.live.Get(ctx, key.ObjectKey, secret); err != nil {
			return nil, err
		}
		return &reference{secretType: secret.Type, data: secret.Data, resourceVersion: secret.ResourceVersion}, nil
	case kindServiceAccount:
		account := &corev1.ServiceAccount{}
		if err := r.live.Get(ctx, key.ObjectKey, account); err != nil {
			return nil, err
		}
		ref := &reference{resourceVersion: account.ResourceVersion}
		for _, secret := range account.ImagePullSecrets {
			ref.pullSecrets = append(ref.pullSecrets, secret.Name)
		}
		return ref, nil
	default:
		configMap := &corev1.ConfigMap{}
		if err := r.live.Get(ctx, key.ObjectKey, configMap); err != nil {
			return nil, err
		}
		data := make(map[string][]byte, len(configMap.Data)+len(configMap.BinaryData))
		maps.Copy(data, configMap.BinaryData)
		for k, v := range configMap.Data {
			data[k] = []byte(v)
		}
		return &reference{data: data, resourceVersion: configMap.ResourceVersion}, nil
	}
}

// pullsWith tells whether a ServiceAccount names a Secret among its image pull secrets. It makes no request: for an account
// that was not read yet, or not lately, it may.
func (r *referenceReader) pullsWith(namespace, account, secret string) bool {
	known, ok := r.contents.Get(referenceKey{kind: kindServiceAccount, ObjectKey: client.ObjectKey{Namespace: namespace, Name: account}})
	return !ok || slices.Contains(known.(*reference).pullSecrets, secret)
}

// readKey returns one key of a Secret or ConfigMap.
func (r *referenceReader) readKey(ctx context.Context, kind, namespace, name, key string) ([]byte, error) {
	ref, err := r.read(ctx, kind, namespace, name)
	if err != nil {
		return nil, err
	}
	value, ok := ref.data[key]
	if !ok {
		return nil, fmt.Errorf("%s %s/%s has no key %q: %w", kind, namespace, name, key, errReferenceNotFound)
	}
	return value, nil
}

func (r *referenceReader) readError(key referenceKey, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %s: %w; create it or correct the reference", key.kind, key.ObjectKey, errReferenceNotFound)
	}
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s %s: %w; give its ServiceAccount the right to", key.kind, key.ObjectKey, errReferenceForbidden)
	}
	return fmt.Errorf("reading %s %s: %w", key.kind, key.ObjectKey, err)
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"fmt"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// objectKey identifies an object independently of the version of its kind.
type objectKey struct {
	kind            schema.GroupKind
	namespace, name string
}

// admitLoss makes an upgrade or a rollback call Options.Admit when its manifest is rendered and nothing is changed yet.
func (s *session) admitLoss(j job) {
	if j.options.Admit == nil || s.cluster == nil {
		return
	}
	s.storage.Admit = func(next *release.Release) error { return s.checkLoss(j, next) }
}

// checkLoss calls Options.Admit if the next revision would delete objects.
func (s *session) checkLoss(j job, next *release.Release) error {
	loss, err := s.lossOf(j.desired, next)
	if err != nil || len(loss.Objects) == 0 {
		return err
	}
	if err := j.options.Admit(loss); err != nil {
		return helmerr.New(helmerr.ErrRefused, "%s", err)
	}
	return nil
}

// lossOf returns the objects that the next revision would delete. It compares the new manifest with the manifest of the
// revision that Helm compares, and with the manifests of the revisions that may have left objects behind.
func (s *session) lossOf(desired model.Desired, next *release.Release) (model.Loss, error) {
	current, err := s.config.Releases.Deployed(desired.Name)
	if err != nil {
		// Without a deployed revision, Helm compares with the newest.
		if current, err = s.config.Releases.Last(desired.Name); err != nil {
			return model.Loss{}, fmt.Errorf("reading the objects of the release: %w", err)
		}
	}
	manifest, err := s.manifestOf(current)
	if err != nil {
		return model.Loss{}, err
	}
	manifests := []string{manifest}
	if behind := s.cluster.Leftovers; behind != nil {
		manifests = append(manifests, behind.Manifests...)
	}
	stays, namespaces := map[objectKey]bool{}, s.namespaces(desired.Namespace)
	after, err := apply.DecodeManifest([]byte(next.Manifest))
	if err != nil {
		return model.Loss{}, err
	}
	for _, object := range after {
		stays[identityOf(object, namespaces)] = true
	}
	loss, seen := model.Loss{Revision: current.Version}, map[objectKey]bool{}
	for _, manifest := range manifests {
		before, err := apply.DecodeManifest([]byte(manifest))
		if err != nil {
			return model.Loss{}, err
		}
		for _, object := range before {
			key := identityOf(object, namespaces)
			if seen[key] {
				continue
			}
			seen[key] = true
			loss.Total++
			if stays[key] || object.GetAnnotations()[kube.ResourcePolicyAnno] == kube.KeepPolicy {
				continue
			}
			kind := object.GroupVersionKind()
			loss.Objects = append(loss.Objects, inventory.Ref{
				Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Namespace: key.namespace, Name: key.name,
			})
		}
	}
	inventory.Sort(loss.Objects)
	return loss, namespaces.err
}

// identityOf returns the key of an object of a manifest, with its namespace filled in.
func identityOf(object *unstructured.Unstructured, namespaces *namespaces) objectKey {
	kind := object.GroupVersionKind()
	return objectKey{kind: kind.GroupKind(), namespace: namespaces.of(kind, object.GetNamespace()), name: object.GetName()}
}

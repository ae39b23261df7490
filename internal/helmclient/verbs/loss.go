// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// admitLoss makes an upgrade or a rollback call Options.Admit. Helm has rendered the manifest at this point, and has
// changed nothing.
func (s *verb) admitLoss() {
	if s.Options.Admit == nil || s.Cluster == nil {
		return
	}
	s.Storage.Admit = s.checkLoss
}

// checkLoss calls Options.Admit if the next revision would delete objects.
func (s *verb) checkLoss(next *release.Release) error {
	loss, err := s.lossOf(next)
	if err != nil || len(loss.Objects) == 0 {
		return err
	}
	if err := s.Options.Admit(loss); err != nil {
		return helmerr.New(helmerr.ErrRefused, "%s", err)
	}
	return nil
}

// lossOf returns the objects that the next revision would delete. It compares the new manifest with the manifest of the
// revision that Helm compares with. It also compares it with the manifests of failed revisions whose objects may still
// be in the cluster.
func (s *verb) lossOf(next *release.Release) (model.Loss, error) {
	current, err := s.Config.Releases.Deployed(s.Desired.Name)
	if err != nil {
		// Without a deployed revision, Helm compares with the newest revision.
		if current, err = s.Config.Releases.Last(s.Desired.Name); err != nil {
			return model.Loss{}, fmt.Errorf("reading the objects of the release: %w", err)
		}
	}
	manifest, err := s.ManifestOf(current)
	if err != nil {
		return model.Loss{}, err
	}
	manifests := []string{manifest}
	if behind := s.Cluster.Leftovers; behind != nil {
		manifests = append(manifests, behind.Manifests...)
	}
	stays, namespaces := map[inventory.Ref]bool{}, s.Namespaces(s.Desired.Namespace)
	after, err := apply.DecodeManifest([]byte(next.Manifest))
	if err != nil {
		return model.Loss{}, err
	}
	for _, object := range after {
		stays[withoutVersion(refOf(object, namespaces))] = true
	}
	loss, seen := model.Loss{Revision: current.Version}, map[inventory.Ref]bool{}
	for _, manifest := range manifests {
		before, err := apply.DecodeManifest([]byte(manifest))
		if err != nil {
			return model.Loss{}, err
		}
		for _, object := range before {
			ref := refOf(object, namespaces)
			key := withoutVersion(ref)
			if seen[key] {
				continue
			}
			seen[key] = true
			loss.Total++
			if stays[key] || object.GetAnnotations()[kube.ResourcePolicyAnno] == kube.KeepPolicy {
				continue
			}
			loss.Objects = append(loss.Objects, ref)
		}
	}
	inventory.Sort(loss.Objects)
	return loss, namespaces.Err
}

// refOf returns the reference to an object in a manifest, with its namespace.
func refOf(object *unstructured.Unstructured, namespaces *session.Namespaces) inventory.Ref {
	ref := inventory.Of(object)
	ref.Namespace = namespaces.Of(object.GroupVersionKind(), ref.Namespace)
	return ref
}

// withoutVersion returns the reference without the version of the kind. The version does not identify an object.
func withoutVersion(ref inventory.Ref) inventory.Ref {
	ref.Version = ""
	return ref
}

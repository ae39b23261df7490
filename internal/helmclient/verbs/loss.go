// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
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
	current, err := s.Config.Releases.Deployed(s.Desired.Name)
	if err != nil {
		// Without a deployed revision, Helm compares with the newest revision.
		if current, err = s.Config.Releases.Last(s.Desired.Name); err != nil {
			return fmt.Errorf("reading the objects of the release: %w", err)
		}
	}
	loss, err := s.lossOf(current, next.Manifest)
	if err != nil {
		return err
	}
	return s.askFor(loss)
}

// admitUninstall calls Options.Admit if an uninstallation would delete objects. Callers must call FindLeftovers first.
func (s *verb) admitUninstall() error {
	if s.Options.Admit == nil || s.Cluster == nil {
		return nil
	}
	history, err := s.Config.Releases.History(s.Desired.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the objects of the release: %w", err)
	}
	last := slices.MaxFunc(history, func(a, b *release.Release) int { return a.Version - b.Version })
	loss, err := s.lossOf(last, "")
	if err != nil {
		return err
	}
	mayHaveWorked := slices.ContainsFunc(history, func(rls *release.Release) bool {
		return rls.Labels[model.LabelMayHaveWorked] == "true"
	})
	loss.Uninstalls, loss.NeverWorked = true, s.Cluster.OnlyOwned && !mayHaveWorked
	return s.askFor(loss)
}

// askFor calls Options.Admit for a loss.
func (s *verb) askFor(loss model.Loss) error {
	if len(loss.Objects) == 0 {
		return nil
	}
	if err := s.Options.Admit(loss); err != nil {
		return helmerr.New(helmerr.ErrRefused, "%s", err)
	}
	return nil
}

// lossOf returns the objects of the current revision that are not in the next manifest. It adds the objects of failed
// revisions that may still be in the cluster.
func (s *verb) lossOf(current *release.Release, next string) (model.Loss, error) {
	manifest, err := s.ManifestOf(current)
	if err != nil {
		return model.Loss{}, err
	}
	texts := []string{manifest}
	if behind := s.Cluster.Leftovers; behind != nil {
		for _, revision := range behind.Revisions {
			texts = append(texts, revision.Manifest)
		}
	}
	stays, namespaces := map[inventory.Ref]bool{}, s.Namespaces(s.Desired.Namespace)
	end := s.Memory.Temporary()
	defer func() { end() }()
	after, err := manifests.Decode(s.Memory, next)
	if err != nil {
		return model.Loss{}, err
	}
	for _, object := range after {
		stays[withoutVersion(refOf(object, namespaces))] = true
	}
	loss, seen := model.Loss{Revision: current.Version}, map[inventory.Ref]bool{}
	for _, manifest := range texts {
		end()
		before, err := manifests.Decode(s.Memory, manifest)
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
			if stays[key] || inventory.IsKept(object.GetAnnotations()) || s.Cluster.InCRDFolder(ref) {
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

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"errors"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// minTogether is the smallest number of records for which one request replaces single deletions.
const minTogether = 2

// acceptNames makes the API server return only the metadata of deleted objects.
const acceptNames = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// DeleteTogether makes Delete collect the keys of records until Delete is called for the record last. Then the
// collected records are deleted with one request, and last after them. While last exists, the history shows that the
// release is being uninstalled.
func (s *Store) DeleteTogether(last string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = last
}

// removeBefore deletes the collected records.
func (s *Store) removeBefore() error {
	s.mu.Lock()
	keys := s.before
	s.before = nil
	s.mu.Unlock()
	if selector := s.selectorOf(keys); selector != "" {
		err := s.removeSelected(selector)
		if answer := apierrors.APIStatus(nil); !errors.As(err, &answer) {
			return err
		}
		// The request was refused: the user, a policy or a proxy may permit only single deletions.
	}
	for _, key := range keys {
		if err := s.remove(key); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
			return err
		}
	}
	return nil
}

// selectorOf returns a label selector that matches exactly the records with these keys. It returns an empty selector if
// there are fewer than minTogether records, or if the listed history has a Secret that is neither one of them nor
// s.last: the selector could also match this Secret, for example a copy of a record.
func (s *Store) selectorOf(keys []string) string {
	if len(keys) < minTogether {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, listed := range s.listed {
		var revisions []string
		for i := range listed {
			object := &listed[i]
			switch isOne := slices.Contains(keys, object.Name); {
			case isOne:
				revisions = append(revisions, object.Labels[model.HelmLabelVersion])
			case object.Name != s.last:
				return ""
			}
		}
		if len(revisions) == len(keys) && !slices.Contains(revisions, "") {
			slices.Sort(revisions)
			return Selector(name) + "," + model.HelmLabelVersion + " in (" + strings.Join(revisions, ",") + ")"
		}
	}
	return ""
}

// removeSelected deletes the records that a label selector matches.
func (s *Store) removeSelected(selector string) error {
	if err := s.Overtaken(); err != nil {
		return err
	}
	s.Memory.Commit()
	defer s.forget()
	options := metav1.ListOptions{LabelSelector: selector, FieldSelector: "type=" + string(secretType)}
	return persist(func() error {
		return s.client.Delete().Namespace(s.namespace).Resource("secrets").
			VersionedParams(&options, scheme.ParameterCodec).SetHeader("Accept", acceptNames).
			Do(context.Background()).Error()
	})
}

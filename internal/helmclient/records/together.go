// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"encoding/json"
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
		removed, err := s.removeSelected(selector)
		// The user, a policy or a proxy may permit only single deletions. They then refuse the request.
		if answer := apierrors.APIStatus(nil); err != nil && !errors.As(err, &answer) {
			return err
		}
		// A record that the request did not delete was changed or re-created after it was listed, or is gone.
		keys = slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(removed, key) })
	}
	for _, key := range keys {
		if err := s.remove(key); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
			return err
		}
	}
	return nil
}

// selectorOf returns a label selector that matches exactly the records with these keys. If another manager has
// installed the release again, its new records have the same keys, but later times, so the selector does not match
// them. selectorOf returns an empty selector if there are fewer than minTogether records, or if a record has no time of
// a change. It also does so if the listed history has a Secret that is neither one of the records nor s.last: the
// selector could also match this Secret, for example a copy of a record.
func (s *Store) selectorOf(keys []string) string {
	if len(keys) < minTogether {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, listed := range s.listed {
		var revisions, times []string
		for i := range listed {
			object := &listed[i]
			switch isOne := slices.Contains(keys, object.Name); {
			case isOne:
				revisions = append(revisions, object.Labels[model.HelmLabelVersion])
				times = append(times, object.Labels[model.HelmLabelModifiedAt])
			case object.Name != s.last:
				return ""
			}
		}
		if len(revisions) == len(keys) && !slices.Contains(revisions, "") && !slices.Contains(times, "") {
			return Selector(name) + "," + anyOf(model.HelmLabelVersion, revisions) + "," +
				anyOf(model.HelmLabelModifiedAt, times)
		}
	}
	return ""
}

// anyOf returns a label selector for objects whose label has one of the values.
func anyOf(label string, values []string) string {
	slices.Sort(values)
	return label + " in (" + strings.Join(slices.Compact(values), ",") + ")"
}

// removeSelected deletes the records that a label selector matches. It returns the names of the deleted records.
func (s *Store) removeSelected(selector string) (names []string, err error) {
	if err := s.Overtaken(); err != nil {
		return nil, err
	}
	if err := s.Memory.Commit(); err != nil {
		return nil, err
	}
	defer s.forget()
	// After an uninstallation, the changes are not needed.
	s.noteUnclear()
	options := metav1.ListOptions{LabelSelector: selector, FieldSelector: "type=" + string(secretType)}
	var response []byte
	err = persist(func() error {
		result := s.client.Delete().Namespace(s.namespace).Resource("secrets").
			VersionedParams(&options, scheme.ParameterCodec).SetHeader("Accept", model.AcceptMetadataList).
			Do(context.Background())
		if err := result.Error(); err != nil {
			return err
		}
		response, err = result.Raw()
		return err
	})
	if err != nil {
		return nil, err
	}
	var removed metav1.PartialObjectMetadataList
	// Without the names, the records are deleted again, one by one.
	_ = json.Unmarshal(response, &removed)
	for i := range removed.Items {
		names = append(names, removed.Items[i].Name)
	}
	return names, nil
}

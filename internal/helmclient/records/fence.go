// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// recordState is the state of a record's Secret when this action first read it, or last wrote it. The zero value means
// that the action has not read or written the record.
type recordState struct {
	// version is the resource version; empty if any version is accepted.
	version string
	// texts are the digests of the record, and of the texts that this action tried to write later. The responses to
	// these writes may have been lost.
	texts [][sha256.Size]byte
	// id is the UID of the Secret; empty if this action wrote the Secret.
	id types.UID
	// labels are the labels of the Secret.
	labels map[string]string
}

// stateOf returns the state of a Secret that was read, or that was written and has the resource version.
func stateOf(secret *corev1.Secret, version string) recordState {
	return recordState{version: version, texts: [][sha256.Size]byte{textOf(secret)}, id: secret.UID,
		labels: secret.Labels}
}

func textOf(secret *corev1.Secret) [sha256.Size]byte { return sha256.Sum256(secret.Data[Key]) }

func (s *Store) state(key string) recordState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[key]
}

func (s *Store) noteState(key string, state recordState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[key] = state
}

// knownUID returns the UID of a record that this action read, listed or created; empty if it is not known. If the
// action read the content of the record, it is the UID of the first read.
func (s *Store) knownUID(key string) types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.states[key].id, s.uids[key])
}

// noteUID stores the UID of a record that this action creates, instead of the UID of a former record under the same
// key. While the UID is not known, it is empty.
func (s *Store) noteUID(key string, id types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uids[key] = id
	if state, ok := s.states[key]; ok {
		state.id = ""
		s.states[key] = state
	}
}

// SeenUID returns the UID of a record that this action read; empty if the action did not read the record, or wrote it.
func (s *Store) SeenUID(key string) types.UID { return s.state(key).id }

// save writes the Secret of a record if the Secret in the cluster has the state that this action read or wrote.
// Otherwise, another manager may have taken over the release or begun to uninstall it, and the payload may be deleted.
// Changed metadata alone is not a conflict, unless another manager has adopted the record, see [Store.Relabel]. A write
// of this action whose response was lost is not a conflict either.
func (s *Store) save(secret *corev1.Secret) error {
	state := s.state(secret.Name)
	state.texts = append(slices.Clone(state.texts), textOf(secret))
	for try := 1; ; try++ {
		secret.ResourceVersion = state.version
		version, err := s.putSecret(secret)
		if err == nil {
			s.noteState(secret.Name, stateOf(secret, version))
			return nil
		}
		s.noteState(secret.Name, state)
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		current, readErr := s.readSecret(secret.Name)
		switch {
		case apierrors.IsNotFound(readErr):
			return s.overtake(secret.Labels[model.HelmLabelVersion])
		case readErr != nil:
			return readErr
		case textOf(current) == textOf(secret):
			s.noteState(secret.Name, stateOf(current, current.ResourceVersion))
			return nil
		case !slices.Contains(state.texts, textOf(current)), wasAdopted(current, state.labels):
			return s.overtake(secret.Labels[model.HelmLabelVersion])
		case try == WriteTries:
			return err
		}
		state.version = current.ResourceVersion
	}
}

// ownerLabels are the labels that an adoption or a takeover of a record changes, see [model.OwnerLabels].
var ownerLabels = []string{model.LabelOwner, model.LabelReleaseUID, model.LabelManagementCluster}

// wasAdopted reports whether another manager has adopted a record, or taken it over after a move. before are the labels
// that the record had. An adoption changes only labels: the UID of the object that requested the revision, and its
// owner. A takeover changes only the management cluster.
func wasAdopted(current *corev1.Secret, before map[string]string) bool {
	return slices.ContainsFunc(ownerLabels, func(label string) bool { return current.Labels[label] != before[label] })
}

// hasOnlyOwnWrites reports whether a Secret is the record that this action wrote last, and no other manager has written
// it since. A manager that continues the action always sets the time of the change, even if the content stays the same.
func (s *Store) hasOnlyOwnWrites(current *corev1.Secret, state recordState) bool {
	const changed = model.HelmLabelModifiedAt
	return current.UID == s.knownUID(current.Name) && slices.Contains(state.texts, textOf(current)) &&
		!wasAdopted(current, state.labels) && current.Labels[changed] == state.labels[changed]
}

// overtake stores that another writer changed or replaced a record. This action then writes no further record.
func (s *Store) overtake(revision string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overtaken = helmerr.New(helmerr.ErrStale,
		"another manager, or Helm, wrote the record of Helm revision %s during this action: "+
			"the outcome of the action is not recorded, and the release is checked again", revision)
	return s.overtaken
}

// Overtaken returns why this action must not write any further record; nil if it may write records.
func (s *Store) Overtaken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overtaken
}

// write sends a request that writes a Secret, and returns the new metadata of the Secret.
func write(request *rest.Request) (written metav1.PartialObjectMetadata, err error) {
	result := request.SetHeader("Accept", model.AcceptMetadata).Do(context.Background())
	if err := result.Error(); err != nil {
		return written, err
	}
	response, err := result.Raw()
	if err != nil {
		return written, err
	}
	// The Secret was written in any case. Without the version, the next write cannot check for conflicts.
	_ = json.Unmarshal(response, &written)
	return written, nil
}

// Relabel implements CarefulDriver. It replaces HelmOp's labels on the record that was read under the key, and changes
// nothing else. The write requires the version that was read, as [Store.Update] does. So if an adoption and another
// write happen at the same time, at most one of them succeeds.
func (s *Store) Relabel(key string, labels map[string]string) error {
	if err := s.Overtaken(); err != nil {
		return err
	}
	state := s.state(key)
	if state.version == "" {
		return fmt.Errorf("the release record %q was not read before it was labelled", key)
	}
	defer s.forget()
	for try := 1; ; try++ {
		version, err := s.patchLabels(key, state, labels)
		if err == nil {
			state.version, state.labels = version, labels
			s.noteState(key, state)
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("labelling the release record %q: %w", key, err)
		}
		current, readErr := s.readSecret(key)
		switch {
		case apierrors.IsNotFound(readErr):
			return s.overtake(state.labels[model.HelmLabelVersion])
		case readErr != nil:
			return readErr
		case hasLabels(current, labels):
			// The response to an earlier attempt was lost.
			s.noteState(key, stateOf(current, current.ResourceVersion))
			return nil
		case !slices.Contains(state.texts, textOf(current)), wasAdopted(current, state.labels):
			return s.overtake(current.Labels[model.HelmLabelVersion])
		case try == WriteTries:
			return fmt.Errorf("labelling the release record %q: %w", key, err)
		}
		state.version, state.labels = current.ResourceVersion, current.Labels
	}
}

// patchLabels sets the labels of a record, and removes HelmOp's other labels. The ID of the payload stays, because the
// ID belongs to the content. patchLabels returns the new resource version.
func (s *Store) patchLabels(key string, state recordState, labels map[string]string) (version string, err error) {
	if err := s.Memory.Commit(); err != nil {
		return "", err
	}
	changed := map[string]any{}
	for label := range state.labels {
		if strings.HasPrefix(label, model.LabelPrefix) && label != model.LabelPayload {
			changed[label] = nil
		}
	}
	for label, value := range labels {
		changed[label] = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": state.version, "labels": changed,
	}})
	if err != nil {
		return "", err
	}
	err = persist(func() error {
		written, err := s.writeRecord(s.client.Patch(types.MergePatchType).Namespace(s.namespace).Resource("secrets").
			Name(key).Param("fieldManager", model.FieldManager).Body(patch))
		version = written.ResourceVersion
		return err
	})
	return version, err
}

// hasLabels reports whether a Secret has all labels.
func hasLabels(secret *corev1.Secret, labels map[string]string) bool {
	for key, value := range labels {
		if secret.Labels[key] != value {
			return false
		}
	}
	return true
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// recordState is the state of a record's Secret when this action first read it, or last wrote it. The zero value means
// that the action neither read nor wrote the record.
type recordState struct {
	// version is the resource version; empty if any version is accepted.
	version string
	// texts are the digests of the record, and of the texts that this action tried to write since. The responses to these
	// writes may have been lost.
	texts [][sha256.Size]byte
	// id is the UID of the Secret; empty if this action wrote the Secret.
	id types.UID
}

// stateOf returns the state of a Secret that was read, or that was written and has the resource version.
func stateOf(secret *corev1.Secret, version string) recordState {
	return recordState{version: version, texts: [][sha256.Size]byte{textOf(secret)}, id: secret.UID}
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

// SeenUID returns the UID of a record that this action read; empty if the action did not read the record, or wrote it.
func (s *Store) SeenUID(key string) types.UID { return s.state(key).id }

// save writes the Secret of a record if the Secret in the cluster has the state that this action read or wrote.
// Otherwise, another manager may have taken over the release or begun to uninstall it, and the payload may be deleted.
// Changed metadata is not a conflict, and neither is a write of this action whose response was lost.
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
			return s.overtake(secret)
		case readErr != nil:
			return readErr
		case textOf(current) == textOf(secret):
			s.noteState(secret.Name, stateOf(current, current.ResourceVersion))
			return nil
		case !slices.Contains(state.texts, textOf(current)):
			return s.overtake(secret)
		case try == WriteTries:
			return err
		}
		state.version = current.ResourceVersion
	}
}

// overtake stores that another writer changed a record. This action then writes no further record.
func (s *Store) overtake(secret *corev1.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overtaken = helmerr.New(helmerr.ErrStale,
		"another manager, or Helm, wrote the record of Helm revision %s during this action: "+
			"the outcome of the action is not recorded, and the release is checked again",
		secret.Labels[model.HelmLabelVersion])
	return s.overtaken
}

// Overtaken returns why this action must not write any further record; nil if it may write records.
func (s *Store) Overtaken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overtaken
}

// write sends a request that writes a Secret, and returns the new resource version of the Secret.
func write(request *rest.Request) (version string, err error) {
	result := request.SetHeader("Accept", AcceptMetadata).Do(context.Background())
	if err := result.Error(); err != nil {
		return "", err
	}
	response, err := result.Raw()
	if err != nil {
		return "", err
	}
	var written metav1.PartialObjectMetadata
	// The Secret was written in any case. Without the version, the next write does not check for conflicts.
	_ = json.Unmarshal(response, &written)
	return written.ResourceVersion, nil
}

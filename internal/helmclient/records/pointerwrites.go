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

// recordSight tells in which state the Secret of a record was seen. Its zero value is none.
type recordSight struct {
	// version is the resource version; empty if any will do.
	version string
	// texts are the digests of what was recorded, and of what this action has tried to record since: it may not know whether it was.
	texts [][sha256.Size]byte
	// id is that of the Secret; empty if it was made by this action.
	id types.UID
}

// sightOf is the sight of a Secret that was read, or written with the resource version.
func sightOf(secret *corev1.Secret, version string) recordSight {
	return recordSight{version: version, texts: [][sha256.Size]byte{textOf(secret)}, id: secret.UID}
}

func textOf(secret *corev1.Secret) [sha256.Size]byte { return sha256.Sum256(secret.Data[Key]) }

// seenOf returns in which state a pointer was last seen.
func (s *Store) seenOf(record *splitRecord) recordSight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return record.seen
}

// noteSeen keeps in which state a pointer was seen; record is nil if it is none.
func (s *Store) noteSeen(record *splitRecord, seen recordSight) {
	if record == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	record.seen = seen
}

// putSeen saves the Secret of a record if the one in the cluster is still what was seen: another manager may have taken over the release
// or begun to uninstall it, and a payload that this action still points to may be gone. A change of nothing but metadata does not
// matter, nor does a write of this action whose answer was lost. It returns the state after the write.
func (s *Store) putSeen(secret *corev1.Secret, seen recordSight) (recordSight, error) {
	for try := 1; ; try++ {
		secret.ResourceVersion = seen.version
		version, err := s.putSecret(secret)
		if err == nil {
			return sightOf(secret, version), nil
		}
		tried := recordSight{version: seen.version, texts: append(slices.Clone(seen.texts), textOf(secret))}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return tried, err
		}
		current, readErr := s.readSecret(secret.Name)
		switch {
		case apierrors.IsNotFound(readErr):
			return seen, s.overtake(secret)
		case readErr != nil:
			return tried, readErr
		case textOf(current) == textOf(secret):
			return sightOf(current, current.ResourceVersion), nil
		case !slices.Contains(seen.texts, textOf(current)):
			return seen, s.overtake(secret)
		case try == WriteTries:
			return seen, err
		}
		seen.version = current.ResourceVersion
	}
}

// sightOfKey returns how a record was first read, or last written, by this action.
func (s *Store) sightOfKey(key string) recordSight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sights[key]
}

// SeenUID returns the UID of a record that this action read or wrote, empty if it did neither.
func (s *Store) SeenUID(key string) types.UID { return s.sightOfKey(key).id }

// KeepOldPayloads has what is to be deleted kept until a new record was made: an action that fails needs it.
func (s *Store) KeepOldPayloads() { s.split.keepsOld = true }

// noteSight keeps how a record was written.
func (s *Store) noteSight(key string, seen recordSight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sights[key] = seen
}

// overtake says that another one has written a record, and keeps this action from writing any further one.
func (s *Store) overtake(secret *corev1.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.split.overtaken = helmerr.New(helmerr.ErrStale, "the record of revision %s was written by another manager, or by Helm, while this action was at "+
		"work on it: the outcome of this action is not recorded, and the release is looked at again", secret.Labels[model.HelmLabelVersion])
	return s.split.overtaken
}

// Overtaken is why nothing may be written any more, nil as long as it may.
func (s *Store) Overtaken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.split.overtaken
}

// write sends a request that writes a Secret, and returns the resource version that the Secret has then.
func write(request *rest.Request) (version string, err error) {
	result := request.SetHeader("Accept", AcceptMetadata).Do(context.Background())
	if err := result.Error(); err != nil {
		return "", err
	}
	answer, err := result.Raw()
	if err != nil {
		return "", err
	}
	var written metav1.PartialObjectMetadata
	// It was written in any case. Without the version, the next write does not look.
	_ = json.Unmarshal(answer, &written)
	return written.ResourceVersion, nil
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/recordcodec"
)

// Create implements driver.Creator.
func (s *Store) Create(key string, rls *release.Release) error {
	if err := s.Overtaken(); err != nil {
		return err
	}
	secret, record, err := s.newSecret(key, rls, "createdAt", s.beforeCreate)
	if err != nil {
		return err
	}
	defer s.forget()
	s.noteUID(key, "")
	written, err := s.writeRecord(s.client.Post().Namespace(s.namespace).Resource("secrets").Body(secret))
	if err == nil {
		s.noteClock(&written)
		s.noteUID(key, written.UID)
		s.noteState(key, stateOf(secret, written.ResourceVersion))
	}
	err = s.confirm(key, record, err)
	if apierrors.IsAlreadyExists(err) {
		return driver.ErrReleaseExists
	}
	if err != nil {
		return fmt.Errorf("creating the release record %q: %w", key, err)
	}
	s.namespaces.Add(s.namespace)
	s.written(key, record, nil)
	return nil
}

// Update implements driver.Updator. For a stub, it saves only the status, the labels and the description. It puts a new
// payload only if the manifests of a split record changed.
func (s *Store) Update(key string, rls *release.Release) error {
	if err := s.Overtaken(); err != nil {
		return err
	}
	s.mu.Lock()
	isStub, isSplit := s.stubs[rls], s.split.named[key] != ""
	s.mu.Unlock()
	switch {
	case isStub && isSplit:
		return s.updateSmall(key, rls)
	case isStub:
		whole, err := s.Get(key)
		if err != nil {
			return err
		}
		takeStub(whole, rls)
		rls = whole
	}
	record := s.splitOf(key)
	switch {
	case record == nil:
		return s.updateWhole(key, rls)
	case record.content == contentOf(rls):
		return s.updatePointer(key, rls, record)
	}
	packed, err := s.Pack(rls)
	if err != nil {
		return errEncode(key, err)
	}
	changed, err := s.keepPayload(rls, packed)
	if err != nil {
		return err
	}
	if err := s.confirm(key, changed, s.updatePointer(key, rls, changed)); err != nil {
		return err
	}
	s.written(key, changed, record)
	return nil
}

// takeStub copies the fields of a stub to a whole record.
func takeStub(whole, stub *release.Release) {
	whole.Info.Status, whole.Labels = stub.Info.Status, stub.Labels
	if stub.Info.Description != "" {
		whole.Info.Description = stub.Info.Description
	}
}

// updateSmall saves a stub of a split record. It does not read the payload.
func (s *Store) updateSmall(key string, stub *release.Release) error {
	secret, small, to, err := s.readPointer(key)
	if err != nil {
		return err
	}
	if s.state(key).version == "" {
		s.noteState(key, stateOf(secret, secret.ResourceVersion))
	}
	takeStub(small, stub)
	if to == nil {
		// The record is not split: the helm command copied the label from another record.
		return s.updateWhole(key, small)
	}
	text, err := recordcodec.EncodeSmall(small)
	if err != nil {
		return errEncode(key, err)
	}
	updated := recordSecret(key, small, "modifiedAt", text)
	updated.Labels[model.LabelPayload] = secret.Labels[model.LabelPayload]
	return s.save(updated)
}

// updateWhole saves a record that is not split.
func (s *Store) updateWhole(key string, rls *release.Release) error {
	packed, err := s.Pack(rls)
	if err != nil {
		return errEncode(key, err)
	}
	if err := s.save(recordSecret(key, rls, "modifiedAt", recordcodec.EncodeBase64(packed))); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keepFew(s.read, key, copyRelease(rls))
	return nil
}

// updatePointer saves the pointer of a split record.
func (s *Store) updatePointer(key string, rls *release.Release, record *splitRecord) error {
	secret, err := pointerSecret(key, rls, "modifiedAt", record)
	if err != nil {
		return err
	}
	return s.save(secret)
}

func errEncode(key string, err error) error {
	return fmt.Errorf("encoding the release record %q: %w", key, err)
}

// Replace implements CarefulDriver. The connection may break after a successful write. If the record is not split,
// Replace cannot distinguish its own write from a write of another process. So it also returns driver.ErrReleaseExists
// for its own write.
func (s *Store) Replace(key string, rls *release.Release) error {
	if err := s.Overtaken(); err != nil {
		return err
	}
	read := s.state(key)
	if read.version == "" {
		return fmt.Errorf("the release record %q was not read before it was written", key)
	}
	before, err := s.pointed(key)
	if err != nil {
		return err
	}
	secret, record, err := s.newSecret(key, rls, "modifiedAt", func() error { return nil })
	if err != nil {
		return err
	}
	secret.ResourceVersion = read.version
	version, err := s.putSecret(secret)
	if err == nil {
		s.noteState(key, stateOf(secret, version))
	}
	err = s.confirm(key, record, err)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return driver.ErrReleaseExists
	}
	if err != nil {
		return err
	}
	s.written(key, record, before)
	return nil
}

// written stores that a record was written, see notePointer. After this, old records may be deleted.
func (s *Store) written(key string, record, before *splitRecord) {
	s.notePointer(key, record, before)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.split.keepsOld = false
}

// Refresh implements CarefulDriver.
func (s *Store) Refresh() { s.forget() }

// putSecret replaces the Secret of a record, and returns the new resource version.
func (s *Store) putSecret(secret *corev1.Secret) (version string, err error) {
	if err := s.Memory.Commit(); err != nil {
		return "", err
	}
	defer s.forget()
	err = persist(func() error {
		written, err := s.writeRecord(s.client.Put().Namespace(s.namespace).Resource("secrets").Name(secret.Name).
			Body(secret))
		if err == nil {
			s.noteClock(&written)
		}
		version = written.ResourceVersion
		return err
	})
	if err != nil {
		return "", fmt.Errorf("updating the release record %q: %w", secret.Name, err)
	}
	return version, nil
}

// Withdraw implements CarefulDriver. The record stays if its version is not known, because the response to its creation
// had none: a pending record only makes the next action continue this one. As in [Store.save], changed metadata alone
// is not a conflict, because a policy program may label each new Secret.
func (s *Store) Withdraw(key string) error {
	state := s.state(key)
	if state.version == "" {
		return fmt.Errorf("the release record %q stays, because its resource version is not known", key)
	}
	for try := 1; ; try++ {
		err := s.removeVersion(key, state.version)
		switch {
		case errors.Is(err, driver.ErrReleaseNotFound):
			return nil
		case !apierrors.IsConflict(err):
			return err
		}
		current, readErr := s.readSecret(key)
		switch {
		case apierrors.IsNotFound(readErr):
			return nil
		case readErr != nil:
			return readErr
		case !s.hasOnlyOwnWrites(current, state):
			return s.overtake(revisionOf(key))
		case try == WriteTries:
			return err
		}
		state.version = current.ResourceVersion
	}
}

// Delete implements driver.Deletor. It returns a stub. If the deletion is deferred until Finish, or until the deletion
// of the last record, it returns nil.
func (s *Store) Delete(key string) (*release.Release, error) {
	s.mu.Lock()
	isDeferred, isLast := true, key == s.last
	switch {
	case s.split.keepsOld:
		s.split.deferred = append(s.split.deferred, key)
	case s.last != "" && key != s.last && s.split.named[key] == "":
		s.before = append(s.before, key)
	default:
		isDeferred = false
	}
	s.mu.Unlock()
	if isDeferred {
		return nil, nil //nolint:nilnil // See above.
	}
	if isLast {
		if err := s.removeBefore(); err != nil {
			return nil, err
		}
	}
	if err := s.remove(key); err != nil {
		return nil, err
	}
	if isLast {
		// A record that another writer added meanwhile is deleted at once.
		s.DeleteTogether("")
	}
	// The revision is zero for keys that are not in Helm's format.
	revision, _ := strconv.Atoi(revisionOf(key))
	return &release.Release{Namespace: s.namespace, Version: revision, Info: &release.Info{}}, nil
}

// revisionOf returns the revision in the key of a record: a key ends with "v" and the revision.
func revisionOf(key string) string { return key[strings.LastIndexByte(key, 'v')+1:] }

// remove deletes a record, see removeVersion. The action ends if another manager has re-created the record under the
// same key.
func (s *Store) remove(key string) error {
	err := s.removeVersion(key, "")
	if apierrors.IsConflict(err) {
		return s.overtake(revisionOf(key))
	}
	return err
}

// removeVersion deletes a record. It then deletes the payload of the record if no other record names it. A record that
// another manager has re-created under the same key stays. So does a record that does not have the given resource
// version, unless the version is empty. The error is then a conflict.
func (s *Store) removeVersion(key, version string) error {
	if err := s.Overtaken(); err != nil {
		return err
	}
	record, err := s.pointed(key)
	if err != nil {
		return err
	}
	if err := s.Memory.Commit(); err != nil {
		return err
	}
	defer s.forget()
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{}}
	id := s.knownUID(key)
	if id != "" {
		options.Preconditions.UID = &id
	}
	if version != "" {
		options.Preconditions.ResourceVersion = &version
	}
	err = persist(func() error {
		return s.client.Delete().Namespace(s.namespace).Resource("secrets").Name(key).
			SetHeader("Accept", model.AcceptMetadata).Body(&options).Do(context.Background()).Error()
	})
	s.noteChange(id, nil, err == nil || apierrors.IsNotFound(err))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the release record %q: %w", key, err)
	}
	// The record may be missing because an earlier attempt deleted it and its response was lost.
	s.notePointer(key, nil, record)
	s.deleteUnnamed()
	if err != nil {
		return driver.ErrReleaseNotFound
	}
	return nil
}

// noteClock stores how far the clock of this manager is ahead of the API server, from the response to a write. A clock
// that is behind counts as right: it only makes parts look younger.
func (s *Store) noteClock(written *metav1.PartialObjectMetadata) {
	at := serverTime(&written.ObjectMeta)
	if at.IsZero() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead, s.knowsAhead = max(0, time.Since(at)), true
}

// forget drops the cached records after a write, and returns memory that the action does not need while it waits.
func (s *Store) forget() {
	s.rest()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrote = true
	clear(s.listed)
	clear(s.read)
}

// newSecret returns the Secret for a new record. If the record must be split, it first puts the payload. It calls
// beforeWrite after all checks of the size, and before it puts the payload.
func (s *Store) newSecret(key string, rls *release.Release, timeLabel string,
	beforeWrite func() error,
) (*corev1.Secret, *splitRecord, error) {
	packed, err := s.Pack(rls)
	if err != nil {
		return nil, nil, errEncode(key, err)
	}
	if !s.storage.Splits(len(packed)) {
		if err := s.Memory.Commit(); err != nil {
			return nil, nil, err
		}
		return recordSecret(key, rls, timeLabel, recordcodec.EncodeBase64(packed)), nil, beforeWrite()
	}
	if err := CheckSize(len(packed), s.storage); err != nil {
		return nil, nil, err
	}
	if err := s.Hold(len(packed)); err != nil {
		return nil, nil, err
	}
	if err := s.Memory.Commit(); err != nil {
		return nil, nil, err
	}
	if err := beforeWrite(); err != nil {
		return nil, nil, err
	}
	record, err := s.keepPayload(rls, packed)
	if err != nil {
		return nil, nil, err
	}
	secret, err := pointerSecret(key, rls, timeLabel, record)
	return secret, record, err
}

// pointerSecret returns the Secret for a split record.
func pointerSecret(key string, rls *release.Release, timeLabel string, record *splitRecord) (*corev1.Secret, error) {
	small, err := pointerRecord(rls, record.pointer)
	if err != nil {
		return nil, errEncode(key, err)
	}
	text, err := recordcodec.EncodeSmall(small)
	if err != nil {
		return nil, errEncode(key, err)
	}
	secret := recordSecret(key, rls, timeLabel, text)
	secret.Labels[model.LabelPayload] = record.ID
	return secret, nil
}

// recordSecret returns the Secret for a record, with the current time in the given label.
func recordSecret(key string, rls *release.Release, timeLabel string, text []byte) *corev1.Secret {
	labels := map[string]string{timeLabel: strconv.FormatInt(time.Now().Unix(), 10)}
	maps.Copy(labels, rls.Labels)
	labels[model.HelmLabelName], labels[model.HelmLabelOwner] = rls.Name, "helm"
	labels[model.HelmLabelStatus], labels[model.HelmLabelVersion] = rls.Info.Status.String(), strconv.Itoa(rls.Version)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: key, Labels: labels},
		Type:       secretType,
		Data:       map[string][]byte{Key: text},
	}
}

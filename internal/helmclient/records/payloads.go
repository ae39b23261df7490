// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
)

// cleanupTimeout bounds the deletion of a payload. It is no part of the action.
const cleanupTimeout = 30 * time.Second

// splitRecord is a record that is a pointer and a payload.
type splitRecord struct {
	pointer
	// name is that of the release.
	name string
	// content stands for what the payload holds; known is false until that was read or written.
	content [sha256.Size]byte
	known   bool
	// seen is the pointer as this action last read or wrote it.
	seen recordSight
}

// splitRecords is what an action knows of records that are split. The Store's mutex guards it.
type splitRecords struct {
	// byKey are those that were read or written.
	byKey map[string]*splitRecord
	// contents are payloads that were read last, by their ID.
	contents map[string]*release.Release
	// ids are the IDs of payloads, by the keys of records, as the metadata says.
	ids map[string]string
	// unused is a payload that was put and that no pointer names yet.
	unused *splitRecord
	// keepsOld says that records which are to be deleted, split or not, are kept until a new one was made: while a store does not answer,
	// nothing is to be lost. doomed are their keys, and discarded are payloads that no pointer names any more. All that goes at the end: a store that
	// is slow must not take an action's time.
	keepsOld  bool
	doomed    []string
	discarded []*splitRecord
	// overtaken says that another one has written a record which this action was at work on.
	overtaken error
	// touched is the name of the release whose payloads were written or deleted, or may be left over. deleted are the IDs of those that
	// this action was to delete.
	touched string
	deleted map[string]bool
	// memory bounds what all actions take for payloads, held is what this one does of its room, and grown that it has its growth.
	memory *PayloadMemory
	held   int64
	grown  bool
	// left counts the payloads that could not be deleted, leftErr says why.
	left    int
	leftErr error
}

func newSplitRecords(memory *PayloadMemory) splitRecords {
	return splitRecords{
		byKey: map[string]*splitRecord{}, contents: map[string]*release.Release{}, ids: map[string]string{}, deleted: map[string]bool{},
		memory: memory,
	}
}

// noteMetadata keeps which records have payloads.
func (s *Store) noteMetadata(objects []metav1.PartialObjectMetadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range objects {
		if id := objects[i].Labels[model.LabelPayload]; id != "" {
			s.split.ids[objects[i].Name] = id
		}
	}
}

// splitOf returns the record under a key if it is known to be split.
func (s *Store) splitOf(key string) *splitRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.split.byKey[key]
}

func (s *Store) noteSplit(key string, record *splitRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.split.byKey[key], s.split.ids[key] = record, record.ID
	if record.known {
		s.split.touched = record.name
	}
}

// keepPayload keeps the payload of a record, unless it was put a moment ago for the same record.
func (s *Store) keepPayload(rls *release.Release, packed []byte) (*splitRecord, error) {
	content := contentOf(rls)
	s.mu.Lock()
	unused := s.split.unused
	s.mu.Unlock()
	if unused != nil && unused.name == rls.Name && unused.Revision == rls.Version && unused.content == content {
		return unused, nil
	}
	record := &splitRecord{name: rls.Name, content: content, known: true, pointer: pointer{
		Version: pointerVersion, ID: newPayloadID(), Revision: rls.Version, Size: len(packed), Digest: digestOf(packed),
	}}
	if err := s.putPayload(record, packed); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.split.unused, s.split.touched = record, rls.Name
	return record, nil
}

func (s *Store) putPayload(record *splitRecord, packed []byte) error {
	if !s.storage.Outside {
		record.Chunks = chunkCount(len(packed))
		return s.putChunks(chunksOf(record.name, &record.pointer), packed)
	}
	if s.storage.Store == nil {
		return helmerr.New(helmerr.ErrRecordStorage, "no registry is configured for release records")
	}
	sealed, key, err := seal(packed)
	if err != nil {
		return err
	}
	place, err := s.storage.Store.Put(s.ctx, s.payloadName(record), sealed)
	if err != nil {
		return helmerr.New(helmerr.ErrRecordStorage, "the record of revision %d cannot be put there, so nothing was begun: %s", record.Revision, err)
	}
	record.Place, record.Key = &place, key
	return nil
}

func (s *Store) payloadName(record *splitRecord) payload.Name {
	return payload.Name{Namespace: s.namespace, Release: record.name, Revision: record.Revision, ID: record.ID}
}

// used says that a pointer was written.
func (s *Store) used(key string, record *splitRecord) {
	s.noteSplit(key, record)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.split.unused == record {
		s.split.unused = nil
	}
}

// settle returns the error of writing the pointer to a new payload, nil if the pointer is there all the same: the connection may break
// after a write that was done, and the next try is then refused because of it. Where it cannot be told, the payload stays.
func (s *Store) settle(key string, record *splitRecord, err error) error {
	if err == nil || record == nil {
		return err
	}
	id, seen, readErr := s.namedPayload(key)
	if readErr == nil && id == record.ID {
		s.noteSeen(record, seen)
		return nil
	}
	if readErr != nil || !isRefusal(err) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.split.unused = nil
	}
	return err
}

// namedPayload returns the ID of the payload that a record names by now, empty if it names none, or is not there. It reads more than the
// label, which old versions of Helm drop.
func (s *Store) namedPayload(key string) (id string, seen recordSight, err error) {
	secret, small, err := s.readSmall(key)
	if apierrors.IsNotFound(err) {
		return "", recordSight{}, nil
	}
	if err != nil {
		return "", recordSight{}, err
	}
	to, err := pointerOf(small)
	if err != nil || to == nil {
		return "", recordSight{}, err
	}
	return to.ID, sightOf(secret, secret.ResourceVersion), nil
}

// isRefusal tells that a write was not done, and is not on its way any more.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.Is(err, helmerr.ErrStale) || errors.As(err, &status) && status.Status().Code < 500 && !apierrors.IsTimeout(err) && !apierrors.IsTooManyRequests(err)
}

// resolve returns the release that a record is which was read: the same where it is whole.
func (s *Store) resolve(secret *corev1.Secret, small *release.Release) (*release.Release, error) {
	to, err := pointerOf(small)
	if err != nil {
		return nil, err
	}
	if to == nil {
		return small, nil
	}
	record := &splitRecord{pointer: *to, name: small.Name, seen: sightOf(secret, secret.ResourceVersion)}
	content, err := s.content(record)
	if err != nil {
		return nil, err
	}
	whole := to.whole(small, content)
	record.content, record.known = contentOf(whole), true
	s.noteSplit(secret.Name, record)
	return whole, nil
}

// content returns the payload of a record. That of the newest, and of the deployed one, is read once in an action.
func (s *Store) content(record *splitRecord) (*release.Release, error) {
	s.mu.Lock()
	content, ok := s.split.contents[record.ID]
	s.mu.Unlock()
	if ok {
		return content, nil
	}
	if err := s.Hold(record.Size); err != nil {
		return nil, err
	}
	packed, err := s.readPayload(record)
	if err != nil {
		return nil, err
	}
	if len(packed) != record.Size || digestOf(packed) != record.Digest {
		return nil, helmerr.New(helmerr.ErrRecordDamaged, "what is kept of revision %d is not what was written: take it from a backup", record.Revision)
	}
	content, err = s.codec.unpackRecord(packed, s.holdText)
	switch {
	case errors.Is(err, errUnreadableRecord):
		return nil, helmerr.New(helmerr.ErrRecordDamaged, "what is kept of revision %d cannot be read", record.Revision)
	case err != nil:
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keepFew(s.split.contents, record.ID, content)
	return content, nil
}

func (s *Store) readPayload(record *splitRecord) ([]byte, error) {
	if record.Place == nil {
		return s.readChunks(chunksOf(record.name, &record.pointer), record.Size)
	}
	where := fmt.Sprintf("the record of revision %d is kept at %s", record.Revision, record.Place.URL)
	if s.storage.Store == nil {
		return nil, helmerr.New(helmerr.ErrRecordStorage, "%s, and no registry is configured for release records: set spec.storage.registry, or the "+
			"manager's --record-storage-url", where)
	}
	sealed, err := s.storage.Store.Get(s.ctx, *record.Place)
	switch {
	case errors.Is(err, payload.ErrMissing):
		return nil, helmerr.New(helmerr.ErrRecordDamaged, "%s, and cannot be had any more: %s", where, err)
	case err != nil:
		return nil, helmerr.New(helmerr.ErrRecordStorage, "%s, and cannot be read now, so the release is left as it is: %s", where, err)
	}
	packed, err := unseal(sealed, record.Key)
	if err != nil {
		return nil, helmerr.New(helmerr.ErrRecordDamaged, "%s, and %s with the key in the Secret of the record", where, err)
	}
	return packed, nil
}

// removePayload deletes a payload that no pointer names any more. That it stays is no failure of the action.
func (s *Store) removePayload(record *splitRecord) {
	var err error
	switch {
	case record.Place == nil:
		err = s.deleteChunks(chunksOf(record.name, &record.pointer))
	case s.storage.Store == nil:
		err = errors.New("no registry is configured for release records")
	default:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), cleanupTimeout)
		defer cancel()
		err = s.storage.Store.Delete(ctx, *record.Place, s.payloadName(record))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.split.touched, s.split.deleted[record.ID] = record.name, true
	if err != nil && record.Place != nil {
		s.split.left++
		s.split.leftErr = fmt.Errorf("%s: %w", record.Place.URL, err)
	}
}

// discard has a payload deleted at the end of the action.
func (s *Store) discard(record *splitRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.split.discarded = append(s.split.discarded, record)
}

// Touch has the parts of a release's payloads looked at when the action ends.
func (s *Store) Touch(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.split.touched = name
}

// isShared tells whether another record has the payload of this one, as Helm's rollback by hand makes it.
func (s *Store) isShared(key, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, theirs := range s.split.ids {
		if other != key && theirs == id {
			return true
		}
	}
	return false
}

// payloadIDs are the IDs of the payloads of all records that are known.
func (s *Store) payloadIDs() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make(map[string]bool, len(s.split.ids))
	for _, id := range s.split.ids {
		ids[id] = true
	}
	return ids
}

// pointed returns the record under a key, without its payload; nil if it is whole, or gone.
func (s *Store) pointed(key string) (*splitRecord, error) {
	s.mu.Lock()
	record, marked := s.split.byKey[key], s.split.ids[key] != ""
	s.mu.Unlock()
	if record != nil || !marked {
		return record, nil
	}
	_, small, err := s.readSmall(key)
	if apierrors.IsNotFound(err) || errors.Is(err, errUnreadableRecord) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	to, err := pointerOf(small)
	if err != nil || to == nil {
		// Where its payload is, nobody knows.
		return nil, nil //nolint:nilerr // The record can be deleted all the same.
	}
	return &splitRecord{pointer: *to, name: small.Name}, nil
}

// readSmall reads the Secret under a key, and what is in it, without a payload.
func (s *Store) readSmall(key string) (*corev1.Secret, *release.Release, error) {
	secret, err := s.readSecret(key)
	if err != nil {
		return nil, nil, err
	}
	small, err := s.codec.Decode(secret.Data[Key], s.holdText)
	if err != nil {
		return nil, nil, errUnread(key, err)
	}
	return secret, small, nil
}

// readSecret reads the Secret of a record as it is now.
func (s *Store) readSecret(key string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := s.client.Get().Namespace(s.namespace).Resource("secrets").Name(key).Do(context.Background()).Into(secret); err != nil {
		return nil, fmt.Errorf("reading the release record %q: %w", key, err)
	}
	return secret, nil
}

// Finish ends an action: what was to make place for what it made is deleted, payloads that no pointer came to name, and what crashes left
// behind. What cannot be deleted now is deleted by the next action; of a release that isGone there is none.
func (s *Store) Finish(now time.Time, isGone bool) {
	defer s.Release()
	s.mu.Lock()
	doomed, discarded := s.split.doomed, s.split.discarded
	if s.split.keepsOld {
		doomed = nil
	}
	if s.split.unused != nil {
		discarded = append(discarded, s.split.unused)
	}
	s.split.unused, s.split.doomed, s.split.discarded = nil, nil, nil
	s.mu.Unlock()
	for _, key := range doomed {
		_ = s.remove(key)
	}
	for _, record := range discarded {
		s.removePayload(record)
	}
	s.mu.Lock()
	touched := s.split.touched
	s.mu.Unlock()
	if touched == "" {
		return
	}
	if left, err := s.Sweep(touched, now); isGone && left > 0 {
		s.noteLeft(touched, left, err)
	}
}

// noteLeft says that parts of a release that is gone are left, as far as is known.
func (s *Store) noteLeft(name string, count int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.split.left += count
	s.split.leftErr = fmt.Errorf("parts of records, with the label %s=%s, in the namespace %s: %w", LabelChunkOf, name, s.namespace, err)
}

// LeftBehind tells how many payloads could not be deleted, and why.
func (s *Store) LeftBehind() (count int, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.split.left == 0 {
		return 0, ""
	}
	return s.split.left, s.split.leftErr.Error()
}

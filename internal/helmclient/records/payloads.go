// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/recordcodec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
)

// cleanupTimeout bounds the deletion of a payload from a store. This time is not part of the time of the action.
const cleanupTimeout = 30 * time.Second

// splitRecord is a record that consists of a pointer and a payload. It is read only.
type splitRecord struct {
	pointer
	// release is the name of the release.
	release string
	// content is the digest of the fields that do not change in a record, see contentOf. Empty if only the pointer was
	// read.
	content [sha256.Size]byte
}

// splitRecords holds the split records that an action has read or written. The Store's mutex guards it.
type splitRecords struct {
	// byKey holds the records whose payloads were read or written.
	byKey map[string]*splitRecord
	// named holds the IDs of payloads by the keys of their records; empty for a record that no longer names a payload.
	named map[string]string
	// own holds, by ID, the payloads that this action put, and the payloads of records that it replaced or deleted. The
	// value is nil after the action tried to delete the payload.
	own map[string]*splitRecord
	// nameKey is the key of the digests that name the payloads of this action.
	nameKey [sha256.Size]byte
	// contents holds the payloads that were read last, by ID.
	contents map[string]*release.Release
	// keepsOld defers deletions of records until this action has written a record. The history must not lose records while
	// the store does not respond.
	keepsOld bool
	// deferred holds the keys of the records whose deletion is deferred.
	deferred []string
	// hasNoParts means that the last list of records would have shown parts of payloads, but there were none.
	hasNoParts bool
	// left is the number of old records and payloads that could not be deleted. leftErr is the cause.
	left    int
	leftErr error
}

func newSplitRecords() splitRecords {
	split := splitRecords{
		byKey: map[string]*splitRecord{}, named: map[string]string{}, own: map[string]*splitRecord{},
		contents: map[string]*release.Release{},
	}
	// Read never returns an error: if it fails, it ends the process.
	_, _ = rand.Read(split.nameKey[:])
	return split
}

// payloadID returns the ID of a payload with a digest. Within an action, the same content has the same ID. Two actions
// never use the same ID, see docs/design.md.
func (s *splitRecords) payloadID(digest string) string {
	mac := hmac.New(sha256.New, s.nameKey[:])
	mac.Write([]byte(digest))
	return hex.EncodeToString(mac.Sum(nil)[:payloadIDSize])
}

// noteMetadata stores the UIDs of listed records, and which of them have payloads.
func (s *Store) noteMetadata(objects []metav1.PartialObjectMetadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range objects {
		s.uids[objects[i].Name] = objects[i].UID
		if id := objects[i].Labels[model.LabelPayload]; id != "" {
			s.split.named[objects[i].Name] = id
		}
	}
}

// splitOf returns the record under a key if its payload was read or written; nil otherwise.
func (s *Store) splitOf(key string) *splitRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.split.byKey[key]
}

// notePointer stores the pointer under a key after a read, a write or a deletion. record is the pointer; nil if there
// is none. before is the pointer that this action replaced or deleted; nil if there was none.
func (s *Store) notePointer(key string, record, before *splitRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before != nil {
		s.split.own[before.ID] = before
	}
	if record != nil {
		s.split.byKey[key], s.split.named[key] = record, record.ID
	} else if delete(s.split.byKey, key); s.split.named[key] != "" {
		s.split.named[key] = ""
	}
}

// keepPayload puts the payload of a record into the store. It does not put a payload again that this action has already
// put.
func (s *Store) keepPayload(rls *release.Release, packed []byte) (*splitRecord, error) {
	digest := digestOf(packed)
	id := s.split.payloadID(digest)
	s.mu.Lock()
	kept := s.split.own[id]
	s.mu.Unlock()
	if kept != nil {
		return kept, nil
	}
	record := &splitRecord{release: rls.Name, content: contentOf(rls), pointer: pointer{
		Version: pointerVersion, ID: id, Revision: rls.Version, Size: len(packed), Digest: digest,
	}}
	if err := s.putPayload(record, packed); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.split.own[id] = record
	return record, nil
}

func (s *Store) putPayload(record *splitRecord, packed []byte) error {
	if !s.storage.Outside {
		record.Chunks = chunkCount(len(packed))
		return s.putChunks(record, packed)
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
		return helmerr.New(helmerr.ErrRecordStorage,
			"nothing was changed, because the record of Helm revision %d cannot be stored: %s",
			record.Revision, err)
	}
	record.Place, record.Key = &place, key
	return nil
}

func (s *Store) payloadName(record *splitRecord) payload.Name {
	return payload.Name{Namespace: s.namespace, Release: record.release, Revision: record.Revision, ID: record.ID}
}

// confirm checks the error of a write of the pointer to a new payload. It returns nil if the pointer is in the cluster:
// the connection may break after a successful write, and the repeated write is rejected. After an unclear error, this
// action does not delete the payload, because the cluster may still carry out the write.
func (s *Store) confirm(key string, record *splitRecord, err error) error {
	if err == nil || record == nil {
		return err
	}
	secret, _, to, readErr := s.readPointer(key)
	if to != nil && to.ID == record.ID {
		s.noteState(key, stateOf(secret, secret.ResourceVersion))
		return nil
	}
	if !isRefusal(err) || readErr != nil && !apierrors.IsNotFound(readErr) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.split.own, record.ID)
	}
	return err
}

// isRefusal reports whether a write was rejected. The cluster will then not carry it out later.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.Is(err, helmerr.ErrStale) ||
		errors.As(err, &status) && status.Status().Code < 500 && !apierrors.IsTimeout(err) &&
			!apierrors.IsTooManyRequests(err)
}

// resolve returns the whole release of a record that was read. It reads the payload if the record is a pointer.
func (s *Store) resolve(secret *corev1.Secret, small *release.Release) (*release.Release, error) {
	to, err := pointerOf(small)
	if err != nil {
		return nil, err
	}
	if to == nil {
		return small, nil
	}
	record := &splitRecord{pointer: *to, release: small.Name}
	content, err := s.content(record)
	if err != nil {
		return nil, err
	}
	whole := to.whole(small, content)
	record.content = contentOf(whole)
	s.notePointer(secret.Name, record, nil)
	return whole, nil
}

// content returns the payload of a record. It caches a few payloads, so that an action reads the payloads of the newest
// and of the deployed record only once.
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
		return nil, helmerr.New(helmerr.ErrRecordDamaged,
			"the stored part of the record of Helm revision %d was changed: restore it from a backup",
			record.Revision)
	}
	content, err = s.codec.Unpack(packed, s.holdText)
	switch {
	case errors.Is(err, recordcodec.ErrUnreadable):
		return nil, helmerr.New(helmerr.ErrRecordDamaged, "the stored part of the record of Helm revision %d cannot be "+
			"decoded",
			record.Revision)
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
		return s.readChunks(record)
	}
	where := fmt.Sprintf("the record of Helm revision %d is stored at %s", record.Revision, record.Place.URL)
	if s.storage.Store == nil {
		return nil, helmerr.New(helmerr.ErrRecordStorage, "%s, but no registry is configured for release records: set "+
			"spec.storage.registry, or the manager's --record-storage-url", where)
	}
	sealed, err := s.storage.Store.Get(s.ctx, *record.Place)
	switch {
	case errors.Is(err, payload.ErrMissing):
		return nil, helmerr.New(helmerr.ErrRecordDamaged, "%s, but it no longer exists there: %s", where, err)
	case err != nil:
		return nil, helmerr.New(helmerr.ErrRecordStorage, "%s and cannot be read now, so the release is not changed: %s",
			where, err)
	}
	packed, err := unseal(sealed, record.Key)
	if err != nil {
		return nil, helmerr.New(helmerr.ErrRecordDamaged, "%s, but %s with the key in the Secret of the record", where, err)
	}
	return packed, nil
}

// deleteUnnamed deletes the payloads of this action that no record names. A failed deletion does not fail the action.
func (s *Store) deleteUnnamed() {
	s.mu.Lock()
	list := unnamed(s.split.own, s.split.named)
	for _, record := range list {
		s.split.own[record.ID] = nil
	}
	s.mu.Unlock()
	for _, record := range list {
		s.deletePayload(record)
	}
}

// unnamed returns the payloads of this action that no record names. named holds the IDs by the keys of the records.
func unnamed(own map[string]*splitRecord, named map[string]string) []*splitRecord {
	ids := idsIn(named)
	var list []*splitRecord
	for id, record := range own {
		if record != nil && !ids[id] {
			list = append(list, record)
		}
	}
	return list
}

// idsIn returns the IDs of the payloads that records name.
func idsIn(named map[string]string) map[string]bool {
	ids := make(map[string]bool, len(named))
	for _, id := range named {
		ids[id] = true
	}
	return ids
}

func (s *Store) deletePayload(record *splitRecord) {
	var err error
	switch {
	case record.Place == nil:
		// Sweep deletes the remaining parts.
		_ = s.deleteChunks(record)
		return
	case s.storage.Store == nil:
		err = errors.New("no registry is configured for release records")
	default:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), cleanupTimeout)
		defer cancel()
		err = s.storage.Store.Delete(ctx, *record.Place, s.payloadName(record))
	}
	if err != nil {
		s.noteLeft(1, fmt.Errorf("%s: %w", record.Place.URL, err))
	}
}

// pointed returns the split record under a key, without its payload. It returns nil if the record is not split or does
// not exist. It also returns nil for a damaged record, so that the record can be deleted.
func (s *Store) pointed(key string) (*splitRecord, error) {
	s.mu.Lock()
	record, isNamed := s.split.byKey[key], s.split.named[key] != ""
	s.mu.Unlock()
	if record != nil || !isNamed {
		return record, nil
	}
	_, small, to, err := s.readPointer(key)
	switch {
	case to != nil:
		return &splitRecord{pointer: *to, release: small.Name}, nil
	case apierrors.IsNotFound(err), errors.Is(err, helmerr.ErrRecordDamaged):
		return nil, nil
	default:
		return nil, err
	}
}

// readPointer returns the Secret under a key, the record in the Secret, and the pointer in the record. The pointer is
// nil if the record is not split.
func (s *Store) readPointer(key string) (secret *corev1.Secret, small *release.Release, to *pointer, err error) {
	if secret, err = s.readSecret(key); err != nil {
		return nil, nil, nil, err
	}
	if small, err = s.codec.Decode(secret.Data[Key], s.holdText); err != nil {
		return nil, nil, nil, errUnread(key, err)
	}
	to, err = pointerOf(small)
	return secret, small, to, err
}

// readSecret reads the current Secret of a record.
func (s *Store) readSecret(key string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := s.client.Get().Namespace(s.namespace).Resource("secrets").Name(key).Do(context.Background()).Into(secret)
	if err != nil {
		return nil, fmt.Errorf("reading the release record %q: %w", key, err)
	}
	return secret, nil
}

// KeepOldRecords defers the deletion of records until this action has written a record. Finish then deletes these
// records. If the action writes no record, they stay.
func (s *Store) KeepOldRecords() { s.split.keepsOld = true }

// Finish ends an action on a release. It deletes the records whose deletion was deferred, payloads of this action that
// no record names, and parts that crashes left behind. The next action repeats failed deletions. LeftBehind returns the
// failed deletions of records. isGone means that the release is uninstalled. Then there is no next action, and
// LeftBehind also returns the parts.
func (s *Store) Finish(name string, now time.Time, isGone bool) {
	s.mu.Lock()
	deferred := s.split.deferred
	if s.split.keepsOld {
		deferred = nil
	}
	s.split.deferred = nil
	s.mu.Unlock()
	for _, key := range deferred {
		// A record of another manager is not left behind: the other action deletes it.
		err := s.remove(key)
		if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) && !errors.Is(err, helmerr.ErrStale) {
			s.noteLeft(1, fmt.Errorf("namespace %q: %w", s.namespace, err))
		}
	}
	s.deleteUnnamed()
	s.mu.Lock()
	// Without a write, the time of the API server is unknown: parts that another manager is writing could look old.
	mayHaveParts := isGone && !s.split.hasNoParts ||
		s.knowsAhead && (len(s.split.named) > 0 || len(s.split.own) > 0)
	s.mu.Unlock()
	if !mayHaveParts {
		return
	}
	if left, err := s.Sweep(name, now); isGone && left > 0 {
		s.noteLeft(left, fmt.Errorf("parts of records with the label %s=%s in the namespace %q: %w",
			LabelChunkOf, name, s.namespace, err))
	}
}

// noteLeft counts old records, payloads, or parts of payloads, that could not be deleted.
func (s *Store) noteLeft(count int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.split.left += count
	s.split.leftErr = err
}

// LeftBehind returns the number of old records and payloads that could not be deleted, and the cause for the last of
// them.
func (s *Store) LeftBehind() (count int, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.split.left == 0 {
		return 0, ""
	}
	return s.split.left, s.split.leftErr.Error()
}

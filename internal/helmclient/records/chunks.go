// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kblabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

const (
	// chunkSecretType is the type of Secrets with a part of a payload. Helm does not read them.
	chunkSecretType = corev1.SecretType(model.LabelPrefix + "release-payload.v1")
	chunkKey        = "payload"
	// chunkSize is the number of bytes in each part but the last. The data of a Secret may have 1 MiB.
	chunkSize = 1000 << 10
	// maxChunkAnswer bounds the cluster's answer with one part, in bytes: in base64, with the metadata of the Secret.
	maxChunkAnswer = 2 << 20
	// chunksAtOnce is the number of parts of a payload that are written, read or deleted at the same time.
	chunksAtOnce = 4
	// ChunkGrace is the age from which on a part that no record names is taken for the remains of a crash. Another action
	// may be about to name a younger part.
	ChunkGrace = 15 * time.Minute

	// LabelChunkOf has the name of the release on each of its parts, labelChunkRevision the revision.
	LabelChunkOf       = model.LabelPrefix + "payload-of"
	labelChunkRevision = model.LabelPrefix + "payload-revision"
)

// chunkKey is the name of the Secret with a part of a payload in the cluster.
func (r *splitRecord) chunkKey(i int) string {
	return fmt.Sprintf("helmop.payload.%s.v%d.%s.%d", r.release, r.Revision, r.ID, i)
}

// chunkCount is the number of parts that a payload of the size takes.
func chunkCount(size int) int { return (size + chunkSize - 1) / chunkSize }

// putChunks writes a payload into Secrets. If that fails, it tries to delete the Secrets that it made.
func (s *Store) putChunks(record *splitRecord, data []byte) error {
	put := func(i int) error { return s.putChunk(record, i, data[i*chunkSize:min((i+1)*chunkSize, len(data))]) }
	// The smallest part goes first: it shows whether the namespace exists.
	err := put(record.Chunks - 1)
	if apierrors.IsNotFound(err) {
		return err
	}
	if err == nil {
		var group errgroup.Group
		group.SetLimit(chunksAtOnce)
		for i := range record.Chunks - 1 {
			group.Go(func() error { return put(i) })
		}
		err = group.Wait()
	}
	if err != nil {
		// Sweep finds the parts that are left.
		_ = s.deleteChunks(record)
	}
	return err
}

func (s *Store) putChunk(record *splitRecord, i int, data []byte) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: record.chunkKey(i), Labels: map[string]string{
			LabelChunkOf: record.release, labelChunkRevision: strconv.Itoa(record.Revision), model.LabelPayload: record.ID,
		}},
		Immutable: new(true),
		Type:      chunkSecretType,
		Data:      map[string][]byte{chunkKey: data},
	}
	err := persist(func() error {
		return s.client.Post().Namespace(s.namespace).Resource("secrets").SetHeader("Accept", AcceptMetadata).Body(secret).
			Do(context.Background()).Error()
	})
	if apierrors.IsAlreadyExists(err) {
		// Only this action knows the name, and gives it to nothing else: an earlier try was done.
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating part %d of %d of the release record: %w", i+1, record.Chunks, err)
	}
	return nil
}

// readChunks reads a payload from Secrets.
func (s *Store) readChunks(record *splitRecord) ([]byte, error) {
	parts := make([][]byte, record.Chunks)
	var group errgroup.Group
	group.SetLimit(chunksAtOnce)
	for i := range parts {
		group.Go(func() (err error) {
			parts[i], err = s.readChunk(record, i)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return bytes.Join(parts, nil), nil
}

func (s *Store) readChunk(record *splitRecord, i int) ([]byte, error) {
	answer, err := s.readAnswer(record.chunkKey(i))
	damaged := func(how string) error {
		return helmerr.New(helmerr.ErrRecordDamaged, "the Secret %q with part %d of %d of the record of revision %d %s: "+
			"restore it from a backup of the cluster", record.chunkKey(i), i+1, record.Chunks, record.Revision, how)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, damaged("does not exist")
	case err != nil:
		return nil, fmt.Errorf("reading part %d of %d of the record of revision %d: %w",
			i+1, record.Chunks, record.Revision, err)
	}
	secret := &corev1.Secret{}
	if len(answer) <= maxChunkAnswer {
		// An answer that cannot be decoded has no part in it.
		_ = runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), answer, secret)
	}
	part := secret.Data[chunkKey]
	if len(part) != min(chunkSize, record.Size-i*chunkSize) {
		return nil, damaged("was changed")
	}
	return part, nil
}

// readAnswer returns the cluster's answer with a Secret, and of an answer that is too long only as much as shows that.
func (s *Store) readAnswer(key string) ([]byte, error) {
	body, err := s.client.Get().Namespace(s.namespace).Resource("secrets").Name(key).Stream(context.Background())
	if err != nil {
		return nil, err
	}
	// The answer was read by then, or reading it failed.
	defer func() { _ = body.Close() }()
	return io.ReadAll(io.LimitReader(body, maxChunkAnswer+1))
}

// deleteChunks deletes the Secrets of a payload. It ignores Secrets that do not exist.
func (s *Store) deleteChunks(record *splitRecord) error {
	var group errgroup.Group
	group.SetLimit(chunksAtOnce)
	for i := range record.Chunks {
		group.Go(func() error { return s.deleteChunk(record.chunkKey(i)) })
	}
	return group.Wait()
}

func (s *Store) deleteChunk(key string) error {
	err := persist(func() error {
		return s.client.Delete().Namespace(s.namespace).Resource("secrets").Name(key).SetHeader("Accept", AcceptMetadata).
			Do(context.Background()).Error()
	})
	if err = helmerr.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("deleting a part of a release record: %w", err)
	}
	return nil
}

// Sweep deletes the parts of a release's payloads that no record names: a process that ended between a payload and its
// pointer left them behind, or one that could not delete them. It lists the metadata of the parts, and that of the
// records if a part is in question. It returns how many unnamed parts are left, at least 1 if that is not known, and
// why.
func (s *Store) Sweep(name string, now time.Time) (left int, err error) {
	parts, err := s.ListMetadata(kblabels.Set{LabelChunkOf: name}.AsSelector().String())
	if err != nil {
		return 1, err
	}
	s.mu.Lock()
	known, own := idsIn(s.split.named), maps.Clone(s.split.own)
	s.mu.Unlock()
	parts = slices.DeleteFunc(parts, func(part metav1.PartialObjectMetadata) bool {
		return known[part.Labels[model.LabelPayload]]
	})
	if len(parts) == 0 {
		return 0, nil
	}
	records, err := s.ListMetadata(Selector(name))
	if err != nil {
		return len(parts), err
	}
	for i := range parts {
		part := &parts[i]
		_, isOwn := own[part.Labels[model.LabelPayload]]
		var kept error
		switch useOf(part, records, isOwn, now) {
		case partNamed:
			continue
		case partYoung:
			kept = fmt.Errorf("parts younger than %s are kept, because another manager may be writing their record", ChunkGrace)
		case partUnused:
			kept = s.deleteChunk(part.Name)
		}
		if kept != nil {
			left++
			err = kept
		}
	}
	return left, err
}

// partUse is whether a part is needed.
type partUse int

const (
	// partNamed is a part of a payload that a record names, or may name.
	partNamed partUse = iota
	// partYoung is a part that no record names, and that an action may be about to name.
	partYoung
	// partUnused is a part that no record names, and that no action is going to name.
	partUnused
)

// useOf returns whether a part is needed. isOwn means that this action put the payload, or replaced or deleted its
// record. A record without the label may name a payload of its own revision: Helm before 3.13 drops the label of a
// record that it writes.
func useOf(
	part *metav1.PartialObjectMetadata, records []metav1.PartialObjectMetadata, isOwn bool, now time.Time,
) partUse {
	id, revision := part.Labels[model.LabelPayload], part.Labels[labelChunkRevision]
	for i := range records {
		labels := records[i].Labels
		named := labels[model.LabelPayload]
		if named == id || named == "" && labels[model.HelmLabelVersion] == revision {
			return partNamed
		}
	}
	if isOwn || now.Sub(part.CreationTimestamp.Time) > ChunkGrace {
		return partUnused
	}
	return partYoung
}

// ListMetadata returns the metadata of the Secrets in the namespace that a label selector matches.
func (s *Store) ListMetadata(selector string) ([]metav1.PartialObjectMetadata, error) {
	list, err := s.Metadata.List(context.Background(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing the release records: %w", err)
	}
	return list.Items, nil
}

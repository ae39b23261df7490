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
	// chunkSecretType is the type of Secrets with a part of a payload. Helm does not read Secrets of this type.
	chunkSecretType = corev1.SecretType(model.LabelPrefix + "release-payload.v1")
	// chunkKey is the key of the part in the data of the Secret.
	chunkKey = "payload"
	// chunkSize is the number of bytes in each part but the last. The data of a Secret may have 1 MiB.
	chunkSize = 1000 << 10
	// maxChunkResponse bounds the response of the cluster with one part, in bytes: base64, with the metadata of the
	// Secret.
	maxChunkResponse = 2 << 20
	// chunksAtOnce is the number of parts of a payload that are written, read or deleted concurrently.
	chunksAtOnce = 4
	// ChunkGrace is the age after which a part that no record names counts as left behind by a crash. For a younger part,
	// another action may be about to create the record.
	ChunkGrace = 15 * time.Minute

	// LabelChunkOf holds the name of the release, on each part of its payloads.
	LabelChunkOf = model.LabelPrefix + "payload-of"
	// labelChunkRevision holds the revision, on each part of its payload.
	labelChunkRevision = model.LabelPrefix + "payload-revision"
)

// chunkKey returns the name of the Secret with a part of a payload.
func (r *splitRecord) chunkKey(i int) string {
	return fmt.Sprintf("helmop.payload.%s.v%d.%s.%d", r.release, r.Revision, r.ID, i)
}

// chunkCount returns the number of parts of a payload of a size, in bytes.
func chunkCount(size int) int { return (size + chunkSize - 1) / chunkSize }

// putChunks writes a payload into Secrets. If it fails, it tries to delete the Secrets that it created.
func (s *Store) putChunks(record *splitRecord, data []byte) error {
	put := func(i int) error { return s.putChunk(record, i, data[i*chunkSize:min((i+1)*chunkSize, len(data))]) }
	// The smallest part is written first, because this write shows whether the namespace exists.
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
		// Sweep deletes the remaining parts.
		_ = s.deleteChunks(record)
	}
	return err
}

func (s *Store) putChunk(record *splitRecord, i int, data []byte) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: record.chunkKey(i), Labels: map[string]string{
			LabelChunkOf: record.release, labelChunkRevision: strconv.Itoa(record.Revision), model.LabelPayload: record.ID,
			// With this label, one list returns the records and the parts of a release.
			model.HelmLabelName: record.release,
		}},
		Immutable: new(true),
		Type:      chunkSecretType,
		Data:      map[string][]byte{chunkKey: data},
	}
	err := persist(func() error {
		return s.client.Post().Namespace(s.namespace).Resource("secrets").SetHeader("Accept", model.AcceptMetadata).
			Body(secret).Do(context.Background()).Error()
	})
	if apierrors.IsAlreadyExists(err) {
		// No other action uses this name, so an earlier attempt of this action created the Secret.
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
	response, err := s.readResponse(record.chunkKey(i))
	damaged := func(how string) error {
		return helmerr.New(helmerr.ErrRecordDamaged, "the Secret %q with part %d of %d of the record of Helm revision %d "+
			"%s: "+
			"restore it from a backup of the cluster", record.chunkKey(i), i+1, record.Chunks, record.Revision, how)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, damaged("does not exist")
	case err != nil:
		return nil, fmt.Errorf("reading part %d of %d of the record of Helm revision %d: %w",
			i+1, record.Chunks, record.Revision, err)
	}
	secret := &corev1.Secret{}
	if len(response) <= maxChunkResponse {
		// If the response cannot be decoded, the Secret has no part, and this is an error below.
		_ = runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), response, secret)
	}
	part := secret.Data[chunkKey]
	if len(part) != min(chunkSize, record.Size-i*chunkSize) {
		return nil, damaged("was changed")
	}
	return part, nil
}

// readResponse returns the response of the cluster with a Secret. It reads at most maxChunkResponse+1 bytes.
func (s *Store) readResponse(key string) ([]byte, error) {
	body, err := s.client.Get().Namespace(s.namespace).Resource("secrets").Name(key).Stream(context.Background())
	if err != nil {
		return nil, err
	}
	// An error of Close does not matter after the response was read or could not be read.
	defer func() { _ = body.Close() }()
	return io.ReadAll(io.LimitReader(body, maxChunkResponse+1))
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
		return s.client.Delete().Namespace(s.namespace).Resource("secrets").Name(key).
			SetHeader("Accept", model.AcceptMetadata).Do(context.Background()).Error()
	})
	if err = helmerr.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("deleting a part of a release record: %w", err)
	}
	return nil
}

// Sweep deletes the parts of a release's payloads that no record names. A process leaves such parts if it ends before
// it writes the pointer, or if it cannot delete the parts. Sweep lists the metadata of the parts, and the metadata of
// the records if this action has read no record of a part. now is the time of this manager; the age of a part counts by
// the clock of the API server, which set the time of its creation. Sweep returns the number of unnamed parts that
// remain, and the cause. The number is 1 if it is not known.
func (s *Store) Sweep(name string, now time.Time) (left int, err error) {
	parts, err := s.ListMetadata(kblabels.Set{LabelChunkOf: name}.AsSelector().String())
	if err != nil {
		return 1, err
	}
	s.mu.Lock()
	known, own := idsIn(s.split.named), maps.Clone(s.split.own)
	now = now.Add(-s.ahead)
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

// partUse defines whether a part is needed.
type partUse int

const (
	// partNamed is a part of a payload that a record names, or may name.
	partNamed partUse = iota
	// partYoung is a part that no record names yet. An action may be about to create its record.
	partYoung
	// partUnused is a part that no record names and that no action needs.
	partUnused
)

// useOf returns whether a part is needed. isOwn means that this action put the payload, or replaced or deleted the
// record of the payload. A record without the label may name a payload of its own revision, because Helm before 3.13
// drops the label when it writes a record.
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

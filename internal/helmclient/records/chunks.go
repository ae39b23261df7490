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
	// chunkSecretType is that of Secrets with a part of a payload. Helm does not look at them.
	chunkSecretType = corev1.SecretType(model.LabelPrefix + "release-payload.v1")
	chunkKey        = "payload"
	// chunkSize is the number of bytes in each but the last. The data of a Secret may have 1 MiB.
	chunkSize = 1000 << 10
	// maxChunkAnswer bounds the cluster's answer with one, in bytes: in base64, with its metadata.
	maxChunkAnswer = 2 << 20
	// chunksAtOnce is how many are written, or read, at the same time.
	chunksAtOnce = 4
	// ChunkGrace is how old a part that no record points to must be to be taken for what a crash left behind, and not for what
	// somebody else is about to point to.
	ChunkGrace = 15 * time.Minute

	// LabelChunkOf has the name of the release on each of its parts, labelChunkRevision the revision.
	LabelChunkOf       = model.LabelPrefix + "payload-of"
	labelChunkRevision = model.LabelPrefix + "payload-revision"
)

// chunks are Secrets with the parts of a payload.
type chunks struct {
	name     string
	revision int
	id       string
	count    int
}

func (c chunks) key(i int) string {
	return fmt.Sprintf("helmop.payload.%s.v%d.%s.%d", c.name, c.revision, c.id, i)
}

// chunkCount is the number of parts that a payload of the size takes.
func chunkCount(size int) int { return (size + chunkSize - 1) / chunkSize }

// chunksOf returns the Secrets of a payload that is in the cluster.
func chunksOf(name string, to *pointer) chunks {
	return chunks{name: name, revision: to.Revision, id: to.ID, count: to.Chunks}
}

// putChunks writes a payload into Secrets. Where that fails, those that were made are deleted, as far as that succeeds.
func (s *Store) putChunks(c chunks, data []byte) error {
	put := func(i int) error { return s.putChunk(c, i, data[i*chunkSize:min((i+1)*chunkSize, len(data))]) }
	// The smallest goes first: it is from it that is learned whether there is a namespace.
	err := put(c.count - 1)
	if apierrors.IsNotFound(err) {
		return err
	}
	if err == nil {
		var group errgroup.Group
		group.SetLimit(chunksAtOnce)
		for i := range c.count - 1 {
			group.Go(func() error { return put(i) })
		}
		err = group.Wait()
	}
	if err != nil {
		// What is left is found by sweep.
		_ = s.deleteChunks(c)
	}
	return err
}

func (s *Store) putChunk(c chunks, i int, data []byte) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: c.key(i), Labels: map[string]string{
			LabelChunkOf: c.name, labelChunkRevision: strconv.Itoa(c.revision), model.LabelPayload: c.id,
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
		// Nobody else knows the name: the answer of the try before was lost.
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating part %d of %d of the release record: %w", i+1, c.count, err)
	}
	return nil
}

// readChunks reads a payload of the size, which their number is for, from Secrets.
func (s *Store) readChunks(c chunks, size int) ([]byte, error) {
	parts := make([][]byte, c.count)
	var group errgroup.Group
	group.SetLimit(chunksAtOnce)
	for i := range c.count {
		group.Go(func() (err error) {
			parts[i], err = s.readChunk(c, i, min(chunkSize, size-i*chunkSize))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return bytes.Join(parts, nil), nil
}

// readChunk reads a part of the length.
func (s *Store) readChunk(c chunks, i, length int) ([]byte, error) {
	answer, err := s.readAnswer(c.key(i))
	switch {
	case apierrors.IsNotFound(err):
		return nil, helmerr.New(helmerr.ErrRecordDamaged, "the Secret %q with part %d of %d of the record of revision %d is gone: take it from a "+
			"backup of the cluster", c.key(i), i+1, c.count, c.revision)
	case err != nil:
		return nil, fmt.Errorf("reading part %d of %d of the record of revision %d: %w", i+1, c.count, c.revision, err)
	}
	secret := &corev1.Secret{}
	if len(answer) <= maxChunkAnswer {
		// What cannot be decoded has no part in it.
		_ = runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), answer, secret)
	}
	if part := secret.Data[chunkKey]; len(part) == length {
		return part, nil
	}
	return nil, helmerr.New(helmerr.ErrRecordDamaged, "the Secret %q with part %d of %d of the record of revision %d is not what was written: take it "+
		"from a backup of the cluster", c.key(i), i+1, c.count, c.revision)
}

// readAnswer returns what the cluster answers when it is asked for a Secret, and no more of it than tells that it is too long.
func (s *Store) readAnswer(key string) ([]byte, error) {
	body, err := s.client.Get().Namespace(s.namespace).Resource("secrets").Name(key).Stream(context.Background())
	if err != nil {
		return nil, err
	}
	// All that is needed is read, or it is an error.
	defer func() { _ = body.Close() }()
	return io.ReadAll(io.LimitReader(body, maxChunkAnswer+1))
}

// deleteChunks deletes the Secrets of a payload. Those that are gone are no error.
func (s *Store) deleteChunks(c chunks) error {
	var group errgroup.Group
	group.SetLimit(chunksAtOnce)
	for i := range c.count {
		group.Go(func() error { return s.deleteChunk(c.key(i)) })
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

// Sweep deletes parts that no record points to: a process that ended between a payload and its pointer left them behind, or one that could
// not delete them. It takes a list of the parts' metadata and, where one is in question, a list of the records'. It returns how many parts
// that no record points to are left, at least 1 if that is not known, and why.
func (s *Store) Sweep(name string, now time.Time) (left int, err error) {
	parts, err := s.ListMetadata(kblabels.Set{LabelChunkOf: name}.AsSelector().String())
	if err != nil {
		return 1, err
	}
	known := s.payloadIDs()
	parts = slices.DeleteFunc(parts, func(part metav1.PartialObjectMetadata) bool { return known[part.Labels[model.LabelPayload]] })
	if len(parts) == 0 {
		return 0, nil
	}
	records, err := s.ListMetadata(Selector(name))
	if err != nil {
		return len(parts), err
	}
	s.mu.Lock()
	deleted := maps.Clone(s.split.deleted)
	s.mu.Unlock()
	for i := range parts {
		part := &parts[i]
		var kept error
		switch fateOf(part, records, deleted[part.Labels[model.LabelPayload]], now) {
		case partNamed:
			continue
		case partYoung:
			kept = fmt.Errorf("somebody may be about to need those which are younger than %s", ChunkGrace)
		case partLeftover:
			kept = s.deleteChunk(part.Name)
		}
		if kept != nil {
			left++
			err = kept
		}
	}
	return left, err
}

// partFate is what is to become of a part.
type partFate int

const (
	// partNamed is one that a record points to, or may.
	partNamed partFate = iota
	// partYoung is one that no record points to, and that somebody may be about to point to.
	partYoung
	// partLeftover is one that nobody needs.
	partLeftover
)

// fateOf tells what is to become of a part; deleted says that it was to be deleted with its record. Helm before 3.13 drops the label of a
// record that it writes.
func fateOf(part *metav1.PartialObjectMetadata, records []metav1.PartialObjectMetadata, deleted bool, now time.Time) partFate {
	for i := range records {
		labels := records[i].Labels
		id := labels[model.LabelPayload]
		if id == part.Labels[model.LabelPayload] || id == "" && labels[model.HelmLabelVersion] == part.Labels[labelChunkRevision] {
			return partNamed
		}
	}
	if deleted || now.Sub(part.CreationTimestamp.Time) > ChunkGrace {
		return partLeftover
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

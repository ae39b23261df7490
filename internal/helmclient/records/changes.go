// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// changes are the changes that an action made to records.
type changes struct {
	// records has the written records as the last write left them, and nil for each deleted record.
	records map[types.UID]*model.Record
	// unclear is true after a request whose changes are not known, for example because its response was lost.
	unclear bool
}

// Changes returns the changes of this action to the records of its release. It returns nil if they are not known, or if
// another writer has changed a record. Then only a read shows the records.
func (s *Store) Changes() *model.RecordChanges {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes.unclear || s.overtaken != nil {
		return nil
	}
	made := &model.RecordChanges{}
	for id, record := range s.changes.records {
		if record == nil {
			made.Deleted = append(made.Deleted, id)
		} else {
			made.Written = append(made.Written, *record)
		}
	}
	return made
}

// noteChange stores the change of a record by a request; record is nil for a deletion. isClear is false if the result
// of the request is not known.
func (s *Store) noteChange(id types.UID, record *model.Record, isClear bool) {
	if id == "" || !isClear {
		s.noteUnclear()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes.records[id] = record
}

// noteUnclear stores that this action sent a request whose changes of records are not known.
func (s *Store) noteUnclear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes.unclear = true
}

// writeRecord sends a request that writes the Secret of a record, and returns the new metadata of the Secret. Each
// error counts as unclear: the API server may have carried out the request.
func (s *Store) writeRecord(request *rest.Request) (metav1.PartialObjectMetadata, error) {
	written, err := write(request)
	record, ok := FromMetadata(&written.ObjectMeta)
	s.noteChange(written.UID, &record, err == nil && ok)
	return written, err
}

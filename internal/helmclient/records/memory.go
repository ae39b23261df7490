// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/recordcodec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

const (
	// payloadCopies is the approximate number of copies of a payload in memory while an action reads or writes it:
	// packed, unpacked and encrypted, of the old and the new record.
	payloadCopies = 6
	// keptShare is the part of these copies that an action keeps until its end: the unpacked records.
	keptShare = 3
	// textCopies is the number of copies of a release as JSON, without the files of its chart, while an action packs it.
	textCopies = 3
	// readCopies is the number of copies of a release's text in memory after an action has read it.
	readCopies = 3
	// chartCopies is the number of copies of a chart's files in memory while they are packed: as JSON, and packed.
	chartCopies = 3
	// smallPayload is the size, in bytes, up to which payloads are not counted.
	smallPayload = 256 << 10
)

// Hold reserves memory for a payload of a size, in bytes. The errors are those of package actionmemory.
func (s *Store) Hold(size int) error {
	if size <= smallPayload {
		return nil
	}
	weight := int64(size) * payloadCopies
	s.mu.Lock()
	s.largest = max(s.largest, weight)
	s.mu.Unlock()
	return s.Memory.Records(weight)
}

// rest gives memory back that the action does not need until it reads or writes the next payload. Helm keeps the old
// and the new record until the action ends.
func (s *Store) rest() {
	s.mu.Lock()
	kept := s.largest / keptShare
	s.mu.Unlock()
	s.Memory.RestRecords(kept)
}

// holdText reserves memory for the text of a record that is read. size is the size of the text in bytes.
func (s *Store) holdText(size int) error { return s.Hold(size * readCopies / payloadCopies) }

// Pack reserves memory to pack a release, and packs it.
func (s *Store) Pack(rls *release.Release) ([]byte, error) {
	var piece *recordcodec.Piece
	ofPiece := 0
	if rls.Chart != nil {
		var err error
		if piece, err = s.Piece(rls.Chart); err != nil {
			return nil, err
		}
		ofPiece = len(piece.Packed)
	}
	return s.codec.Pack(piece, rls, func(text int) error {
		return s.Hold(ofPiece + text*textCopies/payloadCopies)
	})
}

// Piece returns the packed files of a chart. If they are not packed yet, it first reserves memory.
func (s *Store) Piece(chrt *chart.Chart) (*recordcodec.Piece, error) {
	return s.codec.Piece(chrt, func() error { return s.Hold(ChartBytes(chrt) * chartCopies / payloadCopies) })
}

// checkAliases returns an error if the manifest or a hook of a record must not be parsed, or takes too much memory with
// expanded YAML aliases. Anybody who can write Secrets in a cluster can write such a record.
func (s *Store) checkAliases(rls *release.Release) error {
	texts := []string{rls.Manifest}
	for _, hook := range rls.Hooks {
		if hook != nil {
			texts = append(texts, hook.Manifest)
		}
	}
	for _, text := range texts {
		if data := []byte(text); yamlweight.Refusal(data) == nil && !yamlweight.HasAliases(data) {
			continue
		}
		_, err := s.Memory.Weigh(text)
		switch {
		case errors.Is(err, helmerr.ErrBusy), errors.Is(err, helmerr.ErrTooLarge):
			return err
		case err != nil:
			// The error of the parser is dropped because it may quote values.
			return fmt.Errorf("its manifest or a hook is not valid YAML, or too large: %w", recordcodec.ErrUnreadable)
		}
	}
	return nil
}

// ChartBytes returns the size in bytes of the chart files that Helm stores. Helm does not store the files of
// dependencies.
func ChartBytes(chrt *chart.Chart) int {
	total := len(chrt.Schema)
	for _, files := range [][]*chart.File{chrt.Templates, chrt.Files} {
		for _, file := range files {
			if file != nil {
				total += len(file.Data)
			}
		}
	}
	return total
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/jsonvalues"
)

const (
	// maxRecordBytes bounds the unpacked size of a record. A regular record in a Secret has at most some tens of
	// megabytes; a malicious one could fill the memory.
	maxRecordBytes = 64 << 20
	// MaxValues bounds the JSON values in a record. Each may take hundreds of bytes, so 64 MiB of "{}," would take
	// gigabytes. Manifests, templates and files are one value each. The rest are the values of chart and release: the
	// largest charts have some thousands, and a whole MiB of short values has fewer than this.
	MaxValues = 250_000
	// freeText is the unpacked size up to which no memory is reserved. Nearly all records are smaller.
	freeText = 1 << 20
	// maxPieceBytes bounds the memory for packed charts, their unpacked files included.
	maxPieceBytes = 64 << 20
)

// errUnreadableRecord means that a record exists but cannot be decoded, so its objects are unknown.
var errUnreadableRecord = helmerr.New(helmerr.ErrRecordDamaged,
	"it cannot be decoded: restore its Secret from a backup of the cluster, or see "+
		"docs/storage.md for other remedies")

// Codec encodes and decodes Helm's records: base64 of gzip of JSON. The files of the chart are most of a record and are
// the same in each record of that chart, in every cluster. The codec therefore packs them once, as a gzip member at the
// beginning, and the rest as a second member. All readers of gzip read members as one stream, and JSON objects have no
// order. Files are equal if the digest of all of them is. If a record begins with a known member, only the rest is
// unpacked. It is safe for concurrent use.
type Codec struct {
	// limit is maxRecordBytes, or less in tests.
	limit   int
	packing singleflight.Group
	pieces  *bytelru.Cache[chartKey, *chartPiece]
}

// chartKey is the digest of a chart's files.
type chartKey [sha256.Size]byte

// chartPiece is the packed beginning of all records of a chart. It is read only.
type chartPiece struct {
	Packed []byte
	// chart holds what is packed: templates, files and schema. They are shared with the caller.
	chart chart.Chart
	// size is the size in memory, unpacked the length of the JSON, values the number of JSON values.
	size, unpacked, values int
}

// chartRest are the fields of a chart that are not in its piece, because Helm changes them while it works.
type chartRest struct {
	Metadata *chart.Metadata `json:"metadata"`
	Lock     *chart.Lock     `json:"lock"`
	Values   map[string]any  `json:"values"`
}

// NewCodec returns a Codec with no packed chart.
func NewCodec() *Codec {
	return &Codec{limit: maxRecordBytes, pieces: bytelru.New[chartKey, *chartPiece](maxPieceBytes)}
}

// Encode returns a record as Helm's Secrets hold it.
func (c *Codec) Encode(rls *release.Release) ([]byte, error) {
	packed, err := c.pack(rls)
	if err != nil {
		return nil, err
	}
	return encodeBase64(packed), nil
}

// pack returns a record before base64. The error is ErrTooLarge if the record could not be unpacked again.
func (c *Codec) pack(rls *release.Release) ([]byte, error) {
	if rls.Chart == nil {
		text, err := json.Marshal(rls)
		if err != nil {
			return nil, err
		}
		return packText(nil, text)
	}
	piece, err := c.Piece(rls.Chart)
	if err != nil {
		return nil, err
	}
	ofChart, err := json.Marshal(chartRest{Metadata: rls.Chart.Metadata, Lock: rls.Chart.Lock, Values: rls.Chart.Values})
	if err != nil {
		return nil, err
	}
	without := *rls
	without.Chart = nil
	ofRelease, err := json.Marshal(&without)
	if err != nil {
		return nil, err
	}
	// The piece ends within the object "chart": its other fields, its end, and the release's other fields follow.
	rest := append(ofChart[1:len(ofChart):len(ofChart)], ',')
	if len(ofRelease) > len("{}") {
		rest = append(rest, ofRelease[1:]...)
	} else {
		rest[len(rest)-1] = '}'
	}
	if piece.unpacked+len(rest) > c.limit {
		return nil, helmerr.New(helmerr.ErrTooLarge,
			"chart, values and manifest are %d MiB as JSON, and the limit is %d MiB: "+
				"remove files from the chart that no template reads (tests, icons, documentation), or split the chart",
			(piece.unpacked+len(rest))>>20, c.limit>>20)
	}
	if piece.values+jsonvalues.Count(rest) > MaxValues {
		return nil, helmerr.New(helmerr.ErrTooLarge,
			"values and metadata of chart and release have more than %d JSON values, which is the limit: "+
				"move long lists to a file of the chart, or split the chart", MaxValues)
	}
	return packText(piece.Packed, rest)
}

// packers are gzip writers for reuse: each takes most of a megabyte.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// encodeBase64 returns the content of Helm's Secrets for a packed record.
func encodeBase64(packed []byte) []byte {
	return base64.StdEncoding.AppendEncode(nil, packed)
}

// packText appends text, packed, to packed.
func packText(packed, text []byte) ([]byte, error) {
	buffer := bytes.NewBuffer(slices.Grow(slices.Clone(packed), len(text)/2))
	packer := packers.Get().(*gzip.Writer)
	defer packers.Put(packer)
	packer.Reset(buffer)
	if _, err := packer.Write(text); err != nil {
		return nil, err
	}
	if err := packer.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// Piece returns the packed files of a chart.
func (c *Codec) Piece(chrt *chart.Chart) (*chartPiece, error) {
	key := keyOf(chrt)
	if piece, ok := c.pieces.Get(key); ok {
		return piece, nil
	}
	packed, err, _ := c.packing.Do(string(key[:]), func() (any, error) {
		piece, err := packChart(key, chrt)
		// One that leaves no room for others is not kept.
		if err == nil && piece.size <= maxPieceBytes*3/4 {
			c.pieces.Put(key, piece, int64(piece.size))
		}
		return piece, err
	})
	if err != nil {
		return nil, err
	}
	return packed.(*chartPiece), nil
}

func keyOf(chrt *chart.Chart) chartKey {
	digest := sha256.New()
	for _, files := range [][]*chart.File{chrt.Templates, chrt.Files} {
		if files == nil {
			writeLength(digest, -2)
			continue
		}
		writeLength(digest, len(files))
		for _, file := range files {
			// A missing file is not an empty one.
			if file == nil {
				writeLength(digest, -1)
				continue
			}
			WriteBytes(digest, []byte(file.Name))
			WriteBytes(digest, file.Data)
		}
	}
	WriteBytes(digest, chrt.Schema)
	return chartKey(digest.Sum(nil))
}

// WriteBytes distinguishes empty from missing bytes, which differ in JSON.
func WriteBytes(digest hash.Hash, data []byte) {
	if data == nil {
		writeLength(digest, -2)
		return
	}
	writeLength(digest, len(data))
	digest.Write(data)
}

func writeLength(digest hash.Hash, n int) {
	digest.Write(binary.LittleEndian.AppendUint64(nil, uint64(int64(n)))) //nolint:gosec // It is only to be distinct.
}

// packChart packs the files of a chart as the beginning of a record.
func packChart(key chartKey, chrt *chart.Chart) (*chartPiece, error) {
	templates, err := json.Marshal(chrt.Templates)
	if err != nil {
		return nil, err
	}
	files, err := json.Marshal(chrt.Files)
	if err != nil {
		return nil, err
	}
	schema, err := json.Marshal(chrt.Schema)
	if err != nil {
		return nil, err
	}
	var buffer bytes.Buffer
	packer, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	packer.Extra = append([]byte{extraID[0], extraID[1], sha256.Size, 0}, key[:]...)
	for _, part := range [][]byte{
		[]byte(`{"chart":{"templates":`), templates, []byte(`,"files":`), files, []byte(`,"schema":`), schema, []byte(`,`),
	} {
		if _, err := packer.Write(part); err != nil {
			return nil, err
		}
	}
	if err := packer.Close(); err != nil {
		return nil, err
	}
	unpacked := len(templates) + len(files) + len(schema)
	return &chartPiece{
		Packed: buffer.Bytes(),
		chart:  chart.Chart{Templates: chrt.Templates, Files: chrt.Files, Schema: chrt.Schema},
		size:   buffer.Len() + unpacked, unpacked: unpacked, values: jsonvalues.Count(templates) + jsonvalues.Count(files),
	}, nil
}

// extraID marks the field of gzip's header that holds the key of a piece.
const extraID = "ho"

// pieceKey returns the key that a gzip header names.
func pieceKey(header gzip.Header) (key chartKey, ok bool) {
	if len(header.Extra) != 4+sha256.Size || !strings.HasPrefix(string(header.Extra), extraID) {
		return chartKey{}, false
	}
	return chartKey(header.Extra[4:]), true
}

// holdText waits until there is memory for a text of a size, in bytes. Nil is for those who need not wait.
type holdText func(size int) error

// errNoRoom wraps the error of a holdText.
type errNoRoom struct{ error }

// decode decodes the content of Helm's Secrets, whatever wrote it.
func (c *Codec) decode(data []byte, hold holdText) (*release.Release, error) {
	packed, err := base64.StdEncoding.AppendDecode(nil, data)
	if err != nil {
		return nil, errUnreadableRecord
	}
	return c.unpackRecord(packed, hold)
}

// unpackRecord reads what pack returned.
func (c *Codec) unpackRecord(packed []byte, hold holdText) (*release.Release, error) {
	rls := &release.Release{}
	piece, text, err := c.unpack(packed, hold)
	if noRoom := (errNoRoom{}); errors.As(err, &noRoom) {
		return nil, noRoom.error
	}
	if err == nil && jsonvalues.Count(text) > MaxValues {
		return nil, fmt.Errorf("it has more than %d JSON values: %w", MaxValues, errUnreadableRecord)
	}
	// The error of the decoder may quote values.
	if err != nil || json.Unmarshal(text, rls) != nil || rls.Info == nil {
		return nil, errUnreadableRecord
	}
	if piece != nil && rls.Chart != nil {
		rls.Chart.Templates, rls.Chart.Files = slices.Clone(piece.chart.Templates), slices.Clone(piece.chart.Files)
		rls.Chart.Schema = piece.chart.Schema
	}
	return rls, nil
}

// unpack returns the JSON of a record, and the known chart piece that the JSON omits.
func (c *Codec) unpack(packed []byte, hold holdText) (*chartPiece, []byte, error) {
	if !bytes.HasPrefix(packed, []byte{0x1f, 0x8b, 0x08}) {
		// Helm 2 did not pack.
		return nil, packed, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, nil, err
	}
	key, ok := pieceKey(reader.Header)
	if piece, known := c.pieces.Get(key); ok && known && bytes.HasPrefix(packed, piece.Packed) {
		if err := reader.Reset(bytes.NewReader(packed[len(piece.Packed):])); err != nil {
			return nil, nil, err
		}
		text, err := readLimited(reader, c.limit, []byte(`{"chart":{`), hold)
		return piece, text, err
	}
	text, err := readLimited(reader, c.limit, nil, hold)
	return nil, text, err
}

// readLimited reads up to a limit, in bytes, and appends to begin. The packed size does not predict the unpacked size,
// so memory is reserved while reading.
func readLimited(reader io.Reader, limit int, begin []byte, hold holdText) ([]byte, error) {
	buffer := bytes.NewBuffer(begin)
	for read, step := 0, freeText; ; step = read {
		step = min(step, limit+1-read)
		n, err := buffer.ReadFrom(io.LimitReader(reader, int64(step)))
		read += int(n)
		switch {
		case err != nil:
			return nil, err
		case read > limit:
			return nil, fmt.Errorf("it is larger than %d MiB when unpacked", limit>>20)
		case int(n) < step:
			return buffer.Bytes(), nil
		case hold == nil:
			continue
		}
		if err := hold(2 * read); err != nil {
			return nil, errNoRoom{err}
		}
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordcodec

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
	"reflect"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/jsonvalues"
)

const (
	// maxRecordBytes bounds the unpacked size of a record. A regular record in a Secret has at most some tens of
	// megabytes; a malicious one could fill the memory.
	maxRecordBytes = 64 << 20
	// freeText is the unpacked size, in bytes, up to which no memory is reserved. Nearly all records are smaller.
	freeText = 1 << 20
	// firstText is the memory, in bytes, that is allocated for the beginning of an unpacked record.
	firstText = 16 << 10
	// MaxPieceBytes is the default bound of the memory for packed charts, including their unpacked files.
	MaxPieceBytes = 64 << 20
)

// ErrUnreadable means that a record exists but cannot be decoded, so its objects are unknown.
var ErrUnreadable = helmerr.New(helmerr.ErrRecordDamaged,
	"it cannot be decoded: restore its Secret from a backup of the cluster, or see "+
		"docs/storage.md for other remedies")

// Codec encodes and decodes Helm's records: base64 of gzip of JSON. It is safe for concurrent use.
//
// The files of the chart are most of a record. They are the same in each record of the chart, in every cluster. The
// codec therefore packs them once, as a gzip member at the beginning, and the rest as a second member. All readers of
// gzip read members as one stream, and the order of fields in JSON objects does not matter. Files count as equal if
// their common digest is equal. If a record begins with a known member, the codec unpacks only the rest.
type Codec struct {
	// limit is maxRecordBytes, or less in tests.
	limit   int
	packing singleflight.Group
	pieces  *bytelru.Cache[chartKey, *Piece]
	// largest is the size, in bytes, of the largest piece that is cached. A larger one would leave no room for others.
	largest int
}

// chartKey is the digest of a chart's files.
type chartKey [sha256.Size]byte

// Piece is the packed beginning of all records of a chart. It is read only.
type Piece struct {
	// Packed is the beginning, before base64.
	Packed []byte
	// chart holds the packed fields: templates, files and schema. The fields share their memory with the chart of the
	// caller.
	chart chart.Chart
	// size is the size in memory, and unpacked the length of the JSON, in bytes. values is the number of JSON values.
	size, unpacked, values int
}

// chartRest has the fields of a chart that are not in its piece, because Helm changes them.
type chartRest struct {
	Metadata *chart.Metadata `json:"metadata"`
	Lock     *chart.Lock     `json:"lock"`
	Values   map[string]any  `json:"values"`
}

// New returns a Codec without packed charts.
func New() *Codec { return NewBounded(MaxPieceBytes) }

// NewBounded returns a Codec that keeps packed charts of at most a size in bytes.
func NewBounded(size int64) *Codec {
	return &Codec{limit: maxRecordBytes, pieces: bytelru.New[chartKey, *Piece](size), largest: int(size / 4 * 3)}
}

// Pack returns a record before base64. piece has the packed files of its chart; nil if the record has no chart. Pack
// calls hold with the size of the rest as JSON before it encodes the rest. The error is ErrTooLarge if the record
// exceeds the limits for unpacking.
func (c *Codec) Pack(piece *Piece, rls *release.Release, hold HoldText) ([]byte, error) {
	if piece == nil {
		piece = &Piece{}
	}
	without := *rls
	without.Chart = nil
	rest := chartRest{}
	if rls.Chart != nil {
		rest = chartRest{Metadata: rls.Chart.Metadata, Lock: rls.Chart.Lock, Values: rls.Chart.Values}
	}
	size := jsonSize(reflect.ValueOf(&rest)) + jsonSize(reflect.ValueOf(&without))
	// Anybody who can write Secrets in a cluster can write a record whose text is six times as large as JSON.
	if err := c.checkUnpacked(piece.unpacked + size); err != nil {
		return nil, err
	}
	if err := hold.reserve(size); err != nil {
		return nil, err
	}
	ofRelease, err := json.Marshal(&without)
	if err != nil {
		return nil, err
	}
	if rls.Chart == nil {
		return packText(nil, ofRelease)
	}
	ofChart, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	// The piece ends within the object "chart". So the record continues with the other fields of the chart, the end of
	// the object, and the other fields of the release.
	texts := [][]byte{ofChart[1:], ofRelease[1:]}
	if len(ofRelease) > len("{}") {
		texts = [][]byte{ofChart[1:], []byte(","), ofRelease[1:]}
	}
	unpacked := piece.unpacked
	values := jsonvalues.Counter{Count: piece.values}
	for _, text := range texts {
		unpacked += len(text)
		values.Add(text)
	}
	if err := c.checkUnpacked(unpacked); err != nil {
		return nil, err
	}
	if values.Count > rendering.MaxRecordValues {
		return nil, helmerr.New(helmerr.ErrTooLarge,
			"values and metadata of chart and release have more than %d JSON values, which is the limit: "+
				"move long lists to a file of the chart, or split the chart", rendering.MaxRecordValues)
	}
	return packText(piece.Packed, texts...)
}

// checkUnpacked returns ErrTooLarge if a record of a size as JSON, in bytes, cannot be unpacked.
func (c *Codec) checkUnpacked(size int) error {
	if size <= c.limit {
		return nil
	}
	return helmerr.New(helmerr.ErrTooLarge,
		"chart, values and manifest are %d MiB as JSON, and the limit is %d MiB: "+
			"remove files from the chart that no template reads (tests, icons, documentation), or split the chart",
		size>>20, c.limit>>20)
}

// packers holds gzip writers for reuse, because each takes most of a megabyte.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// EncodeBase64 returns a packed record in the format of Helm's Secrets.
func EncodeBase64(packed []byte) []byte {
	return base64.StdEncoding.AppendEncode(nil, packed)
}

// EncodeSmall returns a small record in the format of Helm's Secrets. It does not keep the files of the chart.
func EncodeSmall(rls *release.Release) ([]byte, error) {
	text, err := json.Marshal(rls)
	if err != nil {
		return nil, err
	}
	packed, err := packText(nil, text)
	if err != nil {
		return nil, err
	}
	return EncodeBase64(packed), nil
}

// packText packs the texts as one text and appends it to packed.
func packText(packed []byte, texts ...[]byte) ([]byte, error) {
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	buffer := bytes.NewBuffer(slices.Grow(slices.Clone(packed), size/2))
	packer := packers.Get().(*gzip.Writer)
	defer packers.Put(packer)
	packer.Reset(buffer)
	for _, text := range texts {
		if _, err := packer.Write(text); err != nil {
			return nil, err
		}
	}
	if err := packer.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// Piece returns the packed files of a chart. It calls hold before it packs them.
func (c *Codec) Piece(chrt *chart.Chart, hold func() error) (*Piece, error) {
	key := keyOf(chrt)
	if piece, ok := c.pieces.Get(key); ok {
		return piece, nil
	}
	if err := hold(); err != nil {
		return nil, err
	}
	packed, err, _ := c.packing.Do(string(key[:]), func() (any, error) {
		piece, err := packChart(key, chrt)
		if err == nil && piece.size <= c.largest {
			c.pieces.Put(key, piece, int64(piece.size))
		}
		return piece, err
	})
	if err != nil {
		return nil, err
	}
	return packed.(*Piece), nil
}

// keyOf returns the digest of a chart's files.
func keyOf(chrt *chart.Chart) chartKey {
	digest := sha256.New()
	for _, files := range [][]*chart.File{chrt.Templates, chrt.Files} {
		if files == nil {
			writeLength(digest, -2)
			continue
		}
		writeLength(digest, len(files))
		for _, file := range files {
			// The digest distinguishes a missing file from an empty file.
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

// WriteBytes writes data and its length to a digest. It distinguishes empty from missing data, because they differ in
// JSON.
func WriteBytes(digest hash.Hash, data []byte) {
	if data == nil {
		writeLength(digest, -2)
		return
	}
	writeLength(digest, len(data))
	digest.Write(data)
}

func writeLength(digest hash.Hash, n int) {
	//nolint:gosec // The value only needs to be distinct.
	digest.Write(binary.LittleEndian.AppendUint64(nil, uint64(int64(n))))
}

// packChart packs the files of a chart as the beginning of a record.
func packChart(key chartKey, chrt *chart.Chart) (*Piece, error) {
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
	return &Piece{
		Packed: buffer.Bytes(),
		chart:  chart.Chart{Templates: chrt.Templates, Files: chrt.Files, Schema: chrt.Schema},
		size:   buffer.Len() + unpacked, unpacked: unpacked, values: jsonvalues.Count(templates) + jsonvalues.Count(files),
	}, nil
}

// extraID marks the field of gzip's header that holds the key of a piece.
const extraID = "ho"

// pieceKey returns the key in a gzip header; ok is false if there is none.
func pieceKey(header gzip.Header) (key chartKey, ok bool) {
	if len(header.Extra) != 4+sha256.Size || !strings.HasPrefix(string(header.Extra), extraID) {
		return chartKey{}, false
	}
	return chartKey(header.Extra[4:]), true
}

// HoldText reserves memory for a text of a size, in bytes. A nil HoldText reserves no memory.
type HoldText func(size int) error

func (h HoldText) reserve(size int) error {
	if h == nil {
		return nil
	}
	return h(size)
}

// errNoRoom wraps the error of a HoldText.
type errNoRoom struct{ error }

// Decode decodes a record in the format of Helm's Secrets, written by HelmOp or by Helm. The error is [ErrUnreadable],
// or the error of hold.
func (c *Codec) Decode(data []byte, hold HoldText) (*release.Release, error) {
	packed, err := base64.StdEncoding.AppendDecode(nil, data)
	if err != nil {
		return nil, ErrUnreadable
	}
	return c.Unpack(packed, hold)
}

// Unpack decodes a packed record. Its errors are those of Decode.
func (c *Codec) Unpack(packed []byte, hold HoldText) (*release.Release, error) {
	rls := &release.Release{}
	piece, text, err := c.unpackText(packed, hold)
	if noRoom := (errNoRoom{}); errors.As(err, &noRoom) {
		return nil, noRoom.error
	}
	if err == nil && jsonvalues.Count(text) > rendering.MaxRecordValues {
		return nil, fmt.Errorf("it has more than %d JSON values: %w", rendering.MaxRecordValues, ErrUnreadable)
	}
	// The error of the decoder is dropped because it may quote values.
	if err != nil || json.Unmarshal(text, rls) != nil || rls.Info == nil {
		return nil, ErrUnreadable
	}
	if piece != nil && rls.Chart != nil {
		rls.Chart.Templates, rls.Chart.Files = slices.Clone(piece.chart.Templates), slices.Clone(piece.chart.Files)
		rls.Chart.Schema = piece.chart.Schema
	}
	return rls, nil
}

// unpackText returns the JSON of a record, and the known piece that the JSON omits.
func (c *Codec) unpackText(packed []byte, hold HoldText) (*Piece, []byte, error) {
	if !bytes.HasPrefix(packed, []byte{0x1f, 0x8b, 0x08}) {
		// Old versions of Helm wrote records without compression.
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

// readLimited reads up to a limit, in bytes, and appends the text to begin. It reserves memory while it reads, because
// the packed size does not predict the unpacked size. It does not use a bytes.Buffer, which would double its memory
// once more to find the end of the text.
func readLimited(reader io.Reader, limit int, begin []byte, hold HoldText) ([]byte, error) {
	text, read := begin, 0
	for {
		step := min(max(read, firstText), limit-read)
		if step == 0 {
			if n, err := fill(reader, make([]byte, 1)); n == 0 {
				return text, err
			}
			return nil, fmt.Errorf("it is larger than %d MiB when unpacked", limit>>20)
		}
		grown := make([]byte, len(text)+step)
		n, err := fill(reader, grown[copy(grown, text):])
		text, read = grown[:len(text)+n], read+n
		switch {
		case err != nil:
			return nil, err
		case n < step:
			return text, nil
		case read < freeText:
			continue
		}
		if err := hold.reserve(2 * read); err != nil {
			return nil, errNoRoom{err}
		}
	}
}

// fill reads until the buffer is full or the text ends. Unlike io.ReadFull, it returns an error if a text is cut off.
func fill(reader io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var read int
		read, err = reader.Read(buffer[n:])
		n += read
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"reflect"

	"github.com/fxamacker/cbor/v2"
	"helm.sh/helm/v3/pkg/chart"
)

// maxNesting is the maximum depth of values. The parsers of values accept no deeper values.
const maxNesting = 20_000

// CBOR distinguishes integers from floating point numbers, as templates do. JSON does not.
var (
	encoding = must(cbor.EncOptions{Sort: cbor.SortBytewiseLexical}.EncMode())
	decoding = must(cbor.DecOptions{
		DefaultMapType:   reflect.TypeFor[map[string]any](),
		IntDec:           cbor.IntDecConvertSignedOrBigInt,
		MaxNestedLevels:  maxNesting,
		MaxArrayElements: 1 << 30,
		MaxMapPairs:      1 << 30,
		UTF8:             cbor.UTF8DecodeInvalid,
	}.DecMode())
)

// must panics on an error. It is only for arguments that do not depend on input.
func must[T any](made T, err error) T {
	if err != nil {
		panic(err)
	}
	return made
}

func encode(value any) ([]byte, error) {
	data, err := encoding.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding for the renderer: %w", err)
	}
	return data, nil
}

func decode(data []byte, into any) error {
	if err := decoding.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decoding data of the renderer: %w", err)
	}
	return nil
}

// wireHead is a chart without its files and subcharts.
type wireHead struct {
	Metadata *chart.Metadata
	// EmptyDependencies means that the metadata has an empty list of dependencies. Helm distinguishes it from nil.
	EmptyDependencies bool
	Values            map[string]any
	Schema            []byte
}

// wireChart is a chart, encoded for a task.
type wireChart struct {
	wireHead
	Templates, Files []*chart.File
	Subcharts        []*wireChart
}

func headOf(c *chart.Chart) wireHead {
	head := wireHead{Metadata: c.Metadata, Values: c.Values, Schema: c.Schema}
	head.EmptyDependencies = c.Metadata != nil && c.Metadata.Dependencies != nil && len(c.Metadata.Dependencies) == 0
	return head
}

func toWire(c *chart.Chart) *wireChart {
	out := &wireChart{wireHead: headOf(c), Templates: c.Templates, Files: c.Files}
	for _, subchart := range c.Dependencies() {
		out.Subcharts = append(out.Subcharts, toWire(subchart))
	}
	return out
}

func fromWire(c *wireChart) *chart.Chart {
	out := &chart.Chart{Metadata: c.Metadata, Values: c.Values, Schema: c.Schema, Templates: c.Templates, Files: c.Files}
	if c.EmptyDependencies && out.Metadata != nil {
		out.Metadata.Dependencies = []*chart.Dependency{}
	}
	for _, subchart := range c.Subcharts {
		out.AddDependency(fromWire(subchart))
	}
	return out
}

func decodeChart(data []byte) (any, error) {
	var received wireChart
	if err := decode(data, &received); err != nil {
		return nil, err
	}
	return fromWire(&received), nil
}

// keyOf returns a digest of a chart. Equal keys mean equal charts.
func keyOf(c *chart.Chart) (string, error) {
	digest := sha256.New()
	if err := digestChart(digest, c); err != nil {
		return "", err
	}
	return string(digest.Sum(nil)), nil
}

func digestChart(digest hash.Hash, c *chart.Chart) error {
	head, err := encode(headOf(c))
	if err != nil {
		return err
	}
	write := func(data []byte) {
		digest.Write(binary.AppendVarint(nil, int64(len(data))))
		digest.Write(data)
	}
	write(head)
	for _, files := range [][]*chart.File{c.Templates, c.Files} {
		digest.Write(binary.AppendVarint(nil, int64(len(files))))
		for _, file := range files {
			if file == nil {
				digest.Write(binary.AppendVarint(nil, -1))
				continue
			}
			write([]byte(file.Name))
			write(file.Data)
		}
	}
	digest.Write(binary.AppendVarint(nil, int64(len(c.Dependencies()))))
	for _, subchart := range c.Dependencies() {
		if err := digestChart(digest, subchart); err != nil {
			return err
		}
	}
	return nil
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifestweight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

const (
	// parsedByte and parsedValue are the bytes of memory that a parse needs for each byte and for each value of a
	// manifest. They were measured with manifests of long texts, of short keys, of small maps and of small documents.
	parsedByte, parsedValue = 7, 400
	// smallParse is the memory, in bytes, up to which a parse needs no share. Nearly all manifests need less.
	smallParse = 4 << 20
	// parsingTimeout is how long a parse waits for memory.
	parsingTimeout = time.Minute
)

// HoldParsing waits until there is memory to parse manifests of a weight. It first releases the memory of a former
// call, so that no action waits while it holds memory for parsing. The memory is held until ReleaseParsing, or until
// the next manifest is built.
func (k *Client) HoldParsing(weight yamlweight.Weight) error {
	k.ReleaseParsing()
	conn, cost := k.Clients.Conn, weight.Bytes*parsedByte+int64(weight.Values)*parsedValue
	if conn == nil || conn.Parsing == nil || cost <= smallParse {
		return nil
	}
	ctx, cancel := context.WithTimeout(k.Ctx, parsingTimeout)
	defer cancel()
	lease, err := conn.Parsing.Acquire(ctx, conn.Owner, cost)
	if err != nil {
		return helmerr.New(helmerr.ErrTimeout, "other releases with large manifests use all memory for parsing")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parsing = lease
	return nil
}

// ReleaseParsing releases the memory of HoldParsing.
func (k *Client) ReleaseParsing() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parsing.Release()
	k.parsing = nil
}

// HoldManifests waits until there is memory to parse manifests, see HoldParsing. A nil Client has no bound.
func (k *Client) HoldManifests(manifests ...string) error {
	if k == nil {
		return nil
	}
	weight := yamlweight.Weight{}
	for _, manifest := range manifests {
		one, err := manifestweight.Of(manifest)
		if err != nil {
			return helmerr.New(helmerr.ErrInvalidChart, "%s", err)
		}
		weight = weight.Plus(one)
	}
	return k.HoldParsing(weight)
}

// Decode is [DecodeManifest] within the memory for parsing. A nil Client has no bound.
func (k *Client) Decode(manifest string) ([]*unstructured.Unstructured, error) {
	if err := k.HoldManifests(manifest); err != nil {
		return nil, err
	}
	defer k.ReleaseParsing()
	return DecodeManifest([]byte(manifest))
}

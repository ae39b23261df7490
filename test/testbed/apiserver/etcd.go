// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

const (
	// etcdTimeout is the timeout of one request to etcd.
	etcdTimeout = 30 * time.Second
	// maxEtcdOps is the number of changes that etcd takes in one transaction by default. maxEtcdBytes is less than etcd
	// takes in one request.
	maxEtcdOps, maxEtcdBytes = 128, 1 << 20
)

// etcdPair is one key of etcd with its value, in the JSON of etcd's gRPC gateway, where bytes are base64.
type etcdPair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
}

// etcdOp is a change in a transaction. One of the fields is set.
type etcdOp struct {
	Put    *etcdPair `json:"request_put,omitempty"`
	Delete *etcdPair `json:"request_delete_range,omitempty"`
}

// size returns about how many bytes the change takes in a request.
func (o etcdOp) size() int {
	if o.Put == nil {
		return len(o.Delete.Key)
	}
	return len(o.Put.Key) + len(o.Put.Value)
}

// etcdKeys returns all keys.
func (s *Server) etcdKeys(ctx context.Context) (map[string]etcdPair, error) {
	// The range from key 0 up to key 0 means all keys.
	all := map[string]any{"key": []byte{0}, "range_end": []byte{0}}
	var answer struct {
		Pairs []etcdPair `json:"kvs"`
	}
	if err := s.etcdCall(ctx, "range", all, &answer); err != nil {
		return nil, err
	}
	keys := make(map[string]etcdPair, len(answer.Pairs))
	for _, pair := range answer.Pairs {
		keys[string(pair.Key)] = pair
	}
	return keys, nil
}

// etcdChange carries out changes in order.
func (s *Server) etcdChange(ctx context.Context, ops []etcdOp) error {
	for len(ops) > 0 {
		n, size := 0, 0
		for n < min(len(ops), maxEtcdOps) && (n == 0 || size+ops[n].size() <= maxEtcdBytes) {
			size += ops[n].size()
			n++
		}
		if err := s.etcdCall(ctx, "txn", map[string]any{"success": ops[:n]}, &struct{}{}); err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}

func (s *Server) etcdCall(ctx context.Context, method string, request, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	url := "http://" + process.Loopback(s.etcdPort) + "/v3/kv/" + method
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd: %s: %s: %s", method, resp.Status, bytes.TrimSpace(data))
	}
	return json.Unmarshal(data, answer)
}

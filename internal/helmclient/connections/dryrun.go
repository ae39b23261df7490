// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// dryRun is a transport for the plan of an action: the cluster checks each write and stores nothing. So a plan can run
// the code of the action unchanged. Each object is read once per plan. It is safe for concurrent use.
type dryRun struct {
	// reads answers reads within the plan, and sends dry runs.
	reads http.RoundTripper

	mu sync.Mutex
	// objects holds the objects that were listed, as JSON by path.
	objects map[string][]byte
}

// errBodyOfDeletion is the error for a deletion with a body: the cluster would ignore the parameter dryRun.
var errBodyOfDeletion = errors.New("a deletion with a body cannot be sent as a dry run")

// PlanConfig returns a config as ActionConfig does, for the clients of a plan. No request of these clients changes the
// cluster.
func (c *Connection) PlanConfig(ctx context.Context) *rest.Config {
	config := c.host
	config.Transport = &dryRun{objects: map[string][]byte{}, reads: c.actionReads(ctx)}
	return &config
}

// RoundTrip implements http.RoundTripper.
func (d *dryRun) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodGet, http.MethodHead:
		d.mu.Lock()
		object, ok := d.objects[req.URL.Path]
		d.mu.Unlock()
		if ok && !isWatch(req) {
			known := &cachedRead{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, body: object}
			return known.response(req), nil
		}
		return d.reads.RoundTrip(req)
	case http.MethodDelete:
		if req.Body != nil && req.Body != http.NoBody {
			return nil, errors.Join(errBodyOfDeletion, req.Body.Close())
		}
	}
	req = req.Clone(req.Context())
	query := req.URL.Query()
	query.Set("dryRun", metav1.DryRunAll)
	req.URL.RawQuery = query.Encode()
	return d.reads.RoundTrip(req)
}

// Prime stores the objects of a list response. The plan uses them instead of reading each object. Prime sets the
// apiVersion and kind of the items, which API servers omit. path is the path of the list.
func (g *Getter) Prime(path, apiVersion, kind string, response []byte) error {
	d, ok := g.Config.Transport.(*dryRun)
	if !ok {
		return errors.New("objects can only be listed for a plan")
	}
	var list struct {
		Items []map[string]json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(response, &list); err != nil {
		return helmerr.New(helmerr.ErrUnreachable, "the response of the cluster cannot be decoded")
	}
	head := map[string]json.RawMessage{}
	for field, text := range map[string]string{"apiVersion": apiVersion, "kind": kind} {
		data, err := json.Marshal(text)
		if err != nil {
			return err
		}
		head[field] = data
	}
	for _, item := range list.Items {
		var metadata struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(item["metadata"], &metadata); err != nil || metadata.Name == "" {
			return helmerr.New(helmerr.ErrUnreachable, "the response of the cluster cannot be decoded")
		}
		for field, data := range head {
			item[field] = data
		}
		data, err := json.Marshal(item)
		if err != nil {
			return fmt.Errorf("reading %s: %w", kind, err)
		}
		d.mu.Lock()
		d.objects[path+"/"+metadata.Name] = data
		d.mu.Unlock()
	}
	return nil
}

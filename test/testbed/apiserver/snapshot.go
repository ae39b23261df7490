// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// resetAttempts is how often Reset checks whether an object was written meanwhile.
const resetAttempts = 20

// resetPause is the time between two checks of Reset.
const resetPause = 50 * time.Millisecond

// ErrNotResettable means that a Server cannot return to its saved state: it is stopped or hangs, or it was rotated or
// upgraded, or was never saved.
var ErrNotResettable = errors.New("the API server is not as it was saved")

// Save keeps a copy of all objects, for Reset.
func (s *Server) Save(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	saved, err := s.etcdKeys(ctx)
	if err != nil {
		return fmt.Errorf("save the objects of the API server %s: %w", s.opts.Name, err)
	}
	s.saved, s.altered = saved, false
	return nil
}

// Reset restores all objects to their state at Save. It writes to etcd directly, so finalizers, webhooks and admission
// have no effect. Watches report these changes like other changes. The audit log is empty afterwards. Reset returns
// ErrNotResettable if a program of the Server does not run, or if Rotate or Upgrade has changed the Server since Save.
// A Server that hangs is not reset either: it would answer requests from before the reset later.
func (s *Server) Reset(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved == nil || s.altered || s.hung || s.stopped || !s.running() {
		return ErrNotResettable
	}
	// Controllers in the server react to the reset with their own writes. An example is the registration of an API that
	// was removed.
	for range resetAttempts {
		current, err := s.etcdKeys(ctx)
		if err != nil {
			return err
		}
		ops := differences(current, s.saved)
		if len(ops) == 0 {
			return s.forgetAudit()
		}
		if err := s.etcdChange(ctx, ops); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(resetPause):
		}
	}
	return fmt.Errorf("reset the API server %s: its objects change all the time: %w", s.opts.Name, ErrNotResettable)
}

// Objects are all objects of a Server, as the initial objects of another one. They contain no Events and no Leases: the
// holders of the Leases do not run in the other Server.
type Objects map[string]etcdPair

// systemNamespace is the key of the namespace whose UID identifies a cluster.
const systemNamespace = "/registry/namespaces/kube-system"

// Objects returns the objects of the Server except the namespace kube-system. Another Server creates its own, with its
// own UID.
func (s *Server) Objects(ctx context.Context) (Objects, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects, err := s.etcdKeys(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the objects of the API server %s: %w", s.opts.Name, err)
	}
	maps.DeleteFunc(objects, func(key string, _ etcdPair) bool {
		return isVolatile(key) || key == systemNamespace || strings.HasPrefix(key, "/registry/leases/") ||
			strings.HasPrefix(key, "/registry/events/")
	})
	return objects, nil
}

// fill writes Options.Objects before the API server starts.
func (s *Server) fill(ctx context.Context) error {
	ops := make([]etcdOp, 0, len(s.opts.Objects))
	for _, pair := range s.opts.Objects {
		ops = append(ops, etcdOp{Put: &etcdPair{Key: pair.Key, Value: pair.Value}})
	}
	return s.etcdChange(ctx, ops)
}

// differences returns the changes that convert the current keys to the saved keys.
func differences(current, saved map[string]etcdPair) []etcdOp {
	var ops []etcdOp
	for key, pair := range current {
		if _, known := saved[key]; !known && !isVolatile(key) {
			ops = append(ops, etcdOp{Delete: &etcdPair{Key: pair.Key}})
		}
	}
	for key, pair := range saved {
		now, exists := current[key]
		if isVolatile(key) || exists && bytes.Equal(now.Value, pair.Value) {
			continue
		}
		ops = append(ops, etcdOp{Put: &etcdPair{Key: pair.Key, Value: pair.Value}})
	}
	return ops
}

// isVolatile reports whether a key is internal to the API server: its identity, compaction, the state of its caches.
// Restoring such keys would confuse a running server.
func isVolatile(key string) bool {
	for _, prefix := range []string{
		"compact_rev_key", "/registry/leases/kube-system/", "/registry/masterleases/",
		"/registry/configmaps/kube-system/extension-apiserver-authentication",
	} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return !strings.HasPrefix(key, "/registry/")
}

// running reports whether all programs run.
func (s *Server) running() bool {
	for _, p := range append([]*process.Process{s.etcd, s.apiserver}, s.helpers...) {
		if p == nil || !p.Running() {
			return false
		}
	}
	return true
}

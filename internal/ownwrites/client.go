// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownerKey is the context key of the object under reconciliation.
type ownerKey struct{}

// For returns a context for a pass over owner. The client of [Writes.Client] records the writes with this context.
func (w *Writes) For(ctx context.Context, owner client.ObjectKey) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// Client returns a client that records the objects that it creates, updates and patches with a context of [Writes.For].
// It does not record deletions, because their responses have no resourceVersion.
func (w *Writes) Client(c client.Client) client.Client { return &recordingClient{Client: c, writes: w} }

type recordingClient struct {
	client.Client
	writes *Writes
}

func (c *recordingClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.writes.recordUnless(ctx, obj, c.Client.Create(ctx, obj, opts...))
}

func (c *recordingClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.writes.recordUnless(ctx, obj, c.Client.Update(ctx, obj, opts...))
}

func (c *recordingClient) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.PatchOption,
) error {
	return c.writes.recordUnless(ctx, obj, c.Client.Patch(ctx, obj, patch, opts...))
}

func (c *recordingClient) Status() client.SubResourceWriter {
	return &recordingStatus{SubResourceWriter: c.Client.Status(), writes: c.writes}
}

type recordingStatus struct {
	client.SubResourceWriter
	writes *Writes
}

func (s *recordingStatus) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.writes.recordUnless(ctx, obj, s.SubResourceWriter.Update(ctx, obj, opts...))
}

func (s *recordingStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	return s.writes.recordUnless(ctx, obj, s.SubResourceWriter.Patch(ctx, obj, patch, opts...))
}

// recordUnless records a write if it succeeded, and returns its error.
func (w *Writes) recordUnless(ctx context.Context, obj client.Object, err error) error {
	if owner, ok := ctx.Value(ownerKey{}).(client.ObjectKey); ok && err == nil {
		w.record(owner, obj, time.Now())
	}
	return err
}

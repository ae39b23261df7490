// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ownwrites

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownerKey is the key of the object under reconciliation in a context.
type ownerKey struct{}

// For returns a context for a pass over owner: the client of [Writes.Client] notes what is written with it.
func (w *Writes) For(ctx context.Context, owner client.ObjectKey) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// Client returns a client that notes the objects which it creates, updates and patches with a context of [Writes.For].
// A deletion is not noted: its answer has no resourceVersion.
func (w *Writes) Client(c client.Client) client.Client { return &notingClient{Client: c, writes: w} }

type notingClient struct {
	client.Client
	writes *Writes
}

func (c *notingClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.writes.noteUnless(ctx, obj, c.Client.Create(ctx, obj, opts...))
}

func (c *notingClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.writes.noteUnless(ctx, obj, c.Client.Update(ctx, obj, opts...))
}

func (c *notingClient) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.PatchOption,
) error {
	return c.writes.noteUnless(ctx, obj, c.Client.Patch(ctx, obj, patch, opts...))
}

func (c *notingClient) Status() client.SubResourceWriter {
	return &notingStatus{SubResourceWriter: c.Client.Status(), writes: c.writes}
}

type notingStatus struct {
	client.SubResourceWriter
	writes *Writes
}

func (s *notingStatus) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.writes.noteUnless(ctx, obj, s.SubResourceWriter.Update(ctx, obj, opts...))
}

func (s *notingStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	return s.writes.noteUnless(ctx, obj, s.SubResourceWriter.Patch(ctx, obj, patch, opts...))
}

// noteUnless notes a write that did not fail, and returns its error.
func (w *Writes) noteUnless(ctx context.Context, obj client.Object, err error) error {
	if owner, ok := ctx.Value(ownerKey{}).(client.ObjectKey); ok && err == nil {
		w.note(owner, obj, time.Now())
	}
	return err
}

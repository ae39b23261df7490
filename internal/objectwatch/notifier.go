/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package objectwatch

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// notifier asks for releases to be looked at. It is safe for concurrent use.
type notifier struct {
	debounce time.Duration

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// early are the releases about which something changed before there was a queue.
	early map[types.NamespacedName]struct{}
}

// start implements the source of a controller.
func (n *notifier) start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue = queue
	for key := range n.early {
		queue.Add(reconcile.Request{NamespacedName: key})
	}
	n.early = nil
	context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.queue = nil
	})
	return nil
}

// changed asks for a release. The queue makes one of all requests for it until the first is due.
func (n *notifier) changed(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.queue != nil {
		n.queue.AddAfter(reconcile.Request{NamespacedName: key}, n.debounce)
		return
	}
	if n.early == nil {
		n.early = map[types.NamespacedName]struct{}{}
	}
	n.early[key] = struct{}{}
}

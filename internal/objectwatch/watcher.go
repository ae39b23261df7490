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

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Watcher follows the objects of releases. It is safe for concurrent use.
type Watcher struct {
	options Options
}

// New returns a Watcher. Streams begin with Follow and end with the context that is given to Start.
func New(options Options) *Watcher { return &Watcher{options: options} }

// Start waits for the end of the context, then ends all streams and returns when they have ended. It makes the Watcher
// a runnable of a manager.
func (w *Watcher) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (w *Watcher) NeedLeaderElection() bool { return true }

// Follow makes the Watcher follow what the plan says, in place of what it followed for the release before. It returns at
// once, does nothing if nothing changed, and keeps what it knows of objects that were followed already.
func (w *Watcher) Follow(_ types.NamespacedName, _ Connection, _ Plan) {}

// Forget ends what is followed for a release.
func (w *Watcher) Forget(_ types.NamespacedName) {}

// Disconnect ends all streams of a cluster, for example because it cannot be reached or is gone. What is known stays.
// The next Follow for one of its releases begins anew.
func (w *Watcher) Disconnect(_ string) {}

// Look returns what is known of the objects of a release; false if it is not followed.
func (w *Watcher) Look(_ types.NamespacedName) (Snapshot, bool) { return Snapshot{}, false }

// Source returns a source of requests: one for each release about which something became known or changed. It is for one
// controller.
func (w *Watcher) Source() source.Source {
	return source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
}

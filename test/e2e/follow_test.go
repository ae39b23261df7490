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

package e2e

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// follow calls add with each change of some objects of the scenario's namespace, in their order, until the scenario ends. An API server
// closes the watch of a slow client: it continues where it ended, and what cannot be continued fails the test.
func (s *scenario) follow(list client.ObjectList, add func(watch.Event), options ...client.ListOption) {
	s.Helper()
	c, err := client.NewWithWatch(s.env.Management.Server.RESTConfig(), client.Options{Scheme: s.client.Scheme()})
	s.must(err)
	options = append(options, client.InNamespace(s.namespace))
	s.must(c.List(s.Context(), list, options...))
	objects, err := meta.ExtractList(list)
	s.must(err)
	for _, obj := range objects {
		add(watch.Event{Type: watch.Added, Object: obj})
	}
	ctx, cancel := context.WithCancel(context.Background())
	w, err := toolswatch.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list, append(options, &client.ListOptions{Raw: &raw})...)
		},
	})
	s.must(err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range w.ResultChan() {
			if event.Type == watch.Error {
				s.Errorf("following %T: %v", list, event.Object)
				return
			}
			add(event)
		}
	}()
	s.Cleanup(func() {
		cancel()
		<-ended
	})
}

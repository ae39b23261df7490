// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

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

// follow calls add for each change of objects of the scenario's namespace, in order, until the scenario ends. An API
// server closes the watch of a slow client. follow then continues where the watch ended, and fails the test if it
// cannot.
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

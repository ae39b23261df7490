// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-multierror"
	"helm.sh/helm/v3/pkg/kube"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// typesThatEnd maps the kinds of hooks that can end to the names of their types in Helm's messages.
var typesThatEnd = map[string]string{"Job": "*batch.Job", "Pod": "*v1.Pod"}

// ForHooks waits until the Jobs and Pods have ended, with the results and messages of Helm's WatchUntilReady. Hooks of
// other kinds need no wait. Helm's function has no context, and its informers repeat failed requests: it would run
// until the timeout after a stop, for an hour if the author of the chart wants that.
func (w Waiter) ForHooks(hooks kube.ResourceList, timeout time.Duration) error {
	ctx, end := context.WithCancel(w.Ctx)
	defer end()
	return w.UntilStop(hooks, timeout, func(hooks kube.ResourceList, timeout time.Duration) error {
		return w.untilEnded(ctx, hooks, timeout)
	})
}

// untilEnded waits until the Jobs and Pods have ended, or until the end of ctx.
func (w Waiter) untilEnded(ctx context.Context, hooks kube.ResourceList, timeout time.Duration) error {
	ctx, end := watchtools.ContextWithOptionalTimeout(ctx, timeout)
	defer end()
	var running multierror.Group
	for _, hook := range hooks {
		kind := hook.Mapping.GroupVersionKind.Kind
		if typesThatEnd[kind] == "" {
			continue
		}
		w.Log("Watching for changes to %s %s with timeout of %v", kind, hook.Name, timeout)
		running.Go(func() error {
			objects := cache.NewListWatchFromClient(hook.Client, hook.Mapping.Resource.Resource, hook.Namespace,
				fields.OneTermEqualSelector("metadata.name", hook.Name))
			_, err := watchtools.UntilWithSync(ctx, objects, &unstructured.Unstructured{}, nil,
				func(event watch.Event) (bool, error) { return w.hasEnded(hook, event) })
			return err
		})
	}
	return running.Wait().ErrorOrNil()
}

// hasEnded reports whether a hook has ended with an event. It returns an error if the hook failed.
func (w Waiter) hasEnded(hook *resource.Info, event watch.Event) (bool, error) {
	w.Log("%s event for %s", event.Type, hook.Name)
	if event.Type == watch.Deleted {
		return true, nil
	}
	switch object := kube.AsVersioned(&resource.Info{Object: event.Object, Mapping: hook.Mapping}).(type) {
	case *batchv1.Job:
		for _, condition := range object.Status.Conditions {
			switch {
			case condition.Status != corev1.ConditionTrue:
			case condition.Type == batchv1.JobComplete:
				return true, nil
			case condition.Type == batchv1.JobFailed:
				return true, fmt.Errorf("job %s failed: %s", hook.Name, condition.Reason)
			}
		}
		w.Log("%s: Jobs active: %d, jobs failed: %d, jobs succeeded: %d", hook.Name, object.Status.Active,
			object.Status.Failed, object.Status.Succeeded)
		return false, nil
	case *corev1.Pod:
		w.Log("Pod %s: %s", hook.Name, object.Status.Phase)
		if object.Status.Phase == corev1.PodFailed {
			return true, fmt.Errorf("pod %s failed", hook.Name)
		}
		return object.Status.Phase == corev1.PodSucceeded, nil
	default: // This is a custom resource whose kind has the name of a kind of Kubernetes.
		return true, fmt.Errorf("expected %s to be a %s, got %T", hook.Name,
			typesThatEnd[hook.Mapping.GroupVersionKind.Kind], object)
	}
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-multierror"
	"helm.sh/helm/v3/pkg/kube"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// hookState is what an action knows about the object of a hook.
type hookState struct {
	// uid is the UID of the object if this action created it; empty otherwise.
	uid types.UID
	// isGone means that this action has deleted the object, or has observed that it does not exist.
	isGone bool
}

// hookRef identifies an object of a hook. It has no version of the kind, because another revision may have the object
// in another version.
func hookRef(info *resource.Info) inventory.Ref {
	ref := objectinfo.RefOf(info)
	ref.Version = ""
	return ref
}

// noteHooks stores the UIDs of hooks that this action created.
func (k *Client) noteHooks(hooks kube.ResourceList, areCreated bool) {
	for _, hook := range hooks {
		state := hookState{}
		if object, err := meta.Accessor(hook.Object); err == nil && areCreated {
			state.uid = object.GetUID()
		}
		k.hooks[hookRef(hook)] = state
	}
}

// deleteHooks deletes the objects of hooks. Without a delete policy of the hook, Helm does this before each creation.
// Hooks have no annotations of their release, so an object with the name of a hook may belong to another release.
func (k *Client) deleteHooks(hooks kube.ResourceList) (*kube.Result, []error) {
	result := &kube.Result{}
	var errs []error
	for _, hook := range hooks {
		if err := k.deleteHook(hook); err != nil {
			errs = append(errs, err)
			continue
		}
		result.Deleted.Append(hook)
	}
	return result, errs
}

// deleteHook deletes the object of a hook. It first reads an object that this action did not create.
func (k *Client) deleteHook(hook *resource.Info) error {
	ref := hookRef(hook)
	uid := k.hooks[ref].uid
	for try := 1; ; try++ {
		if uid == "" {
			observed, err := objectinfo.Read(k.Ctx, hook)
			if apierrors.IsNotFound(err) {
				k.hooks[ref] = hookState{isGone: true}
				return nil
			}
			if err != nil {
				return fmt.Errorf("reading the hook %s: %w", ref, err)
			}
			if other := k.Owner.Other(observed.Annotations); other != "" {
				return fmt.Errorf("the hook %s exists and belongs to release %s: rename the hook, or delete the object", ref, other)
			}
			uid = observed.UID
		}
		isGone, err := deleteIn(hook, metav1.DeletePropagationBackground, uid, "")
		if apierrors.IsConflict(err) && try < maxDeletionTries {
			uid = ""
			continue
		}
		k.hooks[ref] = hookState{isGone: isGone || apierrors.IsNotFound(err)}
		return helmerr.IgnoreNotFound(err)
	}
}

// typesThatEnd maps the kinds of hooks that can end to the names of their types in Helm's messages.
var typesThatEnd = map[string]string{"Job": "*batch.Job", "Pod": "*v1.Pod"}

// waitForHooks waits until the Jobs and Pods have ended, with the results and messages of Helm's WatchUntilReady.
// Hooks of other kinds need no wait. The wait ends with ctx. Helm's function has no context, and its informers repeat
// failed requests: it would run until the timeout after a stop, for an hour if the author of the chart wants that.
func (k *Client) waitForHooks(ctx context.Context, hooks kube.ResourceList, timeout time.Duration) error {
	ctx, end := watchtools.ContextWithOptionalTimeout(ctx, timeout)
	defer end()
	var waits multierror.Group
	for _, hook := range hooks {
		kind := hook.Mapping.GroupVersionKind.Kind
		if typesThatEnd[kind] == "" {
			continue
		}
		k.Log("Watching for changes to %s %s with timeout of %v", kind, hook.Name, timeout)
		waits.Go(func() error {
			objects := cache.NewListWatchFromClient(hook.Client, hook.Mapping.Resource.Resource, hook.Namespace,
				fields.OneTermEqualSelector("metadata.name", hook.Name))
			_, err := watchtools.UntilWithSync(ctx, objects, &unstructured.Unstructured{}, nil,
				func(event watch.Event) (bool, error) { return k.hasEnded(hook, event) })
			return err
		})
	}
	return waits.Wait().ErrorOrNil()
}

// hasEnded reports whether a hook has ended with an event. It returns an error if the hook failed.
func (k *Client) hasEnded(hook *resource.Info, event watch.Event) (bool, error) {
	k.Log("%s event for %s", event.Type, hook.Name)
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
		k.Log("%s: Jobs active: %d, jobs failed: %d, jobs succeeded: %d", hook.Name, object.Status.Active,
			object.Status.Failed, object.Status.Succeeded)
		return false, nil
	case *corev1.Pod:
		k.Log("Pod %s: %s", hook.Name, object.Status.Phase)
		if object.Status.Phase == corev1.PodFailed {
			return true, fmt.Errorf("pod %s failed", hook.Name)
		}
		return object.Status.Phase == corev1.PodSucceeded, nil
	default: // This is a custom resource whose kind has the name of a kind of Kubernetes.
		return true, fmt.Errorf("expected %s to be a %s, got %T", hook.Name,
			typesThatEnd[hook.Mapping.GroupVersionKind.Kind], object)
	}
}

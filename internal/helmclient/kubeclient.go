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

package helmclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// kubeClient is Helm's client of a cluster, within the bounds of one action.
type kubeClient struct {
	*kube.Client
	ctx     context.Context
	clients *getter
	// seen are the manifests that are recorded already.
	seen *recordedManifests
	// lenient leaves objects of kinds that the cluster no longer serves out of everything that is built without being
	// validated, as an uninstall does with what is to be deleted.
	lenient bool
	// owner is the release that the action is about.
	owner releaseName
	// leftovers are what else may exist of the release; nil where nothing does.
	leftovers *leftovers
	// progress is told what goes on.
	progress func(string)
	// stop ends what is waited for; nil if nothing does.
	stop context.Context
	// recorded returns an error if the record that the action is about is gone; nil if nothing tells.
	recorded func() error

	mu        sync.Mutex
	deletions []error
	// applied are the objects of the manifest that were applied, and how they were then.
	applied map[inventory.Ref]Generation
}

func newKubeClient(ctx context.Context, clients *getter, namespace string, log action.DebugLog) *kubeClient {
	return &kubeClient{
		Client:   &kube.Client{Factory: clients, Log: log, Namespace: namespace},
		ctx:      ctx,
		clients:  clients,
		seen:     &recordedManifests{},
		progress: func(string) {},
		applied:  map[inventory.Ref]Generation{},
	}
}

// IsReachable implements kube.Interface. Each action follows an observation, so asking once more would only add a
// request to every action.
func (k *kubeClient) IsReachable() error { return nil }

// Build implements kube.Interface. Kinds that the cluster does not serve are an error in what is to be applied. In what
// is recorded they are left out: objects of such kinds cannot exist, and an upgrade or uninstall must not fail for them.
func (k *kubeClient) Build(reader io.Reader, validate bool) (kube.ResourceList, error) {
	manifest, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	resources, err := k.Client.Build(bytes.NewReader(manifest), validate)
	if unknown := unknownKinds(err); len(unknown) > 0 {
		if validate || !k.lenient && !k.seen.has(string(manifest)) {
			return nil, k.refuseUnknown(unknown)
		}
		resources, err = k.buildServed(manifest)
	}
	if err == nil && k.lenient && !validate && len(resources) == 0 && !bytes.Contains(manifest, []byte(release.HookAnnotation)) {
		// An uninstall deletes nothing where this is empty.
		resources, err = k.leftBehind(nil)
	}
	if err != nil && k.lenient {
		// An uninstall only says that it failed.
		k.noteDeletions(err)
	}
	return resources, err
}

// Create implements kube.Interface.
func (k *kubeClient) Create(resources kube.ResourceList) (*kube.Result, error) {
	if hook, ok := hookOf(resources); ok {
		k.progress("creating " + hook)
	} else {
		k.progress(fmt.Sprintf("creating %d objects", len(resources)))
	}
	result, err := k.Client.Create(resources)
	k.noteApplied(result)
	return result, explain(err)
}

// Update implements kube.Interface.
func (k *kubeClient) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	if force {
		return k.apply(original, target, k.forceUpdate)
	}
	return k.apply(original, target, func(original, target kube.ResourceList) (*kube.Result, error) {
		return k.Client.Update(original, target, false)
	})
}

// UpdateThreeWayMerge implements kube.InterfaceThreeWayMerge.
func (k *kubeClient) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	return k.apply(original, target, func(original, target kube.ResourceList) (*kube.Result, error) {
		return k.Client.UpdateThreeWayMerge(original, target, force)
	})
}

// apply updates objects, then deletes those that are no longer wanted. Helm's client gets to see only what stays: it would
// delete objects whoever they belong to, and only log where it cannot, and no later revision would know of them.
func (k *kubeClient) apply(original, target kube.ResourceList, update func(original, target kube.ResourceList) (*kube.Result, error)) (*kube.Result, error) {
	k.progress(fmt.Sprintf("applying %d objects", len(target)))
	result, err := update(original.Intersect(target), target)
	k.noteApplied(result)
	if err != nil {
		return result, explain(err)
	}
	behind, err := k.leftBehind(append(slices.Clone(target), original...))
	if err != nil {
		return result, explain(err)
	}
	unwanted := append(original.Difference(target), behind...)
	deleted, errs := k.deleteAll(unwanted, deletion{policy: metav1.DeletePropagationBackground, sparesKept: true})
	result.Deleted = append(result.Deleted, deleted.Deleted...)
	if err := errors.Join(errs...); err != nil {
		return result, explain(fmt.Errorf("what is no longer wanted: %w", err))
	}
	return result, nil
}

// Wait implements kube.Interface.
func (k *kubeClient) Wait(resources kube.ResourceList, timeout time.Duration) error {
	return k.untilStop(resources, timeout, k.Client.Wait)
}

// WatchUntilReady implements kube.Interface.
func (k *kubeClient) WatchUntilReady(resources kube.ResourceList, timeout time.Duration) error {
	if hook, ok := hookOf(resources); ok {
		k.progress("waiting for " + hook)
	}
	return k.untilStop(resources, timeout, k.Client.WatchUntilReady)
}

// WaitForDelete implements kube.InterfaceExt. What exists and is not under deletion was spared: to wait for it is in vain.
func (k *kubeClient) WaitForDelete(resources kube.ResourceList, timeout time.Duration) error {
	var going kube.ResourceList
	// Copies: looking at objects overwrites them.
	for _, info := range copyInfos(resources) {
		if err := info.Get(); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return err
		}
		object, err := meta.Accessor(info.Object)
		if err != nil || object.GetDeletionTimestamp() == nil {
			continue
		}
		going.Append(info)
	}
	return k.untilStop(going, timeout, k.Client.WaitForDelete)
}

// Delete implements kube.Interface. It is called for hooks, and for what a failed action is to clean up.
func (k *kubeClient) Delete(resources kube.ResourceList) (*kube.Result, []error) {
	if _, ok := hookOf(resources); ok {
		return k.Client.Delete(resources)
	}
	return k.deleteAll(resources, deletion{policy: metav1.DeletePropagationBackground})
}

// DeleteWithPropagationPolicy implements kube.InterfaceDeletionPropagation. An uninstall calls it for the objects of the
// newest revision.
func (k *kubeClient) DeleteWithPropagationPolicy(resources kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	k.progress(fmt.Sprintf("deleting %d objects", len(resources)))
	behind, err := k.leftBehind(resources)
	if err != nil {
		k.noteDeletions(err)
		return &kube.Result{}, []error{err}
	}
	result, errs := k.deleteAll(append(slices.Clone(resources), behind...), deletion{policy: policy})
	k.noteDeletions(errs...)
	return result, errs
}

func (k *kubeClient) noteDeletions(errs ...error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deletions = append(k.deletions, errs...)
}

func (k *kubeClient) deletionErrors() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return errors.Join(k.deletions...)
}

// remaining returns the timeout, cut to what is left of the action: Helm grants the whole timeout to each hook anew.
func (k *kubeClient) remaining(timeout time.Duration) time.Duration {
	deadline, ok := k.ctx.Deadline()
	if !ok {
		return timeout
	}
	// Zero would mean no timeout at all.
	return max(min(timeout, time.Until(deadline)), time.Millisecond)
}

// noteApplied keeps which objects of the manifest were applied, and as what the API server answered them.
func (k *kubeClient) noteApplied(result *kube.Result) {
	if result == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, list := range []kube.ResourceList{result.Created, result.Updated} {
		for _, info := range list {
			object, err := meta.Accessor(info.Object)
			if err != nil || info.Mapping == nil || isHook(object) {
				continue
			}
			number, isVersion := inventory.NumberOf(object)
			k.applied[refOf(info)] = Generation{UID: object.GetUID(), Number: number, IsVersion: isVersion}
		}
	}
}

// objects returns the objects of the manifest that were created, changed or found as they are to be, and their generations.
func (k *kubeClient) objects() (refs []inventory.Ref, generations map[inventory.Ref]Generation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	refs = slices.Collect(maps.Keys(k.applied))
	inventory.Sort(refs)
	return refs, maps.Clone(k.applied)
}

func refOf(info *resource.Info) inventory.Ref {
	kind := info.Mapping.GroupVersionKind
	return inventory.Ref{Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Namespace: info.Namespace, Name: info.Name}
}

func isHook(object metav1.Object) bool { return object.GetAnnotations()[release.HookAnnotation] != "" }

// hookOf describes the hook that the objects are; ok is false where they are none.
func hookOf(resources kube.ResourceList) (description string, ok bool) {
	if len(resources) == 0 || resources[0].Mapping == nil {
		return "", false
	}
	object, err := meta.Accessor(resources[0].Object)
	if err != nil || !isHook(object) {
		return "", false
	}
	return fmt.Sprintf("hook %s %s (%s)", resources[0].Mapping.GroupVersionKind.Kind, resources[0].Name,
		object.GetAnnotations()[release.HookAnnotation]), true
}

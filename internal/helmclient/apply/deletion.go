// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"
	"slices"
	"sync"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// maxDeletionTries bounds the tries to delete an object in whose place others keep coming.
const maxDeletionTries = 3

// Deletion is how objects are deleted. Those of another release never are.
type Deletion struct {
	Policy metav1.DeletionPropagation
	// sparesKept keeps objects whose annotation in the cluster demands it. When a whole release is uninstalled, Helm reads
	// the annotation in the manifest and has already excluded such objects.
	sparesKept bool
}

// DeleteAll deletes objects: those of one kind that follow each other at the same time, kind after kind. What does not
// exist counts as deleted.
func (k *Client) DeleteAll(resources kube.ResourceList, how Deletion) (*kube.Result, []error) {
	result := &kube.Result{}
	var errs []error
	// Discovery runs once for each kind that the cluster does not serve as expected.
	relearn := map[schema.GroupVersionKind]func(){}
	for len(resources) > 0 {
		kind := resources[0].Mapping.GroupVersionKind
		end := slices.IndexFunc(resources, func(info *resource.Info) bool { return info.Mapping.GroupVersionKind != kind })
		if end < 0 {
			end = len(resources)
		}
		if relearn[kind] == nil {
			relearn[kind] = sync.OnceFunc(k.Clients.Conn.Kinds.Invalidate)
		}
		again := relearn[kind]
		seen := k.survey(resources[:end])
		failed := make([]error, end)
		var group sync.WaitGroup
		for i, info := range resources[:end] {
			group.Go(func() { failed[i] = k.deleteObject(info, how, seen[sightKey(info.Namespace, info.Name)], again) })
		}
		group.Wait()
		for i, err := range failed {
			if err != nil {
				errs = append(errs, fmt.Errorf("deleting %s %q: %w", kind.Kind, resources[i].Name, err))
				continue
			}
			result.Deleted.Append(resources[i])
		}
		resources = resources[end:]
	}
	return result, errs
}

// deleteObject deletes an object. Seen is the object as it was just read, nil if it was not. An unknown path does not
// prove that the object is deleted: the cluster may just have stopped serving that version of the kind and still hold
// the object. In this case deleteObject calls relearn, which discovers the kinds again.
func (k *Client) deleteObject(info *resource.Info, how Deletion, seen *sight, relearn func()) error {
	err := k.deleteServed(info, how, seen)
	if !isUnserved(err) {
		return helmerr.IgnoreNotFound(err)
	}
	relearn()
	served, err := k.rebuild(info)
	for _, again := range served {
		err = k.deleteServed(again, how, nil)
	}
	return helmerr.IgnoreNotFound(err)
}

// deleteServed reads an object and deletes exactly that one, unless it belongs to another release. The revision may
// have failed before it created its own object, and another user may have created one of that name since.
func (k *Client) deleteServed(info *resource.Info, how Deletion, seen *sight) error {
	for try := 1; ; try++ {
		if seen == nil {
			var err error
			if seen, err = k.look(info); err != nil {
				return err
			}
		}
		if other := k.Owner.other(seen.annotations); other != "" {
			k.Log("not deleting %s %q: it belongs to release %s", info.Mapping.GroupVersionKind.Kind, info.Name, other)
			return nil
		}
		if how.sparesKept && seen.annotations[kube.ResourcePolicyAnno] == kube.KeepPolicy {
			return nil
		}
		options := &metav1.DeleteOptions{PropagationPolicy: &how.Policy,
			Preconditions: metav1.NewUIDPreconditions(string(seen.uid))}
		_, err := resource.NewHelper(info.Client, info.Mapping).DeleteWithOptions(info.Namespace, info.Name, options)
		if !apierrors.IsConflict(err) || try == maxDeletionTries {
			return err
		}
		seen = nil
	}
}

// rebuild returns the object as the cluster serves it now, nothing where it does not.
func (k *Client) rebuild(info *resource.Info) (kube.ResourceList, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info.Object)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(info.Mapping.GroupVersionKind)
	data, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return k.buildServed(data)
}

// isUnserved reports whether the cluster does not know the path of a request: its response is then not an API object.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

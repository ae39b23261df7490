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
	"errors"
	"fmt"
	"slices"
	"sync"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
)

// deleteAll deletes objects: those of one kind that follow each other at the same time, kind after kind. What does not
// exist counts as deleted.
func (k *kubeClient) deleteAll(resources kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	result := &kube.Result{}
	var errs []error
	for len(resources) > 0 {
		kind := resources[0].Mapping.GroupVersionKind
		end := slices.IndexFunc(resources, func(info *resource.Info) bool { return info.Mapping.GroupVersionKind != kind })
		if end < 0 {
			end = len(resources)
		}
		failed := make([]error, end)
		var group sync.WaitGroup
		for i, info := range resources[:end] {
			group.Go(func() { failed[i] = k.deleteObject(info, policy) })
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

// deleteObject deletes an object. That the cluster does not know its path is not taken for the object being gone: the cluster
// may have ceased to serve a version of the kind a moment ago, and still hold the object.
func (k *kubeClient) deleteObject(info *resource.Info, policy metav1.DeletionPropagation) error {
	_, err := resource.NewHelper(info.Client, info.Mapping).DeleteWithOptions(info.Namespace, info.Name, &metav1.DeleteOptions{PropagationPolicy: &policy})
	if !isUnserved(err) {
		return ignoreNotFound(err)
	}
	served, err := k.rebuild(info)
	for _, again := range served {
		_, err = resource.NewHelper(again.Client, again.Mapping).DeleteWithOptions(again.Namespace, again.Name, &metav1.DeleteOptions{PropagationPolicy: &policy})
	}
	return ignoreNotFound(err)
}

// deleteLeftovers deletes what an update no longer has and could not delete, and returns an error where it still cannot:
// Helm only logs that, and no later revision would know of the object.
func (k *kubeClient) deleteLeftovers(leftovers kube.ResourceList, result *kube.Result) error {
	var errs []error
	for _, info := range leftovers {
		if result.Deleted.Contains(info) {
			continue
		}
		if err := k.deleteLeftover(info); err != nil {
			errs = append(errs, fmt.Errorf("deleting %s %q, which is no longer wanted: %w", info.Mapping.GroupVersionKind.Kind, info.Name, err))
			continue
		}
		result.Deleted.Append(info)
	}
	return errors.Join(errs...)
}

// deleteLeftover deletes an object that is not to be kept.
func (k *kubeClient) deleteLeftover(info *resource.Info) error {
	err := info.Get()
	if isUnserved(err) {
		served, buildErr := k.rebuild(info)
		if buildErr != nil || len(served) == 0 {
			return buildErr
		}
		info = served[0]
		err = info.Get()
	}
	if err != nil {
		return ignoreNotFound(err)
	}
	object, err := meta.Accessor(info.Object)
	if err != nil {
		return err
	}
	if object.GetAnnotations()[kube.ResourcePolicyAnno] == kube.KeepPolicy {
		return nil
	}
	return k.deleteObject(info, metav1.DeletePropagationBackground)
}

// rebuild returns the object as the cluster serves it now, nothing where it does not.
func (k *kubeClient) rebuild(info *resource.Info) (kube.ResourceList, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info.Object)
	if err != nil {
		return nil, err
	}
	k.clients.conn.kinds.invalidate()
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(info.Mapping.GroupVersionKind)
	data, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return k.buildServed(data)
}

// isUnserved reports whether the cluster did not know the path of a request: it says so in no words of the API.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

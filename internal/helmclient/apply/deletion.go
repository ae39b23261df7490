// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/notserved"
)

// maxDeletionTries bounds the attempts to delete an object that changes after each read.
const maxDeletionTries = 5

// Deletion defines how objects are deleted. Objects of another release are never deleted.
type Deletion struct {
	Policy metav1.DeletionPropagation
	// obeysKeepPolicy keeps objects whose annotation in the cluster has the keep policy. When a whole release is
	// uninstalled, Helm has already excluded such objects by the annotation in the manifest. obeysKeepPolicy also keeps
	// objects that a hook of this action has created: the chart may have changed an object of the manifest to a hook.
	obeysKeepPolicy bool
}

// DeleteAll deletes objects, one kind after the other. It deletes successive objects of one kind concurrently. Objects
// that do not exist count as deleted.
func (k *Client) DeleteAll(resources kube.ResourceList, how Deletion) (*kube.Result, []error) {
	result := &kube.Result{}
	var errs []error
	// Discovery runs once for each kind that the cluster does not serve as expected.
	rediscover := map[schema.GroupVersionKind]func(){}
	for len(resources) > 0 {
		kind := resources[0].Mapping.GroupVersionKind
		end := objectinfo.EndOfKind(resources)
		if rediscover[kind] == nil {
			rediscover[kind] = sync.OnceFunc(k.Clients.Conn.Kinds.Invalidate)
		}
		for i, err := range k.deleteKind(resources[:end], how, rediscover[kind]) {
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

// deleteKind deletes objects of one kind and returns an error, or nil, for each. It deletes each object in the version
// in which it is known to belong to the release. It reads all other objects before it deletes them.
func (k *Client) deleteKind(infos kube.ResourceList, how Deletion, rediscover func()) []error {
	failed, done := make([]error, len(infos)), make([]bool, len(infos))
	var known sync.WaitGroup
	for i, info := range infos {
		known.Go(func() { done[i], failed[i] = k.deleteKnown(info, how.Policy) })
	}
	known.Wait()
	var unknown kube.ResourceList
	for i, info := range infos {
		if !done[i] {
			unknown.Append(info)
		}
	}
	observed := objectinfo.ReadTogether(k.Ctx, unknown)
	var group sync.WaitGroup
	for i, info := range infos {
		if done[i] {
			continue
		}
		group.Go(func() {
			failed[i] = k.deleteObject(info, how, observed.Of(info), rediscover)
		})
	}
	group.Wait()
	return failed
}

// deleteKnown deletes an object in its known version without reading it. It returns done if the object no longer
// exists, or if the request failed without a response. Otherwise, for example if no version is known or the object has
// changed, the caller must read the object. The API server checks permissions before versions. So if a deletion is
// forbidden, the object may not exist or may belong to another release.
func (k *Client) deleteKnown(info *resource.Info, policy metav1.DeletionPropagation) (done bool, err error) {
	known := k.Known.Of(objectinfo.RefOf(info))
	if known.Number == 0 {
		return false, nil
	}
	_, err = deleteIn(info, policy, known.UID, strconv.FormatInt(known.Number, 10))
	if apierrors.IsNotFound(err) && !notserved.Is(err) {
		return true, nil
	}
	status := apierrors.APIStatus(nil)
	return !errors.As(err, &status), err
}

// deleteObject deletes an object. The argument observed is the state that was just read; nil if it was not read. A
// response "path not found" does not prove that the object is deleted: the cluster may have stopped serving this
// version of the kind, but still hold the object. In this case, deleteObject calls rediscover, so that discovery runs
// again. If discovery lists the version although the cluster does not serve its path, the object may exist.
func (k *Client) deleteObject(info *resource.Info, how Deletion, observed *objectinfo.State, rediscover func()) error {
	err := k.deleteServed(info, how, observed)
	if !notserved.Is(err) {
		return helmerr.IgnoreNotFound(err)
	}
	rediscover()
	served, err := k.rebuild(info)
	for _, again := range served {
		err = k.deleteServed(again, how, nil)
	}
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		kind := info.Mapping.GroupVersionKind
		return helmerr.New(helmerr.ErrUnreachable, "the cluster lists %s of %s, but does not serve it at present: the "+
			"action is tried again", kind.Kind, kind.GroupVersion())
	}
	return helmerr.IgnoreNotFound(err)
}

// deleteServed reads an object, unless it was just read, and deletes it in the state that was read. It keeps the object
// if it belongs to another release. The revision may have failed before it created the object, and another user may
// have created an object of the same name later.
func (k *Client) deleteServed(info *resource.Info, how Deletion, observed *objectinfo.State) error {
	for try := 1; ; try++ {
		if observed == nil {
			var err error
			if observed, err = objectinfo.Read(k.Ctx, info); err != nil {
				return err
			}
		}
		if why := k.WhyKept(observed.Annotations); why != "" {
			k.Log("not deleting %s %q: %s", info.Mapping.GroupVersionKind.Kind, info.Name, why)
			return nil
		}
		if how.obeysKeepPolicy && (inventory.IsKept(observed.Annotations) || k.hooks[hookRef(info)].uid == observed.UID) {
			return nil
		}
		_, err := deleteIn(info, how.Policy, observed.UID, observed.Version)
		if !apierrors.IsConflict(err) || try == maxDeletionTries {
			return err
		}
		observed = nil
	}
}

// WhyKept returns why an object is not deleted: according to its annotations, it does not belong to the release. The
// result is empty if the object is deleted.
func (k *Client) WhyKept(annotations map[string]string) string {
	if other := k.Owner.Other(annotations); other != "" {
		return "it belongs to release " + other
	}
	if k.OnlyOwned && !k.Owner.Owns(annotations) {
		return "no revision of the release worked, and the object lacks the annotations of the release"
	}
	return ""
}

// deleteIn deletes an object if it still has the UID and the resource version. isGone means that the object no longer
// exists: the API server answers with a status, and not with an object that waits for its finalizers.
func deleteIn(info *resource.Info, policy metav1.DeletionPropagation, uid types.UID,
	version string,
) (isGone bool, err error) {
	only := &metav1.Preconditions{UID: &uid}
	if version != "" {
		only.ResourceVersion = &version
	}
	answer, err := resource.NewHelper(info.Client, info.Mapping).DeleteWithOptions(info.Namespace, info.Name,
		&metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: only})
	_, isGone = answer.(*metav1.Status)
	return isGone && err == nil, err
}

// rebuild returns the object in a version that the cluster serves. It returns an empty list if the cluster does not
// serve the kind.
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
	return k.BuildServed(data)
}

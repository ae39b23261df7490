// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

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

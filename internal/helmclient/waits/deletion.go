// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"context"
	"fmt"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
)

// deletionInterval is how often a wait checks whether objects still exist.
const deletionInterval = 2 * time.Second

// ForDeletion waits until no object is being deleted. It does not wait for objects that are not being deleted. Only the
// response "not found" proves that an object is gone. While the API server answers with another error, the wait
// continues: Helm's own wait would end.
func (w Waiter) ForDeletion(resources kube.ResourceList, timeout time.Duration) error {
	// These are copies, because reading overwrites the objects.
	rest, err := stillDeleting(objectinfo.Copies(resources))
	if len(rest) == 0 || !mayPass(err) {
		return err
	}
	ctx, end := context.WithCancel(w.Ctx)
	defer end()
	return w.UntilStop(rest, timeout, func(rest kube.ResourceList, timeout time.Duration) error {
		return waitUntilGone(ctx, rest, timeout)
	})
}

// mayPass reports whether the API server itself may soon stop to answer reads with an error, which may be nil. An API
// server without a connection, or a missing permission, would only occupy a slot for the whole wait.
func mayPass(err error) bool {
	return err == nil || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
}

// waitUntilGone waits until no object is being deleted. The error names the first object that is left, and the cause.
func waitUntilGone(ctx context.Context, rest kube.ResourceList, timeout time.Duration) error {
	var unread error
	err := wait.PollUntilContextTimeout(ctx, deletionInterval, timeout, false, func(context.Context) (bool, error) {
		left, failure := stillDeleting(rest)
		if failure != nil && ctx.Err() != nil {
			return false, ctx.Err() // The read was cut off, and shows nothing.
		}
		if rest, unread = left, failure; !mayPass(unread) {
			return false, unread
		}
		return len(rest) == 0, nil
	})
	if err == nil || !mayPass(unread) {
		return err
	}
	state := "still exists"
	if object, accessErr := meta.Accessor(rest[0].Object); unread != nil {
		state = fmt.Sprintf("may still exist, because reading it failed (%s)", unread)
	} else if accessErr == nil && len(object.GetFinalizers()) > 0 {
		state += ", because of its finalizers " + strings.Join(object.GetFinalizers(), ", ")
	}
	return helmerr.New(helmerr.ErrTimeout, "%s %q %s: %s", rest[0].Mapping.GroupVersionKind.Kind, rest[0].Name, state, err)
}

// stillDeleting reads objects until it finds one that is being deleted. It returns this object and the following
// objects; none if no object is being deleted. An object that cannot be read may exist, so it counts as being deleted.
// The error is the failure to read the first returned object.
func stillDeleting(infos kube.ResourceList) (kube.ResourceList, error) {
	for i, info := range infos {
		err := info.Get()
		if err == nil && objectinfo.IsDeleting(info) || err != nil && !apierrors.IsNotFound(err) {
			return infos[i:], err
		}
	}
	return nil, nil
}

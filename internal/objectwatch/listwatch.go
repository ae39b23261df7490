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

package objectwatch

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	managedLabel = "app.kubernetes.io/managed-by"
	managedValue = "Helm"
	// Helm's own labels of its records.
	ownerSelector   = "owner=helm"
	recordNameLabel = "name"
)

// listWatch sends the requests of one run of a stream.
type listWatch struct {
	stream *stream
	run    int
	// refused is why the streaming list could not be begun, if the list would fail as well.
	refused error
}

var errNoWatch = errors.New("the streaming list was refused")

// list implements a cache.ListWithContextFunc.
func (lw *listWatch) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := lw.refused; err != nil {
		lw.refused = nil
		return nil, err
	}
	lw.choose(&options)
	l, key := lw.stream.link, lw.stream.key
	var list runtime.Object
	var err error
	if key.mode == whole {
		list, err = l.dynamic.Resource(key.resource).Namespace(key.namespace).List(ctx, options)
	} else {
		list, err = l.metadata.Resource(key.resource).Namespace(key.namespace).List(ctx, options)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// watch implements a cache.WatchFuncWithContext.
func (lw *listWatch) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	streamingList := options.SendInitialEvents != nil
	lw.choose(&options)
	l, key := lw.stream.link, lw.stream.key
	var w watch.Interface
	var err error
	if key.mode == whole {
		w, err = l.dynamic.Resource(key.resource).Namespace(key.namespace).Watch(ctx, options)
	} else {
		w, err = l.metadata.Resource(key.resource).Namespace(key.namespace).Watch(ctx, options)
	}
	if !streamingList {
		lw.stream.watched(lw.run, err)
	}
	switch {
	case err == nil:
		return w, nil
	case !streamingList || unsupported(err):
		return nil, err
	default:
		// A Reflector would try again without heed of the context, or list, which fails in the same way.
		lw.refused = err
		return nil, errNoWatch
	}
}

// unsupported reports whether a streaming list failed for a reason that does not hold for a plain list.
func unsupported(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsTimeout(err)
}

// choose narrows a request to the objects of the stream.
func (lw *listWatch) choose(options *metav1.ListOptions) {
	switch key := lw.stream.key; {
	case key.name != "":
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, key.name).String()
	case key.mode == helmRecords:
		options.LabelSelector = ownerSelector
	default:
		options.LabelSelector = managedLabel + "=" + managedValue
	}
}

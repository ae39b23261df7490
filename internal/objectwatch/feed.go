// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

const (
	managedLabel = "app.kubernetes.io/managed-by"
	managedValue = "Helm"
	// Helm's own labels of its records.
	ownerSelector   = "owner=helm"
	recordNameLabel = "name"

	// minWatch is the minimum duration of a watch; the maximum is twice that, as with kube-apiserver's own choice. The
	// cluster ends the watch then; if it does not, this side ends it after watchGrace.
	minWatch, watchGrace = 30 * time.Minute, 30 * time.Second
	// beginTime bounds the time until a watch has begun, or its first list was streamed. A proxy may hold back the
	// beginning until the first event, which is a bookmark after a minute at the latest.
	beginTime = 90 * time.Second
	// listPage is how many objects are listed by one request.
	listPage = 500
)

// Forms in which objects are asked for: their metadata, in binary form where the server has it, or in full.
const (
	metadataForm = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	wholeForm = "application/json"
)

var errSilent = errors.New("the cluster did not respond in time")

// feed is one run of a stream: it lists the objects and then follows their changes. Only its goroutine uses it. Unlike
// client-go's Reflector, it needs no second goroutine, and keeps no objects and almost no buffers while nothing
// changes.
type feed struct {
	stream *stream
	run    int
	// version is up to where everything is known, empty before the first list.
	version string
	// listing is whether a streaming list is coming in, and found what came of it.
	listing bool
	found   map[objectKey][]seen
	// anew is true if the history of the cluster no longer reaches back to the last known version.
	anew bool
	// fresh is whether a plain list has just come in.
	fresh bool
}

// advance sends one request, or those of a plain list, and processes the response until it ends. It returns nil after a
// regular end.
func (f *feed) advance(ctx context.Context) error {
	if f.version != "" {
		err := f.watch(ctx, false)
		if isExpired(err) {
			f.version, f.anew = "", true
			return nil
		}
		return err
	}
	if !f.stream.link.isPlain() {
		err := f.watch(ctx, true)
		if f.version != "" || !isUnsupported(err) {
			return err
		}
		if !isExpired(err) {
			f.stream.link.setPlain()
		}
	}
	return f.list(ctx)
}

// isUnsupported reports whether a streaming list failed for a reason that does not hold for a plain list.
func isUnsupported(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) || isExpired(err)
}

// isExpired reports whether the cluster does not remember the version that a watch was to go on from.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// watch sends a watch, which begins with a list if listing is true, and processes its events until it ends.
func (f *feed) watch(ctx context.Context, listing bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	deadline := time.AfterFunc(beginTime, func() { cancel(errSilent) })
	defer deadline.Stop()
	duration := minWatch + rand.N(minWatch)

	f.listing, f.found = listing, nil
	request := f.request().Param("watch", "true").Param("allowWatchBookmarks", "true").
		Param("timeoutSeconds", strconv.Itoa(int(duration.Seconds())))
	if listing {
		request.Param("sendInitialEvents", "true").Param("resourceVersionMatch",
			string(metav1.ResourceVersionMatchNotOlderThan))
		f.found = map[objectKey][]seen{}
	} else {
		request.Param("resourceVersion", f.version)
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return cause(ctx, err)
	}
	defer func() { _ = body.Close() }() // Everything was read.
	if !listing {
		deadline.Reset(duration + watchGrace)
		f.well()
	}
	events := frames{body: body, memory: f.stream.link.memory(ctx, func() { cancel(errSilent) })}
	for {
		if err := events.next(f.take); err != nil {
			if !f.listing && !isSaid(err) {
				// The watch ended or broke. The next one shows whether there is an error.
				return nil
			}
			return cause(ctx, err)
		}
		if listing && !f.listing {
			listing = false
			deadline.Reset(duration + watchGrace)
		}
	}
}

// isSaid reports whether an error is about the content of a response, rather than about its end.
func isSaid(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) || errors.Is(err, errNoEvent) || errors.Is(err, errFrameTooLarge) ||
		errors.Is(err, errFrameTooDense) || errors.Is(err, errFrameNoMemory)
}

// cause returns why a request failed: for this side's deadline, if it was that.
func cause(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// list asks for what there is, page by page.
func (f *feed) list(ctx context.Context) error {
	f.found = map[objectKey][]seen{}
	options := metav1.ListOptions{Limit: listPage, LabelSelector: f.labels(), FieldSelector: f.fields()}
	if !f.anew {
		// From the cache of the API server, which may lag: the watch makes up for that.
		options.ResourceVersion = "0"
	}
	for {
		page, err := f.page(ctx, options)
		if err != nil {
			return err
		}
		items, err := meta.ExtractList(page)
		if err != nil {
			return err
		}
		for _, item := range items {
			if obj, ok := item.(metav1.Object); ok {
				f.meet(obj)
			}
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return err
		}
		if about.GetContinue() == "" {
			f.replace(about.GetResourceVersion())
			f.fresh = true
			return nil
		}
		options.Continue, options.ResourceVersion = about.GetContinue(), ""
	}
}

// page reads a page of a list.
func (f *feed) page(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	key := f.stream.key
	if key.mode == whole {
		all, err := f.stream.link.objects()
		if err != nil {
			return nil, err
		}
		return all.Resource(key.resource).Namespace(key.namespace).List(ctx, options)
	}
	all, err := f.stream.link.metadata()
	if err != nil {
		return nil, err
	}
	return all.Resource(key.resource).Namespace(key.namespace).List(ctx, options)
}

// request returns a request for the objects of the stream.
func (f *feed) request() *rest.Request {
	key := f.stream.key
	path := []string{"apis", key.resource.Group, key.resource.Version}
	if key.resource.Group == "" {
		path = []string{"api", key.resource.Version}
	}
	if key.namespace != "" {
		path = append(path, "namespaces", key.namespace)
	}
	form := metadataForm
	if key.mode == whole {
		form = wholeForm
	}
	request := f.stream.link.client.Get().AbsPath(append(path, key.resource.Resource)...).SetHeader("Accept", form)
	if selector := f.labels(); selector != "" {
		request.Param("labelSelector", selector)
	}
	if selector := f.fields(); selector != "" {
		request.Param("fieldSelector", selector)
	}
	return request
}

// labels and fields narrow a request to the objects of the stream.
func (f *feed) labels() string {
	switch key := f.stream.key; {
	case key.name != "":
		return ""
	case key.mode == helmRecords:
		return ownerSelector
	default:
		return managedLabel + "=" + managedValue
	}
}

func (f *feed) fields() string {
	if name := f.stream.key.name; name != "" {
		return fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
	return ""
}

// take takes in one event.
func (f *feed) take(frame []byte) error {
	release := f.stream.link.watcher.decode()
	defer release()
	e, err := readEvent(frame)
	if err != nil {
		return err
	}
	switch e.kind {
	case watch.Bookmark:
		if f.listing {
			if e.head.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
				f.listing = false
				f.replace(e.head.ResourceVersion)
			}
			return nil
		}
	case watch.Added, watch.Modified:
		if err := f.present(&e); err != nil || f.listing {
			return err
		}
	case watch.Deleted:
		f.gone(&e.head)
	default:
		return fmt.Errorf("%w: unknown type %q", errNoEvent, shorten(errors.New(string(e.kind))))
	}
	if !f.listing {
		f.version = e.head.ResourceVersion
	}
	return nil
}

// present takes in an object that is there.
func (f *feed) present(e *event) error {
	if len(f.stream.targets(f.run, &e.head)) == 0 {
		return nil
	}
	obj, err := e.object(f.stream.key.mode)
	if err != nil {
		return err
	}
	if f.listing {
		f.meet(obj)
		return nil
	}
	f.changed(obj)
	return nil
}

// isFresh reports, once, whether a plain list has just come in: the watch that goes on from it begins at once.
func (f *feed) isFresh() bool {
	fresh := f.fresh
	f.fresh = false
	return fresh
}

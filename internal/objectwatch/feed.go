// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const (
	// Helm marks its records with these labels.
	ownerSelector   = "owner=helm"
	recordNameLabel = "name"

	// minWatch is the shortest duration of a watch. The longest is twice as long, like the default of kube-apiserver. The
	// cluster ends the watch after this duration. If it does not, this process ends it after watchGrace.
	minWatch, watchGrace = 30 * time.Minute, 30 * time.Second
	// beginTime bounds the time until a watch has begun, or until its first list is complete. A proxy may delay the
	// response until the first event. The first event is a bookmark after a minute at the latest.
	beginTime = 90 * time.Second
	// listPage is the maximum number of objects in the response to one list request. maxListPages bounds the pages
	// of a list, because an API server may always report another page. listTime bounds the time of all pages. It is
	// longer than beginTime, because each page may wait for memory.
	listPage, maxListPages = 500, 1000
	listTime               = 5 * time.Minute
)

// These are the forms in which objects are requested. Metadata is requested in binary form if the server supports it.
// Full objects are requested as JSON.
const (
	metadataForm = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	wholeForm = "application/json"
)

var (
	errTimeout      = errors.New("the cluster did not respond in time")
	errHeldUp       = errors.New("the cluster began a watch event and did not send its rest in time")
	errTooManyPages = fmt.Errorf("a list has more than %d pages", maxListPages)
)

// feed is one run of a stream. It lists the objects and then follows their changes. One goroutine at a time uses it.
// Client-go's Reflector would need a second goroutine. A feed keeps no objects, and almost no buffers while nothing
// changes.
type feed struct {
	stream *stream
	run    int
	ctx    context.Context
	// scope is the scope of the stream in this run.
	scope string
	// began is when the last request began. failures is the number of requests that failed one after the other.
	began    time.Time
	failures int
	// version is the resource version up to which all changes are known; empty before the first list.
	version string
	// listing is true while a streaming list is received.
	listing bool
	// latest is the list that began last. received is the list that is being received.
	latest   listID
	received received
	// open is the watch that has begun, after its list; nil if there is none.
	open *openWatch
	// relist is true if the history of the cluster no longer reaches back to the last known version.
	relist bool
	// justListed is true if a plain list has just been received.
	justListed bool
}

// openWatch is a watch that receives events.
type openWatch struct {
	ctx    context.Context
	events frames
	// end releases the connection and the deadline.
	end func()
}

// advance sends one request and opens a watch, or sends the requests of a plain list.
func (f *feed) advance() error {
	if f.version != "" {
		return f.restartIfExpired(f.watch(false))
	}
	if !f.stream.isPlain() {
		err := f.watch(true)
		if f.version != "" || !isUnsupported(err) {
			return err
		}
		if !isExpired(err) {
			f.stream.link.setPlain()
		}
	}
	ctx, cancel := context.WithTimeoutCause(f.ctx, listTime, errTimeout)
	defer cancel()
	return cause(ctx, f.list(ctx))
}

// restartIfExpired makes the next request a list if the error is that the last known version is too old. It returns the
// error, which counts until the list: the known states may be old.
func (f *feed) restartIfExpired(err error) error {
	if isExpired(err) {
		f.version, f.relist = "", true
	}
	return err
}

// isUnsupported reports whether a streaming list failed for a reason that does not apply to a plain list.
func isUnsupported(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) || isExpired(err)
}

// isExpired reports whether the cluster no longer has the resource version from which a watch must continue.
func isExpired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// watch opens a watch. If listing is true, the watch begins with a list, which watch receives.
func (f *feed) watch(listing bool) (err error) {
	ctx, cancel := context.WithCancelCause(f.ctx)
	deadline := time.AfterFunc(beginTime, func() { cancel(errTimeout) })
	end := func() {
		deadline.Stop()
		cancel(nil)
	}
	defer func() {
		if err != nil {
			err = cause(ctx, err)
			end()
		}
	}()
	duration := minWatch + rand.N(minWatch)
	f.listing, f.received = listing, received{}
	request := f.request().Param("watch", "true").Param("allowWatchBookmarks", "true").
		Param("timeoutSeconds", strconv.Itoa(int(duration.Seconds())))
	if listing {
		request.Param("sendInitialEvents", "true").Param("resourceVersionMatch",
			string(metav1.ResourceVersionMatchNotOlderThan))
		f.beginList()
	} else {
		request.Param("resourceVersion", f.version)
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return err
	}
	end = func() {
		deadline.Stop()
		cancel(nil)
		_ = body.Close() // Everything was read.
	}
	if !listing {
		f.succeeded()
	}
	opened := &openWatch{ctx: ctx, end: end,
		events: frames{body: body, memory: f.stream.link.memory(ctx, func() { cancel(errHeldUp) })}}
	for f.listing {
		if err := opened.events.next(f.handleEvent); err != nil {
			f.listBroke(cause(ctx, err))
			return err
		}
	}
	deadline.Reset(duration + watchGrace)
	f.open = opened
	return nil
}

// listBroke makes all further lists of the stream plain lists if a streaming list has begun, and its end never arrives.
// A connection that breaks within steadyTime does not show this: the next streaming list may be complete.
func (f *feed) listBroke(err error) {
	lacksEnd := errors.Is(err, io.EOF) || time.Since(f.began) >= steadyTime
	if lacksEnd && f.ctx.Err() == nil && !isResponseError(err) {
		f.stream.setPlain()
	}
}

// await waits for the next events of the open watch in a new goroutine, and decodes them in another one. A goroutine
// that has sent a request or has decoded an event has a stack of many kilobytes, which it would keep while it waits.
// The new goroutine needs the smallest stack.
func (f *feed) await() {
	running := &f.stream.link.watcher.running
	running.Go(func() {
		// The end of a list and the next event may have arrived together.
		err := f.open.events.wait()
		running.Go(func() { f.resume(err) })
	})
}

// resume handles the events that have arrived, and the end of the watch. err is the error of the read.
func (f *feed) resume(err error) {
	opened := f.open
	for err == nil && opened.events.arrived() {
		err = opened.events.next(f.handleEvent)
	}
	if err == nil {
		f.await()
		return
	}
	f.open = nil
	if err = cause(opened.ctx, err); isResponseError(err) {
		err = f.restartIfExpired(err)
	} else {
		// The watch ended or broke. The next watch shows whether there is an error.
		err = nil
	}
	opened.end()
	if f.rest(err) {
		f.follow()
	}
}

// isResponseError reports whether an error concerns the content of a response, and not its end.
func isResponseError(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) || errors.Is(err, errNoEvent) || errors.Is(err, errFrameTooLarge) ||
		errors.Is(err, errFrameTooDense) || isLate(err)
}

// isLate reports whether a watch ended because an event did not arrive in time, or found no memory. These errors come
// after a long time, and the next watch may have the same error.
func isLate(err error) bool { return errors.Is(err, errHeldUp) || errors.Is(err, errFrameNoMemory) }

// cause returns why a request failed: errTimeout if its deadline has passed, errHeldUp if an event did not arrive in
// time, otherwise the error itself.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); errors.Is(why, errTimeout) || errors.Is(why, errHeldUp) {
		return why
	}
	return err
}

// list lists the objects, page by page.
func (f *feed) list(ctx context.Context) error {
	f.beginList()
	options := metav1.ListOptions{Limit: listPage, LabelSelector: f.labels(), FieldSelector: f.fields()}
	if !f.relist {
		// The list comes from the cache of the API server, which may be outdated. The watch that follows corrects this.
		options.ResourceVersion = "0"
	}
	for range maxListPages {
		page, err := f.page(ctx, f.namespace(), options)
		if err != nil {
			return err
		}
		items, err := meta.ExtractList(page)
		if err != nil {
			return err
		}
		for _, item := range items {
			if obj, ok := item.(metav1.Object); ok {
				f.collect(obj)
			}
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return err
		}
		if about.GetContinue() == "" {
			f.replace(about.GetResourceVersion())
			f.justListed = true
			return nil
		}
		options.Continue, options.ResourceVersion = about.GetContinue(), ""
	}
	return errTooManyPages
}

// beginList makes room for the content of another list.
func (f *feed) beginList() {
	f.latest.number++
	f.received = newReceived()
}

// page reads a page of a list of a namespace, or of all namespaces.
func (f *feed) page(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	key := f.stream.key
	if key.mode == whole {
		all, err := f.stream.link.objects()
		if err != nil {
			return nil, err
		}
		return all.Resource(key.resource).Namespace(namespace).List(ctx, options)
	}
	all, err := f.stream.link.metadata()
	if err != nil {
		return nil, err
	}
	return all.Resource(key.resource).Namespace(namespace).List(ctx, options)
}

// namespace returns the namespace of all requests; empty for all namespaces.
func (f *feed) namespace() string { return cmp.Or(f.stream.key.namespace, f.scope) }

// request returns a request for the objects of the stream.
func (f *feed) request() *rest.Request {
	key := f.stream.key
	path := []string{"apis", key.resource.Group, key.resource.Version}
	if key.resource.Group == "" {
		path = []string{"api", key.resource.Version}
	}
	if namespace := f.namespace(); namespace != "" {
		path = append(path, "namespaces", namespace)
	}
	form := metadataForm
	if key.mode == whole {
		form = wholeForm
	}
	// A compressed response would keep a decompressor of 40 kB in the manager as long as the watch lasts, and a larger
	// compressor in the API server.
	request := f.stream.link.client.Get().AbsPath(append(path, key.resource.Resource)...).SetHeader("Accept", form).
		SetHeader("Accept-Encoding", "identity")
	if selector := f.labels(); selector != "" {
		request.Param("labelSelector", selector)
	}
	if selector := f.fields(); selector != "" {
		request.Param("fieldSelector", selector)
	}
	return request
}

// labels and fields return the selectors for the objects of the stream.
func (f *feed) labels() string {
	switch key := f.stream.key; {
	case key.name != "":
		return ""
	case key.mode == helmRecords:
		return ownerSelector
	default:
		return inventory.ManagedByLabel + "=" + inventory.ManagedByHelm
	}
}

func (f *feed) fields() string {
	if name := f.stream.key.name; name != "" {
		return fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
	return ""
}

// handleEvent processes one event.
func (f *feed) handleEvent(frame []byte) error {
	release, err := f.stream.link.watcher.decode(f.ctx)
	if err != nil {
		return err
	}
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
		if err := f.handleObject(&e); err != nil || f.listing {
			return err
		}
	case watch.Deleted:
		f.handleDeleted(&e.head)
	default:
		return fmt.Errorf("%w: unknown type %q", errNoEvent, shorten(errors.New(string(e.kind))))
	}
	if !f.listing {
		f.version = bounded(e.head.ResourceVersion)
	}
	return nil
}

// handleObject processes an object that exists.
func (f *feed) handleObject(e *event) error {
	if len(f.stream.judges(f.run, &e.head)) == 0 {
		return nil
	}
	obj, err := e.object(f.stream.key.mode)
	if err != nil {
		return err
	}
	if f.listing {
		f.collect(obj)
		return nil
	}
	f.changed(obj)
	return nil
}

// wasJustListed reports, once, whether a plain list has just been received. The watch that continues from the list
// begins at once.
func (f *feed) wasJustListed() bool {
	justListed := f.justListed
	f.justListed = false
	return justListed
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"
	"k8s.io/apimachinery/pkg/util/wait"
	"oras.land/oras-go/v2/registry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/images"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

const (
	// foundFor is how long a found image is not looked up again. Most waves of a rollout are shorter.
	foundFor = 30 * time.Minute

	// maxImages and maxHosts limit the lookups for a release, because its chart decides which hosts the manager asks.
	maxImages = 500
	maxHosts  = 50

	// maxNameBytes limits the names of the images of a release together, because they are kept as long as the release
	// waits: 256 bytes for each of maxImages images.
	maxNameBytes = 256 * maxImages

	// maxResults is the largest number of stored results of a namespace: enough for 10 releases with maxImages images.
	maxResults = 10 * maxImages

	// sweepInterval is the minimum time between two searches for old results.
	sweepInterval = time.Minute
)

// Registry looks up images.
type Registry interface {
	// Head returns the digest that a tag or a digest refers to.
	Head(ctx context.Context, url, reference string, access oci.Access) (string, error)
}

// Images looks up the images of releases, and stores the results. It is safe for concurrent use.
type Images struct {
	registry Registry
	tasks    *async.Tasks[result]
	now      func() time.Time

	mu sync.Mutex
	// results holds the results by namespace, and then by access and image. The least recently used results are evicted.
	results map[string]*lru.LRU[string, result]
	// swept is the time of the last search for old results.
	swept time.Time
}

// result is the result of a lookup.
type result struct {
	err error
	// lookups is the number of lookups so far.
	lookups int
	// failures is the number of failed lookups in a row.
	failures int
	// at is when the image was looked up. next is when the image will be looked up again.
	at, next time.Time
}

// List is the images of one release that waits, for certain inputs. The zero value is empty. It is for one goroutine at
// a time.
type List struct {
	inputs    string
	images    []string
	hasSecret bool
}

// Of returns the images for inputs, if they are known.
func (l *List) Of(inputs string) (names []string, ok bool) {
	return l.images, l.inputs == inputs && inputs != ""
}

// HasSecret reports whether the name of an image contains a value from a Secret. Callers must not report such images
// without the values that they must hide.
func (l *List) HasSecret() bool { return l.hasSecret }

// Set sets the images for inputs. Of too many images or bytes, it keeps one more than Check accepts. hide removes the
// values of Secrets from a text.
func (l *List) Set(inputs string, names []string, hide func(string) string) {
	kept := slices.Clone(names[:min(len(names), maxImages+1)])
	size := 0
	for i, name := range kept {
		if size += len(name); size > maxNameBytes {
			kept[i] = strings.Clone(name[:len(name)-(size-maxNameBytes)+1])
			kept = slices.Clip(kept[:i+1])
			break
		}
	}
	text := strings.Join(kept, "\n")
	*l = List{inputs: inputs, images: kept, hasSecret: hide(text) != text}
}

// Forget drops the images, because the release does not wait any more.
func (l *List) Forget() { *l = List{} }

// New returns Images for a controller with a number of workers.
func New(registry Registry, workers int) *Images {
	return &Images{registry: registry, tasks: async.NewTasks[result](workers), now: time.Now,
		results: map[string]*lru.LRU[string, result]{}}
}

// Source returns a source that enqueues releases whose lookups have ended.
func (i *Images) Source() source.Source { return i.tasks.Waker.Source() }

// Release is a release with its images.
type Release struct {
	Request ctrl.Request

	// Images are the names of the images, each once.
	Images []string

	// ChartURL is the URL of the chart of the release. Access are the settings for this URL.
	ChartURL string
	Access   oci.Access

	// IsRetry is true if a user requests a retry: missing and unknown images are looked up again, unless the last lookup
	// was less than 5 s ago.
	IsRetry bool
}

// Outcome is the result of the check of a release.
type Outcome struct {
	// Missing are the images that their registries do not have, and invalid names of images.
	Missing []string

	// Unknown are the images that could not be looked up. Err is the error of the first of them.
	Unknown []string
	Err     error

	// Refused says why the images are not looked up: the release has too many images or hosts, or too long names.
	Refused string

	// IsPending is true if some lookups have not ended. The release is enqueued when they have ended.
	IsPending bool

	// Wait is the time until the next lookup of a missing or unknown image.
	Wait time.Duration
}

// IsComplete is true if the registries have all images.
func (o Outcome) IsComplete() bool {
	return len(o.Missing) == 0 && len(o.Unknown) == 0 && o.Refused == "" && !o.IsPending
}

// Check looks up the images of a release, unless it has stored results. It returns an error only if the context ends.
func (i *Images) Check(ctx context.Context, release *Release) (Outcome, error) {
	lookups, refused, err := lookupsOf(release)
	if err != nil || refused != "" {
		return Outcome{Refused: refused}, err
	}
	// A result that expires during the call still counts. Otherwise nothing would enqueue the release again.
	i.recall(release, lookups)
	var tasks []async.Task[result]
	var due []*lookup
	for n := range lookups {
		if l := &lookups[n]; l.isDue {
			tasks, due = append(tasks, i.task(release.Request.Namespace, l)), append(due, l)
		}
	}
	if len(tasks) > 0 {
		ended, err := i.tasks.RunAll(ctx, release.Request, tasks)
		if err != nil {
			return Outcome{}, err
		}
		for n, end := range ended {
			due[n].isDue, due[n].known = !end.Done, end.Value
			due[n].known.err = end.Err
		}
	}
	var outcome Outcome
	now := i.now()
	for n := range lookups {
		outcome.add(&lookups[n], now)
	}
	return outcome, nil
}

// lookup is the lookup of an image of a release.
type lookup struct {
	name string
	// key identifies the image and the access. It is empty for an invalid name of an image.
	key       string
	reference registry.Reference
	access    oci.Access
	// isOfChart is true if the image is on the host of the chart.
	isOfChart bool
	known     result
	// isDue is true if the lookup is due and has no result yet.
	isDue bool
}

// lookupsOf returns the lookups for the images of a release, or the reason why the release is refused.
func lookupsOf(release *Release) (lookups []lookup, refused string, err error) {
	if len(release.Images) > maxImages {
		return nil, fmt.Sprintf("it has more than %d images", maxImages), nil
	}
	hosts, size, access := map[string]bool{}, 0, release.Access.Digest()
	for _, name := range release.Images {
		if size += len(name); size > maxNameBytes {
			return nil, fmt.Sprintf("the names of its images have more than %d bytes", maxNameBytes), nil
		}
		l := lookup{name: name}
		if l.reference, err = images.Parse(name); err != nil {
			lookups = append(lookups, l) // Outcome.add reports it
			continue
		}
		l.access = images.Access(release.Access, release.ChartURL, l.reference)
		l.isOfChart = images.IsOnHostOf(release.ChartURL, release.Access.Insecure, l.reference)
		// The author of a chart must not find out what the account of the manager may read on other hosts.
		l.access.OnlyOwnCredentials = !l.isOfChart
		// The access to an image depends on the access to the chart and on isOfChart.
		l.key, err = apiutil.DigestOf(release.Request.Namespace, l.reference.String(), access, l.isOfChart)
		if err != nil {
			return nil, "", err
		}
		lookups = append(lookups, l)
		if hosts[l.reference.Registry] = true; len(hosts) > maxHosts {
			return nil, fmt.Sprintf("its images are on more than %d hosts", maxHosts), nil
		}
	}
	return lookups, "", nil
}

// recall sets the stored results of lookups, and which lookups are due.
func (i *Images) recall(release *Release, lookups []lookup) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now, results := i.now(), i.resultsOf(release.Request.Namespace)
	for n := range lookups {
		l := &lookups[n]
		if l.key == "" {
			continue
		}
		known, ok := results.Get(l.key)
		l.known = known
		l.isDue = !ok || !now.Before(known.next) ||
			known.err != nil && release.IsRetry && now.Sub(known.at) >= requeue.MinResolveRetry
	}
}

// resultsOf returns the results of a namespace. The caller holds mu.
func (i *Images) resultsOf(namespace string) *lru.LRU[string, result] {
	results, ok := i.results[namespace]
	if !ok {
		// NewLRU fails only if the size is not positive.
		results, _ = lru.NewLRU[string, result](maxResults, nil)
		i.results[namespace] = results
	}
	return results
}

// task returns the task that looks up an image.
func (i *Images) task(namespace string, l *lookup) async.Task[result] {
	key, reference, access, isOfChart := l.key, l.reference, l.access, l.isOfChart
	// A release that waited for a task uses the stored result and not the result of the task. So each lookup needs its own
	// key: with the same key, the release would get the result of the previous lookup again.
	task := key + " " + strconv.Itoa(l.known.lookups)
	return async.Task[result]{Key: task, Work: func(ctx context.Context) (result, error) {
		_, err := async.Guarded(ctx, func(ctx context.Context) (string, error) {
			return i.registry.Head(ctx, images.URL(reference), reference.Reference, access)
		})
		if !isOfChart {
			err = withoutDetails(err)
		}
		return i.record(namespace, key, err), err
	}}
}

// withoutDetails returns an error that contains only its kind. The details of a failed connection would describe the
// network of the manager, and a chart decides which hosts are asked.
func withoutDetails(err error) error {
	var failure *ocierr.Error
	if !errors.As(err, &failure) {
		return err
	}
	return &ocierr.Error{Op: failure.Op, Subject: failure.Subject, Kind: failure.Kind, RetryAfter: failure.RetryAfter}
}

// add adds the result of a lookup.
func (o *Outcome) add(l *lookup, now time.Time) {
	switch {
	case l.isDue:
		o.IsPending = true
		return
	case l.key == "", errors.Is(l.known.err, ocierr.ErrNotFound):
		o.Missing = append(o.Missing, l.name)
	case l.known.err != nil:
		if o.Err == nil {
			o.Err = l.known.err
		}
		o.Unknown = append(o.Unknown, l.name)
	default:
		return
	}
	if rest := max(l.known.next.Sub(now), time.Millisecond); l.key != "" && (o.Wait == 0 || rest < o.Wait) {
		o.Wait = rest
	}
}

// record records the result of a lookup, and returns it.
func (i *Images) record(namespace, key string, err error) result {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	i.sweep(now)
	results := i.resultsOf(namespace)
	current, _ := results.Get(key)
	current.err, current.lookups, current.at, current.next = err, current.lookups+1, now, now.Add(foundFor)
	if err == nil {
		current.failures = 0
	} else {
		current.failures++
		current.next = now.Add(max(wait.Jitter(requeue.ResolveRetry(current.failures), requeue.IntervalJitter),
			requeue.RetryAfter(err)))
	}
	results.Add(key, current)
	return current
}

// sweep removes the results that no release has needed for some time. The caller holds mu.
func (i *Images) sweep(now time.Time) {
	if now.Sub(i.swept) < sweepInterval {
		return
	}
	i.swept = now
	for namespace, results := range i.results {
		for _, key := range results.Keys() {
			if old, _ := results.Peek(key); now.Sub(old.next) > foundFor {
				results.Remove(key)
			}
		}
		if results.Len() == 0 {
			delete(i.results, namespace)
		}
	}
}

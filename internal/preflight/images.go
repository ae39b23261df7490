// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/images"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
)

// foundFor is how long a found image is not looked up again: longer than most waves of a rollout.
const foundFor = 30 * time.Minute

// Registry looks up images.
type Registry interface {
	// Head returns the digest that a tag or a digest refers to.
	Head(ctx context.Context, url, reference string, access oci.Access) (string, error)
}

// Images looks up the images of releases, and remembers the results. It is safe for concurrent use.
type Images struct {
	registry Registry
	tasks    *async.Tasks[string]
	now      func() time.Time

	mu sync.Mutex
	// results are by namespace, access and image.
	results map[string]result
	// lists are the images of the releases that wait.
	lists map[ctrl.Request]list
}

// result is the result of a lookup.
type result struct {
	err error
	// lookups is the number of lookups until now.
	lookups int
	// failures is the number of failed lookups in a row.
	failures int
	// at is when the image was looked up, and next is when it is looked up again.
	at, next time.Time
}

// list is the images of a release with certain inputs.
type list struct {
	inputs string
	images []string
}

// New returns Images for a controller with a number of workers.
func New(registry Registry, workers int) *Images {
	return &Images{registry: registry, tasks: async.NewTasks[string](workers), now: time.Now,
		results: map[string]result{}, lists: map[ctrl.Request]list{}}
}

// Source enqueues the releases whose lookups have ended.
func (i *Images) Source() source.Source { return i.tasks.Waker.Source() }

// Release is a release with its images.
type Release struct {
	Request ctrl.Request

	// Images are the names of the images, each once.
	Images []string

	// ChartURL is where the chart of the release comes from, and Access are the settings for it.
	ChartURL string
	Access   oci.Access

	// IsRetry means that a user asks for a retry: missing and unknown images are looked up again, unless that was less
	// than 5 s ago.
	IsRetry bool
}

// Outcome is what is known about the images of a release.
type Outcome struct {
	// Missing are the images that their registries do not have, and names that are not those of images.
	Missing []string

	// Unknown are the images that could not be looked up, and Err is why the first of them could not.
	Unknown []string
	Err     error

	// IsPending is true if lookups have not ended. The release is enqueued when they have.
	IsPending bool

	// Wait is the time until the next lookup of a missing or unknown image.
	Wait time.Duration
}

// IsComplete is true if the registries have all images.
func (o Outcome) IsComplete() bool {
	return len(o.Missing) == 0 && len(o.Unknown) == 0 && !o.IsPending
}

// Check looks up the images of a release, unless the results are remembered. The error is that of the context.
func (i *Images) Check(ctx context.Context, release *Release) (Outcome, error) {
	var outcome Outcome
	var tasks []async.Task[string]
	keys := make([]string, len(release.Images))
	for n, name := range release.Images {
		ref, err := images.Parse(name)
		if err != nil {
			continue // add reports it
		}
		access := images.Access(release.Access, release.ChartURL, ref)
		key, err := apiutil.DigestOf(release.Request.Namespace, ref.String(), access)
		if err != nil {
			return outcome, err
		}
		keys[n] = key
		known, isKnown := i.known(key)
		if isKnown && (known.err == nil || !release.IsRetry || i.now().Sub(known.at) < requeue.MinResolveRetry) {
			continue
		}
		// A release takes the remembered result, and not that of the task. So each lookup needs a key of its own: under the
		// same key, the release would get the former result again.
		task := key + " " + strconv.Itoa(known.lookups)
		tasks = append(tasks, async.Task[string]{Key: task, Work: func(ctx context.Context) (string, error) {
			digest, err := async.Guarded(ctx, func(ctx context.Context) (string, error) {
				return i.registry.Head(ctx, images.URL(ref), ref.Reference, access)
			})
			i.record(key, err)
			return digest, err
		}})
	}
	if len(tasks) > 0 {
		if _, err := i.tasks.RunAll(ctx, release.Request, tasks); err != nil {
			return outcome, err
		}
	}
	for n, name := range release.Images {
		i.add(&outcome, name, keys[n])
	}
	return outcome, nil
}

// add adds what is known about an image. A key is empty for a name that is not that of an image.
func (i *Images) add(outcome *Outcome, name, key string) {
	known, isKnown := result{}, true
	if key != "" {
		known, isKnown = i.known(key)
	}
	switch {
	case !isKnown:
		outcome.IsPending = true
		return
	case key == "", errors.Is(known.err, oci.ErrNotFound):
		outcome.Missing = append(outcome.Missing, name)
	case known.err != nil:
		if outcome.Err == nil {
			outcome.Err = known.err
		}
		outcome.Unknown = append(outcome.Unknown, name)
	default:
		return
	}
	if rest := known.next.Sub(i.now()); key != "" && (outcome.Wait == 0 || rest < outcome.Wait) {
		outcome.Wait = max(rest, time.Millisecond)
	}
}

// known returns the result for an image if it need not be looked up again yet.
func (i *Images) known(key string) (result, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	known, ok := i.results[key]
	return known, ok && i.now().Before(known.next)
}

// record records the result of a lookup.
func (i *Images) record(key string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	for other, old := range i.results {
		if now.Sub(old.next) > foundFor {
			delete(i.results, other) // no release needed it
		}
	}
	current := i.results[key]
	current.err, current.lookups, current.at, current.next = err, current.lookups+1, now, now.Add(foundFor)
	if err == nil {
		current.failures = 0
	} else {
		current.failures++
		current.next = now.Add(max(wait.Jitter(requeue.ResolveRetry(current.failures), requeue.IntervalJitter),
			requeue.RetryAfter(err)))
	}
	i.results[key] = current
}

// List returns the images of a release that waits. It calls render if the images for these inputs are not known, and
// reports whether it did.
func (i *Images) List(request ctrl.Request, inputs string, render func() ([]string, error)) (names []string,
	isRendered bool, err error,
) {
	i.mu.Lock()
	known, ok := i.lists[request]
	i.mu.Unlock()
	if ok && known.inputs == inputs {
		return known.images, false, nil
	}
	if names, err = render(); err != nil {
		return nil, false, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lists[request] = list{inputs: inputs, images: names}
	return names, true, nil
}

// Forget forgets the images of a release that does not wait any more.
func (i *Images) Forget(request ctrl.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.lists, request)
}

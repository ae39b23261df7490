// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

const (
	// poll is the precision of the times of releases.
	poll = 20 * time.Millisecond
	// pollPerRelease lowers the precision when there are many releases.
	pollPerRelease = 50 * time.Microsecond

	// patience is the timeout of every wait. A wait for many releases ends after this time without another release.
	patience = 15 * time.Minute

	// progressInterval is the time between two progress reports of a wait.
	progressInterval = 15 * time.Second
)

// Release holds fields of the status of a HelmOpRelease.
type Release struct {
	HelmOp, Cluster string
	// Deployed means that Helm's records match the desired state; Ready that the release is healthy, too.
	Deployed, Ready bool
	Revision        int64
	Version, Digest string
	// Message is the message of the condition Ready.
	Message string
}

// Tracker watches all HelmOpReleases.
type Tracker struct {
	cancel context.CancelFunc
	log    func(format string, args ...any)

	mu       sync.Mutex
	releases map[client.ObjectKey]Release
}

func newTracker(ctx context.Context, config *rest.Config, log func(format string, args ...any)) (*Tracker, error) {
	scheme := runtime.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	objects, err := cache.New(config, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &Tracker{cancel: cancel, log: log, releases: map[client.ObjectKey]Release{}}
	informer, err := objects.GetInformer(ctx, &addonsv1.HelmOpRelease{}, cache.BlockUntilSynced(false))
	if err != nil {
		cancel()
		return nil, err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: t.set, UpdateFunc: func(_, obj any) { t.set(obj) }, DeleteFunc: t.remove,
	})
	if err != nil {
		cancel()
		return nil, err
	}
	go func() { _ = objects.Start(ctx) }()
	if !objects.WaitForCacheSync(ctx) {
		cancel()
		return nil, errors.New("the HelmOpReleases cannot be watched")
	}
	return t, nil
}

func (t *Tracker) stop() { t.cancel() }

func (t *Tracker) set(obj any) {
	child, ok := obj.(*addonsv1.HelmOpRelease)
	if !ok {
		return
	}
	release := Release{HelmOp: child.Labels[addonsv1.HelmOpNameLabel], Cluster: child.Spec.ClusterRef.Name}
	isTrue := func(kind string) bool {
		condition := meta.FindStatusCondition(child.Status.Conditions, kind)
		return condition != nil && condition.Status == metav1.ConditionTrue &&
			condition.ObservedGeneration == child.Generation
	}
	release.Deployed, release.Ready = isTrue(addonsv1.ReleasedCondition), isTrue(addonsv1.ReadyCondition)
	if ready := meta.FindStatusCondition(child.Status.Conditions, addonsv1.ReadyCondition); ready != nil {
		release.Message = ready.Message
	}
	if status := child.Status.Release; status != nil {
		release.Revision, release.Version, release.Digest = status.Revision, status.Version, status.ArtifactDigest
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releases[client.ObjectKeyFromObject(child)] = release
}

func (t *Tracker) remove(obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	child, ok := obj.(*addonsv1.HelmOpRelease)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.releases, client.ObjectKeyFromObject(child))
}

// Count returns how many releases of a namespace match.
func (t *Tracker) Count(namespace string, matches func(Release) bool) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for key, release := range t.releases {
		if key.Namespace == namespace && matches(release) {
			n++
		}
	}
	return n
}

// Times are the times at which releases matched.
type Times struct{ First, Median, Last time.Duration }

// Wait waits until n releases of a namespace have matched, and returns the times. It calls matches for each release
// until the result is true.
func (t *Tracker) Wait(ctx context.Context, namespace string, n int, since time.Time,
	matches func(Release) bool,
) (Times, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(patience, func() { cancel(fmt.Errorf("no other release within %s", patience)) })
	defer stalled.Stop()
	// Checking thousands of releases would use a part of the measured machine, and a wait of minutes needs less precision.
	ticker := time.NewTicker(max(poll, time.Duration(n)*pollPerRelease))
	defer ticker.Stop()
	done := map[client.ObjectKey]bool{}
	var times []time.Duration
	reported := time.Now()
	for {
		now := time.Since(since)
		for _, key := range t.newlyMatching(namespace, done, matches) {
			done[key] = true
			times = append(times, now)
			stalled.Reset(patience)
		}
		if len(times) >= n {
			return Times{First: times[0], Median: times[len(times)/2], Last: times[n-1]}, nil
		}
		if time.Since(reported) >= progressInterval {
			reported = time.Now()
			t.log("%d of %d releases after %.0f s", len(times), n, now.Seconds())
		}
		select {
		case <-ctx.Done():
			return Times{}, fmt.Errorf("%d of %d releases in %s: %w: %s", len(times), n, namespace, context.Cause(ctx),
				t.example(namespace, matches))
		case <-ticker.C:
		}
	}
}

func (t *Tracker) newlyMatching(namespace string, done map[client.ObjectKey]bool,
	matches func(Release) bool,
) []client.ObjectKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []client.ObjectKey
	for key, release := range t.releases {
		if key.Namespace == namespace && !done[key] && matches(release) {
			keys = append(keys, key)
		}
	}
	return keys
}

// example returns the message of a release that does not match.
func (t *Tracker) example(namespace string, matches func(Release) bool) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for key, release := range t.releases {
		if key.Namespace == namespace && !matches(release) {
			all = append(all, fmt.Sprintf("%s: %+v", key.Name, release))
		}
	}
	if len(all) == 0 {
		return "the rest does not exist"
	}
	return slices.Min(all)
}

// WaitGone waits until no release of a namespace matches.
func (t *Tracker) WaitGone(ctx context.Context, namespace string, matches func(Release) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for t.Count(namespace, matches) > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d releases are left in %s: %w", t.Count(namespace, matches), namespace, ctx.Err())
		case <-ticker.C:
		}
	}
	return nil
}

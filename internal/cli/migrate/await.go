// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

const (
	// maxMissing is the largest number of releases that an error names.
	maxMissing = 10

	// progressInterval is how often a wait prints its progress again if the progress does not change.
	progressInterval = 30 * time.Second

	// heldDelay is how long all missing releases must need a user before a wait ends: a status may be older than a change
	// that a user has just made.
	heldDelay = 10 * time.Second
)

var (
	// errComplete ends a wait that has succeeded.
	errComplete = errors.New("complete")

	// errGone ends a wait for a HelmOp that a user has deleted.
	errGone = errors.New("the HelmOp was deleted during the migration")

	// errHeld ends a wait that cannot succeed.
	errHeld = errors.New("HelmOp does not continue before you change something")
)

// awaitAdoption waits until HelmOp has adopted all releases of an item.
func (m *migration) awaitAdoption(ctx context.Context, item *migrate.Item) error {
	return m.awaitReleases(ctx, item, releaseWords{"adoption", "adopted",
		"Correct the HelmOp and repeat the command, or return with --undo"})
}

// releaseWords describe what a HelmOp does with releases.
type releaseWords struct {
	// noun and participle name the action. advice says what to do if it fails.
	noun, participle, advice string
}

// awaitReleases waits until HelmOp has all releases of an item. It prints a problem when it finds the problem. It ends
// when HelmOp will do nothing more for the missing releases.
func (m *migration) awaitReleases(ctx context.Context, item *migrate.Item, words releaseWords) error {
	if len(item.Releases) == 0 {
		return nil
	}
	w := &awaited{m: m, item: item, words: words, began: time.Now(), noted: map[string]bool{}}
	w.missing = w.findMissing()
	if err := w.follow(ctx); !errors.Is(err, errComplete) {
		lines := make([]string, 0, maxMissing)
		for _, missing := range w.missing[:min(len(w.missing), maxMissing)] {
			lines = append(lines, missing.text)
		}
		if more := len(w.missing) - maxMissing; more > 0 {
			lines = append(lines, fmt.Sprintf("and %d more", more))
		}
		return kube.WithText(fmt.Sprintf("%s not %s: %s. %s:\n  %s",
			plural.Count(len(w.missing), "release is", "releases are"), words.participle, m.why(err), words.advice,
			strings.Join(lines, "\n  ")), err)
	}
	m.noteChanged(item, w.releases)
	m.done("HelmOp %s/%s has %s %s", item.HelmOp.Namespace, item.HelmOp.Name, words.participle,
		plural.Count(len(item.Releases), "release", "releases"))
	return nil
}

// awaited is a wait for the releases of an item.
type awaited struct {
	m     *migration
	item  *migrate.Item
	words releaseWords
	began time.Time

	mutex    sync.Mutex
	helmOps  map[client.ObjectKey]*addonsv1.HelmOp
	releases map[client.ObjectKey]*addonsv1.HelmOpRelease
	missing  []missing
	// noted are the problems that the wait has printed. progress is the last printed progress.
	noted    map[string]bool
	progress string
	printed  time.Time
	// heldSince is the time from which all missing releases have needed a user; zero if a missing release does not need
	// a user.
	heldSince time.Time
}

// missing is a release that HelmOp does not have yet.
type missing struct {
	text string
	// isHeld is true if HelmOp will do nothing more for the release until a user acts.
	isHeld bool
	// problem is equal for the same problem in several Clusters; empty if there is no problem. note is the text that the
	// wait prints about the problem.
	problem, note string
}

// follow follows the HelmOp and its releases. It always returns an error.
func (w *awaited) follow(ctx context.Context) error {
	namespace, name := w.item.HelmOp.Namespace, w.item.HelmOp.Name
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return kube.Follow(ctx, w.m.client, &addonsv1.HelmOpList{},
			func(change kube.Change[*addonsv1.HelmOp]) (bool, error) {
				return false, w.look(func() { change.Apply(&w.helmOps) })
			}, kube.Named(namespace, name)...)
	})
	group.Go(func() error {
		return kube.Follow(ctx, w.m.client, &addonsv1.HelmOpReleaseList{},
			func(change kube.Change[*addonsv1.HelmOpRelease]) (bool, error) {
				return false, w.look(func() { change.Apply(&w.releases) })
			}, client.InNamespace(namespace), client.MatchingLabels(apiutil.ChildSelector(w.item.HelmOp)))
	})
	group.Go(func() error {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-ticker.C:
				if err := w.look(func() {}); err != nil {
					return err
				}
			}
		}
	})
	return group.Wait()
}

// look applies a change and prints new information. It returns an error if the wait is over.
func (w *awaited) look(change func()) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	change()
	if w.releases == nil {
		return nil // The releases are not listed yet.
	}
	if w.helmOps != nil && w.helmOps[client.ObjectKeyFromObject(w.item.HelmOp)] == nil {
		return errGone
	}
	w.missing = w.findMissing()
	if len(w.missing) == 0 {
		return errComplete
	}
	w.print()
	for _, missing := range w.missing {
		if !missing.isHeld {
			w.heldSince = time.Time{}
			return nil
		}
	}
	if w.heldSince.IsZero() {
		w.heldSince = time.Now()
	}
	if time.Since(w.heldSince) >= w.m.heldDelay {
		return errHeld
	}
	return nil
}

// findMissing returns the releases that are not adopted.
func (w *awaited) findMissing() []missing {
	var all []missing
	children := byCluster(w.item, w.releases)
	for i := range w.item.Releases {
		release := &w.item.Releases[i]
		child := children[release.Cluster]
		isAdopted, text := migrate.IsAdopted(release, child)
		if isAdopted {
			continue
		}
		found := missing{text: text}
		if child != nil {
			found.isHeld = w.hasStopped() || migrate.IsHeld(release, child, w.revision())
			state, _ := fleetview.StateOf(child, 0)
			if found.isHeld || state.IsUnhealthy() || state == fleetview.StatePaused {
				found.problem, found.note = fleetview.WithoutNames(text, release.Cluster.Name, child.Name, 1), text
			}
		} else if failure := w.failureOf(release.Cluster.Name); failure != nil {
			found.problem = failure.Reason + ": " + failure.Message
			found.text = "Cluster " + release.Cluster.Name + ": " + found.problem
			found.note, found.isHeld = found.text, w.isStalled()
		} else if reason, why := w.unassigned(); why != "" {
			found = missing{text: text + ": " + why, isHeld: w.hasStopped(), problem: reason, note: why}
		} else if w.isUnserved() {
			found = missing{text: text + ": " + whyUnserved, problem: whyUnserved, note: whyUnserved}
		}
		all = append(all, found)
	}
	return all
}

// print prints each problem once. It prints the progress if it changed, or if it was printed long ago.
func (w *awaited) print() {
	name := w.item.HelmOp.Name
	held := 0
	for _, missing := range w.missing {
		if missing.isHeld {
			held++
		}
		if missing.problem != "" && !w.noted[missing.problem] {
			w.noted[missing.problem] = true
			w.m.Note("%s: %s", name, missing.note)
		}
	}
	progress := fmt.Sprintf("waiting for the %s of %s", w.words.noun,
		plural.Count(len(w.missing), "release", "releases"))
	if held > 0 {
		progress += fmt.Sprintf("; %d %s a change by you", held, plural.Word(held, "needs", "need"))
	}
	switch now := time.Now(); {
	case progress != w.progress:
		w.progress, w.printed = progress, now
		w.m.Note("%s: %s", name, progress)
	case now.Sub(w.printed) >= progressInterval:
		w.printed = now
		w.m.Note("%s: %s for %s: %s", name, progress, now.Sub(w.began).Round(time.Second), w.missing[0].text)
	}
}

// helmOp returns the HelmOp if its status is about its current spec; otherwise nil.
func (w *awaited) helmOp() *addonsv1.HelmOp {
	helmOp := w.helmOps[client.ObjectKeyFromObject(w.item.HelmOp)]
	if helmOp == nil || helmOp.Status.ObservedGeneration != helmOp.Generation {
		return nil
	}
	return helmOp
}

// isUnserved reports whether no manager has read the HelmOp within the time that a manager usually needs.
func (w *awaited) isUnserved() bool {
	helmOp := w.helmOps[client.ObjectKeyFromObject(w.item.HelmOp)]
	return helmOp != nil && !isServed(helmOp) && time.Since(w.began) >= w.m.heldDelay
}

// revision returns the number of the newest HelmOp revision; 0 if it is not known.
func (w *awaited) revision() int64 {
	if helmOp := w.helmOp(); helmOp != nil && helmOp.Status.Rollout != nil {
		return helmOp.Status.Rollout.Revision
	}
	return 0
}

// isStalled reports whether nothing changes until a user does something.
func (w *awaited) isStalled() bool {
	helmOp := w.helmOp()
	if helmOp == nil {
		return false
	}
	stalled := conditions.Get(helmOp, addonsv1.StalledCondition)
	return stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.ObservedGeneration == helmOp.Generation
}

// hasStopped reports whether the HelmOp will do nothing more for any Cluster until a user does something. Failures of
// some Clusters do not stop the HelmOp: it continues with other Clusters after a soak time.
func (w *awaited) hasStopped() bool {
	return w.isStalled() && conditions.GetReason(w.helmOp(), addonsv1.ReadyCondition) != addonsv1.ReleasesFailedReason
}

// failureOf returns the failure of a Cluster that has no HelmOpRelease; nil if the HelmOp reports none.
func (w *awaited) failureOf(cluster string) *addonsv1.ClusterFailure {
	helmOp := w.helmOp()
	if helmOp == nil {
		return nil
	}
	for i := range helmOp.Status.Failures {
		if failure := &helmOp.Status.Failures[i]; failure.Cluster == cluster {
			return failure
		}
	}
	return nil
}

// unassigned returns the reason why Clusters have no HelmOpRelease, and the text about it; empty if the HelmOp reports
// none. The text may contain numbers that change.
func (w *awaited) unassigned() (reason, why string) {
	helmOp := w.helmOp()
	if helmOp == nil {
		return "", ""
	}
	ready := conditions.Get(helmOp, addonsv1.ReadyCondition)
	if ready != nil && ready.Status != metav1.ConditionTrue && !apiutil.ProgressReasons[ready.Reason] {
		return ready.Reason, ready.Reason + ": " + ready.Message
	}
	if counts := helmOp.Status.Clusters; counts != nil && counts.Paused > 0 {
		return addonsv1.PausedReason,
			plural.Count(counts.Paused, "Cluster is paused; resume it", "Clusters are paused; resume them")
	}
	return "", ""
}

// why describes an error of a wait.
func (m *migration) why(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("timed out after %s", m.timeout)
	}
	return err.Error()
}

// byCluster returns the HelmOpReleases of an item by their Clusters.
func byCluster(item *migrate.Item, objects map[client.ObjectKey]*addonsv1.HelmOpRelease,
) map[types.NamespacedName]*addonsv1.HelmOpRelease {
	children := map[types.NamespacedName]*addonsv1.HelmOpRelease{}
	for _, child := range objects {
		// Two long names may share a label value.
		if apiutil.HelmOpOf(child) == item.HelmOp.Name {
			children[apiutil.ClusterKey(child)] = child
		}
	}
	return children
}

// noteChanged warns about releases with another Helm revision than before.
func (m *migration) noteChanged(item *migrate.Item, objects map[client.ObjectKey]*addonsv1.HelmOpRelease) {
	children := byCluster(item, objects)
	for i := range item.Releases {
		release := &item.Releases[i]
		if child := children[release.Cluster]; !migrate.IsUnchanged(release, child) {
			m.Note("warning: the release %s/%s in Cluster %s has Helm revision %d; with %s it had %d", release.Namespace,
				release.Name, release.Cluster.Name, child.Status.Release.Revision, m.from, release.Revision)
		}
	}
}

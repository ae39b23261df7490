// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
)

// helmOpPage is the data of the view of a HelmOp.
type helmOpPage struct {
	HelmOp    *addonsv1.HelmOp
	Summary   fleetview.Summary
	Tallies   []tally
	Bar       bar
	Waves     []wave
	Budget    *budget
	Groups    []fleetview.Group
	More      int
	Revisions []*addonsv1.HelmOpRevision
	happenings
}

// happenings holds the Events about an object.
type happenings struct {
	Events []*corev1.Event
	// NoEvents is the reason why there are no Events; empty if they were read.
	NoEvents string
}

// maxEvents is the largest number of Events in a view.
const maxEvents = 20

// eventsOf reads the Events about an object, the newest first.
func (s *server) eventsOf(r *http.Request, about client.ObjectKey, kind string) happenings {
	events, err := s.Source.Events(r.Context(), about, kind)
	if err != nil {
		return happenings{NoEvents: err.Error()}
	}
	events = events[max(0, len(events)-maxEvents):]
	slices.Reverse(events)
	return happenings{Events: events}
}

// maxGroups is the largest number of groups of Clusters in the view of a HelmOp.
const maxGroups = 50

// helmOpView shows a HelmOp and its rollout.
func (s *server) helmOpView(r *http.Request, f *fleet) (content, error) {
	key := keyOf(r)
	helmOp := f.helmOp(key)
	if helmOp == nil {
		return notFound(fmt.Sprintf("HelmOp %q in namespace %q", key.Name, key.Namespace)), nil
	}
	rows := f.rowsOf(key)
	p := &helmOpPage{HelmOp: helmOp, Summary: fleetview.SummaryOf(helmOp, s.Program), Tallies: talliesOf(rows),
		happenings: s.eventsOf(r, key, apiutil.HelmOpKind)}
	p.Bar = barOf(p.Tallies)
	p.Groups = fleetview.Fold(rows, false)
	if p.More = len(p.Groups) - maxGroups; p.More > 0 {
		p.Groups = p.Groups[:maxGroups]
	}
	p.Waves = wavesOf(helmOp, rows, f.Releases, s.Now())
	p.Budget = budgetOf(helmOp)
	var err error
	p.Revisions, err = s.Source.Revisions(r.Context(), helmOp)
	slices.Reverse(p.Revisions)
	return content{Title: "HelmOp " + helmOp.Name, Template: "helmop", Data: p}, err
}

// budget is the failure budget of a rollout.
type budget struct {
	Failed, Max int
	// Then is what happens when the budget is spent.
	Then string
	Bar  bar
}

// budgetOf returns the failure budget; nil if there is none.
func budgetOf(helmOp *addonsv1.HelmOp) *budget {
	spec, status := helmOp.Spec.Rollout, helmOp.Status.Rollout
	if spec == nil || status == nil {
		return nil
	}
	selected := 0
	if helmOp.Status.Clusters != nil {
		selected = int(helmOp.Status.Clusters.Selected)
	}
	b := &budget{Failed: int(status.Failed), Max: rolloutstate.MaxFailures(spec).Of(selected),
		Then: "the rollout pauses"}
	if spec.OnFailure == addonsv1.RolloutFailureActionRollback {
		b.Then = "all Clusters return to the last known good revision"
	}
	b.Bar = newBar(part{Name: "failed", Class: classOf(fleetview.StateFailed), Count: min(b.Failed, b.Max)},
		part{Name: "left", Class: "s-none", Count: max(0, b.Max-b.Failed)})
	return b
}

// wave is the progress of a wave.
type wave struct {
	// Name is empty for the Clusters in no wave.
	Name, State string
	Selector    string
	Manual      bool
	// Soak is how long a Cluster must be Ready to be done.
	Soak time.Duration
	// SoakEnds is the end of the last soak time among the Clusters that are Ready now; zero if no soak time is running.
	SoakEnds time.Time
	// Clusters is the number of Clusters. Done is the number of Clusters that are done.
	Clusters, Done, Soaking int
	Bar                     bar
}

// standing is the state of a Cluster in the rollout of the newest HelmOp revision.
type standing int

const (
	standingDone standing = iota
	standingSoaking
	standingUpdating
	standingFailed
	standingUnreachable
	standingOutdated
	standings // the number of standings
)

// standingParts are the names and colours of the standings.
var standingParts = [standings]part{
	standingDone:        {Name: "done", Class: "s-ready"},
	standingSoaking:     {Name: "soaking", Class: "s-soaking"},
	standingUpdating:    {Name: "updating", Class: "s-progressing"},
	standingFailed:      {Name: "failed", Class: "s-failed"},
	standingUnreachable: {Name: "unreachable", Class: "s-unreachable"},
	standingOutdated:    {Name: "not updated", Class: "s-none"},
}

// wavesOf returns the progress of the waves, and of the Clusters in no wave. The rows are the rows of the HelmOp.
// wavesOf returns nothing for a HelmOp without a rollout.
func wavesOf(helmOp *addonsv1.HelmOp, rows []fleetview.Row,
	releases map[client.ObjectKey]*addonsv1.HelmOpRelease, now time.Time,
) []wave {
	if helmOp.Status.Rollout == nil {
		return nil
	}
	spec := ptr.Deref(helmOp.Spec.Rollout, addonsv1.Rollout{})
	states := fleetview.WaveStates(helmOp)
	var waves []wave
	for i := range spec.Waves {
		w := &spec.Waves[i]
		waves = append(waves, wave{Name: w.Name, State: states[i], Manual: w.Promotion == addonsv1.WavePromotionManual,
			Selector: metav1.FormatLabelSelector(&w.ClusterSelector),
			Soak:     time.Duration(ptr.Deref(w.MinReadySeconds, spec.MinReadySeconds)) * time.Second})
	}
	waves = append(waves, wave{Soak: time.Duration(spec.MinReadySeconds) * time.Second})
	counts := make([][standings]int, len(waves))
	for i := range rows {
		row := &rows[i]
		at := slices.IndexFunc(waves, func(w wave) bool { return w.Name == row.Wave })
		release := releases[client.ObjectKey{Namespace: row.Namespace, Name: row.Release}]
		if at < 0 || release != nil && !release.DeletionTimestamp.IsZero() {
			continue
		}
		w := &waves[at]
		stands, ends := standingOf(release, helmOp.Status.Rollout.Revision, w.Soak, now)
		counts[at][stands]++
		w.Clusters++
		if ends.After(w.SoakEnds) {
			w.SoakEnds = ends
		}
	}
	for i := range waves {
		parts := standingParts
		for stands := range parts {
			parts[stands].Count = counts[i][stands]
		}
		waves[i].Done, waves[i].Soaking = counts[i][standingDone], counts[i][standingSoaking]
		waves[i].Bar = newBar(parts[:]...)
	}
	// If all Clusters are in waves, the last group is not shown.
	if last := len(waves) - 1; last > 0 && waves[last].Clusters == 0 {
		waves = waves[:last]
	}
	return waves
}

// standingOf returns the standing of a release in the rollout of a HelmOp revision. If the soak time of the release is
// running, it also returns the end of this time. The release is nil if the Cluster has none.
func standingOf(release *addonsv1.HelmOpRelease, revision int64, soak time.Duration, now time.Time) (
	standing, time.Time,
) {
	if release == nil || apiutil.RevisionOf(release) != revision {
		return standingOutdated, time.Time{}
	}
	health, since := rolloutstate.Health(release)
	switch ends := since.Add(soak); {
	case health == rollout.HealthUnreachable:
		return standingUnreachable, time.Time{}
	case health == rollout.HealthFailed:
		return standingFailed, time.Time{}
	case health != rollout.HealthReady:
		return standingUpdating, time.Time{}
	case ends.After(now):
		return standingSoaking, ends
	default:
		return standingDone, time.Time{}
	}
}

// ClustersOf returns the names of the Clusters of a group, for a table.
func (*helmOpPage) ClustersOf(g *fleetview.Group) string { return plural.Few(g.Clusters, 5) }

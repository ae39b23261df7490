// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// State is the state of a HelmOp in a Cluster, in one word.
type State string

// The states, the most urgent first.
const (
	// StateStalled means: there are no retries left, and a user has to act.
	StateStalled State = "Stalled"
	// StateFailed means: the release failed, is not healthy, cannot be rendered or could not be uninstalled.
	StateFailed State = "Failed"
	// StateUnreachable means: the API server of the Cluster does not answer.
	StateUnreachable State = "Unreachable"
	// StateDrifted means: objects in the Cluster differ from the release.
	StateDrifted State = "Drifted"
	// StateDeleting means: the release is being deleted.
	StateDeleting State = "Deleting"
	// StateWaiting means: the release waits for its Cluster, for another HelmOp or for its rollout.
	StateWaiting State = "Waiting"
	// StateProgressing means: the release is being changed.
	StateProgressing State = "Progressing"
	// StatePaused means: the HelmOp, the Cluster or the release is paused.
	StatePaused State = "Paused"
	// StatePinned means: the release is Ready, and a user has pinned it to another HelmOp revision than the newest.
	StatePinned State = "Pinned"
	// StateOutdated means: the release is Ready and does not have the newest HelmOp revision.
	StateOutdated State = "Outdated"
	// StateReady means: the release is Ready and has the newest HelmOp revision.
	StateReady State = "Ready"
)

// States are all states, the most urgent first.
var States = []State{
	StateStalled, StateFailed, StateUnreachable, StateDrifted, StateDeleting, StateWaiting, StateProgressing, StatePaused,
	StatePinned, StateOutdated, StateReady,
}

// IsUnhealthy reports whether a state needs the attention of a user.
func (s State) IsUnhealthy() bool {
	switch s {
	case StateStalled, StateFailed, StateUnreachable, StateDrifted:
		return true
	default:
		return false
	}
}

// Urgency returns the position of a state in States: the most urgent state has the lowest number.
func (s State) Urgency() int { return slices.Index(States, s) }

// waitingReasons are the reasons of a release that waits for its Cluster or for another HelmOp.
var waitingReasons = map[string]bool{
	addonsv1.ControlPlaneNotInitializedReason: true,
	addonsv1.WaitingForDependenciesReason:     true,
	addonsv1.WaitingForMaintenanceReason:      true,
	addonsv1.ImagesMissingReason:              true,
	addonsv1.ImagesUnknownReason:              true,
	addonsv1.AdoptionPendingReason:            true,
	addonsv1.OtherShardReason:                 true,
	addonsv1.ClusterNotFoundReason:            true,
}

// Row is the state of a HelmOp in a Cluster.
type Row struct {
	Namespace string `json:"namespace"`
	HelmOp    string `json:"helmOp"`
	// Cluster is the name of the Cluster. It has the form namespace/name if the Cluster and the HelmOp are in different
	// namespaces.
	Cluster string `json:"cluster"`
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Version is the observed version of the chart, and HelmRevision the observed Helm revision.
	Version      string `json:"version,omitempty"`
	HelmRevision int64  `json:"helmRevision,omitempty"`
	// HelmOpRevision is the HelmOp revision that is assigned to the release.
	HelmOpRevision int64  `json:"helmOpRevision,omitempty"`
	Wave           string `json:"wave,omitempty"`
	// Since is when the state began.
	Since metav1.Time `json:"since,omitempty,omitzero"`
	// Release is the name of the HelmOpRelease; empty if there is none.
	Release string `json:"helmOpRelease,omitempty"`
}

// Key identifies a row.
func (r *Row) Key() string { return r.Namespace + "/" + r.HelmOp + "/" + r.Cluster }

// ClusterKey returns the namespace and the name of the Cluster.
func (r *Row) ClusterKey() client.ObjectKey {
	if namespace, name, ok := strings.Cut(r.Cluster, "/"); ok {
		return client.ObjectKey{Namespace: namespace, Name: name}
	}
	return client.ObjectKey{Namespace: r.Namespace, Name: r.Cluster}
}

// Alike returns a text that is equal for rows that Fold combines.
func (r *Row) Alike() string {
	return strings.Join([]string{r.Namespace, r.HelmOp, string(r.State), r.Version, r.Reason, r.General()}, "\x00")
}

// StateOf returns the state of a release, and the condition that explains the state. The condition may be nil. revision
// is the newest HelmOp revision; 0 if it is not known.
func StateOf(release *addonsv1.HelmOpRelease, revision int64) (State, *metav1.Condition) {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	reachable := apiutil.ReachabilityOf(release)
	isTrue := func(condition string) bool { return conditions.IsTrue(release, condition) }
	switch {
	case isTrue(addonsv1.PausedCondition):
		return StatePaused, conditions.Get(release, addonsv1.PausedCondition)
	case reachable != nil && reachable.Reason == addonsv1.ClusterUnreachableReason:
		return StateUnreachable, ready
	case !release.DeletionTimestamp.IsZero() && !hasFailedDeletion(release, ready):
		return StateDeleting, ready
	case isTrue(addonsv1.StalledCondition):
		return StateStalled, ready
	case ready == nil || ready.Status == metav1.ConditionUnknown || ready.ObservedGeneration < release.Generation:
		return StateProgressing, ready
	case isTrue(addonsv1.DriftedCondition) && (ready.Status == metav1.ConditionTrue ||
		ready.Reason == conditions.GetReason(release, addonsv1.DriftedCondition)):
		return StateDrifted, conditions.Get(release, addonsv1.DriftedCondition)
	case ready.Status == metav1.ConditionTrue && revision > apiutil.RevisionOf(release) &&
		apiutil.RevisionOf(release) > 0:
		if _, pinned := apiutil.PinOf(release); pinned {
			return StatePinned, ready
		}
		return StateOutdated, ready
	case ready.Status == metav1.ConditionTrue:
		return StateReady, ready
	case waitingReasons[ready.Reason]:
		return StateWaiting, ready
	case apiutil.ProgressReasons[ready.Reason]:
		return StateProgressing, ready
	default:
		return StateFailed, ready
	}
}

// hasFailedDeletion reports whether the condition Ready of a release under deletion says that the deletion needs a
// user. A failure from before the deletion does not count, and neither does a wait that ends without a user.
func hasFailedDeletion(release *addonsv1.HelmOpRelease, ready *metav1.Condition) bool {
	return ready != nil && ready.Status == metav1.ConditionFalse && ready.ObservedGeneration >= release.Generation &&
		!apiutil.ProgressReasons[ready.Reason] && !waitingReasons[ready.Reason] &&
		ready.Reason != addonsv1.ReleasePendingReason
}

// World holds the objects of the management cluster that the user may read.
type World struct {
	HelmOps  map[client.ObjectKey]*addonsv1.HelmOp
	Releases map[client.ObjectKey]*addonsv1.HelmOpRelease
	// Clusters are the Clusters. It is empty if the user may not list them.
	Clusters map[client.ObjectKey]*unstructured.Unstructured
}

// NewWorld returns a World with these objects.
func NewWorld(helmOps []*addonsv1.HelmOp, releases []*addonsv1.HelmOpRelease,
	clusters []*unstructured.Unstructured,
) *World {
	return &World{HelmOps: ByKey(helmOps), Releases: ByKey(releases), Clusters: ByKey(clusters)}
}

// ByKey returns objects by their namespaces and names.
func ByKey[T client.Object](items []T) map[client.ObjectKey]T {
	keyed := make(map[client.ObjectKey]T, len(items))
	for _, item := range items {
		keyed[client.ObjectKeyFromObject(item)] = item
	}
	return keyed
}

// rows returns a row for each release, and for each selected Cluster without a release; the most urgent first.
func (w *World) rows() []Row {
	var rows []Row
	served := map[string]bool{}
	for _, release := range w.Releases {
		row := w.RowOf(release)
		rows, served[row.Key()] = append(rows, row), true
	}
	for _, helmOp := range w.HelmOps {
		for _, row := range w.missing(helmOp) {
			if !served[row.Key()] {
				rows, served[row.Key()] = append(rows, row), true
			}
		}
	}
	slices.SortFunc(rows, CompareRows)
	return rows
}

// CompareRows orders rows: the most urgent first, then by namespace, HelmOp and Cluster.
func CompareRows(a, b Row) int {
	return cmp.Or(
		cmp.Compare(a.State.Urgency(), b.State.Urgency()),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.HelmOp, b.HelmOp),
		cmp.Compare(a.Cluster, b.Cluster),
		cmp.Compare(a.Release, b.Release),
	)
}

// RowOf returns the row of a release.
func (w *World) RowOf(release *addonsv1.HelmOpRelease) Row {
	row := Row{
		Namespace: release.Namespace, HelmOp: apiutil.HelmOpOf(release), Cluster: apiutil.ClusterTitle(release),
		Release: release.Name, HelmOpRevision: apiutil.RevisionOf(release),
	}
	revision := int64(0)
	helmOp := w.HelmOps[client.ObjectKey{Namespace: row.Namespace, Name: row.HelmOp}]
	if helmOp != nil && helmOp.Status.Rollout != nil {
		revision = helmOp.Status.Rollout.Revision
	}
	if cluster := w.Clusters[apiutil.ClusterKey(release)]; helmOp != nil && cluster != nil {
		row.Wave = waveOf(helmOp, cluster.GetLabels())
	}
	if observed := release.Status.Release; observed != nil {
		row.Version, row.HelmRevision = observed.Version, observed.Revision
	}
	var why *metav1.Condition
	row.State, why = StateOf(release, revision)
	if why != nil {
		row.Reason, row.Message, row.Since = why.Reason, why.Message, why.LastTransitionTime
	}
	switch row.State {
	case StateReady:
		row.Message = ""
	case StateOutdated:
		row.Reason, row.Message = "", fmt.Sprintf("Has HelmOp revision %d; the newest is %d", row.HelmOpRevision, revision)
		// The newest revision may have failed for this Cluster before it was assigned.
		for _, failure := range FailuresOf(helmOp) {
			if failure.Cluster == row.Cluster {
				row.State, row.Reason, row.Message = StateFailed, failure.Reason, failure.Message
			}
		}
	case StateDeleting:
		row.Since = *release.DeletionTimestamp
	}
	return row
}

// FailuresOf returns the failures in the status of a HelmOp. It returns none for a HelmOp that is being deleted: the
// status then still has the failures from before.
func FailuresOf(helmOp *addonsv1.HelmOp) []addonsv1.ClusterFailure {
	if !helmOp.DeletionTimestamp.IsZero() {
		return nil
	}
	return helmOp.Status.Failures
}

// missing returns rows for the Clusters that a HelmOp selects and that have no release, as far as the caller knows. It
// considers the Clusters of the namespace and the shard of the HelmOp, and the failures in the status of the HelmOp.
func (w *World) missing(helmOp *addonsv1.HelmOp) []Row {
	var rows []Row
	row := func(cluster string, state State, reason, message string) {
		rows = append(rows, Row{Namespace: helmOp.Namespace, HelmOp: helmOp.Name, Cluster: cluster, State: state,
			Reason: reason, Message: message})
	}
	for _, failure := range FailuresOf(helmOp) {
		row(failure.Cluster, StateFailed, failure.Reason, failure.Message)
	}
	selector, err := selection.Compile(helmOp.Spec.ClusterSelector)
	if err != nil {
		return rows
	}
	for key, cluster := range w.Clusters {
		if key.Namespace != helmOp.Namespace || !selector.Matches(labels.Set(cluster.GetLabels())) ||
			cluster.GetDeletionTimestamp() != nil || !helmOp.DeletionTimestamp.IsZero() ||
			apiutil.ShardTitle(cluster) != apiutil.ShardTitle(helmOp) {
			continue
		}
		initialized, _, _ := unstructured.NestedBool(cluster.Object, "status", "initialization",
			"controlPlaneInitialized")
		if initialized {
			row(key.Name, StateWaiting, addonsv1.ProgressingReason, "The Cluster has no release yet")
		} else {
			row(key.Name, StateWaiting, addonsv1.ControlPlaneNotInitializedReason,
				"The control plane of the Cluster is not initialized")
		}
	}
	for i := range rows {
		if cluster := w.Clusters[rows[i].ClusterKey()]; cluster != nil {
			rows[i].Wave = waveOf(helmOp, cluster.GetLabels())
		}
	}
	return rows
}

// waveOf returns the name of the wave of a Cluster; empty if the Cluster is in no wave.
func waveOf(helmOp *addonsv1.HelmOp, clusterLabels map[string]string) string {
	if helmOp.Spec.Rollout == nil {
		return ""
	}
	for i := range helmOp.Spec.Rollout.Waves {
		wave := &helmOp.Spec.Rollout.Waves[i]
		selector, err := selection.Compile(&wave.ClusterSelector)
		if err == nil && selector.Matches(labels.Set(clusterLabels)) {
			return wave.Name
		}
	}
	return ""
}

// Filter selects rows. An empty field selects all.
type Filter struct {
	HelmOps  []string
	Clusters []string
	States   []string
	// Waves select Clusters by their wave. The empty name selects Clusters in no wave.
	Waves    []string
	Selector labels.Selector
}

// Matches reports whether the filter selects a row.
func (f *Filter) Matches(w *World, row *Row) bool {
	anyOf := func(wanted []string, values ...string) bool {
		return len(wanted) == 0 || slices.ContainsFunc(values, func(value string) bool {
			return slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, value) })
		})
	}
	key := row.ClusterKey()
	cluster := w.Clusters[key]
	return anyOf(f.HelmOps, row.HelmOp) &&
		anyOf(f.Clusters, row.Cluster, key.String(), strings.ReplaceAll(row.Cluster, " ", "-")) &&
		anyOf(f.States, string(row.State)) &&
		(len(f.Waves) == 0 || cluster != nil && slices.Contains(f.Waves, row.Wave)) &&
		(f.Selector == nil || f.Selector.Empty() || cluster != nil && f.Selector.Matches(labels.Set(cluster.GetLabels())))
}

// Unmatched returns the Clusters, waves and labels of the filter that select no row. If each of them selects rows, but
// no row has all of them, it returns all of them.
func (f *Filter) Unmatched(w *World) []string {
	rows := w.rows()
	var all, unmatched []string
	add := func(name string, one Filter) {
		one.HelmOps, all = f.HelmOps, append(all, name)
		if !slices.ContainsFunc(rows, func(row Row) bool { return one.Matches(w, &row) }) {
			unmatched = append(unmatched, name)
		}
	}
	for _, cluster := range f.Clusters {
		add("the Cluster "+cluster, Filter{Clusters: []string{cluster}})
	}
	for _, wave := range f.Waves {
		add(fmt.Sprintf("the wave %q", wave), Filter{Waves: []string{wave}})
	}
	if f.Selector != nil && !f.Selector.Empty() {
		add("the labels "+f.Selector.String(), Filter{Selector: f.Selector})
	}
	together := Filter{HelmOps: f.HelmOps, Clusters: f.Clusters, Waves: f.Waves, Selector: f.Selector}
	if len(unmatched) == 0 && !slices.ContainsFunc(rows, func(row Row) bool { return together.Matches(w, &row) }) {
		return all
	}
	return unmatched
}

// View returns the summaries and rows that the filter selects. With a filter for rows, it omits summaries without a
// selected row.
func (f *Filter) View(w *World, p Program) ([]Summary, []Row) {
	rows := slices.DeleteFunc(w.rows(), func(row Row) bool { return !f.Matches(w, &row) })
	var summaries []Summary
	for _, helmOp := range w.HelmOps {
		if len(f.HelmOps) > 0 && !slices.Contains(f.HelmOps, helmOp.Name) || f.filtersRows() &&
			!slices.ContainsFunc(rows, func(row Row) bool {
				return row.HelmOp == helmOp.Name && row.Namespace == helmOp.Namespace
			}) {
			continue
		}
		summaries = append(summaries, SummaryOf(helmOp, p))
	}
	slices.SortFunc(summaries, compareSummaries)
	return summaries, rows
}

// filtersRows reports whether the filter may omit rows of a HelmOp.
func (f *Filter) filtersRows() bool {
	return len(f.Clusters)+len(f.States)+len(f.Waves) > 0 || f.Selector != nil && !f.Selector.Empty()
}

func compareSummaries(a, b Summary) int {
	rank := func(s *Summary) int {
		switch {
		case s.Unhealthy:
			return 0
		case s.Ready != "True":
			return 1
		default:
			return 2
		}
	}
	if d := rank(&a) - rank(&b); d != 0 {
		return d
	}
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
}

// IsUnhealthy reports whether something in a view is unhealthy. With a filter for rows, only the rows count, because
// the summary of a HelmOp covers all its Clusters.
func (f *Filter) IsUnhealthy(summaries []Summary, rows []Row) bool {
	return slices.ContainsFunc(rows, func(row Row) bool { return row.State.IsUnhealthy() }) ||
		!f.filtersRows() && slices.ContainsFunc(summaries, func(summary Summary) bool { return summary.Unhealthy })
}

// StateNames returns the names of all states, for a text.
func StateNames() string {
	var all []string
	for _, state := range States {
		all = append(all, string(state))
	}
	return strings.Join(all, ", ")
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// State is the state of a HelmOp in a Cluster, in one word.
type State string

// The states, the most urgent first.
const (
	// StateStalled means: the retries are spent, and a user has to act.
	StateStalled State = "Stalled"
	// StateFailed means: the release failed, is not healthy or cannot be rendered.
	StateFailed State = "Failed"
	// StateUnreachable means: the API server of the Cluster does not answer.
	StateUnreachable State = "Unreachable"
	// StateDrifted means: objects in the Cluster differ from the release.
	StateDrifted State = "Drifted"
	// StateDeleting means: the release is being deleted.
	StateDeleting State = "Deleting"
	// StateWaiting means: the release waits for its Cluster or for another HelmOp.
	StateWaiting State = "Waiting"
	// StateProgressing means: the release is being changed.
	StateProgressing State = "Progressing"
	// StatePaused means: the HelmOp, the Cluster or the release is paused.
	StatePaused State = "Paused"
	// StateOutdated means: the release is Ready and does not have the newest HelmOp revision.
	StateOutdated State = "Outdated"
	// StateReady means: the release is Ready and has the newest HelmOp revision.
	StateReady State = "Ready"
)

// states are all states, the most urgent first.
var states = []State{
	StateStalled, StateFailed, StateUnreachable, StateDrifted, StateDeleting, StateWaiting, StateProgressing, StatePaused,
	StateOutdated, StateReady,
}

// isUnhealthy is true for the states that need the attention of a user.
func (s State) isUnhealthy() bool {
	switch s {
	case StateStalled, StateFailed, StateUnreachable, StateDrifted:
		return true
	default:
		return false
	}
}

// urgency orders states.
func (s State) urgency() int { return slices.Index(states, s) }

// waitingReasons are the reasons of a release that waits for its Cluster or for another HelmOp.
var waitingReasons = map[string]bool{
	addonsv1.ControlPlaneNotInitializedReason: true,
	addonsv1.WaitingForDependenciesReason:     true,
	addonsv1.OtherShardReason:                 true,
	addonsv1.ClusterNotFoundReason:            true,
}

// Row is the state of a HelmOp in a Cluster.
type Row struct {
	Namespace string `json:"namespace"`
	HelmOp    string `json:"helmOp"`
	// Cluster is the name of the Cluster, or namespace/name for a Cluster of another namespace than the HelmOp's.
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

// key identifies a row.
func (r *Row) key() string { return r.Namespace + "/" + r.HelmOp + "/" + r.Cluster }

// stateOf returns the state of a release, and the condition that explains the state; the condition may be nil.
// revision is the newest HelmOp revision; 0 if it is not known.
func stateOf(release *addonsv1.HelmOpRelease, revision int64) (State, *metav1.Condition) {
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	isTrue := func(condition string) bool { return conditions.IsTrue(release, condition) }
	switch {
	case !release.DeletionTimestamp.IsZero():
		return StateDeleting, ready
	case isTrue(addonsv1.PausedCondition):
		return StatePaused, conditions.Get(release, addonsv1.PausedCondition)
	case conditions.IsFalse(release, addonsv1.ClusterReachableCondition) &&
		conditions.GetReason(release, addonsv1.ClusterReachableCondition) != addonsv1.KubeconfigRefusedReason:
		return StateUnreachable, ready
	case isTrue(addonsv1.StalledCondition):
		return StateStalled, ready
	case ready == nil || ready.Status == metav1.ConditionUnknown || ready.ObservedGeneration < release.Generation:
		return StateProgressing, ready
	case isTrue(addonsv1.DriftedCondition) && (ready.Status == metav1.ConditionTrue ||
		ready.Reason == conditions.GetReason(release, addonsv1.DriftedCondition)):
		return StateDrifted, conditions.Get(release, addonsv1.DriftedCondition)
	case ready.Status == metav1.ConditionTrue && revision > apiutil.RevisionOf(release) &&
		apiutil.RevisionOf(release) > 0:
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

// world is what is known of the management cluster.
type world struct {
	helmOps  map[client.ObjectKey]*addonsv1.HelmOp
	releases map[client.ObjectKey]*addonsv1.HelmOpRelease
	// clusters are the Clusters. It is nil if the user may not list them.
	clusters map[client.ObjectKey]*unstructured.Unstructured
}

func byKey[T client.Object](items []T) map[client.ObjectKey]T {
	keyed := make(map[client.ObjectKey]T, len(items))
	for _, item := range items {
		keyed[client.ObjectKeyFromObject(item)] = item
	}
	return keyed
}

// rows returns a row for each release, and for each selected Cluster without a release; the most urgent first.
func (w *world) rows() []Row {
	var rows []Row
	served := map[string]bool{}
	for _, release := range w.releases {
		row := w.rowOf(release)
		rows, served[row.key()] = append(rows, row), true
	}
	for _, helmOp := range w.helmOps {
		for _, row := range w.missing(helmOp) {
			if !served[row.key()] {
				rows, served[row.key()] = append(rows, row), true
			}
		}
	}
	slices.SortFunc(rows, compareRows)
	return rows
}

func compareRows(a, b Row) int {
	return cmp.Or(
		cmp.Compare(a.State.urgency(), b.State.urgency()),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.HelmOp, b.HelmOp),
		cmp.Compare(a.Cluster, b.Cluster),
		cmp.Compare(a.Release, b.Release),
	)
}

// rowOf returns the row of a release.
func (w *world) rowOf(release *addonsv1.HelmOpRelease) Row {
	row := Row{
		Namespace: release.Namespace, HelmOp: apiutil.HelmOpOf(release), Cluster: apiutil.ClusterTitle(release),
		Release: release.Name, HelmOpRevision: apiutil.RevisionOf(release),
	}
	revision := int64(0)
	helmOp := w.helmOps[client.ObjectKey{Namespace: row.Namespace, Name: row.HelmOp}]
	if helmOp != nil && helmOp.Status.Rollout != nil {
		revision = helmOp.Status.Rollout.Revision
	}
	if cluster := w.clusters[apiutil.ClusterKey(release)]; helmOp != nil && cluster != nil {
		row.Wave = waveOf(helmOp, cluster.GetLabels())
	}
	if observed := release.Status.Release; observed != nil {
		row.Version, row.HelmRevision = observed.Version, observed.Revision
	}
	var why *metav1.Condition
	row.State, why = stateOf(release, revision)
	if why != nil {
		row.Reason, row.Message, row.Since = why.Reason, why.Message, why.LastTransitionTime
	}
	switch row.State {
	case StateReady:
		row.Message = ""
	case StateOutdated:
		row.Reason, row.Message = "", fmt.Sprintf("Has HelmOp revision %d; the newest is %d", row.HelmOpRevision, revision)
		// The newest revision may have failed for this Cluster before it was assigned.
		for _, failure := range helmOp.Status.Failures {
			if failure.Cluster == row.Cluster {
				row.State, row.Reason, row.Message = StateFailed, failure.Reason, failure.Message
			}
		}
	case StateDeleting:
		row.Since = *release.DeletionTimestamp
	}
	return row
}

// missing returns rows for the Clusters that a HelmOp selects and, as far as the caller knows, have no release. It
// looks at the Clusters of the namespace and the shard of the HelmOp, and at the failures in the status of the HelmOp.
func (w *world) missing(helmOp *addonsv1.HelmOp) []Row {
	var rows []Row
	row := func(cluster string, state State, reason, message string) {
		rows = append(rows, Row{Namespace: helmOp.Namespace, HelmOp: helmOp.Name, Cluster: cluster, State: state,
			Reason: reason, Message: message})
	}
	for _, failure := range helmOp.Status.Failures {
		row(failure.Cluster, StateFailed, failure.Reason, failure.Message)
	}
	selector, err := metav1.LabelSelectorAsSelector(helmOp.Spec.ClusterSelector)
	if err != nil {
		return rows
	}
	for key, cluster := range w.clusters {
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
		if cluster := w.clusters[clusterKey(helmOp, rows[i].Cluster)]; cluster != nil {
			rows[i].Wave = waveOf(helmOp, cluster.GetLabels())
		}
	}
	return rows
}

// clusterKey is the key of a Cluster that the status of a HelmOp names.
func clusterKey(helmOp *addonsv1.HelmOp, title string) client.ObjectKey {
	if namespace, name, ok := strings.Cut(title, "/"); ok {
		return client.ObjectKey{Namespace: namespace, Name: name}
	}
	return client.ObjectKey{Namespace: helmOp.Namespace, Name: title}
}

// waveOf returns the name of the wave of a Cluster; empty if the Cluster is in no wave.
func waveOf(helmOp *addonsv1.HelmOp, clusterLabels map[string]string) string {
	if helmOp.Spec.Rollout == nil {
		return ""
	}
	for i := range helmOp.Spec.Rollout.Waves {
		wave := &helmOp.Spec.Rollout.Waves[i]
		selector, err := metav1.LabelSelectorAsSelector(&wave.ClusterSelector)
		if err == nil && selector.Matches(labels.Set(clusterLabels)) {
			return wave.Name
		}
	}
	return ""
}

// filter chooses rows. An empty field chooses all.
type filter struct {
	helmOps  []string
	clusters []string
	states   []string
	// waves choose Clusters by their wave; the empty name is for Clusters in no wave.
	waves    []string
	selector labels.Selector
}

// matches is true if a filter chooses a row.
func (f *filter) matches(w *world, row *Row) bool {
	anyOf := func(wanted []string, values ...string) bool {
		return len(wanted) == 0 || slices.ContainsFunc(values, func(value string) bool {
			return slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, value) })
		})
	}
	key := client.ObjectKey{Namespace: row.Namespace, Name: row.Cluster}
	if namespace, name, ok := strings.Cut(row.Cluster, "/"); ok {
		key = client.ObjectKey{Namespace: namespace, Name: name}
	}
	cluster := w.clusters[key]
	return anyOf(f.helmOps, row.HelmOp) &&
		anyOf(f.clusters, row.Cluster, key.String(), strings.ReplaceAll(row.Cluster, " ", "-")) &&
		anyOf(f.states, string(row.State)) &&
		(len(f.waves) == 0 || cluster != nil && slices.Contains(f.waves, row.Wave)) &&
		(f.selector == nil || f.selector.Empty() || cluster != nil && f.selector.Matches(labels.Set(cluster.GetLabels())))
}

// Group is a row for one Cluster, or for several Clusters whose rows are alike.
type Group struct {
	Row

	// Clusters are the Clusters of the group.
	Clusters []string

	// the least and the greatest values in the group
	oldest, newest           time.Time
	minRevision, maxRevision int64
}

// fold puts rows together that have the same HelmOp, state, version and message, not considering names of the Cluster
// and of the HelmOpRelease in the message. The order is that of the first rows. With all it puts nothing together.
func fold(rows []Row, all bool) []Group {
	var groups []Group
	index := map[string]int{}
	for _, row := range rows {
		message := generalize(&row)
		key := strings.Join([]string{row.Namespace, row.HelmOp, string(row.State), row.Version, row.Reason, message}, "\x00")
		at, ok := index[key]
		if !ok || all {
			index[key] = len(groups)
			groups = append(groups, Group{Row: row, Clusters: []string{row.Cluster}, oldest: row.Since.Time,
				newest: row.Since.Time, minRevision: row.HelmRevision, maxRevision: row.HelmRevision})
			continue
		}
		g := &groups[at]
		g.Message = message
		g.Clusters = append(g.Clusters, row.Cluster)
		g.minRevision, g.maxRevision = min(g.minRevision, row.HelmRevision), max(g.maxRevision, row.HelmRevision)
		if row.Since.Time.Before(g.oldest) {
			g.oldest = row.Since.Time
		}
		if row.Since.After(g.newest) {
			g.newest = row.Since.Time
		}
	}
	return groups
}

// generalize replaces the names of the Cluster and of the HelmOpRelease in the message of a row.
func generalize(row *Row) string {
	message := replaceName(row.Message, row.Release, "<release>")
	message = replaceName(message, row.Cluster, "<cluster>")
	if _, name, ok := strings.Cut(row.Cluster, "/"); ok {
		message = replaceName(message, name, "<cluster>")
	}
	return message
}

// replaceName replaces a name where it is not a part of a longer name.
func replaceName(text, name, placeholder string) string {
	if name == "" || !strings.Contains(text, name) {
		return text
	}
	// Two names may share the character between them, so the second pass finds what the first one could not.
	whole := regexp.MustCompile(`(^|[^A-Za-z0-9.-])` + regexp.QuoteMeta(name) + `($|[^A-Za-z0-9-.]|\.($|\s))`)
	for range 2 {
		text = whole.ReplaceAllString(text, "${1}"+placeholder+"${2}")
	}
	return text
}

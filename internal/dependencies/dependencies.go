// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"fmt"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/celexpr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

const (
	// maxUnmet bounds how many dependencies a message names.
	maxUnmet = 3
)

// Dependency is an entry in dependsOn: a HelmOp on which another HelmOp depends.
type Dependency struct {
	addonsv1.Dependency

	// HelmOp is the HelmOp of the dependency; nil if it does not exist or belongs to another shard.
	HelmOp *addonsv1.HelmOp

	// otherShard is the message that the HelmOp belongs to another shard; empty otherwise.
	otherShard string

	// selector selects the Clusters of the HelmOp; nil if it is malformed.
	selector *selection.Selector

	// unsettled is why the desired state of the HelmOp is not known yet; empty if it is known.
	unsettled string
}

func newDependency(named addonsv1.Dependency, helmOp *addonsv1.HelmOp) Dependency {
	d := Dependency{Dependency: named, HelmOp: helmOp}
	if helmOp == nil {
		return d
	}
	if selector, err := selection.SelectorOf(helmOp); err == nil {
		d.selector = selector
	}
	d.unsettled = Unsettled(helmOp)
	return d
}

// Unsettled returns why a HelmOp has not written its desired state into its releases yet; empty if it has. HelmOps that
// a user applies together must be installed in order. Until a HelmOp has written its releases, they are Ready with the
// previous spec.
func Unsettled(helmOp *addonsv1.HelmOp) string {
	if apiutil.IsHelmOpPaused(helmOp) {
		return "" // The releases do not change.
	}
	// Only a complete reconciliation writes RollingOut, after the releases.
	rollingOut := conditions.Get(helmOp, addonsv1.RollingOutCondition)
	if rollingOut == nil || rollingOut.ObservedGeneration != helmOp.Generation {
		return "has changed and has not been reconciled yet"
	}
	source, err := apiutil.SourceDigest(&helmOp.Spec.Source)
	if err == nil && (helmOp.Status.Artifact == nil || helmOp.Status.Artifact.SourceDigest != source) {
		return "is not resolved yet"
	}
	// References of overrides and Kubernetes versions must be resolved too: until then, there is no new HelmOp revision.
	if resolved := conditions.Get(helmOp, addonsv1.ResolvedCondition); resolved != nil &&
		resolved.Status == metav1.ConditionUnknown {
		return "is not resolved yet"
	}
	return ""
}

// Unmet returns why the dependency is not ready in a Cluster; empty if it is ready. release is the release of the
// dependency in the Cluster, nil if there is none.
func (d *Dependency) Unmet(cluster metav1.Object, release *addonsv1.HelmOpRelease) string {
	switch {
	case d.otherShard != "":
		return d.otherShard
	case d.HelmOp == nil:
		return fmt.Sprintf("HelmOp %s does not exist", d.Name)
	case release == nil && (d.selector == nil || !d.selector.Matches(cluster)):
		return fmt.Sprintf("HelmOp %s does not select %s", d.Name, apiutil.PlaceOf(cluster))
	case release == nil:
		return fmt.Sprintf("HelmOp %s has no release in %s yet", d.Name, apiutil.PlaceOf(cluster))
	case !release.DeletionTimestamp.IsZero():
		return fmt.Sprintf("the release of HelmOp %s is being deleted", d.Name)
	case d.unsettled != "":
		return fmt.Sprintf("HelmOp %s %s", d.Name, d.unsettled)
	case d.isOutdated(release):
		return fmt.Sprintf("HelmOp %s has not assigned HelmOp revision %d to %s yet",
			d.Name, d.HelmOp.Status.Rollout.Revision, apiutil.PlaceOf(cluster))
	}
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	switch {
	case ready == nil || ready.ObservedGeneration != release.Generation:
		return fmt.Sprintf("the release of HelmOp %s has not been checked yet", d.Name)
	case ready.Status != metav1.ConditionTrue:
		return fmt.Sprintf("the release of HelmOp %s is not Ready: %s: %s", d.Name, ready.Reason, ready.Message)
	case d.ReadyExpr == "":
		return ""
	}
	switch truth, err := isReadyBy(d.ReadyExpr, release); {
	case err != nil:
		return fmt.Sprintf("readyExpr for HelmOp %s cannot be evaluated: %v", d.Name, err)
	case !truth:
		return fmt.Sprintf("readyExpr for HelmOp %s is false", d.Name)
	default:
		return ""
	}
}

// isOutdated reports whether a release does not have the newest revision of its HelmOp yet. During a rollout that has
// not reached the Cluster, the release is not outdated: a user who needs more can use readyExpr.
func (d *Dependency) isOutdated(release *addonsv1.HelmOpRelease) bool {
	desired, assigned := d.HelmOp.Status.Rollout, release.Spec.Rollout
	if desired == nil || assigned == nil || assigned.Revision == desired.Revision ||
		apiutil.IsHelmOpPaused(d.HelmOp) || apiutil.IsChildPaused(release) {
		return false
	}
	switch desired.Phase {
	case addonsv1.RolloutPhaseComplete:
		return true
	case "", addonsv1.RolloutPhaseProgressing:
		return d.HelmOp.Spec.Rollout == nil
	default:
		return false // The rollout has stopped: it was aborted, or waits for a user.
	}
}

// readinessCache caches the results of expressions for releases. A pass over a fleet evaluates the expressions for a
// thousand unchanged releases.
var readinessCache = func() *lru.Cache[readinessKey, readinessResult] {
	cache, err := lru.New[readinessKey, readinessResult](maxCachedResults)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return cache
}()

// maxCachedResults bounds the cache, whose entries have some hundred bytes each.
const maxCachedResults = 16384

type readinessKey struct {
	source  string
	release types.UID
	version string
}

type readinessResult struct {
	truth bool
	err   error
}

// isReadyBy reports whether an expression is true for a release.
func isReadyBy(source string, release *addonsv1.HelmOpRelease) (bool, error) {
	key := readinessKey{source, release.UID, release.ResourceVersion}
	if cached, ok := readinessCache.Get(key); ok {
		return cached.truth, cached.err
	}
	truth, err := evaluateReadiness(source, release)
	if release.UID != "" && release.ResourceVersion != "" {
		readinessCache.Add(key, readinessResult{truth, err})
	}
	return truth, err
}

func evaluateReadiness(source string, release *addonsv1.HelmOpRelease) (bool, error) {
	expression, err := celexpr.Compile("release", source)
	if err != nil {
		return false, err
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(release)
	if err != nil {
		return false, fmt.Errorf("reading the release: %w", err)
	}
	object["apiVersion"], object["kind"] = addonsv1.GroupVersion.String(), "HelmOpRelease"
	return expression.Holds(object)
}

// InvalidDependency returns why one of the expressions is malformed; empty if none is.
func InvalidDependency(dependencies []addonsv1.Dependency) string {
	for _, dependency := range dependencies {
		if dependency.ReadyExpr == "" {
			continue
		}
		if _, err := celexpr.Compile("release", dependency.ReadyExpr); err != nil {
			return fmt.Sprintf("spec.dependsOn: readyExpr for HelmOp %s: %v", dependency.Name, err)
		}
	}
	return ""
}

// DependsOn reports whether a list of dependencies names a HelmOp.
func DependsOn(dependencies []addonsv1.Dependency, helmOp string) bool {
	return slices.ContainsFunc(dependencies, func(d addonsv1.Dependency) bool { return d.Name == helmOp })
}

// DependencyGraph holds the dependencies of the HelmOps of a namespace: the name of each HelmOp, and the names of the
// HelmOps on which it depends.
type DependencyGraph map[string][]string

// GraphOf returns the graph of the dependencies of HelmOps.
func GraphOf(helmOps []addonsv1.HelmOp) DependencyGraph {
	graph := make(DependencyGraph, len(helmOps))
	for i := range helmOps {
		graph.Add(helmOps[i].Name, helmOps[i].Spec.DependsOn)
	}
	return graph
}

// Add adds the dependencies of a HelmOp.
func (g DependencyGraph) Add(name string, dependencies []addonsv1.Dependency) {
	for _, dependency := range dependencies {
		g[name] = append(g[name], dependency.Name)
	}
}

// Path returns the shortest path of dependencies from one HelmOp to another; nil if there is none. The path has at
// least one step. If several paths have the same length, it follows the order of the entries in dependsOn. So the
// result is always the same.
func (g DependencyGraph) Path(from, to string) []string {
	cameFrom := map[string]string{}
	queue := []string{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, next := range g[at] {
			if next == to {
				path := []string{to, at}
				for at != from {
					at = cameFrom[at]
					path = append(path, at)
				}
				slices.Reverse(path)
				return path
			}
			if _, seen := cameFrom[next]; !seen && next != from {
				cameFrom[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// dependents returns the HelmOps that depend on a HelmOp, directly or through other HelmOps. The HelmOp itself is among
// them only if there is a cycle.
func (g DependencyGraph) dependents(of string) map[string]bool {
	reversed := DependencyGraph{}
	for name, dependencies := range g {
		for _, dependency := range dependencies {
			reversed[dependency] = append(reversed[dependency], name)
		}
	}
	found := map[string]bool{}
	for queue := []string{of}; len(queue) > 0; queue = queue[1:] {
		for _, name := range reversed[queue[0]] {
			if !found[name] {
				found[name] = true
				queue = append(queue, name)
			}
		}
	}
	return found
}

// maxCyclePath is the largest number of HelmOps of a cycle that a message names.
const maxCyclePath = 10

// CycleMessage returns a message that names the HelmOps of a cycle.
func CycleMessage(path []string) string {
	shown := path
	if len(path) > maxCyclePath {
		shown = append(slices.Clone(path[:maxCyclePath-1]), "…", path[len(path)-1])
	}
	return "the HelmOps have a dependency cycle: " + strings.Join(shown, " → ") +
		"; remove one of them from dependsOn"
}

// ListUnmet joins the texts about unmet dependencies.
func ListUnmet(waits []string) string {
	if more := len(waits) - maxUnmet; more > 0 {
		waits = append(waits[:maxUnmet:maxUnmet], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(waits, "; ")
}

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

// named is the outcome of a Cluster with the names that do not count in comparisons.
type named[T any] struct {
	cluster, release string
	outcome          *T
}

// group is the outcome of Clusters that are alike. first is its first Cluster, and exact its outcome as JSON. isGeneral
// means that the outcomes of the Clusters differ in names, or in what compared leaves out.
type group[T any] struct {
	clusters  []string
	hash      string
	outcome   T
	first     named[T]
	exact     string
	isGeneral bool
}

// alike puts Clusters with the same outcome together, in the order of their first Clusters. Outcomes are compared as
// JSON without the names of the Cluster and of its HelmOpRelease, and without digests of secrets. compared may leave
// more out; nil leaves out nothing.
func alike[T any](all []named[T], compared func(*T) *T) ([]*group[T], error) {
	var groups []*group[T]
	index := map[string]*group[T]{}
	for _, one := range all {
		exact, err := json.Marshal(one.outcome)
		if err != nil {
			return nil, err
		}
		text := exact
		if compared != nil {
			if text, err = json.Marshal(compared(one.outcome)); err != nil {
				return nil, err
			}
		}
		sum := sha256.Sum256([]byte(generalize(string(text), one.cluster, one.release)))
		hash := hex.EncodeToString(sum[:])
		found := index[hash]
		if found == nil {
			found = &group[T]{hash: hash, outcome: *one.outcome, first: one, exact: string(exact)}
			index[hash] = found
			groups = append(groups, found)
		}
		found.clusters = append(found.clusters, one.cluster)
		found.isGeneral = found.isGeneral || found.exact != string(exact)
	}
	for _, found := range groups {
		slices.Sort(found.clusters)
		if !found.isGeneral {
			continue
		}
		// The outcome becomes that of the first Cluster without names.
		var general T
		text := generalize(found.exact, found.first.cluster, found.first.release)
		if err := json.Unmarshal([]byte(text), &general); err != nil {
			return nil, err
		}
		found.outcome = general
	}
	return groups, nil
}

// compareGroups sorts groups of Clusters: the most important state first, then the largest group.
func compareGroups(a, b State, clustersOfA, clustersOfB []string) int {
	return cmp.Or(cmp.Compare(slices.Index(states, a), slices.Index(states, b)),
		cmp.Compare(len(clustersOfB), len(clustersOfA)), cmp.Compare(clustersOfA[0], clustersOfB[0]))
}

// minGeneralized is the length from which the name of a Cluster is replaced. A shorter name may be a version or a
// number with another meaning.
const minGeneralized = 3

// digestMark matches the digests that a DiffMasker sets.
var digestMark = regexp.MustCompile(`\[digest [0-9a-f]+\]`)

// generalize replaces the names of a Cluster and of its HelmOpRelease in an outcome as JSON, and numbers the digests of
// secrets in the order of their first occurrence.
func generalize(text, cluster, release string) string {
	text = fleetview.WithoutNames(text, cluster, release, minGeneralized)
	order := map[string]string{}
	return digestMark.ReplaceAllStringFunc(text, func(mark string) string {
		if order[mark] == "" {
			order[mark] = fmt.Sprintf("[secret %d]", len(order)+1)
		}
		return order[mark]
	})
}

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

// named is the outcome for a Cluster, with the names that comparisons ignore.
type named[T any] struct {
	cluster, release string
	outcome          *T
}

// group is the common outcome of several Clusters. first is the first Cluster of the group. exact is the outcome of
// this Cluster as JSON. isGeneral means that the outcomes of the Clusters differ in names, or in fields that compared
// removes.
type group[T any] struct {
	clusters  []string
	hash      string
	outcome   T
	first     named[T]
	exact     string
	isGeneral bool
}

// alike groups Clusters with the same outcome, in the order of their first Clusters. It compares outcomes as JSON
// without the names of the Cluster and of its HelmOpRelease, and without digests of secrets. compared may remove
// further fields before the comparison; nil removes nothing.
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
		// The outcome of the group is the outcome of the first Cluster, without names.
		var general T
		text := generalize(found.exact, found.first.cluster, found.first.release)
		if err := json.Unmarshal([]byte(text), &general); err != nil {
			return nil, err
		}
		found.outcome = general
	}
	return groups, nil
}

// compareGroups sorts groups of Clusters: by the importance of the state, then by the number of Clusters.
func compareGroups(a, b State, clustersOfA, clustersOfB []string) int {
	return cmp.Or(cmp.Compare(slices.Index(states, a), slices.Index(states, b)),
		cmp.Compare(len(clustersOfB), len(clustersOfA)), cmp.Compare(clustersOfA[0], clustersOfB[0]))
}

// minGeneralized is the shortest name of a Cluster that is replaced, in characters. A shorter name may also be a
// version or a number with another meaning.
const minGeneralized = 3

// digestMark matches the digests that a DiffMasker writes.
var digestMark = regexp.MustCompile(`\[digest [0-9a-f]+\]`)

// generalize replaces the names of a Cluster and of its HelmOpRelease in an outcome as JSON. It also replaces the
// digests of secrets by numbers, in the order of their first occurrence.
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

// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

// clusterPage is the data of the view of a Cluster.
type clusterPage struct {
	Key client.ObjectKey
	// Cluster is nil if the user may not read Clusters, or for the management cluster.
	Cluster *clusterv1.Cluster
	Version string
	Paused  bool
	Tallies []tally
	Bar     bar
	Rows    []fleetview.Row
	Holds   []hold
}

// hold describes what delays the upgrade or the deletion of a Cluster.
type hold struct {
	// What is the delayed operation, and Who delays it.
	What, Who string
	// HelmOp is the HelmOp that delays the operation; empty if another program delays it.
	HelmOp client.ObjectKey
	Why    string
	// Since is when the delay began. Until is the latest end of the delay. Each time is zero if it is not known.
	Since, Until time.Time
}

// clusterView shows a Cluster and its add-ons.
func (s *server) clusterView(r *http.Request, f *fleet) (content, error) {
	p := &clusterPage{Key: keyOf(r)}
	p.Rows = where(f.rows, func(row *fleetview.Row) bool { return row.ClusterKey() == p.Key })
	object := f.Clusters[p.Key]
	if object == nil && len(p.Rows) == 0 {
		return notFound(fmt.Sprintf("Cluster %q in namespace %q", p.Key.Name, p.Key.Namespace)), nil
	}
	p.Tallies = talliesOf(p.Rows)
	p.Bar = barOf(p.Tallies)
	if object != nil {
		var err error
		if p.Cluster, err = apiutil.TypedCluster(object); err != nil {
			return content{}, err
		}
		p.Version = p.Cluster.Spec.Topology.Version
		p.Paused = apiutil.IsClusterPaused(p.Cluster)
		releases := map[client.ObjectKey]*addonsv1.HelmOpRelease{}
		for i := range p.Rows {
			key := client.ObjectKey{Namespace: p.Rows[i].Namespace, Name: p.Rows[i].Release}
			if release := f.Releases[key]; release != nil {
				releases[key] = release
			}
		}
		p.Holds = holdsOf(p.Cluster, f.HelmOps, releases, s.Now())
	}
	return content{Title: "Cluster " + p.Key.Name, Template: "cluster", Data: p}, nil
}

// holdsOf returns the holds of the upgrade and of the deletion of a Cluster. releases are the releases of the Cluster.
func holdsOf(cluster *clusterv1.Cluster, helmOps map[client.ObjectKey]*addonsv1.HelmOp,
	releases map[client.ObjectKey]*addonsv1.HelmOpRelease, now time.Time,
) []hold {
	holds := append(upgradeHolds(cluster, helmOps, releases), deletionHolds(cluster, helmOps, releases, now)...)
	slices.SortFunc(holds, func(a, b hold) int { return strings.Compare(a.What+a.Who, b.What+b.Who) })
	return holds
}

// upgradeHolds returns the holds of an upgrade. A HelmOp that would hold the next upgrade is not included.
func upgradeHolds(cluster *clusterv1.Cluster, helmOps map[client.ObjectKey]*addonsv1.HelmOp,
	releases map[client.ObjectKey]*addonsv1.HelmOpRelease,
) []hold {
	owners := map[string]*addonsv1.HelmOp{}
	for key, helmOp := range helmOps {
		owners[clusterlife.UpgradeHoldName(key)] = helmOp
	}
	var holds []hold
	for name, value := range cluster.Annotations {
		if !strings.HasPrefix(name, clusterv1.BeforeClusterUpgradeHookAnnotationPrefix+"/") {
			continue
		}
		if !clusterlife.IsUpgradeHold(name, value) {
			holds = append(holds, hold{What: "Upgrades", Who: "annotation " + name,
				Why: "Another program set the annotation: " + value})
			continue
		}
		version, since := clusterlife.HeldUpgrade(value)
		if since.IsZero() {
			continue
		}
		h := hold{What: "Upgrade to " + version, Who: "annotation " + name, Since: since}
		if helmOp := owners[name]; helmOp != nil {
			h.HelmOp, h.Who = client.ObjectKeyFromObject(helmOp), "HelmOp "+helmOp.Name
			if before := helmOp.Spec.BeforeClusterUpgrade; before != nil {
				h.Until = since.Add(clusterlife.UpgradeTimeout(before))
			}
			h.Why = "There is no release yet"
			for _, release := range releases {
				if release.Namespace == helmOp.Namespace && apiutil.HelmOpOf(release) == helmOp.Name {
					h.Why = clusterlife.Unready(cluster, release, "", version)
				}
			}
		}
		holds = append(holds, h)
	}
	return holds
}

// deletionHolds returns the holds of the deletion of a Cluster.
func deletionHolds(cluster *clusterv1.Cluster, helmOps map[client.ObjectKey]*addonsv1.HelmOp,
	releases map[client.ObjectKey]*addonsv1.HelmOpRelease, now time.Time,
) []hold {
	if cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	var holds []hold
	state := apiutil.HoldOf(cluster)
	if state.Paused {
		who := "annotation " + clusterv1.PausedAnnotation
		if state.Unpaused && ptr.Deref(cluster.Spec.Paused, false) {
			who = "spec.paused"
		}
		holds = append(holds, hold{What: "Deletion", Who: who, Why: "A user pauses the Cluster"})
	}
	for _, release := range releases {
		helmOp := helmOps[client.ObjectKey{Namespace: release.Namespace, Name: apiutil.HelmOpOf(release)}]
		if !clusterlife.UninstallsBeforeDeletion(cluster, release, helmOp, now) {
			continue
		}
		h := hold{What: "Deletion", Who: "HelmOp " + helmOp.Name, HelmOp: client.ObjectKeyFromObject(helmOp),
			Why: "The release is uninstalled first", Since: state.Since}
		if state.IsOn() {
			h.Until = now.Add(clusterlife.DeletionRest(state, release, now))
		}
		holds = append(holds, h)
	}
	return holds
}

// Conditions returns the conditions of the Cluster.
func (p *clusterPage) Conditions() []metav1.Condition {
	if p.Cluster == nil {
		return nil
	}
	return p.Cluster.Status.Conditions
}

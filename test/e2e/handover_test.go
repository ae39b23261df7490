// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	objectdrift "github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

const (
	// handOvers is how often the releases change their owner. The environment variable HELMOP_HANDOVERS overrides the
	// number.
	handOvers = 8
	// handOverReleases is the number of releases that change their owner at the same time.
	handOverReleases = 3
	// handOverTime is the limit for one change. It applies only with HELMOP_HANDOVERS: otherwise other tests share the
	// processors.
	handOverTime = 30 * time.Second
)

// handOverPair are two HelmOps with the same release.
type handOverPair map[string]*addonsv1.HelmOp

// newHandOverPairs creates pairs of HelmOps that select the Clusters with the label "former" or "next". Only the first
// pair has drift detection. It also watches the records of the release, so that the previous owner finds a change at
// once. The last pair does not take ownership: the next owner waits until the former owner has uninstalled the release.
func (s *scenario) newHandOverPairs() []handOverPair {
	s.Helper()
	pairs := make([]handOverPair, handOverReleases)
	for i := range pairs {
		pairs[i] = handOverPair{}
		for _, label := range []string{"former", "next"} {
			pairs[i][label] = s.newHelmOp(fmt.Sprintf("%s-%d", label, i), func(h *addonsv1.HelmOp) {
				h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{label: "yes"}}
				h.Spec.Release.Name = fmt.Sprintf("hello-%d", i)
				h.Spec.Values = helloValues(map[string]any{"greeting": h.Name})
				h.Spec.Install = &addonsv1.InstallOptions{TakeOwnership: new(i < handOverReleases-1)}
				if i == 0 {
					h.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}
				}
			})
			s.create(pairs[i][label])
		}
	}
	return pairs
}

// TestReleaseMovesBetweenHelmOps moves several releases at once from one HelmOp to another one and back with the labels
// of their Cluster: both labels at the same time, or one after the other. After each change, each release exists with
// all its objects, these have the content of its Helm revision, and the right HelmOp owns the release. If the former
// HelmOp still selects the Cluster until the next HelmOp has adopted the release, the release is never uninstalled.
func TestReleaseMovesBetweenHelmOps(t *testing.T) {
	s := newScenario(t)
	w := s.clusters(testbed.ClusterOptions{Name: "one", PodCIDRs: []string{"10.1.0.0/16"}})[0]
	user, pairs := w.helmUser(), s.newHandOverPairs()
	rounds, isAlone := handOvers, false
	if given, err := strconv.Atoi(os.Getenv("HELMOP_HANDOVERS")); err == nil {
		rounds, isAlone = given, true
	}
	from, to := "next", "former"
	handedOver := func() {
		s.Helper()
		for _, pair := range pairs {
			w.eventuallyHandedOver(pair[to], pair[from])
		}
		for _, pair := range pairs {
			w.expectInstalled(user, pair[to])
		}
	}
	s.label("one", to, "yes")
	handedOver()
	longest, kept := time.Duration(0), 0
	for round := range rounds {
		from, to = to, from
		before := w.helloUIDs(pairs)
		began := time.Now()
		between := rand.IntN(8)
		switch round % 4 {
		case 0:
			s.label("one", from, "")
			s.requests(between)
			s.label("one", to, "yes")
		case 1:
			s.label("one", to, "yes")
			s.requests(between)
			s.label("one", from, "")
		case 2:
			s.labels("one", map[string]string{from: "", to: "yes"})
		default:
			s.label("one", to, "yes")
			for _, pair := range pairs {
				if *pair[to].Spec.Install.TakeOwnership {
					s.child(pair[to], "one", childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
				}
			}
			s.label("one", from, "")
		}
		handedOver()
		longest = max(longest, time.Since(began))
		for i, uid := range w.helloUIDs(pairs) {
			if uid == before[i] {
				kept++
			} else if round%4 == 3 && *pairs[i][to].Spec.Install.TakeOwnership {
				t.Errorf("round %d: release %d was installed again, although the next HelmOp had adopted it", round, i)
			}
		}
		if isAlone && longest > handOverTime {
			t.Fatalf("round %d, labels %d requests apart, took %s", round, between, longest)
		}
	}
	t.Logf("%d changes of %d releases, at most %s; %d adoptions, %d installations", rounds, len(pairs), longest, kept,
		rounds*len(pairs)-kept)
	w.expectUntouched()
	handedOver()

	// If both HelmOps select the Cluster, the later HelmOp takes over the release. The first HelmOp does not take over the
	// release again.
	s.label("one", from, "yes")
	s.child(pairs[0][to], "one", childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse,
		addonsv1.ReleaseConflictReason),
		func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
			g.Expect(toJSON(child.Status.Conditions)).To(gomega.ContainSubstring(s.namespace + "." + pairs[0][from].Name))
		})
	var owners []*addonsv1.HelmOp
	for _, pair := range pairs {
		owner, loser := pair[from], pair[to]
		if !*owner.Spec.Install.TakeOwnership {
			owner, loser = loser, owner
		}
		owners = append(owners, owner)
		s.child(owner, "one", childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
		s.child(loser, "one", childCondition(addonsv1.ReleasedCondition, metav1.ConditionFalse,
			addonsv1.ReleaseConflictReason))
	}
	w.expectUntouched()
	for _, owner := range owners {
		w.expectInstalled(user, owner)
	}
}

// helloUIDs returns the UIDs of the ConfigMaps of the releases. A release that is installed again has another UID.
func (w *workload) helloUIDs(pairs []handOverPair) []types.UID {
	w.scenario.Helper()
	var uids []types.UID
	for _, pair := range pairs {
		object := &corev1.ConfigMap{}
		key := client.ObjectKey{Namespace: releaseNamespace, Name: pair["next"].Spec.Release.Name}
		w.scenario.must(w.Get(w.scenario.Context(), key, object))
		uids = append(uids, object.UID)
	}
	return uids
}

// requests sends n requests, to vary the time between two label changes.
func (s *scenario) requests(n int) {
	s.Helper()
	for range n {
		s.cluster("one")
	}
}

// eventuallyHandedOver waits until one HelmOp owns its release in its desired state, and the other HelmOp has no
// HelmOpRelease.
func (w *workload) eventuallyHandedOver(to, from *addonsv1.HelmOp) {
	s := w.scenario
	s.Helper()
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		child := s.children(ctx, g, to)[w.name]
		g.Expect(child).NotTo(gomega.BeNil(), "the HelmOpRelease of %s", to.Name)
		expectCondition(g, child, addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason)
		g.Expect(s.children(ctx, g, from)).To(gomega.BeEmpty(), "HelmOpReleases of %s", from.Name)
		revisions, err := w.revisions(ctx, releaseNamespace, to.Spec.Release.Name)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		deployed := 0
		for _, r := range revisions {
			if r.Status == "deployed" {
				deployed++
				g.Expect(r.Labels).To(gomega.HaveKeyWithValue("addons.cluster.x-k8s.io/helmop", s.namespace+"."+to.Name))
			}
		}
		g.Expect(deployed).To(gomega.Equal(1), "%v", summaries(revisions))
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// expectInstalled fails unless all objects of the deployed revision of a release exist with its content, and the values
// are those of the HelmOp.
func (w *workload) expectInstalled(user *helmUser, helmOp *addonsv1.HelmOp) {
	s := w.scenario
	s.Helper()
	name := helmOp.Spec.Release.Name
	deployed, err := user.config.Releases.Deployed(name)
	s.must(err)
	s.Expect(deployed.Config).To(gomega.HaveKeyWithValue("greeting", helmOp.Name))
	objects, err := manifests.Decode(nil, deployed.Manifest)
	s.must(err)
	cluster := objectdrift.Cluster{Config: w.server.RESTConfig(), Mapper: w.RESTMapper()}
	found, err := objectdrift.Compare(s.Context(), cluster,
		objectdrift.Release{Namespace: releaseNamespace, Name: name}, nil, objects)
	s.must(err)
	s.Expect(found.Compared).To(gomega.HaveLen(len(objects)), "objects of %s: %v", name, found.Failed)
	s.Expect(found.Differences).To(gomega.BeEmpty(), "objects of %s", name)
}
